"""The states of a partition in a run: which evidence moves it where. Pure, never a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from dashboard.domain.model import (
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    DeleteRecordsPartitionResult,
)
from dashboard.purge.execute.readback import GONE, Seen
from dashboard.purge.journal.rows import PartitionRow, good

# Kafka refuses these before it truncates; the others are OFFSET_OUT_OF_RANGE, INVALID_TOPIC,
# UNSUPPORTED_VERSION (nothing was sent), POLICY_VIOLATION.
NOTHING_MOVED = frozenset({TOPIC_AUTHORIZATION_FAILED, 1, 17, 35, 44})
_NONE = 0
_TRUNCATED = (_NONE, REQUEST_TIMED_OUT)  # itself, says the answering leader
MOST_ATTEMPTS = 4
_PLACED = ("done", "leader_done", "reverted")  # what a leader's log start alone decides
_MOVES = "broker {} is moving its replica to another log dir, and the new one has not arrived"
_UNTOLD = "whether the leader moves its replica to another log dir cannot be told: {}"


def answered(row: PartitionRow, result: DeleteRecordsPartitionResult) -> PartitionRow:
    """After an answer: `not_done` when it proves that nothing moved, else open until read.

    An error of a repeated request says nothing of those before it, whose answers were lost.
    """
    known = replace(
        row,
        answer_error_code=result.error_code,
        answer_low_watermark=result.low_watermark,
        error=result.error,
    )
    if result.error_code in NOTHING_MOVED and row.attempts == 1:
        return replace(known, state="not_done")
    return replace(known, state="sent" if result.error_code == _NONE else "unknown")


def unanswered(row: PartitionRow, error: str) -> PartitionRow:
    """After a lost answer: the leader may have truncated, so only reading it tells."""
    return replace(row, state="unknown", answer_error_code=None, error=error)


def unread(row: PartitionRow, error: str | None) -> PartitionRow:
    """After an answer, when no leader could be read in time: what it said proves nothing alone."""
    return replace(row, state="unknown", error=row.error or error)


def not_sent(row: PartitionRow, error: str, message: str | None = None) -> PartitionRow:
    """A refusal before sending: nothing moved since the leader was last read below the target."""
    return replace(row, state="not_done", error=error, message=message)


def without_canary(row: PartitionRow, canary: PartitionRow) -> PartitionRow:
    """Not sent, since the partition that was sent first did not end as it should."""
    why = f": {canary.error}" if canary.error else ""
    text = f"the canary {canary.topic}-{canary.partition} ended {canary.state}{why}"
    return not_sent(row, "CANARY_FAILED", text)


def unasked(row: PartitionRow) -> PartitionRow:
    """Not sent, or not again, since no leader answered; the error that was noted stays."""
    text = f"no leader could be asked in time{'' if row.was_sent else '; nothing was sent'}"
    return not_sent(row, row.error or "LEADER_NOT_AVAILABLE", row.message or text)


def held_back(
    row: PartitionRow,
    seen: Seen | None,
    closed: Callable[[PartitionRow], PartitionRow],
    *,
    wait_all: bool,
) -> PartitionRow:
    """A row that was sent, and will not be again: `closed` if its leader was just `seen` below.

    None: nothing answered. Unread it is `unknown`, but of a topic that is gone nothing is left.
    """
    if seen is None or seen.leader_log_start_offset is None:
        gone = seen is not None and seen.error == GONE
        return closed(row) if gone else replace(closed(row), state="unknown")
    after = settled(row, seen, wait_all=wait_all, may_resend=True)
    return closed(after) if after.state == "pending" else after


def doubtful(row: PartitionRow) -> bool:
    """A `not_done` of which a request may take effect yet: not each answer proved that none did.

    The leader was read below the target, but a broker that hung, or was leader before, may hold
    the truncation and lead again.
    """
    proved = row.attempts == 1 and row.answer_error_code in NOTHING_MOVED
    return row.state == "not_done" and row.was_sent and not proved


def settled(row: PartitionRow, seen: Seen, *, wait_all: bool, may_resend: bool) -> PartitionRow:
    """The row after its leader and replicas were read.

    At or past the target at the leader: `done` or `leader_done`. Below it: `reverted` when a
    leader was known to have truncated and another leads now; else it may be sent again
    (`pending`); refused by its last answer, or after MOST_ATTEMPTS, it is `not_done`. Unread it is
    `unknown` while it is open; a closed one stays as it was seen, and says where its topic is gone.
    A `not_done` that is `doubtful` becomes `done` too when its leader is seen past the target.
    `wait_all` keeps Kafka's error beside `leader_done`, and not why a row waited that was never
    sent; for the leader modes that is success.
    """
    start = seen.leader_log_start_offset
    if start is None:
        return _unread(row, seen)
    known = replace(
        row,
        leader_id=seen.leader_id,
        leader_log_start_offset=start,
        followers=seen.followers,
        low_watermark=_low_watermark(start, seen),
    )
    if start >= row.target_offset:
        if not _behind(row, seen):
            return replace(known, state="done", error=None, message=None)
        return replace(
            known,
            state="leader_done",
            error=known.error if wait_all and row.was_sent else None,
            message=_still_moves(seen),
        )
    return _below(known, seen, may_resend)


def _unread(row: PartitionRow, seen: Seen) -> PartitionRow:
    """A look that did not see the leader undoes nothing that an earlier one saw: a dead broker that
    keeps the records stays named, though no metadata tells of the topic just now.
    """
    if not row.open:
        return replace(row, error=row.error or GONE) if seen.error == GONE else row
    return replace(
        row,
        state="pending" if row.state == "pending" else "unknown",
        followers=seen.followers or row.followers,
        error=row.error or seen.error,
    )


def looked_after(before: PartitionRow, after: PartitionRow, entry: int) -> PartitionRow:
    """A row that a look has put into a state, with the journal's newest entry when that began."""
    found = after.state in _PLACED and after.state != before.state
    return replace(after, read_after=entry) if found else after


