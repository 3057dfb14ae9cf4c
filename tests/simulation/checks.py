"""What must hold of every story: no wanted record gone, no untruth, no second purge, an end.

Claims in the journal are held against the model's own history. Reads take time, so a claim is true
if it was at some moment of its reading; what stands at the end, long after the last fault, must
be true of the cluster as it then is.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

from dashboard.core.clock import parse_time
from dashboard.domain.model import TopicPartition
from dashboard.purge.execute.states import NOTHING_MOVED
from dashboard.purge.journal.rows import CLOSED_STATES, PartitionRow
from tests.simulation.reads import BROKER_TIMEOUT
from tests.simulation.records import Partition
from tests.simulation.scenario import Story
from tests.simulation.seam import Applied
from tests.simulation.truth import Truth
from tests.simulation.world import BEGAN, LEARN

# From reading offsets and groups until the request leaves: what changed in between nobody can see.
# No look counts for longer, however slow its reads and the journal are.
RACE = 30.0
# One round of reads beside brokers that hang.
READING = 6 * BROKER_TIMEOUT
AT_ONCE = 0.1  # what is read in one call
JUST_NOW = 8.0  # less than an answer is waited for


def problems(story: Story) -> list[str]:
    """Every promise that this story breaks, in words; [] is a good story."""
    return [*_found(story)]


def _found(story: Story) -> Iterator[str]:
    if story.problem:
        yield story.problem
    if not story.named:
        yield "the journal was put back from an earlier copy, and calls itself whole"
    if not story.chain_ok:
        yield "the journal's chain does not verify"
    if story.cluster.sent and story.world.host_ahead:
        yield f"this host's clock is {story.world.host_ahead:g} s ahead, and something was sent"
    for sent in story.cluster.sent:
        yield from _sent(story, sent.key, sent.target)
    for applied in story.cluster.applied:
        yield from _wanted(story, applied)
        yield from _remembered(story, applied)
        yield from _came_by(story, applied)
        yield from _forgotten(story, applied)
        yield from _replayed(story, applied)
        yield from _same_records(story, applied)
        yield from _kept(story, applied)
    yield from _obeyed(story)
    yield from _purged_once(story)
    yield from _canary_first(story)
    if story.run is not None:
        if story.run.run.open:
            yield f"the run ended {story.run.run.state}"
        for row in story.run.partitions:
            if row.state in ("pending", "sent"):
                yield f"{_name(row.key)} is {row.state} in a run that was closed"
            yield from _end(story, row)
        yield from _claims(story)


def _sent(story: Story, key: TopicPartition, target: int) -> Iterator[str]:
    assert story.plan is not None
    planned = {p.key: p.target_offset for p in story.plan.free_partitions}
    if target < 0:
        yield f"{target} was sent for {_name(key)}"
    elif key not in planned:
        yield f"{_name(key)} was sent, which the plan does not free"
    elif target != planned[key]:
        yield f"{target} was sent for {_name(key)}, planned was {planned[key]}"


def _wanted(story: Story, done: Applied) -> Iterator[str]:
    """No reader's record goes: of the plan's groups, nor of those there were before sending.

    What a reader wants is what it had not read when the groups were listed for the last time, and
    has not read since: what it did in between nobody can see.
    """
    assert story.plan is not None
    key, target, listed = done.sent.key, done.sent.target, done.sent.listed
    accepted = _accepted(story, key)
    for group, offset in _claimed(story, key).items():
        if group not in accepted and offset < target:
            yield f"{_name(key)}: group {group} was planned at {offset}, below {target}"
    then, now = _readers(done, listed.truth), _readers(done, done.truth)
    for group in sorted(then.keys() & now.keys()):
        unread = max(then[group], now[group])
        if unread >= target:
            continue
        lives = {group} <= listed.truth.alive & done.truth.alive - story.plan_truth.alive
        if group not in accepted:
            yield f"{_name(key)}: group {group} has read up to {unread}, below {target}"
        elif group in story.plan.waived_groups and lives:
            yield f"{_name(key)}: group {group}, which was waived, lives, and has read to {unread}"
        elif max(unread, done.before) < accepted[group]:
            yield (
                f"{_name(key)}: group {group} was accepted to lose what follows "
                f"{accepted[group]}, and loses what follows {max(unread, done.before)}"
            )
    if not listed.complete:
        yield f"{_name(key)} was sent although the list of groups was incomplete"
    if done.sent.at - listed.at > RACE:
        age = done.sent.at - listed.at
        yield f"{_name(key)} was sent {age:.0f} s after the groups were last listed"


def _readers(done: Applied, truth: Truth) -> dict[str, int]:
    """Groups that read the partition, by the first offset that they have not read.

    A broker that no longer leads has a log of its own: there what they committed is compared. Of a
    topic that was deleted nobody wants anything, and what is committed since is of the new one.
    """
    key = done.sent.key
    readers = {} if done.gone else truth.readers(key)
    if done.led:
        return readers
    return {g: max(read, truth.committed.get(g, {}).get(key, 0)) for g, read in readers.items()}


def _claimed(story: Story, key: TopicPartition) -> dict[str, int]:
    """Where the plan shows each group on a partition."""
    assert story.plan is not None
    planned = [p for p in story.plan.partitions if p.key == key]
    return {
        c.group_id: c.committed_offset
        for p in planned
        for c in p.groups
        if c.committed_offset is not None
    }


def _accepted(story: Story, key: TopicPartition) -> dict[str, int]:
    """Groups whose loss the plan accepts by name, by the first offset that it shows as lost.

    Nothing goes from below the log start that it shows. Where it shows no offset that can be of
    this log, the loss of everything else was accepted.
    """
    assert story.plan is not None
    planned = next(p for p in story.plan.partitions if p.key == key)
    claimed = _claimed(story, key)
    lifted = {found.group_id for found in planned.lifted if found.name == "unread-by-group"}
    names = {*story.plan.waived_groups, *(name for name in lifted if name is not None)}
    start, end = planned.log_start_offset or 0, planned.high_watermark or 0
    has_read = {name: by.get(key) for name, by in story.plan_truth.has_read.items()}
    # An offset of which something was lost before the plan tells no more than one past the end.
    offsets = {
        name: 0 if (read := has_read.get(name)) is not None and read < offset <= end else offset
        for name in names
        for offset in (claimed.get(name, 0),)
    }
    return {name: start if offset > end else max(start, offset) for name, offset in offsets.items()}


def _remembered(story: Story, done: Applied) -> Iterator[str]:
    """A group that snapshots alone know has read what it committed there, on this very topic."""
    assert story.plan is not None
    committed = done.sent.listed.truth.committed
    for kept in story.remembered:
        lives = done.sent.key in committed.get(kept.group_id, {})
        alive = lives or kept.group_id in story.plan.waived_groups
        if TopicPartition(kept.topic, kept.partition) != done.sent.key or alive:
            continue
        place = f"{_name(done.sent.key)}: group {kept.group_id}"
        if kept.topic_id != story.plan.topic_ids[kept.topic]:
            yield f"{place} is known of an earlier topic alone, and may read this one"
        elif kept.committed_offset is not None and kept.committed_offset < done.sent.target:
            yield f"{place} was last seen at {kept.committed_offset}, below {done.sent.target}"


def _came_by(story: Story, done: Applied) -> Iterator[str]:
    """A waived group that a snapshot met since the plan is a reader as every other one."""
    assert story.plan is not None
    key, target, listed = done.sent.key, done.sent.target, done.sent.listed
    read = _readers(done, listed.truth)
    for (group_id, topic), at in story.world.met.items():
        before = at / 1e6 < BEGAN.timestamp() + listed.at
        waived = group_id in story.plan.waived_groups
        if topic == key.topic and waived and before and read.get(group_id, 0) < target:
            yield f"{_name(key)}: group {group_id}, which was waived, came by since the plan"


def _forgotten(story: Story, done: Applied) -> Iterator[str]:
    """A group that nobody knows any more, since nobody collected, has not read it all the same."""
    at = story.world.forgotten.get(done.sent.key, done.sent.target)
    if at < done.sent.target and not done.gone:
        yield f"{_name(done.sent.key)}: a group that nobody remembers has read up to {at} alone"


def _replayed(story: Story, done: Applied) -> Iterator[str]:
    """Records that were written within the replay window stay, whatever clocks and records say."""
    if story.world.window and done.led and not done.gone and done.young < done.sent.target:
        yield f"{_name(done.sent.key)}: {done.young} and what follows is inside the replay window"


def _kept(story: Story, done: Applied) -> Iterator[str]:
    """As much stays as was asked for; of what an election lost just now nobody can know."""
    left = done.end - done.sent.target
    if not story.keeps or not done.led or done.before >= done.sent.target or left >= story.keeps:
        return
    since = next(m.at for m in _partition(story, done).moments if m.epoch == done.epoch)
    if done.sent.at - since > RACE + LEARN:
        yield f"{_name(done.sent.key)}: {left} records stay where {story.keeps} should"


def _same_records(story: Story, done: Applied) -> Iterator[str]:
    """What was truncated is what was planned: the topic, and the records at those offsets.

    A change within RACE before sending is beyond any client: the request names neither topic id
    nor epoch. So is what a broker tells that is cut off and does not know it.
    """
    assert story.plan is not None
    planned = next(p for p in story.plan.partitions if p.key == done.sent.key)
    part = _partition(story, done)
    if done.topic_id != planned.topic_id:
        born = part.moments[0].at
        if done.sent.at - born > RACE + LEARN:
            yield f"{_name(done.sent.key)} is another topic since {born:.0f} s, and was purged"
        return
    if not done.led or planned.leader_epoch is None or done.before >= done.sent.target:
        return
    later = [(e, first) for e, first in done.epochs if e > planned.leader_epoch]
    if later and later[0][1] < done.sent.target:
        since = next((m.at for m in part.moments if m.epoch >= later[0][0]), 0.0)
        if done.sent.at - since > RACE + LEARN:
            yield f"{_name(done.sent.key)}: offsets from {later[0][1]} on were written anew"


def _obeyed(story: Story) -> Iterator[str]:
    """What was cancelled is not sent any more, nor what waited past the life of its plan."""
    assert story.plan is not None
    expires = (story.plan.expires_at - BEGAN).total_seconds()
    for sent in story.cluster.sent:
        if story.cancelled_at is not None and sent.at > story.cancelled_at:
            late = sent.at - story.cancelled_at
            yield f"{_name(sent.key)} was sent {late:.0f} s after the run was cancelled"
        if sent.at > expires:
            yield f"{_name(sent.key)} was sent {sent.at - expires:.0f} s after its plan had expired"


def _purged_once(story: Story) -> Iterator[str]:
    """Nothing leaves for a partition that is closed, nor before its intent is in the journal."""
    closed: dict[TopicPartition, str] = {}
    intents: dict[TopicPartition, int] = {}
    for entry in story.entries:
        for body in entry.body.get("partitions", ()):
            if not isinstance(body, dict):
                continue
            key = TopicPartition(body["topic"], body["partition"])
            if entry.kind == "intent":
                intents[key] = intents.get(key, 0) + 1
                if key in closed:
                    yield f"{_name(key)} was sent again after it was {closed[key]}"
            if body["state"] in CLOSED_STATES:
                closed[key] = body["state"]
    sent: dict[TopicPartition, int] = {}
    for one in story.cluster.sent:
        sent[one.key] = sent.get(one.key, 0) + 1
    for key, count in sent.items():
        if count > intents.get(key, 0):
            yield f"{_name(key)} was sent {count} times, intended {intents.get(key, 0)} times"


def _canary_first(story: Story) -> Iterator[str]:
    """Nothing follows a canary that is not as it should be, also after a worker's death."""
    if story.run is None or not story.run.run.options.canary:
        return
    good = ("done",) if story.run.run.mode == "wait-all" else ("done", "leader_done")
    sent: dict[TopicPartition, str] = {}  # what was ever sent -> its state
    for entry in story.entries:
        rows = [body for body in entry.body.get("partitions", ()) if isinstance(body, dict)]
        if entry.kind == "intent" and not sent and len(rows) > 1:
            yield f"{len(rows)} partitions were the canary"
        intended = {TopicPartition(b["topic"], b["partition"]) for b in rows}
        if entry.kind == "intent" and len(sent) == 1 and not set(sent.values()) <= {*good}:
            ((canary, state),) = sent.items()
            if intended == {canary}:  # itself once more: nothing of it took effect
                sent[canary] = "sent"
                continue
            yield f"the canary {_name(canary)} was {state}, and more was sent"
        for body in rows:
            key = TopicPartition(body["topic"], body["partition"])
            if body["sent_at"] is None:
                sent.pop(key, None)
            else:
                sent[key] = body["state"]


