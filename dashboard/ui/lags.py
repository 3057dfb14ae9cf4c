"""How far followers lag: the heat map, the table of slow ones, and who holds the low watermark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.words import duration, number
from dashboard.store.finding_rows import SlowFollower
from dashboard.ui.components import grid, markup
from dashboard.ui.components.glossary import term
from dashboard.ui.components.markup import text
from dashboard.views import formats
from dashboard.views.followers import Point, Replica, Row, spark, trend

# The heat map of lags: topics by brokers, seconds in every cell, one hue.

TOPICS, BROKERS = 15, 12  # shown; the others share one row, one column
_STEPS = ((1.0, "under 1 s"), (10.0, "1 to 10 s"), (60.0, "10 s to 1 min"), (600.0, "to 10 min"))
_LONGEST = "over 10 min"
_OTHERS = "others"
_NAME_LETTERS = 28  # of a topic's name beside its row
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
    name = markup.text(formats.middle(shown, _NAME_LETTERS))
    return f'<tr><th scope="row" title="{markup.text(shown)}">{name}</th>{cells}</tr>'


def _column(found: Heat, at: int) -> int:
    return BROKERS if found.left_brokers and at == len(found.brokers) - 1 else at


def _cell(cell: Cell | None, topic: str, broker: str) -> str:
    if cell is None:
        return '<td class="none" title="no follower here"></td>'
    hover = f"{topic}, {broker}: {_said(cell)}"
    return f'<td class="{look(cell)}" title="{markup.text(hover)}">{cell_text(cell)}</td>'


def cell_text(cell: Cell) -> str:
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


# The table of slow replicas, furthest behind first, each with how its lag went.

SLOW_SHOWN = 1000


def replica(row: Row) -> Replica:
    """Topic, partition and broker."""
    return row["topic"], row["partition"], row["broker_id"]


def slow_frame(
    rows: Sequence[Row], told: Mapping[Replica, Sequence[Point]]
) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the column of bytes."""
    sizes = [row["lag_bytes"] for row in rows]
    unit, divisor = formats.common_unit(sizes)
    scaled = [None if size is None else size / divisor for size in sizes]
    columns = {
        "Replica": [f"{row['topic']}-{row['partition']}" for row in rows],
        "Broker": [row["broker_id"] for row in rows],
        "Log dir": [row["log_dir"] for row in rows],
        "Seconds": pd.Series([row["lag_seconds"] for row in rows], dtype="float64"),
        "Records": pd.Series([row["lag_records"] for row in rows], dtype="Int64"),
        "Bytes": pd.Series(scaled, dtype="float64"),
        "Lag lately": [spark(told.get(replica(row), ())) for row in rows],
        "Trend": [trend(row) for row in rows],
        "Log start": [_log_start(row) for row in rows],
        "Since": pd.Series(pd.to_datetime([row["behind_since"] for row in rows], utc=True)),
        "Cause": [row["cause"] for row in rows],
        "Reason": [row["reason"] for row in rows],
    }
    return pd.DataFrame(columns), unit


def select_slow(rows: Sequence[Row], told: Mapping[Replica, Sequence[Point]]) -> Row:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = slow_frame(rows, told)
    unit = "" if unit == "bytes" else f" ({unit})"
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    at = grid.selected(
        shown,
        {
            "Replica": text(width=grid.room_for(shown["Replica"], 150)),
            "Broker": number(width=58),
            "Log dir": text(width=70),
            "Seconds": number("Behind (s)", format="%.1f", width=80,
                              help="By what its leader appends a second; unknown behind a leader "
                              "that wrote nothing"),
            "Records": number(format="localized", width=82),
            "Bytes": number(f"Bytes{unit}", format="%.2f", width=92),
            "Lag lately": st.column_config.LineChartColumn(
                width=90, y_min=0, help="Records behind over the last half hour, as measured"),
            "Trend": text(width=118),
            "Log start": text(width=132, help="How far its log start is behind its leader's; "
                              "a wait-all purge waits for the one that holds the low watermark"),
            "Since": st.column_config.DatetimeColumn(format="distance", width=95),
            "Cause": text(width=75),
            "Reason": text(width=150),
        },
        map(str, map(replica, rows)),
        key="slow",
        placeholder=formats.UNKNOWN,
        alt="Slow replicas with lag in seconds, records and bytes, trend, log start and reason",
    )  # fmt: skip
    return rows[at[0]] if at else rows[0]


