"""Why a sweep leaves one folder where it is."""

from __future__ import annotations


class Refusal(Exception):
    """A stable `code`, and the `reason` in words; it never stops the other folders."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
