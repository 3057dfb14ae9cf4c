"""The journal on the page Audit: its entries one a line, and the audited runs as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.core.clock import parse_time
from dashboard.purge.journal.journal_rows import Entry, RunRow, Verification
from dashboard.purge.receipt.model import Receipt
from dashboard.ui.components import grid
from dashboard.ui.purge import runs, second_person
from dashboard.ui.purge.runs import RUN_WORDS
from dashboard.ui.session import context, routes
from dashboard.views import formats

# The journal's entries as a timeline: one line each, filtered by person, topic, run and kind.

SHOWN = 2000  # the newest entries that a page reads
KINDS = {
    "queued": "queued",
    "run": "state of the run",
    "archiving": "archiving records",
    "kept": "records kept",
    "recheck": "checked again",
    "baseline": "sizes before",
    "intent": "about to send",
    "not-sent": "not sent after all",
    "answer": "answered",
    "read": "read back",
    "unread": "could not be read",
    "no-answer": "no answer came",
    "unreached": "not reached",
    "gave-up": "given up",
    "stopped": "stopped",
    "watched": "seen later",
    "move-intent": "about to move",
    "move-answer": "move answered",
    "move-no-answer": "move unanswered",
    "move-not-sent": "move not sent after all",
    "moves-read": "offsets read",
    "moves-refused": "offsets left",
    "cancelled": "left out",
    "wish": "asked for",
    "receipt": "receipt",
    "dismissed": "alert dismissed",
    "read-only": "switch",
    "declared": "readers declared",
    "policy": "policy switched",
    "orphans": "orphans swept",
    "orphans-on": "orphans' service",
    "asked": "asked for",
    "approved": "approved",
    "rejected": "rejected",
    "archived": "archived",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One entry in words; `topics` are those it speaks of, `cluster_id` that of which it does.

    Without one it concerns every cluster, or it is not known.
    """

    seq: int
    at: datetime
    run_id: str | None
    who: str
    kind: str
    said: str
    topics: frozenset[str]
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Body:
    """What an entry tells, of whatever kind: each kind has some of these, older releases fewer.

    Partitions are rows or triples, moves of a queued run are steps of its plan. Kinds differ in
    what they keep under a name (`read_only` of what was archived is a list), so nothing is checked
    here: the page shows any journal that verifies.
    """

    who: str | None = None
    cluster_id: str | None = None
    partitions: Sequence[Any] | None = None
    moves: Sequence[Any] | None = None
    topics: Sequence[str] | None = None
    waivers: Sequence[Mapping[str, Any]] = ()
    overrides: Sequence[Mapping[str, Any]] = ()
    policy: str | None = None
    typed: str | None = None
    mode: str | None = None
    state: str | None = None
    error: Any = None
    wish: str | None = None
    receipt: Mapping[str, Any] | None = None
    replicas: int = 0
    read_only: bool = False
    definition_sha256: str | None = None
    from_where: str | None = None
    enabled: bool = False
    acts: Sequence[Sequence[Any]] | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    log: str | None = None
    log_replaced: bool = False
    broker_id: int | None = None
    expires_at: str | None = None
    request_id: str | None = None
    runs: int = 0
    through_seq: int | None = None
    folder: str | None = None
    why: str | None = None
    readers: str | None = None
    replay_window: str = "0s"
    state_restore: str | None = None
    reason: str | None = None
    message: str | None = None
    code: Any = None

    @classmethod
    def of(cls, entry: Entry) -> _Body:
        return cls(**{name: entry.body[name] for name in cls.__slots__ if name in entry.body})

    @property
    def named(self) -> frozenset[str]:
        """The topics that it speaks of."""
        of = [p["topic"] if isinstance(p, Mapping) else p[0] for p in self.partitions or ()]
        moved = [m["topic"] for m in self.moves or () if isinstance(m, Mapping)]
        return frozenset(map(str, (*of, *moved, *(self.topics or ()))))

    @property
    def count(self) -> str:
        """How many partitions, in words."""
        return formats.plural(len(self.partitions or ()), "partition")


def lines(entries: Iterable[Entry], known: Iterable[RunRow]) -> list[Line]:
    """Newest first. A line of a run without a person of its own is its starter's."""
    by_id = {run.run_id: run for run in known}
    found = [
        Line(
            entry.seq,
            parse_time(entry.at),
            entry.run_id,
            str(body.who or (run.who if run else "")),
            entry.kind,
            _said(entry.kind, body),
            body.named,
            body.cluster_id or (run.cluster_id if run else None),
        )
        for entry, body, run in (
            (entry, _Body.of(entry), by_id.get(entry.run_id or "")) for entry in entries
        )
    ]
    return sorted(found, key=lambda line: -line.seq)


