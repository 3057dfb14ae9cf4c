"""What brokers themselves see: whether a topic is the planned one, and in which leader epochs.

DeleteRecords and ListOffsets name topics, not ids, and metadata may come from a broker that is cut
off from the controllers and tells of a topic that was deleted and created again since. The leader
that is asked, or told, to do something is therefore asked for the id too, and so is each follower
whose log start is to prove something: their answers are about their own logs. One that is cut off
goes on leading in its old epoch: who leads by now is known to other brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dashboard.domain.model import NO_TOPIC, EpochEnd, TopicPartition, TopicState
from dashboard.history.epoch_ends import is_foreign
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import PlannedPartition

UNCERTAIN = "TOPIC_ID_UNCERTAIN"
Views = Mapping[int, Mapping[str, TopicState] | str]


def doubts(
    live: Cluster,
    replicas: Mapping[TopicPartition, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, dict[int, str]]:
    """Replicas whose broker knows another topic of that name, or does not answer: why.

    `replicas` are the ids of the brokers to ask, `topic_ids` the plan's.
    """
    return doubts_of(read_views(live, replicas), replicas, topic_ids)


def gone(
    live: Cluster, states: Mapping[str, TopicState], topic_ids: Mapping[str, str | None]
) -> set[str]:
    """Those of these topics that are none any more, or another one under their name.

    `states` are as any broker told them: one that is cut off since before a topic was made knows
    nothing of it. So a broker must say it that has read all that the controllers decided, or,
    where nobody speaks of that (ZooKeeper), every live one.
    """
    denied = {name for name, state in states.items() if _denies(state, topic_ids)}
    if not denied:
        return denied
    brokers = {*live.alive_brokers(), *live.alive_anywhere()}
    caught_up = live.caught_up(brokers)  # before their views: these are no older
    sure = {b for b in brokers if caught_up.get(b)}
    if not sure and any(caught_up.get(b) is not None for b in brokers):
        return set()
    views = live.topics_at(dict.fromkeys(sure or brokers, denied))
    found = [
        {name for name, state in view.items() if _denies(state, topic_ids)}
        for view in views.values()
        if not isinstance(view, str)
    ]
    if sure:
        return denied & set().union(*found)
    return denied.intersection(*found) if len(found) == len(brokers) else set()


def _denies(state: TopicState, topic_ids: Mapping[str, str | None]) -> bool:
    """Whether an answer says so: a topic that is hidden from us, or left out (by a proxy, say),
    tells nothing of its records, nor does a broker that knows no ids (before 2.8).
    """
    if state.error is not None:
        return state.error in NO_TOPIC
    ids = (state.topic_id, topic_ids.get(state.topic))
    return None not in ids and ids[0] != ids[1]


def read_views(live: Cluster, asked: Mapping[TopicPartition, Collection[int]]) -> Views:
    """How each of the brokers asked sees its partitions' topics; nobody is asked for none."""
    names: dict[int, set[str]] = defaultdict(set)
    for key, brokers in asked.items():
        for broker_id in brokers:
            names[broker_id].add(key.topic)
    return live.topics_at(names) if names else {}


def epochs_told(
    views: Views,
    asked: Mapping[TopicPartition, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, dict[int, int]]:
    """The leader epoch of each partition as the brokers know it that were asked, by broker."""
    found: dict[TopicPartition, dict[int, int]] = {key: {} for key in asked}
    for broker_id, view in views.items():
        for state in () if isinstance(view, str) else view.values():
            if state.topic_id != topic_ids.get(state.topic):
                continue
            for p in state.partitions:
                key = TopicPartition(state.topic, p.partition)
                if broker_id in asked.get(key, ()) and p.leader_epoch is not None:
                    found[key][broker_id] = p.leader_epoch
    return found


def doubts_of(
    views: Views,
    replicas: Mapping[TopicPartition, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, dict[int, str]]:
    """`doubts`, by what was told already."""
    found: dict[TopicPartition, dict[int, str]] = {}
    for key, brokers in replicas.items():
        for broker_id in brokers:
            why = _doubt(broker_id, key.topic, views.get(broker_id, "no answer"), topic_ids)
            if why:
                found.setdefault(key, {})[broker_id] = why
    return found


def _doubt(
    broker_id: int,
    topic: str,
    answer: Mapping[str, TopicState] | str,
    topic_ids: Mapping[str, str | None],
) -> str | None:
    if isinstance(answer, str):
        return f"broker {broker_id} does not say which topic {topic} it has: {answer}"
    state, planned = answer.get(topic), topic_ids.get(topic)
    known = state.topic_id if state else None
    if known != planned:
        return f"broker {broker_id} has topic {topic} with id {known}, the plan's has id {planned}"
    return None


# Whether a plan's offsets still mean the records that it was made for (KIP-101, KIP-320).


@dataclass(frozen=True, slots=True)
class Reused:
    """Partitions whose records may be others now, and why; and those that could not be asked:
    Kafka's error and the reason in words.
    """

    refused: dict[TopicPartition, str] = field(default_factory=dict)
    untold: dict[TopicPartition, tuple[str, str]] = field(default_factory=dict)


def offsets_reused(
    live: Cluster,
    planned: Mapping[TopicPartition, PlannedPartition],
    seen: Mapping[TopicPartition, PartitionFacts],
    *,
    whole: bool,
) -> Reused:
    """What became of the plan's offsets where another epoch is led by now.

    The log must be the same up to the target; `whole`: up to the high watermark that the plan saw,
    because the bytes that were counted among those that stay lie below it. Raises ClusterError.
    """
    found = Reused()
    epochs: dict[TopicPartition, int] = {}
    for key, now in seen.items():
        if (epoch := planned[key].leader_epoch) is not None:
            epochs |= {key: epoch} if epoch != now.leader_epoch else {}
        elif now.leader_epoch is not None:  # a plan of a broker that tells epochs has one
            found.refused[key] = (
                "the plan does not say in which leader epoch its offsets were read; plan again"
            )
    ends = live.epoch_ends(epochs) if epochs else {}
    for key, epoch in epochs.items():
        end = ends.get(key)
        if end is None or end.error:
            name = (end.error if end else None) or "EPOCH_NOT_READ"
            found.untold[key] = (name, f"the end of leader epoch {epoch} is not known")
        elif why := _why(end, epoch, planned[key], whole=whole):
            found.refused[key] = f"{why}; plan again"
    return found


def _why(end: EpochEnd, epoch: int, plan: PlannedPartition, *, whole: bool) -> str | None:
    target, high_watermark = plan.target_offset, plan.high_watermark
    ended = f"leader epoch {epoch} of the plan ended at {end.end_offset}, below"
    if end.end_offset is None or target is None or end.end_offset < target:
        return f"{ended} the target {target}: those offsets may mean other records now"
    if is_foreign(end, epoch, high_watermark or 0):
        return (
            f"the log has nothing of leader epoch {epoch} of the plan: before {end.end_offset} it "
            f"is of epoch {end.leader_epoch}, whose offsets may mean other records"
        )
    if whole and (high_watermark is None or end.end_offset < high_watermark):
        return f"{ended} {high_watermark}: what it lost counted among the bytes that stay"
    return None
