"""One value as a cell of a CSV file that people open in a spreadsheet."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dashboard.clock import format_time

# A spreadsheet takes a cell that begins so for a formula; Kafka's own names never hold these.
_FORMULA = ("=", "+", "@", "\t", "\r")


def cell(value: Any) -> str:
    """Unknown is empty; what a spreadsheet would run as a formula gets a leading apostrophe."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_time(value)
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
