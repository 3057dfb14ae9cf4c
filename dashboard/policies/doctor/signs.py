"""What moved between two snapshots of a partition: its log start, its commits, its segments.

A snapshot sees at most one move of a log start since the one before, however often it was purged:
every count of purges here is "at least".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from dashboard.domain.columns import Flags, Ints
from dashboard.policies.doctor.history import History
from dashboard.policies.simulate.past_rows import ABSENT
from dashboard.purge.journal.journal_sent import Sent

Floats = npt.NDArray[np.float64]
_TOO_FEW = 0.1  # of the most records of an interval: sizes and offsets are not read at once
_NEVER = 1 << 62  # Streams of old wrote Long.MAX_VALUE where it writes -1 now


@dataclass(frozen=True, slots=True)
class Signs:
    """Per row and interval between two snapshots.

    `purged`: its log start rose; `committed`: its owner's commit did. `ours` of the former are
    explained by what our own runs sent. `freed`: whole segments that went (-1: not known);
    `record_bytes`: per row the size of a record, at most (0: not known). `beyond`: the log start
    stood above what the owner had committed even one snapshot later, and no run of ours asked for
    it.
    """

    purged: Flags
    committed: Flags
    ours: Flags
    freed: Ints
    record_bytes: Floats
    beyond: Flags


def read_signs(history: History, sent: Iterable[Sent], reads_take: timedelta) -> Signs:
    """All rows and intervals at once.

    Offsets are read a while after a snapshot's own time, at most `reads_take`: a purge of ours may
    show in it though it was sent later than that.
    """
    purged = _rose(history.log_start)
    asked = _asked(history, sent, reads_take)
    explained = history.log_start <= asked
    commit = history.committed[:, 1:]
    start = history.log_start[:, :-1]
    beyond = (commit != ABSENT) & (start > commit) & ~explained[:, :-1]
    record_bytes = _record_bytes(history)
    return Signs(
        purged,
        _rose(history.committed),
        purged & explained[:, 1:],
        _freed(history, record_bytes),
        record_bytes,
        beyond & (start > history.log_start[:, :1]),
    )


def limit(value: str | None) -> int | None:
    """A setting as a number; None: unlimited, or not known."""
    number = int(value) if value and value.lstrip("-").isdigit() else -1
    return None if number < 0 or number > _NEVER else number


def _rose(grid: Ints) -> Flags:
    earlier, later = grid[:, :-1], grid[:, 1:]
    return np.asarray((earlier != ABSENT) & (later > earlier))


def _asked(history: History, sent: Iterable[Sent], reads_take: timedelta) -> Ints:
    """The highest target that runs of ours had sent by each snapshot; -1: none."""
    found = np.full(history.log_start.shape, ABSENT, dtype=np.int64)
    for one in sent:
        place = history.topics.get(one.topic)
        if place is None or one.partition >= place.stop - place.start:
            continue
        columns = [at for at, time in enumerate(history.times) if one.sent_at <= time + reads_take]
        if columns:
            row = found[place.start + one.partition, columns[0] :]
            np.maximum(row, one.target_offset, out=row)
    return found


def _record_bytes(history: History) -> Floats:
    """Bytes of a record: the most that an interval added per record.

    An interval in which segments went shows too little, never too much.
    """
    records, size = _added(history)
    enough = (records > 0) & (records >= _TOO_FEW * records.max(axis=1, initial=1)[:, None])
    rate = np.where(enough & (size > 0), size / np.maximum(records, 1), 0.0)
    return np.asarray(rate.max(axis=1, initial=0.0))


def _freed(history: History, record_bytes: Floats) -> Ints:
    """Whole segments that went: what was appended and does not lie there now.

    Where the size of a record is not known, only a log that got smaller tells.
    """
    records, size = _added(history)
    gone = np.maximum(record_bytes[:, None] * np.maximum(records, 0) - size, np.maximum(-size, 0))
    segments = np.round(gone / _segment_bytes(history)[:, None]).astype(np.int64)
    segments = np.where(size < 0, np.maximum(segments, 1), segments)
    untold = (records > 0) & (size >= 0) & (record_bytes[:, None] == 0)
    return np.where((records < 0) | untold, ABSENT, segments)


def _added(history: History) -> tuple[Ints, Ints]:
    """Records and bytes that an interval added to the leader's log; records -1: not known.

    Replicas need not have the same segments, so an interval with another leader tells nothing.
    """
    end, size, leader = history.log_end, history.leader_bytes, history.leader
    known = (end != ABSENT) & (size != ABSENT) & (leader != ABSENT)
    whole = known[:, 1:] & known[:, :-1] & (leader[:, 1:] == leader[:, :-1])
    whole &= end[:, 1:] >= end[:, :-1]
    records = np.where(whole, end[:, 1:] - end[:, :-1], ABSENT)
    return records, np.where(whole, size[:, 1:] - size[:, :-1], 0)


def _segment_bytes(history: History) -> Floats:
    """`segment.bytes` per row; endless where it is not known: then a fall alone is a segment."""
    found = np.full(len(history.partition), np.inf)
    for topic, place in history.topics.items():
        value = limit(history.configs.get(topic, {}).get("segment.bytes"))
        if value:
            found[place] = value
    return found
