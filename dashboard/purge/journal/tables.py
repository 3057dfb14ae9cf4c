"""How the journal's tables hold runs and partitions, who was there first, and whether a run is
still the one that was queued.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NoReturn

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import JournalError, RefusedError
from dashboard.purge.journal.file import JournalFile
from dashboard.purge.journal.links import QueuedLink
from dashboard.purge.journal.pack import Stored, pack_row, readable, unpack
from dashboard.purge.journal.rows import (
    Follower,
    Options,
    PartitionRow,
    RunRow,
    WaitForecast,
)
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import KeptRecords, Receipt

_ROW = tuple(PartitionRow.__dataclass_fields__)
_FOLLOWER = tuple(Follower.__dataclass_fields__)
_row_values, _follower_values = attrgetter(*_ROW), attrgetter(*_FOLLOWER)

READ_AFTER = "coalesce(json_extract(plain(p.body), '$.read_after'), -1)"

# Partitions whose records came back, and nothing has purged as far again since.
# Rows of earlier versions do not tell when they were read: of those, one that was sent counts.
# Asked every few seconds: a partial index finds the few reversals, and CROSS JOIN keeps SQLite to
# looking a partition up in each later run, instead of walking through all partitions.
UNDONE = f"""run_partitions p CROSS JOIN runs r ON r.run_id = p.run_id
WHERE p.state = 'reverted' AND NOT EXISTS (
    SELECT 1 FROM runs s CROSS JOIN run_partitions q
      ON q.run_id = s.run_id AND q.topic = p.topic AND q.partition = p.partition
    WHERE s.cluster_id = r.cluster_id AND s.rowid > r.rowid
      AND q.state IN ('done', 'leader_done')
      AND json_extract(plain(q.body), '$.target_offset')
        >= json_extract(plain(p.body), '$.target_offset')
      AND CASE WHEN json_extract(plain(q.body), '$.read_after') IS NULL
        THEN json_extract(plain(p.body), '$.read_after') IS NULL
          AND json_extract(plain(q.body), '$.sent_at') IS NOT NULL
        ELSE json_extract(plain(q.body), '$.read_after')
          > {READ_AFTER} END)
  AND (p.run_id, p.topic, p.partition, {READ_AFTER}) NOT IN (
    SELECT e.run_id, json_extract(d.value, '$[0]'), json_extract(d.value, '$[1]'),
      json_extract(d.value, '$[2]')
    FROM entries e CROSS JOIN json_each(plain(e.body), '$.partitions') d
    WHERE e.kind = 'dismissed'
      AND e.run_id IN (SELECT run_id FROM run_partitions WHERE state = 'reverted'))
"""


def watching(run: RunRow, now: datetime) -> bool:
    """Whether a closed run's replicas and receipt are still to be followed."""
    return run.watched_until is not None and now < run.watched_until and not run.receipt_final


def put(
    db: sqlite3.Connection, run_id: str, rows: Iterable[PartitionRow], *, new: bool
) -> list[dict[str, object]]:
    """Write partition rows of a run; their bodies."""
    verb = "INSERT" if new else "REPLACE"
    bodies = [body_of(row) for row in rows]
    db.executemany(
        f"{verb} INTO run_partitions VALUES (?,?,?,?,?)",
        [(run_id, b["topic"], b["partition"], b["state"], pack_row(canonical(b))) for b in bodies],
    )
    return bodies


def body_of(row: PartitionRow) -> dict[str, object]:
    """A partition row as the journal keeps it (`asdict` copies every value: ten times slower)."""
    body = dict(zip(_ROW, _row_values(row), strict=True))
    body["followers"] = [
        dict(zip(_FOLLOWER, _follower_values(f), strict=True)) for f in row.followers
    ]
    body["sent_at"] = format_time(row.sent_at) if row.sent_at else None
    body["wait_forecast"] = asdict(row.wait_forecast) if row.wait_forecast else None
    return body


