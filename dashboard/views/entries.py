"""What an entry of the journal's chain is called, and what it says, in one line for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.purge.journal.rows import Entry
from dashboard.purge.receipt.model import Receipt
from dashboard.views import formats

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
    "archive-deleted": "archive deleted",
    "archive-restored": "records restored",
}


@dataclass(frozen=True, slots=True)
class Body:
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
    act: str | None = None
    run_id: str | None = None
    url: str | None = None
    records: int = 0
    size_bytes: int = 0
    topic: str | None = None
    to_topic: str | None = None
    to_cluster_id: str | None = None
    whole: bool = False
    only_partitions: Sequence[int] | None = None

    @classmethod
    def of(cls, entry: Entry) -> Body:
        return cls(**{name: entry.body[name] for name in cls.__slots__ if name in entry.body})

    @property
    def named(self) -> frozenset[str]:
        """The topics that it speaks of."""
        of = [p["topic"] if isinstance(p, Mapping) else p[0] for p in self.partitions or ()]
        moved = [m["topic"] for m in self.moves or () if isinstance(m, Mapping)]
        restored = [self.topic] if self.topic else []
        return frozenset(map(str, (*of, *moved, *restored, *(self.topics or ()))))

    @property
    def count(self) -> str:
        """How many partitions, in words."""
        return formats.plural(len(self.partitions or ()), "partition")


def said(kind: str, body: Body) -> str:
    """What an entry of a kind means, in one line."""
    return _SAID.get(kind, _moves if kind.startswith("move") else _partitions)(body)


def _queued(body: Body) -> str:
    decided = [
        *(f"waived {w['group_id']}: {w['reason']}" for w in body.waivers),
        *(f"lifted {o['name']}: {o['reason']}" for o in body.overrides),
    ]
    by = f"by policy {body.policy}" if body.policy else f"confirmed by: {body.typed}"
    said = f"{body.count} in mode {body.mode}, {by}"
    return "; ".join([said, *decided])


def _run(body: Body) -> str:
    message = (body.error or {}).get("message")
    return f"{body.state}: {message}" if message else str(body.state)


def _receipt(body: Body) -> str:
    receipt = Receipt.from_json(body.receipt or {})
    freed = formats.size(receipt.freed_bytes)
    return f"predicted {formats.size(receipt.predicted_bytes)}, freed {freed}"


def _baseline(body: Body) -> str:
    return f"sizes of {formats.plural(body.replicas, 'replica')}"


def _read_only(body: Body) -> str:
    return "every purge switched off" if body.read_only else "purges allowed again"


def _policy(body: Body) -> str:
    definition = str(body.definition_sha256)[:8]
    name, where = body.policy, body.from_where
    if not body.enabled:
        return f"{name} switched off from {where}"
    return f"{name} switched on from {where}, definition {definition}: {body.typed}"


def _orphans(body: Body) -> str:
    counts = Counter(str(act[0]) for act in body.acts or ())
    told = ", ".join(f"{formats.plural(n, 'folder')} {kind}" for kind, n in sorted(counts.items()))
    lines = f"lines {body.from_seq} to {body.to_seq} of {body.log}"
    replaced = ", which replaces an older one" if body.log_replaced else ""
    return f"broker {body.broker_id}: {told or 'nothing moved'}; {lines}{replaced}"


def _orphans_on(body: Body) -> str:
    return f"on for broker {body.broker_id} from {body.from_where}: {body.typed}"


def _asked(body: Body) -> str:
    until = f"until {body.expires_at}"
    return f"{body.count} in mode {body.mode}, {until}, as request {body.request_id}"


def _decided(body: Body) -> str:
    return f"request {body.request_id} from {body.from_where}"


def _archived(body: Body) -> str:
    runs = formats.plural(body.runs, "run")
    return f"entries to {body.through_seq} with {runs} moved to {body.folder}"


def _archive_deleted(body: Body) -> str:
    kept = f"{formats.plural(body.records, 'record')}, {formats.size(body.size_bytes)}"
    why = f"confirmed by: {body.typed}" if body.typed else "it was kept for its time"
    done = "all of it is gone" if body.act == "done" else f"begins; {why}, from {body.from_where}"
    return f"{body.url} of run {body.run_id} ({kept}): {done}"


def _archive_restored(body: Body) -> str:
    where = f"{body.url}, topic {body.topic}, into {body.to_topic} of cluster {body.to_cluster_id}"
    if body.only_partitions is not None:
        where += f", only partitions {', '.join(map(str, body.only_partitions))}"
    if body.act != "done":
        return f"{where}: begins, from {body.from_where}"
    end = "each as it was archived" if body.whole else "not all as they were archived"
    return f"{where}: {formats.plural(body.records, 'record')}, {end}"


def _dismissed(body: Body) -> str:
    return f"records that came back in {body.count}, from {body.from_where}: {body.why}"


def _declared(body: Body) -> str:
    all_of_them = (
        "its groups are all its readers" if body.readers == "groups" else "readers unknown"
    )
    topics = ", ".join(body.topics or ())
    window = body.replay_window
    tables = ", no table of Kafka Streams" if body.state_restore == "none" else ""
    return f"{topics}: {all_of_them}{tables}, replay window {window}: {body.reason}"


def _moves(body: Body) -> str:
    counts = Counter((str(m["group_id"]), str(m["state"])) for m in body.moves or ())
    parts = [
        f"{group}: {formats.plural(n, 'offset')} {state}"
        for (group, state), n in sorted(counts.items())
    ]
    return "; ".join([*parts, *([str(body.code)] if body.code else [])])


def _partitions(body: Body) -> str:
    states: dict[str, int] = {}
    for partition in body.partitions or ():
        state = str(partition.get("state")) if isinstance(partition, Mapping) else "named"
        states[state] = states.get(state, 0) + 1
    counted = ", ".join(f"{formats.number(n)} {state}" for state, n in sorted(states.items()))
    message = body.message or body.code or ""
    return "; ".join(part for part in (counted, str(message)) if part) or "nothing changed"


_SAID: Mapping[str, Callable[[Body], str]] = {
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
    "archive-deleted": _archive_deleted,
    "archive-restored": _archive_restored,
}