def _end(story: Story, row: PartitionRow) -> Iterator[str]:
    """The state at the end is that of the cluster, which has been healthy for long."""
    part = story.world.parts.get(row.key)
    assert story.plan is not None and story.run is not None
    planned = next(p for p in story.plan.partitions if p.key == row.key)
    if part is None or part.topic_id != planned.topic_id:
        return  # of a topic that is gone nothing can be claimed or checked
    if not any(r.was_sent for r in story.run.partitions):
        return  # nothing was sent, so nobody watched on
    starts = [r.start for r in part.replicas.values()]
    leader = part.replicas[part.leader].start if part.leader is not None else None
    name, target = _name(row.key), row.target_offset
    if row.state == "done" and min(starts) < target:
        yield f"{name} is done, but a replica starts at {min(starts)}, below {target}"
    elif row.state == "leader_done" and (leader is None or leader < target):
        yield f"{name} is leader_done, but its leader starts at {leader}, below {target}"
    elif row.state == "not_done" and leader is not None and leader >= target > 0:
        ours = [a for a in story.cluster.applied if a.sent.key == row.key and a.before < target]
        if ours and not _retained(story, part, target):
            yield f"{name} is not_done, but our request moved it to {leader}"
    elif row.state == "unknown":
        yield f"{name} is still unknown"


