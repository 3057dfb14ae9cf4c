"""Time as this product speaks it: aware UTC, RFC 3339 with Z, durations like 30s or 7d."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dashboard.core.errors import UsageError

_DURATION = re.compile(r"([0-9]{1,18})(ms|s|m|h|d)")
# Clocks of hosts that keep time by NTP differ by milliseconds: these tell the same time.
CLOCKS_AGREE = timedelta(seconds=10)
_LONGEST = timedelta(days=36_500)  # a century: added to any clock it still is a time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def microseconds(at: datetime) -> int:
    """Since 1970, as tables keep times."""
    return (at - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment by the wall clock and, in seconds, by a clock that is never set."""

    at: datetime
    steady: float


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """How long ago something was, by the clock that says longer.

    Set back, the wall clock would keep what was read fresh for as long; the monotonic one stands
    still while a machine sleeps, and means nothing to another process.
    """

    now: Callable[[], datetime]
    steady: Callable[[], float] = time.monotonic

    def mark(self) -> Mark:
        return Mark(self.now(), self.steady())

    def since(self, mark: Mark) -> timedelta:
        return max(self.now() - mark.at, timedelta(seconds=self.steady() - mark.steady))


def going_on(moment: datetime) -> Callable[[], datetime]:
    """That moment, which is now, and what has passed since by a clock that is never set."""
    began = time.monotonic()
    return lambda: moment + timedelta(seconds=time.monotonic() - began)


def utc_now() -> datetime:
    """The wall clock, made once at the edge and passed in from there."""
    return datetime.now(UTC)


def parse_duration(text: str) -> timedelta:
    """`500ms|30s|5m|24h|7d`, a century at most, as a timedelta; else a UsageError names it."""
    match = _DURATION.fullmatch(text.strip())
    milliseconds = int(match[1]) * _MS[match[2]] if match else -1
    if 0 <= milliseconds <= _LONGEST // timedelta(milliseconds=1):
        return timedelta(milliseconds=milliseconds)
    raise UsageError(
        f"'{text}' is not a duration",
        "Write a whole number and a unit: 500ms, 30s, 5m, 24h or 7d; a century at most.",
        code="DURATION_INVALID",
    )


def parse_time(text: str) -> datetime:
    """An ISO 8601 time with a zone as aware UTC; a time without zone is refused."""
    with suppress(ValueError, OverflowError):  # overflow: year 1 or 9999 moved to UTC
        parsed = datetime.fromisoformat(text.strip())
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    raise UsageError(
        f"'{text}' is not a time with a zone",
        "Write it in UTC with a Z, for example 2026-03-01T04:00:00Z.",
        code="TIME_INVALID",
    )


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`, as all JSON of this product has it."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
