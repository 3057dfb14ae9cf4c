"""Which leader epochs lost records since groups, or the snapshot before, knew more of them.

A log that lost its end and has grown since looks whole by its offsets. Leaders are asked only of
epochs that are not their partitions' own: of most once, after an election.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.cluster.live import LiveCluster
from dashboard.core.errors import ClusterError, StoreError
from dashboard.domain.columns import Ints, LeaderOffsets, Placement, Sizes, ints, keys, positions
from dashboard.domain.model import GroupListing, TopicPartition, TopicState
from dashboard.estimate.curve_tables import integers
from dashboard.history.epoch_ends import CutEpoch, Leaders, Lost, read_lost
from dashboard.inventory.loading import Inventory
from dashboard.store.snapshots import ClusterStore

# Columns of offsets that are known: topic number of the placement, partition, leader epoch, offset.
_Known = tuple[Ints, Ints, Ints, Ints]
_EPOCH_BITS = 31
_PLACE = ["topic_no", "partition", "leader_epoch"]
_OWN_END = ["topic_no", "partition", "log_end_offset"]


class Asked(NamedTuple):
    """Each leader epoch that ended below an offset that was known of it, sorted; errors, counted;
    and the snapshot whose log ends were among those offsets (None: there is none).
    """

    cut: tuple[CutEpoch, ...]
    errors: Counter[str]
    of: str | None


class _Found(NamedTuple):
    """Of a `CutEpoch` what its leader answered."""

    end_offset: int | None = None
    of_this_log: bool = True
    floor_epoch: int | None = None


_Ends = dict[tuple[TopicPartition, int], _Found]


class _Before(NamedTuple):
    """What a snapshot knew: high watermarks, and of the same partitions the highest log end of any
    replica; the epochs that it found cut, and what leaders answered of those.
    """

    snapshot: str | None
    logs: _Known
    own_ends: Ints
    cut: _Known
    ends: _Ends


def epoch_ends(
    live: Leaders,
    cluster: ClusterStore,
    topics: Mapping[str, TopicState],
    placement: Placement,
    *,
    offsets: LeaderOffsets,
    groups: GroupListing,
) -> Asked:
    """Which leader epochs ended below an offset that was known of them.

    Offsets are known of groups' commits, of the ends of logs in the snapshot before, and of the
    epochs that it found cut: a replica that was gone may bring records back. What cannot be asked
    stays as it was known, and is asked next time; so does what lies past the end of the epoch that
    leads, whose own end is not there yet.
    """
    number = {name: at for at, name in enumerate(placement.names)}
    before = _before(cluster, topics, number)
    ends = before.ends
    parts = _committed(groups, number), _ended(before, placement), before.cut
    known, lowest = (
        _most(placement, most, offsets.high_watermark, *parts) for most in (np.maximum, np.minimum)
    )
    asked = _over(known, placement, offsets)
    try:
        lost = read_lost(live, asked, _disproving(dict(lowest.values()), ends))
        errors = lost.errors
    except ClusterError as error:
        lost, errors = Lost(), dict.fromkeys(asked, error.code)
    rows = [
        CutEpoch(*key, epoch, offset, **found._asdict())
        for key, epochs in known.values()
        for epoch, offset, found in _cut(
            key, epochs, lost, ends, asked={} if key in errors else asked.get(key, {})
        )
    ]
    return Asked(tuple(sorted(rows, key=_place)), Counter(errors.values()), before.snapshot)


def _ended(before: _Before, placement: Placement) -> _Known:
    """Where the logs of the snapshot before ended. Of an epoch that is over by now that is what any
    replica had of it: bytes that followers had not copied are in its size, too.
    """
    topic, partition, epoch, end = before.logs
    rows, there = positions(keys(topic, partition), keys(placement.topic, placement.partition))
    over = there & (placement.epoch[rows] != epoch) if len(placement.epoch) else there
    return topic, partition, epoch, np.where(over, np.maximum(end, before.own_ends), end)


def _cut(
    key: TopicPartition,
    epochs: Mapping[int, int],
    lost: Lost,
    before: _Ends,
    *,
    asked: Collection[int],
) -> Iterator[tuple[int, int, _Found]]:
    """Epochs of a partition that lost what was known of them, or may have: what was not `asked`."""
    ends = lost.ends.get(key, {}) if asked else {}
    for epoch in {*epochs, *ends}:
        offset = epochs.get(epoch, max(epochs.values()))
        if epoch in ends:
            foreign = (key, epoch) in lost.foreign
            floor = lost.foreign.get((key, epoch))
            yield epoch, offset, _Found(ends[epoch], not foreign, floor)
        elif epoch not in asked:
            yield epoch, offset, before.get((key, epoch), _Found())


def _over(
    known: Mapping[int, tuple[TopicPartition, dict[int, int]]],
    placement: Placement,
    offsets: LeaderOffsets,
) -> dict[TopicPartition, dict[int, int]]:
    """Those that are not their partition's own, of partitions whose end was read."""
    own = placement.epoch.tolist()
    asked = {
        key: {epoch: offset for epoch, offset in epochs.items() if epoch != own[row]}
        for row, (key, epochs) in known.items()
        if offsets.high_watermark[row] >= 0
    }
    return {key: epochs for key, epochs in asked.items() if epochs}