def put_moves(db: sqlite3.Connection, run_id: str, moves: Iterable[MoveRow]) -> None:
    """Write moves of waived groups' offsets, new ones and changed ones alike."""
    db.executemany(
        "REPLACE INTO run_moves VALUES (?,?,?,?,?)",
        [(run_id, m.group_id, m.topic, m.partition, canonical(asdict(m))) for m in moves],
    )


@readable
def move_row(row: sqlite3.Row) -> MoveRow:
    """A move out of its row."""
    return MoveRow(**json.loads(row["body"]))


def targets_of(rows: Iterable[PartitionRow]) -> list[list[Any]]:
    """Topic, partition and target of each row."""
    return [[r.topic, r.partition, r.target_offset] for r in rows]


@readable
def partition_row(row: sqlite3.Row) -> PartitionRow:
    """A partition out of its row."""
    body = json.loads(unpack(row["body"]))
    body["followers"] = tuple(Follower(**f) for f in body["followers"])
    body["sent_at"] = _time(body["sent_at"])
    if body.get("wait_forecast"):
        body["wait_forecast"] = WaitForecast(**body["wait_forecast"])
    return PartitionRow(**body)


@readable
def run_row(row: sqlite3.Row) -> RunRow:
    """A run out of its row."""
    plain = ("run_id", "plan_id", "plan_sha256", "cluster_id", "cluster_name", "mode", "state",
             "who", "from_where", "typed", "wish", "policy", "approved_by")  # fmt: skip
    times = ("queued_at", "started_at", "closed_at", "heartbeat_at", "watched_until")
    values: dict[str, Any] = {name: row[name] for name in plain}
    values.update({name: _time(row[name]) for name in times})
    for name in ("connection", "error"):
        values[name] = json.loads(row[name]) if row[name] else None
    values["none_done"] = bool(row["none_done"])
    receipt = row["receipt"]
    kept = row["archive"]
    values["archive"] = KeptRecords.from_json(json.loads(kept)) if kept else None
    values["kept_receipt"] = Stored(receipt, Receipt.from_json) if receipt else None
    return RunRow(**values, options=Options.of(row["options"]))


@lru_cache(maxsize=256)  # the rows of one request were all sent at the same moment
def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def refuse_again(plan: Plan, run_id: str) -> NoReturn:
    """The plan ran already: name the run."""
    raise RefusedError(
        f"plan {plan.plan_id} was applied already, as run {run_id}",
        f"See what it did with: lowwater run {run_id}; to purge more, plan again.",
        code="PLAN_ALREADY_APPLIED",
    )


def refuse_busy(db: sqlite3.Connection, plan: Plan, topic: str) -> NoReturn:
    """Another run holds the topic: name it."""
    row = db.execute(
        "SELECT run_id FROM run_topics WHERE cluster_id=? AND topic=? AND open=1",
        (plan.cluster_id, topic),
    ).fetchone()
    raise RefusedError(
        f"topic {topic} is being purged by run {row['run_id']}",
        f"Wait for it with: lowwater run {row['run_id']} --wait, then plan again.",
        code="TOPIC_BUSY",
    )


# Is a stored run still the one that was queued? Its link of the chain is held against it.
#
# Only what never changes once a run is queued is compared, so that a run is compared once, when
# its link is folded. What a link of an earlier version does not tell is not compared.

_PAGE = """SELECT topic, partition, body FROM run_partitions
  WHERE run_id=? AND (topic, partition) > (?, ?) ORDER BY topic, partition LIMIT 2000"""
_MOVES = """SELECT group_id, topic, partition, body FROM run_moves
  WHERE run_id=? ORDER BY group_id, topic, partition"""
_AT_ONCE = 1 << 20  # characters
_COLUMNS = (
    "plan_id", "plan_sha256", "cluster_id", "cluster_name", "mode", "who", "from_where", "typed",
    "options", "connection", "queued_at",
)  # fmt: skip
_RUN = f"""SELECT plan, {", ".join(_COLUMNS)},
  (SELECT definition_sha256 FROM run_policies WHERE run_policies.run_id = runs.run_id)
    AS definition_sha256
  FROM runs WHERE run_id=?"""


