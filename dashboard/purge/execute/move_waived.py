"""Moves the offsets of waived, dead groups to the targets, once the records below are gone.

Each round reads before it sends: the group's offset and members, and the partition's leader. So a
worker that follows a dead one neither skips a move nor repeats one that was made. Kafka commits
under a topic's name, and on no condition but that the group has no members: so a look counts for
as long as it does for DeleteRecords, and a move is proved only where the planned topic was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard.core.clock import Stopwatch
from dashboard.core.errors import ANSWER_LOST, NOT_SENT, ClusterError
from dashboard.domain.model import Group, GroupListing, GroupOffset, TopicPartition
from dashboard.purge.execute.fresh import OUTDATED, Fresh
from dashboard.purge.execute.readback import GONE, Seen, read_back
from dashboard.purge.execute.stop_rules import PAUSED
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.moves import MoveRow, answered, judged, refused

_PROVEN = ("done", "leader_done")
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.3, 2.0
_MOST_LOOKS_AGAIN = 3  # in one round, for one request


@dataclass
class Mover:
    """The moves of one run. `hold` gives PAUSED, or the name of what ends all that is not sent.

    `topic_ids` are the plan's, by topic.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    topic_ids: Mapping[str, str | None]
    watch: Stopwatch
    sleep: Callable[[float], None]
    hold: Callable[[], str | None]

    def finish(self) -> None:
        """Work until no move is open, or nothing could be read for the run's timeout.

        Partition states never change here. Raises JournalError: then nothing more is sent.
        """
        patience = timedelta(milliseconds=self.run.options.timeout_ms)
        moved_at = self.watch.mark()
        while self._open():
            held = self.hold()
            if held == PAUSED:
                moved_at = self.watch.mark()  # a pause is nobody's fault
            elif self._round(held):
                moved_at = self.watch.mark()
                continue
            elif self.watch.since(moved_at) >= patience:
                self._give_up()
                return
            self.sleep(_PAUSE_SECONDS)

    def _round(self, held: str | None) -> bool:
        """One pass over the open moves; whether anything came further."""
        came_further = self._refuse_what_may_not_go(held)
        waiting = self._open()
        if not waiting:
            return came_further
        ready, look, changed = self._look(waiting)
        sent = self._send(ready, look) if ready and not held else False
        return sent or changed or came_further

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

    def _look(self, waiting: Sequence[MoveRow]) -> tuple[list[MoveRow], Fresh, bool]:
        """What may be sent of these as they are now, how long that counts, and whether any changed
        its state.
        """
        began = self.watch.mark()
        read = self._read(waiting)
        look = Fresh.now_ready(self.watch, began)  # before the journal, which may wait
        after = [found for found, _ in read]
        self._record("moves-read", waiting, after)
        changed = any(a.state != b.state for a, b in zip(after, waiting, strict=True))
        return [found for found, may_go in read if may_go], look, changed

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
        committed = offset.committed_offset if offset else None
        found, leader = judged(move, group, committed), seen[move.key]
        if leader.leader_log_start_offset is None:
            return _of_unread_topic(move, found, leader.error, committed), False
        if found.state != "pending":
            return found, False
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

    def _send(self, ready: Sequence[MoveRow], look: Fresh) -> bool:
        """One request per group and batch; whether one left, or any changed its state.

        Each leaves on a look that counts: the journal and slow coordinators take their time, then
        all that is left is read and judged again.
        """
        tried = max(move.attempts for move in ready)
        if tried:  # a coordinator that just refused needs a moment to settle
            self.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**tried))
        size = self.run.options.partitions_per_request
        rest, again, came_further = list(ready), 0, False
        while rest and not self.hold():
            if not look.over:
                batch = [move for move in rest[:size] if move.group_id == rest[0].group_id]
                why = self._request(batch, look)
                if why != OUTDATED:
                    rest, again, came_further = rest[len(batch) :], 0, came_further or why is None
            elif again < _MOST_LOOKS_AGAIN:
                rest, look, changed = self._look(rest)
                again, came_further = again + 1, came_further or changed
            else:
                late = [replace(m, error=OUTDATED, message=look.outdated) for m in rest]
                self._record("move-not-sent", rest, late)
                break
        return came_further

    def _request(self, batch: Sequence[MoveRow], look: Fresh) -> str | None:
        """Why no request left for this group; None: it did."""
        group_id, run_id = batch[0].group_id, self.run.run_id
        intended = [
            replace(m, state="unknown", attempts=m.attempts + 1, error=None, message=None)
            for m in batch
        ]

        def record(kind: str, rows: Sequence[MoveRow], **details: str) -> None:
            now = self.watch.now()
            self.journal.record_moves(run_id, kind, rows, now, group_id=group_id, **details)

        def stays(why: str) -> str:
            said = look.outdated if why == OUTDATED else None
            rows = [replace(m, error=why, message=said) for m in batch]
            record("move-not-sent", rows, code=why)
            return why

        record("move-intent", intended)
        # Others may have held the journal for half a minute.
        if why := self._stops(look):
            return stays(why)

        def may_leave() -> bool:
            """Asked anew once the connection stands: the coordinator was found, TLS, signing in."""
            nonlocal why
            why = self._stops(look)
            return why is None

        try:
            offsets = {m.key: m.to_offset for m in intended}
            errors = self.live.commit_offsets(group_id, offsets, may_leave=may_leave)
        except ClusterError as error:
            if error.code == NOT_SENT:
                return stays(why or NOT_SENT)
            left = error.code == ANSWER_LOST
            told = intended if left else batch
            rows = [replace(m, error=error.code, message=error.message) for m in told]
            record("move-no-answer", rows, code=error.code)
            return None if left else error.code
        record("move-answer", [answered(move, errors[move.key]) for move in intended])
        return None

    def _stops(self, look: Fresh) -> str | None:
        """Why no request may leave now. `hold` comes first: it may take time."""
        return self.hold() or (OUTDATED if look.over else None)

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
            self.journal.record_moves(self.run.run_id, kind, changed, self.watch.now())


def _of_unread_topic(
    move: MoveRow, found: MoveRow, error: str | None, committed_offset: int | None
) -> MoveRow:
    """The move where nobody who leads the planned topic was read.

    An offset bears a topic's name: it may be of another topic that was made under it since. What
    was sent stays unknown then, whatever is read.
    """
    if move.state == "pending":
        if error == GONE:
            return refused(move, GONE, f"topic {move.topic} is not the planned one any more")
        if found.state == "refused":
            return found
    said = "its leader cannot be read"
    if error == GONE:
        stands = "holds no offset" if committed_offset is None else f"stands at {committed_offset}"
        said = (
            f"topic {move.topic} is not the planned one any more, so nobody can tell where the "
            f"request moved the group; under that name it {stands}, and may skip what is below"
        )
    return replace(move, error=error, message=said)