def unheard(row: PartitionRow, since: datetime) -> bool:
    """Whether a leader has truncated and no answer tells of its followers: the worker that sent the
    request later than `since`, or the connection, was gone before.
    """
    if row.state != "leader_done" or row.answer_error_code is not None:
        return False
    return row.sent_at is not None and row.sent_at > since


def all_arrived(row: PartitionRow) -> bool:
    """Whether every assigned replica is at or past the target, those of dead brokers included."""
    return row.state == "done" and all(f.alive and f.arrived for f in row.followers)


def followed(row: PartitionRow) -> bool:
    """Whether a closed run's partition is watched: it was sent, or its leader was there already
    and a replica is not, which may be elected and bring the records back.
    """
    there = row.state in ("done", "leader_done")
    return row.was_sent or (there and not all_arrived(row))


def _below(row: PartitionRow, seen: Seen, may_resend: bool) -> PartitionRow:
    if row.state == "not_done":
        return row
    if row.state in ("done", "leader_done", "reverted"):
        return _reverted(row, seen)
    truncated = row.answer_error_code in _TRUNCATED
    if truncated and seen.leader_epoch != row.sent_leader_epoch:
        return _reverted(row, seen)
    refused = row.answer_error_code in NOTHING_MOVED
    if may_resend and not refused and row.attempts < MOST_ATTEMPTS:
        return replace(row, state="pending")
    return replace(
        row,
        state="not_done",
        error=row.error or "NOT_TRUNCATED",
        message=f"the leader, broker {seen.leader_id}, was read and starts at "
        f"{row.leader_log_start_offset}, below the target",
    )


def _reverted(row: PartitionRow, seen: Seen) -> PartitionRow:
    return replace(
        row,
        state="reverted",
        error="RECORDS_CAME_BACK",
        message=f"broker {seen.leader_id} was elected leader (epoch {seen.leader_epoch}) and "
        f"starts at {row.leader_log_start_offset}: records below the target are back; plan again",
    )


def _behind(row: PartitionRow, seen: Seen) -> bool:
    """Whether a replica on an alive broker has not arrived, or nobody can tell that all have.

    A leader that was known to move nothing, and does not tell just now, takes nothing back.
    """
    known = row.state == "done" and row.leader_id == seen.leader_id
    untold = seen.move_untold is not None and not known
    return seen.leader_moves or untold or any(f.alive and not f.arrived for f in seen.followers)


def _still_moves(seen: Seen) -> str | None:
    if seen.leader_moves:
        return _MOVES.format(seen.leader_id)
    return _UNTOLD.format(seen.move_untold) if seen.move_untold is not None else None


def _low_watermark(leader_start: int, seen: Seen) -> int | None:
    """The minimum over replicas on alive brokers, as brokers compute it; None if one is unread.

    It counts the leader's future replica too, whose log start nobody can read.
    """
    if seen.leader_moves or seen.move_untold is not None:
        return None
    starts = [f.log_start_offset for f in seen.followers if f.alive]
    known = [s for s in starts if s is not None]
    return min([leader_start, *known]) if len(known) == len(starts) else None


def unproved_canary(rows: Iterable[PartitionRow], mode: str) -> PartitionRow | None:
    """The canary while it keeps the rest back: the only row ever tried, and not as it should be.

    None: nothing was tried yet, the canary is good, or more than it was tried since. It is told
    from what the journal keeps, so that a worker's death changes nothing.
    """
    sent = [row for row in rows if row.was_tried]
    return sent[0] if len(sent) == 1 and sent[0].state not in good(mode) else None


def run_state(rows: Iterable[PartitionRow], mode: str, *, cancelled: bool) -> str:
    """The state a closing run enters: done, partial, refused or cancelled."""
    found = list(rows)
    if all(row.state in good(mode) for row in found):
        return "done"
    if cancelled:
        return "cancelled"
    if all(row.state == "not_done" and not row.was_sent for row in found):
        return "refused"
    return "partial"