def _claims(story: Story) -> Iterator[str]:
    """Each closed state in the chain was true at some moment while it was read."""
    for entry in story.entries:
        until = (parse_time(entry.at) - BEGAN).total_seconds()
        for body in entry.body.get("partitions", ()):
            if isinstance(body, dict) and body["state"] == "not_done":
                yield from _not_done(story, body, until)
            if isinstance(body, dict) and body["state"] in ("done", "leader_done", "reverted"):
                key = TopicPartition(body["topic"], body["partition"])
                part = _of_plan(story, key)
                if part is not None and not _held(
                    story, part, body["state"], body["target_offset"], until
                ):
                    yield f"{_name(key)} was called {body['state']} at {until:.0f} s, and was not"


def _not_done(story: Story, body: dict[str, Any], until: float) -> Iterator[str]:
    """What was sent, and no answer refused, is `not_done` only while its leader is below."""
    key = TopicPartition(body["topic"], body["partition"])
    part, target = _of_plan(story, key), body["target_offset"]
    if part not in story.world.parts.values():  # deleted meanwhile: nothing is left to compare
        return
    refused = body["attempts"] == 1 and body["answer_error_code"] in NOTHING_MOVED
    if not body["attempts"] or refused:
        return
    moments = [m for m in part.during(until - JUST_NOW, until + 0.01) if m.leader is not None]
    passed = moments and all(m.starts[m.leader] >= target for m in moments if m.leader is not None)
    if passed and not _retained(story, part, target):
        yield f"{_name(key)} was called not_done at {until:.0f} s, when its leader was past it"


