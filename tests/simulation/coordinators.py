"""Which broker coordinates which groups: as the controllers have it, and as each believes.

A coordinator that is cut off still lists the groups that it had, as they were; commits do not reach
it any more. Its successor knows them as they are.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tests.simulation.joining import Told

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tests.simulation.records import Broker
    from tests.simulation.world import World

PARTITIONS = 3  # of __consumer_offsets, each on every broker
_LOADS = 1.0  # until a new coordinator has read its partition


def of_group(group_id: str) -> int:
    """The partition of the offsets topic that holds a group."""
    return zlib.crc32(group_id.encode()) % PARTITIONS


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
    world.coordinators[number] = leader
    world.coordinator_epochs[number] += 1
    if before is not None and before in joined:
        world.brokers[before].coordinates.discard(number)
    if leader is not None:
        world.brokers[leader].coordinates.add(number)
        world.loaded_at[number] = world.at + _LOADS
        world.say(f"broker {leader} coordinates the groups of partition {number}")


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
        if number not in broker.coordinates or loads(world, broker_id, number):
            continue
        is_leader = world.coordinators[number] == broker_id and world.joined(broker_id)
        if broker.groups_then is None or is_leader:
            if group_id in world.groups:
                found[group_id] = world.told(group_id)
        elif group_id in broker.groups_then:
            found[group_id] = broker.groups_then[group_id]
    return found


def loads(world: World, broker_id: int, number: int) -> bool:
    """Whether it has taken the partition over and not read it yet."""
    return world.coordinators[number] == broker_id and world.loaded_at[number] > world.at
