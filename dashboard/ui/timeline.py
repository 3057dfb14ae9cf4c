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
from dashboard.ui.purge.runs import RUN_WORDS
from dashboard.views import formats

# The journal's entries as a timeline: one line each, filtered by person, topic, run and kind.

SHOWN = 2000  # the newest entries that a page reads
KINDS = {
    "queued": "queued",
    "run": "state of the run",
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
    """One entry in words; `topics` are those it speaks of."""

    seq: int
    at: datetime
    run_id: str | None
    who: str
    kind: str
    said: str
    topics: frozenset[str]


def lines(entries: Iterable[Entry], runs: Iterable[RunRow]) -> list[Line]:
    """Newest first. A line of a run without a person of its own is its starter's."""
    who = {run.run_id: run.who for run in runs}
    found = [
        Line(
            entry.seq,
            parse_time(entry.at),
            entry.run_id,
            str(entry.body.get("who") or who.get(entry.run_id or "", "")),
            entry.kind,
            said(entry),
            topics_of(entry.body),
        )
        for entry in entries
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
    counted = _moves if entry.kind.startswith("move") else _partitions
    return _SAID.get(entry.kind, counted)(entry.body)


def _queued(body: Mapping[str, Any]) -> str:
    count = formats.plural(len(body.get("partitions", ())), "partition")
    decided = [
        *(f"waived {w['group_id']}: {w['reason']}" for w in body.get("waivers", ())),
        *(f"lifted {o['name']}: {o['reason']}" for o in body.get("overrides", ())),
    ]
    by = (
        f"by policy {body['policy']}"
        if body.get("policy")
        else f"confirmed by: {body.get('typed')}"
    )
    said = f"{count} in mode {body.get('mode')}, {by}"
    return "; ".join([said, *decided])


def _run(body: Mapping[str, Any]) -> str:
    message = (body.get("error") or {}).get("message")
    return f"{body.get('state')}: {message}" if message else str(body.get("state"))


def _receipt(body: Mapping[str, Any]) -> str:
    receipt = Receipt.from_json(body.get("receipt") or {})
    freed = formats.size(receipt.freed_bytes)
    return f"predicted {formats.size(receipt.predicted_bytes)}, freed {freed}"


def _baseline(body: Mapping[str, Any]) -> str:
    return f"sizes of {formats.plural(int(body.get('replicas', 0)), 'replica')}"


def _read_only(body: Mapping[str, Any]) -> str:
    return "every purge switched off" if body.get("read_only") else "purges allowed again"


def _policy(body: Mapping[str, Any]) -> str:
    definition = str(body.get("definition_sha256"))[:8]
    name, where = body.get("policy"), body.get("from_where")
    if not body.get("enabled"):
        return f"{name} switched off from {where}"
    return f"{name} switched on from {where}, definition {definition}: {body.get('typed')}"


def _orphans(body: Mapping[str, Any]) -> str:
    counts = Counter(str(act[0]) for act in body.get("acts") or ())
    told = ", ".join(f"{formats.plural(n, 'folder')} {kind}" for kind, n in sorted(counts.items()))
    lines = f"lines {body.get('from_seq')} to {body.get('to_seq')} of {body.get('log')}"
    replaced = ", which replaces an older one" if body.get("log_replaced") else ""
    return f"broker {body.get('broker_id')}: {told or 'nothing moved'}; {lines}{replaced}"


def _orphans_on(body: Mapping[str, Any]) -> str:
    return (
        f"on for broker {body.get('broker_id')} from {body.get('from_where')}: {body.get('typed')}"
    )


def _asked(body: Mapping[str, Any]) -> str:
    count = formats.plural(len(body.get("partitions", ())), "partition")
    until = f"until {body.get('expires_at')}"
    return f"{count} in mode {body.get('mode')}, {until}, as request {body.get('request_id')}"


def _decided(body: Mapping[str, Any]) -> str:
    return f"request {body.get('request_id')} from {body.get('from_where')}"


def _archived(body: Mapping[str, Any]) -> str:
    runs = formats.plural(int(body.get("runs", 0)), "run")
    return f"entries to {body.get('through_seq')} with {runs} moved to {body.get('folder')}"


def _dismissed(body: Mapping[str, Any]) -> str:
    count = formats.plural(len(body.get("partitions", ())), "partition")
    return f"records that came back in {count}, from {body.get('from_where')}: {body.get('why')}"


def _declared(body: Mapping[str, Any]) -> str:
    all_of_them = (
        "its groups are all its readers" if body.get("readers") == "groups" else "readers unknown"
    )
    topics = ", ".join(body.get("topics", ()))
    window = body.get("replay_window", "0s")
    tables = ", no table of Kafka Streams" if body.get("state_restore") == "none" else ""
    return f"{topics}: {all_of_them}{tables}, replay window {window}: {body.get('reason')}"


def topics_of(body: Mapping[str, Any]) -> frozenset[str]:
    """The topics an entry names, whether its partitions are rows or triples."""
    named = {str(_topic(partition)) for partition in body.get("partitions") or ()}
    moved = {str(m["topic"]) for m in body.get("moves") or () if isinstance(m, Mapping)}
    return frozenset({*named, *moved, *map(str, body.get("topics") or ())})


def _topic(partition: Any) -> Any:
    return partition["topic"] if isinstance(partition, Mapping) else partition[0]


def _moves(body: Mapping[str, Any]) -> str:
    counts = Counter((str(m["group_id"]), str(m["state"])) for m in body.get("moves") or ())
    parts = [
        f"{group}: {formats.plural(n, 'offset')} {state}"
        for (group, state), n in sorted(counts.items())
    ]
    return "; ".join([*parts, *([str(body["code"])] if body.get("code") else [])])


def _partitions(body: Mapping[str, Any]) -> str:
    states: dict[str, int] = {}
    for partition in body.get("partitions") or ():
        state = str(partition.get("state")) if isinstance(partition, Mapping) else "named"
        states[state] = states.get(state, 0) + 1
    counted = ", ".join(f"{formats.number(n)} {state}" for state, n in sorted(states.items()))
    message = body.get("message") or body.get("code") or ""
    return "; ".join(part for part in (counted, str(message)) if part) or "nothing changed"


_SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "queued": _queued,
    "run": _run,
    "wish": lambda body: str(body.get("wish")),
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


def runs_table(runs: Sequence[RunRow], topics: Mapping[str, frozenset[str]], now: datetime) -> None:
    """One row per run, newest first; the run's id leads to its page."""
    shown = pd.DataFrame(
        {
            "Run": [f"purge?run={run.run_id}" for run in runs],
            "State": [RUN_WORDS[run.outcome] for run in runs],
            "Queued (UTC)": [f"{run.queued_at:%Y-%m-%d %H:%M:%S}" for run in runs],
            "Ago": [formats.age(run.queued_at, now) for run in runs],
            "Who": [run.who for run in runs],
            "Approved by": [run.approved_by for run in runs],
            "From": [run.from_where for run in runs],
            "Mode": [run.mode for run in runs],
            "Typed": [run.typed or None for run in runs],
            "Plan": [run.plan_id for run in runs],
            "Topics": [", ".join(sorted(topics.get(run.run_id, ()))) for run in runs],
        }
    )
    text, link = st.column_config.TextColumn, st.column_config.LinkColumn
    grid.show(
        shown,
        {
            "Run": link(display_text=r"run=(.*)", width=165),
            "State": text(width=90),
            "Queued (UTC)": text(width=145),
            "Ago": text(width=60),
            "Who": text(width=160),
            "Approved by": text(width=100),
            "From": text(width=130),
            "Mode": text(width=130),
            "Typed": text(width=120),
            "Plan": text(width=130),
            "Topics": text(width=110),
        },
        most=8,
        alt="Runs with state, time, person, from where, mode, typed sentence, plan and topics",
        key="audit-runs",
    )
