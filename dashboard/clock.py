"""Time as this product speaks it: aware UTC, RFC 3339 with Z, durations like 30s or 7d."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from dashboard.errors import UsageError

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def utc_now() -> datetime:
    """The wall clock, made once at the edge and passed in from there."""
    return datetime.now(UTC)


def parse_duration(text: str) -> timedelta:
    """`500ms|30s|5m|24h|7d` as a timedelta; anything else is a UsageError that names it."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not a duration",
            "Write a whole number and a unit: 500ms, 30s, 5m, 24h or 7d.",
            code="DURATION_INVALID",
        )
    return timedelta(seconds=int(match.group(1)) * _SECONDS[match.group(2)])


def parse_time(text: str) -> datetime:
    """An ISO 8601 time with a zone as aware UTC; a time without zone is refused."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise UsageError(
            f"'{text}' is not a time with a zone",
            "Write it in UTC with a Z, for example 2026-03-01T04:00:00Z.",
            code="TIME_INVALID",
        )
    return parsed.astimezone(UTC)


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`, as all JSON of this product has it."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