def keep(
    line: Line, *, who: str | None, topic: str | None, run_id: str | None, kind: str | None
) -> bool:
    """Whether a line passes the filters; None passes all."""
    return (
        (who is None or line.who == who)
        and (topic is None or topic in line.topics)
        and (run_id is None or line.run_id == run_id)
        and (kind is None or line.kind == kind)
    )


def said(entry: Entry) -> str:
    """What an entry means, in one line."""
    return _said(entry.kind, _Body.of(entry))


def _said(kind: str, body: _Body) -> str:
    return _SAID.get(kind, _moves if kind.startswith("move") else _partitions)(body)


def _queued(body: _Body) -> str:
    decided = [
        *(f"waived {w['group_id']}: {w['reason']}" for w in body.waivers),
        *(f"lifted {o['name']}: {o['reason']}" for o in body.overrides),
    ]
    by = f"by policy {body.policy}" if body.policy else f"confirmed by: {body.typed}"
    said = f"{body.count} in mode {body.mode}, {by}"
    return "; ".join([said, *decided])


def _run(body: _Body) -> str:
    message = (body.error or {}).get("message")
    return f"{body.state}: {message}" if message else str(body.state)


def _receipt(body: _Body) -> str:
    receipt = Receipt.from_json(body.receipt or {})
    freed = formats.size(receipt.freed_bytes)
    return f"predicted {formats.size(receipt.predicted_bytes)}, freed {freed}"


def _baseline(body: _Body) -> str:
    return f"sizes of {formats.plural(body.replicas, 'replica')}"


def _read_only(body: _Body) -> str:
    return "every purge switched off" if body.read_only else "purges allowed again"


def _policy(body: _Body) -> str:
    definition = str(body.definition_sha256)[:8]
    name, where = body.policy, body.from_where
    if not body.enabled:
        return f"{name} switched off from {where}"
    return f"{name} switched on from {where}, definition {definition}: {body.typed}"


def _orphans(body: _Body) -> str:
    counts = Counter(str(act[0]) for act in body.acts or ())
    told = ", ".join(f"{formats.plural(n, 'folder')} {kind}" for kind, n in sorted(counts.items()))
    lines = f"lines {body.from_seq} to {body.to_seq} of {body.log}"
    replaced = ", which replaces an older one" if body.log_replaced else ""
    return f"broker {body.broker_id}: {told or 'nothing moved'}; {lines}{replaced}"


def _orphans_on(body: _Body) -> str:
    return f"on for broker {body.broker_id} from {body.from_where}: {body.typed}"


def _asked(body: _Body) -> str:
    until = f"until {body.expires_at}"
    return f"{body.count} in mode {body.mode}, {until}, as request {body.request_id}"


def _decided(body: _Body) -> str:
    return f"request {body.request_id} from {body.from_where}"


def _archived(body: _Body) -> str:
    runs = formats.plural(body.runs, "run")
    return f"entries to {body.through_seq} with {runs} moved to {body.folder}"


def _dismissed(body: _Body) -> str:
    return f"records that came back in {body.count}, from {body.from_where}: {body.why}"


def _declared(body: _Body) -> str:
    all_of_them = (
        "its groups are all its readers" if body.readers == "groups" else "readers unknown"
    )
    topics = ", ".join(body.topics or ())
    window = body.replay_window
    tables = ", no table of Kafka Streams" if body.state_restore == "none" else ""
    return f"{topics}: {all_of_them}{tables}, replay window {window}: {body.reason}"


def _moves(body: _Body) -> str:
    counts = Counter((str(m["group_id"]), str(m["state"])) for m in body.moves or ())
    parts = [
        f"{group}: {formats.plural(n, 'offset')} {state}"
        for (group, state), n in sorted(counts.items())
    ]
    return "; ".join([*parts, *([str(body.code)] if body.code else [])])


def _partitions(body: _Body) -> str:
    states: dict[str, int] = {}
    for partition in body.partitions or ():
        state = str(partition.get("state")) if isinstance(partition, Mapping) else "named"
        states[state] = states.get(state, 0) + 1
    counted = ", ".join(f"{formats.number(n)} {state}" for state, n in sorted(states.items()))
    message = body.message or body.code or ""
    return "; ".join(part for part in (counted, str(message)) if part) or "nothing changed"


