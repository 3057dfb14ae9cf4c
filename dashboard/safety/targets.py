"""Up to which offset a purge may go: the committed target and the replay window, each once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.safety.guard_texts import RESTARTED, UNREAD

REPLAY_WINDOW, LAST_STABLE = "replay-window", "last-stable-offset"


@dataclass(frozen=True)
class Bounds:
    """A row per partition: its offsets (null: not known) and where its replay window begins.

    `window`: the first offset that may lie inside it; null where it is not known, or where
    `windowed` says that the topic has none. `window_problem`: why it is not known, in words.
    """

    log_start: pa.Array
    last_stable: pa.Array
    high_watermark: pa.Array
    window: pa.Array
    windowed: pa.Array
    window_problem: pa.Array


@dataclass(frozen=True)
class Targets:
    """A row per partition: the offset (null: not known), what lowered it (null: nothing), and why
    it cannot be known (null: it is, or no group's offset tells it).
    """

    offset: pa.Array
    capped_by: pa.Array
    problem: pa.Array


def committed(lowest: pa.Array, bounds: Bounds) -> Targets:
    """The lowest offset that any group has read up to, as far as the bounds allow.

    `lowest` is null where no offset tells: then nothing may go, unless the log is empty.
    Consumers that read uncommitted records commit past an open transaction: the last stable
    offset is the most that any of them is owed.
    """
    stable = pc.min_element_wise(lowest, bounds.last_stable)
    nothing_to_read = pc.and_(lowest.is_null(), _empty(bounds))
    wanted = pc.if_else(lowest.is_valid(), stable, None)
    wanted = pc.if_else(nothing_to_read, bounds.log_start, wanted)
    by_stable = pc.fill_null(pc.less(wanted, lowest), False)
    return _capped(wanted, bounds, pc.if_else(by_stable, LAST_STABLE, None))


def without_waived(rest: pa.Array, every: pa.Array, end: pa.Array) -> pa.Array:
    """The lowest offset without waived groups; `every` is the lowest with them.

    Where they were all that told, the log end stands in: who waives the last reader of a topic says
    that nobody wants its records. The guard `no-committed-offset` stands on it all the same.
    """
    return pc.coalesce(rest, pc.if_else(every.is_valid(), end, None))


def capped(wanted: pa.Array, bounds: Bounds) -> Targets:
    """An offset that was asked for, as far as the replay window allows."""
    return _capped(wanted, bounds, pa.nulls(len(wanted), pa.string()))


def _capped(wanted: pa.Array, bounds: Bounds, capped_by: pa.Array) -> Targets:
    start, window = bounds.log_start, bounds.window
    empty = _empty(bounds)
    # Offsets only grow, unless a disk was lost or a stale replica elected: nobody knows then which
    # records of the new log were written before the window.
    restarted = pc.fill_null(pc.greater(window, bounds.high_watermark), False)
    window = pc.if_else(restarted, None, window)
    in_window = pc.fill_null(pc.and_(bounds.windowed, pc.less(window, wanted)), False)
    in_window = pc.and_(in_window, pc.invert(empty))
    unknown = pc.and_(pc.and_(bounds.windowed, window.is_null()), pc.invert(empty))
    read = pc.and_(start.is_valid(), bounds.high_watermark.is_valid())
    known = pc.and_(pc.and_(read, wanted.is_valid()), pc.invert(unknown))
    offset = pc.if_else(in_window, window, wanted)
    # Below the log start nothing is left to delete: raised to it, it deletes nothing more.
    offset = pc.if_else(known, pc.max_element_wise(offset, start), None)
    why = pc.if_else(restarted, RESTARTED, bounds.window_problem)
    problem = pc.if_else(pc.and_(wanted.is_valid(), unknown), why, None)
    problem = pc.if_else(read, problem, UNREAD)
    return Targets(offset, pc.if_else(in_window, REPLAY_WINDOW, capped_by), problem)


def _empty(bounds: Bounds) -> pa.Array:
    return pc.fill_null(pc.equal(bounds.log_start, bounds.high_watermark), False)
