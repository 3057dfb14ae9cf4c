"""The heat map of lags: topics by brokers, seconds in every cell, one hue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.words import duration, number
from dashboard.ui.components import markup
from dashboard.views import formats

TOPICS, BROKERS = 15, 12  # shown; the others share one row, one column
_STEPS = ((1.0, "under 1 s"), (10.0, "1 to 10 s"), (60.0, "10 s to 1 min"), (600.0, "to 10 min"))
_LONGEST = "over 10 min"
_OTHERS = "others"
_N = TypeVar("_N", int, float)


@dataclass(slots=True)
class Cell:
    """The followers of some topics on some brokers.

    Lags are the longest known ones: of those that are slow where any is, else of all.
    """

    replicas: int = 0
    slow: int = 0
    unknown: int = 0
    seconds: float | None = None
    records: int | None = None

    def add(self, other: Cell) -> None:
        if bool(self.slow) == bool(other.slow):
            self.seconds = _longest(self.seconds, other.seconds)
            self.records = _longest(self.records, other.records)
        elif other.slow:
            self.seconds, self.records = other.seconds, other.records
        self.replicas += other.replicas
        self.slow += other.slow
        self.unknown += other.unknown

    @property
    def urgency(self) -> tuple[bool, float, int]:
        """Slow ones first, then by lag."""
        return self.slow > 0, self.seconds or 0.0, self.records or 0


@dataclass(slots=True)
class Heat:
    """Rows and columns in the order they are drawn, and the cells by both."""

    topics: list[str]
    brokers: list[str]
    cells: dict[tuple[int, int], Cell] = field(default_factory=dict)
    left_topics: int = 0
    left_brokers: int = 0


def heat(followers: pa.Table) -> Heat:
    """The worst topics and brokers of `slow_followers`; all others in a last row and column."""
    cells = _cells(followers)
    by_topic: dict[str, Cell] = {}
    by_broker: dict[int, Cell] = {}
    for (topic, broker), cell in cells.items():
        by_topic.setdefault(topic, Cell()).add(cell)
        by_broker.setdefault(broker, Cell()).add(cell)
    topics = sorted(by_topic, key=lambda t: (_first(by_topic[t]), t))[:TOPICS]
    brokers = sorted(sorted(by_broker, key=lambda b: (_first(by_broker[b]), b))[:BROKERS])
    found = Heat(
        [*topics, *([_OTHERS] if len(by_topic) > TOPICS else [])],
        [*map(str, brokers), *([_OTHERS] if len(by_broker) > BROKERS else [])],
        left_topics=len(by_topic) - len(topics),
        left_brokers=len(by_broker) - len(brokers),
    )
    # Kafka allows a topic of that name: its row is told from the last one by its place.
    rows = {topic: at for at, topic in enumerate(topics)}
    columns = {broker: at for at, broker in enumerate(brokers)}
    for (topic, broker), cell in cells.items():
        at = (rows.get(topic, TOPICS), columns.get(broker, BROKERS))
        found.cells.setdefault(at, Cell()).add(cell)
    return found


def _first(cell: Cell) -> tuple[bool, float, int]:
    slow, seconds, records = cell.urgency
    return not slow, -seconds, -records


def _longest(first: _N | None, second: _N | None) -> _N | None:
    return max((value for value in (first, second) if value is not None), default=None)


def _cells(followers: pa.Table) -> dict[tuple[str, int], Cell]:
    flagged = pa.table({
        "topic": followers["topic"], "broker": followers["broker_id"],
        "seconds": followers["lag_seconds"], "records": followers["lag_records"],
        "slow": pc.fill_null(followers["slow"], False),
        "unknown": pc.cast(pc.is_null(followers["lag_seconds"]), pa.int64()),
    })  # fmt: skip
    sums = flagged.group_by(["topic", "broker", "slow"]).aggregate(
        [("seconds", "max"), ("records", "max"), ("unknown", "sum"), ([], "count_all")]
    )
    found: dict[tuple[str, int], Cell] = {}
    for row in sums.to_pylist():
        count = row["count_all"]
        found.setdefault((row["topic"], row["broker"]), Cell()).add(
            Cell(count, count * row["slow"], row["unknown_sum"], row["seconds_max"],
                 row["records_max"])
        )  # fmt: skip
    return found


def heat_html(found: Heat) -> str:
    """A table with its legend: every cell has its lag as text, and more on hover."""
    head = "".join(f'<th scope="col">{_broker(name)}</th>' for name in found.brokers)
    body = "".join(_row(found, at, topic) for at, topic in enumerate(found.topics))
    return (
        '<div class="lw"><h2>Longest lag by topic and broker <small>worst first</small></h2>'
        f'<div class="lw-heat"><table><thead><tr><th scope="col">topic</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><p>{_legend()}</p></div>"
    )


def _broker(name: str) -> str:
    return name if name == _OTHERS else f"broker {name}"


def _row(found: Heat, at: int, topic: str) -> str:
    shown = f"{formats.number(found.left_topics)} others" if at >= TOPICS else topic
    cells = "".join(
        _cell(found.cells.get((min(at, TOPICS), _column(found, column))),
              shown, _broker(broker))
        for column, broker in enumerate(found.brokers)
    )  # fmt: skip
    return f'<tr><th scope="row" title="{markup.text(shown)}">{markup.text(shown)}</th>{cells}</tr>'


def _column(found: Heat, at: int) -> int:
    return BROKERS if found.left_brokers and at == len(found.brokers) - 1 else at


def _cell(cell: Cell | None, topic: str, broker: str) -> str:
    if cell is None:
        return '<td class="none" title="no follower here"></td>'
    hover = f"{topic}, {broker}: {_said(cell)}"
    return f'<td class="{look(cell)}" title="{markup.text(hover)}">{text(cell)}</td>'


def text(cell: Cell) -> str:
    """What stands in a cell: seconds, else records, else a question mark; ⚠ where one is slow."""
    mark = "⚠ " if cell.slow else ""
    if cell.seconds is not None:
        return f"{mark}{duration(cell.seconds)}"
    return f"{mark}{number(cell.records)} rec." if cell.records is not None else f"{mark}?"


def look(cell: Cell) -> str:
    """The class of its shade; hatched where no lag in seconds is known."""
    if cell.seconds is None:
        return "lw-lag-unknown"
    return f"lw-lag-{sum(cell.seconds >= limit for limit, _ in _STEPS)}"


def _said(cell: Cell) -> str:
    seconds = "unknown" if cell.seconds is None else duration(cell.seconds)
    parts = [f"{cell.slow} of {formats.plural(cell.replicas, 'follower')} slow",
             f"longest lag {seconds}"]  # fmt: skip
    if cell.unknown:
        parts.append(f"seconds of {cell.unknown} unknown")
    return ", ".join(parts)


def _legend() -> str:
    steps: Sequence[str] = [*(words for _, words in _STEPS), _LONGEST]
    keys: Mapping[str, str] = {str(at): words for at, words in enumerate(steps)}
    named = "".join(
        f'<span class="lw-key"><i class="lw-lag-{at}"></i>{words}</span>'
        for at, words in {**keys, "unknown": "seconds unknown"}.items()
    )
    return f'{named}<span class="lw-key">⚠ slow</span>'