def _held(story: Story, part: Partition, state: str, target: int, until: float) -> bool:
    moments = list(part.during(_read_at(story, until), until + 0.01))
    if state == "reverted":
        return any(m.starts[m.leader] < target for m in moments if m.leader is not None)
    # While nobody leads, it holds whoever leads next: a lone replica was cut off, say.
    if not any(
        (m.starts[m.leader] if m.leader is not None else min(m.starts.values())) >= target
        for m in moments
    ):
        return False
    if state == "leader_done":
        return True
    # `done`: every replica that some metadata called alive.
    dead = {b for b, broker in story.world.brokers.items() if not broker.registered}
    return all(
        any(m.starts[b] >= target for m in moments) or b in dead or _was_out(story, b)
        for b in part.replicas
    )


def _read_at(story: Story, until: float) -> float:
    """When the leaders were asked on whose answers something rests that was said then."""
    asked = bisect.bisect_right(story.world.read_at, until)
    return story.world.read_at[asked - 1] - AT_ONCE if asked else until - READING


def _was_out(story: Story, broker_id: int) -> bool:
    return any(f"broker {broker_id} leaves the metadata" in line for line in story.world.trace)


def _retained(story: Story, part: Partition, target: int) -> bool:
    """Whether retention alone can have moved the log start past the target."""
    name = f"retention moves {part.key.topic}-{part.key.partition} to "
    moved = [int(line.rpartition(" ")[2]) for line in story.world.trace if name in line]
    return any(start >= target for start in moved)


def _partition(story: Story, done: Applied) -> Partition:
    every = [*story.world.parts.values(), *story.world.gone]
    return next(p for p in every if p.key == done.sent.key and p.topic_id == done.topic_id)


def _of_plan(story: Story, key: TopicPartition) -> Partition | None:
    assert story.plan is not None
    planned = next(p for p in story.plan.partitions if p.key == key)
    every = [*story.world.parts.values(), *story.world.gone]
    return next((p for p in every if p.key == key and p.topic_id == planned.topic_id), None)


def _name(key: TopicPartition) -> str:
    return f"{key.topic}-{key.partition}"
