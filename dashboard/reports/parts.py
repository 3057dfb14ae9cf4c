"""What a report is made of: sentences, figures, tables and bars, without any markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from dashboard.core.visible import visible_cell
from dashboard.views import formats
from dashboard.views.colours import Meaning

MOST_ROWS = 20
MOST_BARS = 12
_LONGEST_NAME = 60
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of a sentence; `meaning` colours it and makes it strong, `exact` shows on hover."""

    text: str
    meaning: Meaning | None = None
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the large numbers on top: `label` above, `note` below it."""

    label: str
    value: Words
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `right` stands right, as numbers do."""

    name: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `more` says what was left out and where it is."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Words, ...], ...]
    title: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label, and its parts as meaning and value."""

    label: str
    parts: tuple[tuple[Meaning, float], ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """A chart of horizontal bars. Values are bytes, or seconds with `unit` s.

    `side_by_side` sets the parts of a bar under each other instead of in a row.
    """

    title: str
    bars: tuple[Bar, ...]
    unit: str = "bytes"
    side_by_side: bool = False

    @property
    def meanings(self) -> tuple[Meaning, ...]:
        """The meanings that have a value, in the order in which they first come."""
        found: dict[Meaning, float] = {}
        for meaning, value in (part for bar in self.bars for part in bar.parts):
            found[meaning] = max(value, found.get(meaning, 0))
        return tuple(meaning for meaning, most in found.items() if most > 0)

    @property
    def longest(self) -> float:
        sums = [
            max(values) if self.side_by_side else sum(values)
            for bar in self.bars
            if (values := [value for _, value in bar.parts])
        ]
        return max(sums, default=0)


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter: sentences, then charts, then tables; `warning` stands out above them."""

    name: str
    title: str
    says: tuple[tuple[Words, ...], ...] = ()
    charts: tuple[Bars, ...] = ()
    tables: tuple[Table, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report: of which cluster, from which data, and what it says."""

    cluster_name: str
    cluster_id: str
    snapshot_id: str | None
    analysis_id: str
    taken_at: datetime
    made_at: datetime
    brokers: str
    warnings: tuple[str, ...]
    headline: tuple[Words, ...]
    headline_note: str
    figures: tuple[Figure, ...]
    next_steps: tuple[str, ...]
    sections: tuple[Section, ...]


def size(size_bytes: int | None, meaning: Meaning | None = None) -> Words:
    """Bytes in the unit that fits, all digits on hover; None is `unknown`."""
    return Words(formats.size(size_bytes), meaning, formats.exact_size(size_bytes))


def rate(bytes_per_hour: int | None) -> Words:
    """Bytes an hour, with a sign when they shrink."""
    if bytes_per_hour is None:
        return Words(formats.UNKNOWN)
    sign = "-" if bytes_per_hour < 0 else ""
    return Words(f"{sign}{formats.size(abs(bytes_per_hour))}/h")


def number(count: int | None) -> Words:
    """A count with thin spaces; None is `unknown`."""
    return Words(formats.number(count))


def moment(at: datetime | None) -> Words:
    """A time to the minute in UTC; the second on hover."""
    if at is None:
        return Words(formats.UNKNOWN)
    return Words(f"{at:%Y-%m-%d %H:%M}", exact=formats.utc(at))


def short(name: str, most: int) -> str:
    """A name as it can be read; a long one without its middle, since ends tell names apart."""
    shown = visible_cell(name)
    if len(shown) <= most:
        return shown
    half = (most - 1) // 2
    return f"{shown[:half]}…{shown[-half:]}"


def named(name: str, meaning: Meaning | None = None) -> Words:
    """A name within a sentence or a narrow column; a long one is whole on hover."""
    shown = short(name, _LONGEST_NAME)
    return Words(shown, meaning, "" if shown == visible_cell(name) else name)


def text(*said: str) -> tuple[Words, ...]:
    """Plain sentences as one paragraph."""
    return (Words(" ".join(said)),)


def columns(*names: str) -> tuple[Column, ...]:
    """Columns by name; one whose name begins with `>` stands right."""
    return tuple(Column(name.removeprefix(">"), name.startswith(">")) for name in names)


def capped(rows: Sequence[_T], file: str, most: int = MOST_ROWS) -> tuple[Sequence[_T], str]:
    """The first rows, and what is said of the others: `and 9 980 more: see reclaimable.csv …`."""
    rest = len(rows) - most
    more = f"and {formats.number(rest)} more: see {file}.csv of lowwater report --format csv"
    return rows[:most], more if rest > 0 else ""


def known_sum(values: Iterable[int | None]) -> tuple[int | None, int]:
    """The sum of what is known (None: nothing is, of some), and how many values are not."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return (sum(known) if known or not listed else None), len(listed) - len(known)