_SAID: Mapping[str, Callable[[_Body], str]] = {
    "queued": _queued,
    "run": _run,
    "wish": lambda body: str(body.wish),
    "read-only": _read_only,
    "declared": _declared,
    "dismissed": _dismissed,
    "policy": _policy,
    "orphans": _orphans,
    "orphans-on": _orphans_on,
    "asked": _asked,
    "approved": _decided,
    "rejected": _decided,
    "archived": _archived,
    "receipt": _receipt,
    "baseline": _baseline,
}


def entries_left_out(found: Verification) -> str:
    """How many older entries the timeline leaves out, in words; "" where it has all."""
    if found.entries <= SHOWN:
        return ""
    return (
        f"of the newest {formats.number(SHOWN)} of {formats.number(found.entries)} entries; all of "
        "them: the exports above"
    )


# The audited runs as a table: who, when, from where, how, by which plan and typed sentence.


def topics_by_run(found: Sequence[Line]) -> dict[str, frozenset[str]]:
    """The topics that each run's entries name."""
    topics: dict[str, frozenset[str]] = {}
    for line in found:
        if line.run_id:
            topics[line.run_id] = topics.get(line.run_id, frozenset()) | line.topics
    return topics


def keep_runs(
    run: RunRow,
    topics: frozenset[str],
    *,
    who: str | None,
    topic: str | None,
    state: str | None,
    run_id: str | None,
) -> bool:
    """Whether a run passes the filters; None passes all."""
    return (
        (who is None or run.who == who)
        and (topic is None or topic in topics)
        and (state is None or run.outcome == state)
        and (run_id is None or run.run_id == run_id)
    )


def address(run_id: str, cluster_id: str | None) -> str:
    """Of a run's page: in its own cluster, where the data folder still has that."""
    key = second_person.key_of(cluster_id)
    shown = {"cluster": key} if len(context.choices()) > 1 and key else {}
    return routes.address("purge", **shown, run=run_id)


def runs_table(
    found: Sequence[runs.Line],
    topics: Mapping[str, frozenset[str]],
    now: datetime,
    *,
    clusters: bool = False,
) -> None:
    """A row per line, newest first; the run's id leads to its page. `clusters`: of several."""
    of = [line.run for line in found]
    times = [f", {formats.number(line.count)} times" if line.count > 1 else "" for line in found]
    columns = {
        "Run": [address(run.run_id, run.cluster_id) for run in of],
        "State": [f"{RUN_WORDS[run.outcome]}{n}" for run, n in zip(of, times, strict=True)],
        "Queued (UTC)": [f"{run.queued_at:%Y-%m-%d %H:%M:%S}" for run in of],
        "Ago": [formats.age(run.queued_at, now) for run in of],
        "Who": [run.who for run in of],
        "Topics": [", ".join(sorted(topics.get(run.run_id, ()))) for run in of],
        "Freed": [_freed(line.freed_bytes) for line in found],
        "Approved by": [run.approved_by for run in of],
        "From": [run.from_where for run in of],
        "Mode": [run.mode for run in of],
        "Typed": [run.typed or None for run in of],
        "Plan": [run.plan_id for run in of],
    }
    if clusters:
        columns = {"Cluster": [context.called(r.cluster_id, r.cluster_name) for r in of], **columns}
    text, link = st.column_config.TextColumn, st.column_config.LinkColumn
    grid.show(
        pd.DataFrame(columns),
        {
            "Cluster": text(width=110),
            "Run": link(display_text=r"run=(.*)", width=165),
            "State": text(width=130, help="N times: so many runs of one policy went alike"),
            "Queued (UTC)": text(width=145),
            "Ago": text(width=60),
            "Who": text(width=160),
            "Topics": text(width=180),
            "Freed": text(width=80),
            "Approved by": text(width=100),
            "From": text(width=130),
            "Mode": text(width=130),
            "Typed": text(width=120),
            "Plan": text(width=130),
        },
        most=8,
        alt="Runs with state, time, person, topics, bytes freed, from where, mode and plan",
        key="audit-runs",
    )


def _freed(size_bytes: int | None) -> str:
    return formats.MISSING if size_bytes is None else formats.size(size_bytes)
