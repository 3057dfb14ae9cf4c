"""Who holds the low watermark of a topic: for whom a wait-all purge would wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.ui.components.markup import text
from dashboard.views import formats

SHOWN = 16


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
    by_partition: dict[int, list[Mapping[str, Any]]] = {}
    for row in followers.filter(pc.equal(followers["topic"], topic)).to_pylist():
        by_partition.setdefault(row["partition"], []).append(row)
    found = [_held(partition, rows) for partition, rows in by_partition.items()]
    return sorted(found, key=lambda h: (-h.lag, not h.unknown, h.partition))


def _held(partition: int, rows: Sequence[Mapping[str, Any]]) -> Held:
    holders = [row for row in rows if row["holds_low_watermark"]]
    return Held(
        partition,
        tuple(sorted(row["broker_id"] for row in holders)),
        max((row["log_start_lag"] or 0 for row in holders), default=0),
        tuple(sorted(row["broker_id"] for row in rows if row["log_start_lag"] is None)),
    )


def held_html(found: Sequence[Held], topic: str) -> str:
    """A sentence for the topic, and a line per partition that is held or not known."""
    told = [one for one in found if one.lag or one.unknown]
    lines = "".join(
        f"<tr><th scope=row>{one.partition}</th><td>{_who(one)}</td><td>{_far(one)}</td></tr>"
        for one in told[:SHOWN]
    )
    rest = len(told) - SHOWN
    more = f"<small>and {formats.plural(rest, 'partition')} more</small>" if rest > 0 else ""
    table = (
        '<table class="lw-table"><thead><tr><th>partition</th><th>held by</th>'
        f"<th>log start</th></tr></thead><tbody>{lines}</tbody></table>{more}"
        if told
        else ""
    )
    return (
        f'<div class="lw"><h2>Who holds the low watermark of {text(topic)}</h2>'
        f"<p>{sentence(found)}</p>{table}</div>"
    )


def level_html(followers: pa.Table) -> str:
    """Where every known log start is level: that, and whose is not known."""
    silent = followers.filter(pc.is_null(followers["log_start_lag"]))
    unknown = sorted(pc.unique(silent["broker_id"]).to_pylist())
    return (
        '<div class="lw"><h2>Who holds the low watermark</h2><p>Nobody: every known log start is '
        f"at its leader's. {_not_known(unknown)}</p></div>"
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
