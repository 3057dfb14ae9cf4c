"""What brokers do with a partition as time passes: fetch, leave and join the ISR, be elected.

A simulation spends half its time here, so what cannot change is not computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.records import Partition, Replica

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tests.simulation.world import World

LAG_OUT = 10.0  # replica.lag.time.max.ms


def elect_if_needed(world: World, part: Partition, joined: AbstractSet[int]) -> None:
    """Another leader, where the one that led is not registered any more."""
    brokers = world.brokers
    for b in part.by_id:
        if not brokers[b].registered and b in part.isr and len(part.isr) > 1:
            part.isr.discard(b)
    if part.leader is not None and brokers[part.leader].registered:
        return
    registered = {b for b in joined if brokers[b].registered}
    ready = [b for b in part.by_id if b in part.isr and b in registered]
    if ready:
        world.lead(part, ready[0])
        return
    stale = [b for b in part.by_id if b in registered]
    if world.unclean and stale:
        world.say(f"{part.key.topic}-{part.key.partition}: unclean election")
        part.isr = {stale[0]}
        world.lead(part, stale[0])
    elif part.leader is not None:
        world.lead(part, None)


def replicate(world: World, part: Partition, step: float, joined: AbstractSet[int]) -> None:
    """The leader takes records, its followers fetch, the high watermark follows."""
    leader = part.leader
    if leader is None or leader not in joined:
        return
    source = part.replicas[leader]
    if world.traffic and world.rng.random() < step:
        part.written.append((source.end, world.at))
        source.end += world.rng.randint(1, 20)
    for b in part.by_id:
        if b != leader and b in joined:
            _fetch(world, part, source, b)
    least = min([part.replicas[b].end for b in part.isr], default=source.end)
    part.high_watermark = min(max(part.high_watermark, least), source.end)
    if part.future is not None and world.rng.random() < step / 20:
        part.future = None  # the replica in the other log dir took over


def _fetch(world: World, part: Partition, source: Replica, follower: int) -> None:
    broker, replica = world.brokers[follower], part.replicas[follower]
    if broker.slow_until > world.at:
        if replica.behind_since is None:
            replica.behind_since = world.at
        if world.at - replica.behind_since > LAG_OUT and len(part.isr) > 1:
            part.isr.discard(follower)
    elif world.rng.random() >= 0.3:
        if replica.epochs != source.epochs:
            common = max((e for e, _ in replica.epochs), default=0)
            replica.truncate(min(replica.end, source.epoch_end(common)))
            replica.epochs = list(source.epochs)
        if replica.end < source.start:
            replica.start = source.start
        replica.end = source.end
        replica.start = max(replica.start, min(source.start, part.high_watermark))
        replica.behind_since = None
        if broker.registered:
            part.isr.add(follower)
