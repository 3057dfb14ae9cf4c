"""Which broker coordinates which groups: as the controllers have it, and as each believes.

A coordinator that is cut off still lists the groups that it had, as they were; commits do not reach
it any more. Its successor knows them as they are, once it has read them: before it begins to, and
after it failed to, it lists nothing of them and calls that no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.cluster.group_members import partition_of
from tests.simulation.joining import Told

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tests.simulation.records import Broker
    from tests.simulation.world import World

PARTITIONS = 3  # of __consumer_offsets, each on every broker
_BEGINS, _LOADS = 0.5, 1.0  # until a new coordinator begins to read its partition, and has read it
_BACK_AFTER = 3.0  # until a partition that moved returns: listing is tried anew within 2 s
IDLE, LOADING, ACTIVE = "idle", "loading", "active"


def of_group(group_id: str) -> int:
    """The partition of the offsets topic that holds a group."""
    return partition_of(group_id, PARTITIONS)


def coordinate(world: World, joined: AbstractSet[int]) -> None:
    """Another coordinator where the one before is not registered any more."""
    for number, leader in world.coordinators.items():
        if leader is None or not world.brokers[leader].registered:
            resign(world, number, joined)


def resign(world: World, number: int, joined: AbstractSet[int]) -> None:
    """The next broker that is there takes the partition over, and loads it."""
    ids, before = sorted(world.brokers), world.coordinators[number]
    first = ids.index(before) + 1 if before is not None else number
    order = [ids[(first + i) % len(ids)] for i in range(len(ids))]
    leader = next((b for b in order if b in joined and world.brokers[b].registered), None)
    if leader is None and before is None:
        return
    led_by(world, number, leader, joined)
    if leader is not None:
        world.loaded_at[number] = world.at + _LOADS
        world.say(f"broker {leader} coordinates the groups of partition {number}")


def led_by(world: World, number: int, leader: int | None, joined: AbstractSet[int]) -> None:
    """A new epoch, in which this broker leads the partition, or none does."""
    before = world.coordinators[number]
    world.coordinators[number] = leader
    world.coordinator_epochs[number] += 1
    world.unloadable.discard(number)
    if before is not None and before in joined:
        world.brokers[before].coordinates.discard(number)
    if leader is not None:
        world.brokers[leader].coordinates.add(number)


def fail_to_load(world: World, number: int, seconds: float) -> None:
    """Another broker leads the partition and cannot read it, until one is elected anew."""
    joined = {b for b in world.brokers if world.joined(b)}
    resign(world, number, joined)
    world.unloadable.add(number)
    world.say(f"broker {world.coordinators[number]} fails to load partition {number}")
    epoch = world.coordinator_epochs[number]

    def again() -> None:
        if world.coordinator_epochs[number] == epoch:
            resign(world, number, {b for b in world.brokers if world.joined(b)})

    world.later(seconds, again)


def looked_at(world: World, broker_id: int) -> None:
    """A broker has just told all that a listing asks of it; a partition may come to it now."""
    number = world.moves_when_looked_at
    leader = world.coordinators[number] if number is not None else None
    if number is None or leader is None or leader <= broker_id or not world.joined(broker_id):
        return  # who is looked at later must have it until then
    world.moves_when_looked_at = None
    _handed_over(world, number, broker_id)
    world.say(f"partition {number} moves from broker {leader} to {broker_id} between their looks")
    world.later(_BACK_AFTER, lambda: _moved_back(world, number, leader))


def _moved_back(world: World, number: int, broker_id: int) -> None:
    """Its preferred leader has it again; the next listing may be as unlucky."""
    if world.coordinators[number] is not None and world.joined(broker_id):
        _handed_over(world, number, broker_id)
        world.moves_when_looked_at = number


def _handed_over(world: World, number: int, broker_id: int) -> None:
    led_by(world, number, broker_id, {b for b in world.brokers if world.joined(b)})
    world.loaded_at[number] = world.at


def freeze(world: World, broker: Broker) -> None:
    """What a broker that loses its controllers has of its groups stays as it is now."""
    broker.groups_then = {
        g: world.told(g) for g in world.groups if of_group(g) in broker.coordinates
    }


def listed_by(world: World, broker_id: int) -> dict[str, Told]:
    """Every group that this broker believes to coordinate, as it knows it."""
    broker = world.brokers[broker_id]
    found = {}
    for group_id in sorted({*world.groups, *(broker.groups_then or ())}):
        number = of_group(group_id)
        if number not in broker.coordinates or stage(world, broker_id, number) != ACTIVE:
            continue
        is_leader = world.coordinators[number] == broker_id and world.joined(broker_id)
        if broker.groups_then is None or is_leader:
            if group_id in world.groups:
                found[group_id] = world.told(group_id)
        elif group_id in broker.groups_then:
            found[group_id] = broker.groups_then[group_id]
    return found


def stage(world: World, broker_id: int, number: int) -> str:
    """How far it is with a partition that it believes to lead. The one before it had read it."""
    if world.coordinators[number] != broker_id:
        return ACTIVE
    left = world.loaded_at[number] - world.at
    if number in world.unloadable or left > _LOADS - _BEGINS:
        return IDLE
    return LOADING if left > 0 else ACTIVE