def _log_start(row: Row) -> str | None:
    lag = row["log_start_lag"]
    if lag is None:
        return None
    if not lag:
        return "level"
    held = ", holds" if row["holds_low_watermark"] else ""
    return f"{formats.plural(lag, 'record')}{held}"


# Who holds the low watermark of a topic: for whom a wait-all purge would wait.

HELD_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Held:
    """One partition. `brokers` hold it, `lag` records behind the leader's log start.

    `unknown`: followers whose log start is not known. `lag` is 0 where all known ones are level.
    """

    partition: int
    brokers: tuple[int, ...]
    lag: int
    unknown: tuple[int, ...]


def topic_of(followers: pa.Table) -> str | None:
    """The topic whose low watermark is furthest back; None where every known one is level."""
    back = followers.filter(pc.fill_null(pc.greater(followers["log_start_lag"], 0), False))
    if not back.num_rows:
        return None
    order = [("log_start_lag", "descending"), ("topic", "ascending")]
    return str(back.sort_by(order)["topic"][0].as_py())


def held(followers: pa.Table, topic: str) -> list[Held]:
    """The topic's partitions, furthest back first, then those of which something is unknown."""
    by_partition: dict[int, list[SlowFollower]] = {}
    for row in records(followers.filter(pc.equal(followers["topic"], topic)), SlowFollower):
        by_partition.setdefault(row.partition, []).append(row)
    found = [_held(partition, rows) for partition, rows in by_partition.items()]
    return sorted(found, key=lambda h: (-h.lag, not h.unknown, h.partition))


def _held(partition: int, rows: Sequence[SlowFollower]) -> Held:
    holders = [row for row in rows if row.holds_low_watermark]
    return Held(
        partition,
        tuple(sorted(row.broker_id for row in holders)),
        max((row.log_start_lag or 0 for row in holders), default=0),
        tuple(sorted(row.broker_id for row in rows if row.log_start_lag is None)),
    )


def held_html(found: Sequence[Held], topic: str) -> str:
    """A sentence for the topic, and a line per partition that is held or not known."""
    told = [one for one in found if one.lag or one.unknown]
    lines = ((str(one.partition), _who(one), _far(one)) for one in told[:HELD_SHOWN])
    rest = len(told) - HELD_SHOWN
    more = f"<small>and {formats.plural(rest, 'partition')} more</small>" if rest > 0 else ""
    table = markup.table(("partition", "held by", "log start"), lines) + more if told else ""
    return (
        f'<div class="lw"><h2>Who holds the {term("low watermark")} of {text(topic)}</h2>'
        f"<p>{sentence(found)}</p>{table}</div>"
    )


def level_html(followers: pa.Table) -> str:
    """Where every known log start is level: that, and whose is not known."""
    silent = followers.filter(pc.is_null(followers["log_start_lag"]))
    unknown = sorted(pc.unique(silent["broker_id"]).to_pylist())
    return (
        f'<div class="lw"><h2>Who holds the {term("low watermark")}</h2>'
        f"<p>Nobody: every known log start is at its leader's. {_not_known(unknown)}</p></div>"
    )


def sentence(found: Sequence[Held]) -> str:
    """For whom a purge of this topic would wait."""
    back = [one for one in found if one.lag]
    brokers = sorted({broker for one in back for broker in one.brokers})
    unknown = sorted({broker for one in found for broker in one.unknown})
    parts = []
    if back:
        noun = "broker" if len(brokers) == 1 else "brokers"
        parts.append(
            f"{noun.capitalize()} {_listed(brokers)}, in {len(back)} of "
            f"{formats.plural(len(found), 'partition')}: a wait-all purge waits there."
        )
    elif found:
        parts.append("Nobody: every known log start is at its leader's.")
    return " ".join([*parts, _not_known(unknown)]).rstrip()


def _not_known(brokers: Sequence[int]) -> str:
    if not brokers:
        return ""
    return f"Not known of broker {_listed(brokers)}: no log start was read there."


def _who(one: Held) -> str:
    return f"broker {_listed(one.brokers)}" if one.brokers else "nobody that is known"


def _far(one: Held) -> str:
    parts = [f"{formats.plural(one.lag, 'record')} behind the leader's"] if one.lag else []
    if one.unknown:
        parts.append(f"unknown on broker {_listed(one.unknown)}")
    return ", ".join(parts)


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
