"""Moves the offsets of waived, dead groups to the targets, once the records below are gone.

Each round reads before it sends: the group's offset and members, and the partition's leader. So a
worker that follows a dead one neither skips a move nor repeats one that was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from dashboard.core.errors import ClusterError
from dashboard.domain.model import Group, GroupListing, GroupOffset, TopicPartition
from dashboard.purge.execute.readback import Seen, read_back
from dashboard.purge.execute.stop_rules import PAUSED
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.moves import MoveRow, answered, judged, refused

_PROVEN = ("done", "leader_done")
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.3, 2.0
_LOST, _CALLED_OFF = "ANSWER_LOST", "NOT_SENT"


@dataclass
class Mover:
    """The moves of one run. `hold` gives PAUSED, or the name of what ends all that is not sent.

    `topic_ids` are the plan's, by topic.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    topic_ids: Mapping[str, str | None]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    hold: Callable[[], str | None]

    def finish(self) -> None:
        """Work until no move is open, or nothing could be read for the run's timeout.

        Partition states never change here. Raises JournalError: then nothing more is sent.
        """
        patience = timedelta(milliseconds=self.run.options.timeout_ms)
        moved_at = self.now()
        while self._open():
            held = self.hold()
            if held == PAUSED:
                moved_at = self.now()  # a pause is nobody's fault
            elif self._round(held):
                moved_at = self.now()
                continue
            elif self.now() - moved_at >= patience:
                self._give_up()
                return
            self.sleep(_PAUSE_SECONDS)

    def _round(self, held: str | None) -> bool:
        """One pass over the open moves; whether anything came further."""
        came_further = self._refuse_what_may_not_go(held)
        waiting = self._open()
        if not waiting:
            return came_further
        read = self._read(waiting)
        after = [found for found, _ in read]
        self._record("moves-read", waiting, after)
        came_further |= any(a.state != b.state for a, b in zip(after, waiting, strict=True))
        ready = [found for found, may_go in read if may_go]
        return (self._send(ready) if ready and not held else False) or came_further

    def _refuse_what_may_not_go(self, held: str | None) -> bool:
        """Nothing moves after a cancel, nor where the leader was never seen past the target."""
        states = {row.key: row.state for row in self.journal.partitions(self.run.run_id)}
        waiting = [move for move in self._open() if move.state == "pending"]
        after = []
        for move in waiting:
            if held:
                after.append(refused(move, held))
            elif states.get(move.key) not in _PROVEN:
                said = f"the partition is {states.get(move.key)}: its records may be there still"
                after.append(refused(move, "PARTITION_NOT_DONE", said))
            else:
                after.append(move)
        self._record("moves-refused", waiting, after)
        return after != waiting

    def _read(self, moves: Sequence[MoveRow]) -> list[tuple[MoveRow, bool]]:
        """Each move as the cluster shows it now, and whether its request may be sent."""
        try:
            listing = self.live.groups({m.topic for m in moves})
            seen = read_back(self.live, {m.key: m.to_offset for m in moves}, self.topic_ids)
        except ClusterError as error:
            return [(replace(m, error=error.code, message=error.message), False) for m in moves]
        groups = {group.group_id: group for group in listing.groups}
        offsets = {(o.group_id, TopicPartition(o.topic, o.partition)): o for o in listing.offsets}
        return [
            self._judge(m, groups.get(m.group_id), offsets.get((m.group_id, m.key)), listing, seen)
            for m in moves
        ]

    def _judge(
        self,
        move: MoveRow,
        group: Group | None,
        offset: GroupOffset | None,
        listing: GroupListing,
        seen: Mapping[TopicPartition, Seen],
    ) -> tuple[MoveRow, bool]:
        unread = (group.error if group else None) or (offset.error if offset else None)
        if unread or listing.incomplete:
            said = "; ".join(listing.incomplete) or "the group's offset cannot be read"
            return replace(move, error=unread or "groups-incomplete", message=said), False
        found = judged(move, group, offset.committed_offset if offset else None)
        if found.state != "pending":
            return found, False
        leader = seen[move.key]
        if leader.leader_log_start_offset is None:
            return replace(found, error=leader.error, message="its leader cannot be read"), False
        if leader.leader_log_start_offset < move.to_offset:
            said = f"its leader starts at {leader.leader_log_start_offset}, below the target"
            return refused(found, "RECORDS_CAME_BACK", said), False
        if leader.leader_log_start_offset > move.to_offset:
            said = (
                f"its leader starts at {leader.leader_log_start_offset} by now, past the target: "
                f"moved there the group would not resume, but reset by its own policy"
            )
            return refused(found, "TARGET_BELOW_LOG_START", said), False
        return found, True

    def _send(self, ready: Sequence[MoveRow]) -> bool:
        """One request per group and batch; whether one left."""
        tried = max(move.attempts for move in ready)
        if tried:  # a coordinator that just refused needs a moment to settle
            self.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**tried))
        size = self.run.options.partitions_per_request
        left = False
        for group_id, found in groupby(ready, key=lambda move: move.group_id):
            members = list(found)
            for start in range(0, len(members), size):
                if self.hold():
                    return left
                left |= self._request(group_id, members[start : start + size])
        return left

    def _request(self, group_id: str, batch: Sequence[MoveRow]) -> bool:
        intended = [
            replace(m, state="unknown", attempts=m.attempts + 1, error=None, message=None)
            for m in batch
        ]
        run_id = self.run.run_id
        self.journal.record_moves(run_id, "move-intent", intended, self.now(), group_id=group_id)
        # Others may have held the journal for half a minute.
        if held := self.hold():
            rows = [replace(m, error=held, message=None) for m in batch]
            self.journal.record_moves(
                run_id, "move-not-sent", rows, self.now(), group_id=group_id, code=held
            )
            return False
        try:
            errors = self.live.commit_offsets(
                group_id, {m.key: m.to_offset for m in intended}, may_leave=lambda: not self.hold()
            )
        except ClusterError as error:
            left = error.code == _LOST
            rows = [
                replace(m, error=error.code, message=error.message)
                for m in (intended if left else batch)
            ]
            kind = "move-not-sent" if error.code == _CALLED_OFF else "move-no-answer"
            self.journal.record_moves(
                run_id, kind, rows, self.now(), group_id=group_id, code=error.code
            )
            return left
        rows = [answered(move, errors[move.key]) for move in intended]
        self.journal.record_moves(run_id, "move-answer", rows, self.now(), group_id=group_id)
        return True

    def _give_up(self) -> None:
        """What was never sent is refused with the last reason; what was sent stays unknown."""
        waiting = [move for move in self._open() if move.state == "pending"]
        after = [refused(m, m.error or "NOT_READ", m.message) for m in waiting]
        self._record("moves-refused", waiting, after)

    def _open(self) -> list[MoveRow]:
        return [move for move in self.journal.moves(self.run.run_id) if move.open]

    def _record(self, kind: str, before: Sequence[MoveRow], after: Sequence[MoveRow]) -> None:
        changed = [new for old, new in zip(before, after, strict=True) if new != old]
        if changed:
            self.journal.record_moves(self.run.run_id, kind, changed, self.now())
