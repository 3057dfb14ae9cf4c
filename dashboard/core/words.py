"""Counts, times and lags in the words that the CLI and the pages share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

LONGEST_DAYS = 365  # beyond a year a straight line tells nothing
_SOON_DAYS = 3  # below it hours count
THIN_SPACE = "\u202f"  # narrow and non-breaking: a number never wraps


def duration(seconds: float) -> str:
    """`0.5 s`, `4 s`, `41 s`, `12 min`, `3 h`."""
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def span(length: timedelta) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`: whole units, the largest of which there are two."""
    seconds = max(0, round(length.total_seconds()))
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def days_ahead(days: float) -> str:
    """How far off a full disk is: `9 h`, `12 d`, `over a year`."""
    if days > LONGEST_DAYS:
        return "over a year"
    return f"{days * 24:.0f} h" if days < _SOON_DAYS else f"{days:.0f} d"


def number(count: float) -> str:
    """A count with thin spaces between thousands."""
    return f"{round(count):,}".replace(",", THIN_SPACE)


def plural(count: int, noun: str) -> str:
    """`1 topic`, `12 topics`, with thin spaces in the count."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def called(name: str, cluster_id: str, *, shared: bool) -> str:
    """A cluster's name; with its id where another one has the same."""
    return f"{name} ({cluster_id})" if shared else name


def brokers(ids: Iterable[int]) -> str:
    """`broker 2`, `brokers 1, 2, 3`."""
    listed = sorted(ids)
    return f"broker{'' if len(listed) == 1 else 's'} {', '.join(map(str, listed))}"


def behind(lag_records: int, lag_seconds: float | None) -> str:
    """`41 s behind (12 000 records)`, or records alone where the time is not known."""
    if lag_seconds is None:
        return f"{plural(lag_records, 'record')} behind"
    return f"{duration(lag_seconds)} behind ({plural(lag_records, 'record')})"


def closing(rate: float | None, seconds_to_go: float | None) -> str:
    """`, closing at 900 records/s, about 45 s to go`; empty where no rate is known."""
    if rate is None:
        return ""
    if abs(rate) < 1:
        return ", standing still"
    if rate < 0:
        return f", falling back at {number(-rate)} records/s"
    left = "" if seconds_to_go is None else f", about {duration(seconds_to_go)} to go"
    return f", closing at {number(rate)} records/s{left}"


def first_letter_up(said: str) -> str:
    """A sentence's beginning; the rest stays, since it may hold names."""
    return said[:1].upper() + said[1:]


# Bytes for people, in binary units: the same words in guards, on the command line, on pages.

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def binary(size_bytes: float) -> str:
    """`512 B`, `41.2 GiB`: the largest unit that fits, one decimal."""
    name, one = unit(size_bytes)
    return f"{int(size_bytes)} B" if name == "B" else f"{size_bytes / one:.1f} {name}"


def unit(largest_bytes: float) -> tuple[str, int]:
    """The unit to show sizes up to this one in, and its bytes: `("GiB", 2**30)`."""
    name, one = "B", 1
    for larger in _UNITS:
        if abs(largest_bytes) < 1024 * one:
            break
        name, one = larger, 1024 * one
    return name, one


def parse_size(text: str) -> int | None:
    """`1500B`, `500MiB`, `10GiB` in bytes; None for anything else, or more than 64 bits hold."""
    found = re.fullmatch(r"([0-9]{1,19})(B|[KMGTP]iB)", text)
    if found is None:
        return None
    size = int(found[1]) * 1024 ** ("B", *_UNITS).index(found[2])
    return size if size < 2**63 else None
