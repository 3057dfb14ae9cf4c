"""Numbers and times as every page writes them: binary units, thin-space offsets, ages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dashboard.core import words
from dashboard.core.clock import CLOCKS_AGREE

UNKNOWN = "unknown"
MISSING = "—"  # an empty cell: never a zero
plural = words.plural
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def size(size_bytes: float | None) -> str:
    """Bytes in the largest unit that fits, one decimal; None is `unknown`, never zero."""
    return UNKNOWN if size_bytes is None else words.binary(size_bytes)


def signed(size_bytes: float | None) -> str:
    """Bytes that came or went: `+1.0 MiB`, `-3.4 GiB`; None is `unknown`."""
    if size_bytes is None:
        return UNKNOWN
    return f"{'-' if size_bytes < 0 else '+'}{size(abs(size_bytes))}"


def exact_size(size_bytes: int | None) -> str:
    """All digits, for a tooltip."""
    return UNKNOWN if size_bytes is None else f"{number(size_bytes)} bytes"


def common_unit(sizes: Iterable[float | None]) -> tuple[str, int]:
    """One unit for a whole column: the one its largest value fits, GiB at most."""
    name, one = words.unit(min(max((0, *filter(None, sizes))), 2**30))
    return ("bytes" if one == 1 else name), one


def number(value: int | None) -> str:
    """A count or an offset with thin spaces between thousands."""
    return UNKNOWN if value is None else words.number(value)


def cell(count: int | None) -> str:
    """A number in a table, whose cell stays empty where it is None."""
    return MISSING if count is None else number(count)


def duration(length: timedelta) -> str:
    """`38 s`, `12 min`, `3 h`, `41 d`: whole units, the largest that fits."""
    seconds = max(0, int(length.total_seconds()))
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, relative to `now`; None is `unknown`. A time to come is a wrong clock's."""
    if moment is None:
        return UNKNOWN
    return age(moment, now) + ("" if to_come(moment, now) else " ago")


def age(moment: datetime, now: datetime) -> str:
    """The same for a column that is headed Ago: `3 h`."""
    if to_come(moment, now):
        return f"in {duration(moment - now)} (clock?)"
    return duration(now - moment)


def to_come(moment: datetime, now: datetime) -> bool:
    """Whether a time that was written down lies ahead of `now`: then some host's clock is wrong."""
    return moment - now > CLOCKS_AGREE


def utc(moment: datetime | None) -> str:
    """The exact time for a tooltip: `2026-03-01 04:00:00 UTC`."""
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def middle(name: str, most: int) -> str:
    """A name of at most so many characters, cut in its middle: names differ at their ends."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"
