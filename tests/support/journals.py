"""Journals of tests that are copied to be written to."""

from __future__ import annotations

from pathlib import Path

from dashboard.purge.journal.head import HeadFile

_TWO_SLOTS = 256


def unbind(journal: Path) -> None:
    """Let its head not say which file it is of, as one of an earlier version: a copy may act."""
    head = HeadFile(journal).path
    head.write_bytes(head.read_bytes()[:_TWO_SLOTS])