def _place(row: CutEpoch) -> tuple[str, int, int]:
    return row.topic, row.partition, row.leader_epoch


def _disproving(
    lowest: dict[TopicPartition, dict[int, int]], ends: _Ends
) -> dict[TopicPartition, dict[int, int]]:
    """An epoch that was foreign stays so, until the log has it, whoever's commit is gone since."""
    return {
        key: {
            e: 0 if ends.get((key, e), _Found())[:2] == (0, False) else o for e, o in epochs.items()
        }
        for key, epochs in lowest.items()
    }


def _most(
    placement: Placement, most: np.ufunc, end: Ints, *parts: _Known
) -> dict[int, tuple[TopicPartition, dict[int, int]]]:
    """Per row of the placement the highest, or lowest, offset known of each epoch that is not its
    own, or lies past its end; where that was not read, what the last of `parts` has stays.
    """
    topic, partition, epoch, offset = (np.concatenate(c) for c in zip(*parts, strict=True))
    rows, there = positions(keys(topic, partition), keys(placement.topic, placement.partition))
    there &= (topic >= 0) & (epoch >= 0) & (offset > 0)
    kept = (np.arange(len(topic)) >= len(topic) - len(parts[-1][0]))[there]
    row = rows[there]
    past = (offset[there] > end[row]) & ((end[row] >= 0) | kept)
    there[there] = (epoch[there] != placement.epoch[row]) | past
    pairs, of = np.unique(rows[there] << _EPOCH_BITS | epoch[there], return_inverse=True)
    offsets = np.zeros(len(pairs), dtype=np.int64)
    offsets[of] = offset[there]
    most.at(offsets, of, offset[there])
    found: dict[int, tuple[TopicPartition, dict[int, int]]] = {}
    for pair, found_of in zip(pairs.tolist(), offsets.tolist(), strict=True):
        row = pair >> _EPOCH_BITS
        name = placement.names[placement.topic[row]]
        key = TopicPartition(name, int(placement.partition[row]))
        found.setdefault(row, (key, {}))[1][pair & ((1 << _EPOCH_BITS) - 1)] = found_of
    return found


def _committed(groups: GroupListing, number: Mapping[str, int]) -> _Known:
    told = [o for o in groups.offsets if o.leader_epoch is not None and o.committed_offset]
    return (
        ints(number.get(o.topic, -1) for o in told),
        ints(o.partition for o in told),
        ints(-1 if o.leader_epoch is None else o.leader_epoch for o in told),
        ints(o.committed_offset or 0 for o in told),
    )


def _before(
    cluster: ClusterStore, topics: Mapping[str, TopicState], number: Mapping[str, int]
) -> _Before:
    """What the newest readable snapshot knows of topics that are still the same."""
    for snapshot in _newest_first(cluster):
        try:
            named = cluster.read("snapshots", snapshot, "topics", ["topic_no", "topic", "topic_id"])
            logs = cluster.read("snapshots", snapshot, "partitions", [*_PLACE, "high_watermark"])
            replicas = cluster.read("snapshots", snapshot, "replicas", _OWN_END)
            cut = cluster.read(
                "snapshots", snapshot, "epoch_ends", [*_PLACE, "known_offset", *_Found._fields]
            )
        except StoreError:  # damaged, or pruned meanwhile
            continue
        names = {row["topic_no"]: row["topic"] for row in named.to_pylist()}
        same = np.full(max(names, default=-1) + 1, -1, dtype=np.int64)
        for row in named.to_pylist():
            state = topics.get(row["topic"])
            if state is not None and state.topic_id == row["topic_id"]:
                same[row["topic_no"]] = number[row["topic"]]
        ends = {
            (TopicPartition(names[r["topic_no"]], r["partition"]), r["leader_epoch"]): _Found(
                r["end_offset"], r["of_this_log"] is not False, r["floor_epoch"]
            )
            for r in cut.to_pylist()
        }
        return _Before(
            snapshot,
            _of(logs, same, "high_watermark"),
            _highest(replicas, logs),
            _of(cut, same, "known_offset"),
            ends,
        )
    nothing = np.zeros(0, dtype=np.int64)
    none = (nothing, nothing, nothing, nothing)
    return _Before(None, none, nothing, none, {})