def not_as_queued(file: JournalFile, run_id: str, told: QueuedLink) -> list[str]:
    """How a run differs from the body of its link `queued`; nothing for one that is gone.

    Raises JournalError when the file cannot be read.
    """
    # The run last: one that was archived meanwhile is gone then, not half there.
    try:
        wrong = [*_wrong_targets(file, run_id, told), *_wrong_moves(file, run_id, told)]
    except (TypeError, ValueError):
        wrong = [f"what run {run_id} was queued with cannot be read"]
    found = file.rows(_RUN, run_id)
    if not found:
        return []
    run = found[0]
    frozen = (*_COLUMNS, "definition_sha256")
    names = [name for name in frozen if name in told and told.get(name) != run[name]]
    if names:
        wrong.insert(0, f"run {run_id} was queued with another {', '.join(names)}")
    if not _sealed_with(run["plan"], run["plan_sha256"]):
        wrong.append(f"the plan of run {run_id} was changed after it was queued")
    return wrong


def _wrong_targets(file: JournalFile, run_id: str, told: QueuedLink) -> list[str]:
    if "partitions" not in told:
        return []
    left = {(topic, partition): target for topic, partition, target in told["partitions"]}
    wrong = []
    for topic, partition, body in _partitions(file, run_id):
        if not _has_target(body, left.pop((topic, partition), None)):
            wrong.append(f"{topic}-{partition} of run {run_id} was queued with another target")
    return wrong + [f"{topic}-{partition} of run {run_id} is missing" for topic, partition in left]


def _partitions(file: JournalFile, run_id: str) -> Iterator[tuple[str, int, str]]:
    """A page at a time: a run may have 100,000."""
    after: tuple[str, int] = ("", -1)
    while rows := file.rows(_PAGE, run_id, *after):
        yield from ((row["topic"], row["partition"], row["body"]) for row in rows)
        after = (rows[-1]["topic"], rows[-1]["partition"])


def _has_target(stored: str, target: Any) -> bool:
    """Whether a row that is read has this target: most are told by their text, ten times sooner.

    A text with the key once, as we write it, is read with that target; any other one is read.
    """
    try:
        text = unpack(stored)
    except JournalError:
        return False
    once = text.count("target_offset") == 1 and "\\" not in text
    if once and f'"target_offset":{target},' in text:
        return True
    return target is not None and _value(text, "target_offset") == target


def _wrong_moves(file: JournalFile, run_id: str, told: QueuedLink) -> list[str]:
    """A link tells moves only where there are any."""
    names = ("from_offset", "to_offset")
    found = {
        (row["group_id"], row["topic"], row["partition"]): [_value(row["body"], n) for n in names]
        for row in file.rows(_MOVES, run_id)
    }
    told_moves = told.get("moves", ())
    asked = {(group, topic, number): steps for group, topic, number, *steps in told_moves}
    return [
        f"the move of group {group} on {topic}-{number} of run {run_id} is not as it was queued"
        for group, topic, number in sorted(found.keys() | asked.keys())
        if found.get((group, topic, number)) != asked.get((group, topic, number))
    ]


def _value(stored: str, name: str) -> Any:
    """A value of a stored object; None for a text that is none any more: it equals no offset."""
    try:
        return json.loads(unpack(stored)).get(name)
    except (JournalError, ValueError, AttributeError, RecursionError):
        return None


def _sealed_with(stored: str, sha256: str) -> bool:
    """Whether a plan's text has this hash: without reading it, which takes many times as long.

    The text is canonical, so what was hashed is the text without the key `sha256`.
    """
    try:
        text = unpack(stored)
    except JournalError:
        return False
    own = f'"sha256":"{sha256}",'
    at = text.find(own)
    found = hashlib.sha256()
    for start, end in ((0, at), (at + len(own), len(text))):
        for begin in range(start, end, _AT_ONCE):  # a plan may be megabytes
            found.update(text[begin : min(begin + _AT_ONCE, end)].encode())
    return at >= 0 and found.hexdigest() == sha256