def _highest(replicas: pa.Table, logs: pa.Table) -> Ints:
    """Per row of `logs` the highest log end that a replica told of itself; -1: none did."""
    of_log, of_replica = (
        keys(*(integers(table[name], 0) for name in _PLACE[:2])) for table in (logs, replicas)
    )
    rows, there = positions(of_replica, of_log)
    found = np.full(len(of_log), -1, dtype=np.int64)
    np.maximum.at(found, rows[there], integers(replicas["log_end_offset"], -1)[there])
    return found


def _newest_first(cluster: ClusterStore) -> list[str]:
    try:
        return cluster.ids("snapshots")[::-1]
    except StoreError:  # who writes the snapshot says so, with the next step
        return []


def _of(table: pa.Table, same: Ints, offset: str) -> _Known:
    topic, partition, epoch = (integers(table[name], -1) for name in _PLACE)
    return same[topic] if len(same) else topic, partition, epoch, integers(table[offset], -1)


# Ends of logs that groups have passed meanwhile: read again, after the groups.
#
# All parts of a cluster are read side by side, and its groups go on: a commit may lie past an end
# that was read a moment before it. What still is past an end that was read after it tells nothing
# of what was read (`safety.standing`).


def later_ends(
    live: LiveCluster,
    topics: Mapping[str, TopicState],
    placement: Placement,
    offsets: LeaderOffsets,
    groups: GroupListing,
) -> LeaderOffsets:
    """`offsets` with the rows read again where a group committed past the end that they show.

    Raises ClusterError when nothing could be read.
    """
    number = {name: at for at, name in enumerate(placement.names)}
    topic = ints(number.get(o.topic, -1) for o in groups.offsets)
    partition = ints(o.partition for o in groups.offsets)
    committed = ints(
        -1 if o.committed_offset is None else o.committed_offset for o in groups.offsets
    )
    rows, there = positions(keys(topic, partition), keys(placement.topic, placement.partition))
    end = offsets.high_watermark[rows] if len(offsets.high_watermark) else committed
    late = np.unique(rows[there & (topic >= 0) & (end >= 0) & (committed > end)])
    if not len(late):
        return offsets
    place = [
        TopicPartition(placement.names[placement.topic[row]], int(placement.partition[row]))
        for row in late.tolist()
    ]
    again = live.offsets(place, topics)
    columns = {
        name: getattr(offsets, name).copy()
        for name in ("log_start", "last_stable", "high_watermark", "errors")
    }
    for row, key in zip(late.tolist(), place, strict=True):
        seen = again[key]
        values = (seen.log_start_offset, seen.last_stable_offset, seen.high_watermark)
        for name, value in zip(("log_start", "last_stable", "high_watermark"), values, strict=True):
            columns[name][row] = -1 if value is None else value
        columns["errors"][row] = seen.error
    return replace(offsets, **columns)


# Which topic names that disks and brokers show the cluster will not call absent.
#
# The metadata of all topics leaves out, without a word, those that we may not describe: to us their
# folders would look deleted. Asked by name, the cluster says whether a topic is not there or
# hidden.

# What only a topic that is not there is answered with; the second one by names Kafka cannot have.
_ABSENT = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
_NAMES_PER_REQUEST = 5000


class AsksTopics(Protocol):
    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...


def doubtful_topics(
    live: AsksTopics,
    listed: Mapping[str, TopicState],
    sizes: Sizes,
    inventories: Sequence[Inventory],
) -> list[str]:
    """Names that log dirs show, the metadata `listed` does not, and the cluster does not deny.

    A topic that we may not describe (TOPIC_AUTHORIZATION_FAILED), that came meanwhile, or that
    could not be asked for. Sorted.
    """
    shown = {name for broker in sizes.brokers.values() for name in broker.names}
    for inventory in inventories:
        for table in inventory.tables.values():
            shown.update(pc.unique(table["topic"]).to_pylist())
    unknown = sorted(shown - listed.keys())
    doubtful: list[str] = []
    for start in range(0, len(unknown), _NAMES_PER_REQUEST):
        names = unknown[start : start + _NAMES_PER_REQUEST]
        try:
            answer = live.topics(names)
        except ClusterError:
            doubtful += names
            continue
        doubtful += [n for n in names if n not in answer or answer[n].error not in _ABSENT]
    return doubtful
