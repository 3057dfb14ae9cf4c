"""The demo's truth is consistent in itself: what is loaded, committed and expected."""

from __future__ import annotations

from collections import Counter

import pytest

from dashboard.demo import truth
from dashboard.demo.truth import KEEPS_UP, Batch, GroupTruth, TopicTruth

EVERY_TOPIC = pytest.mark.parametrize("topic", truth.TOPICS, ids=lambda topic: topic.name)


@EVERY_TOPIC
def test_the_load_holds_the_records_that_the_truth_counts(topic: TopicTruth) -> None:
    seen = Counter(partition for partition, _ in truth.first_load(topic))
    assert tuple(seen[p] for p in range(topic.partitions)) == truth.loaded_records(topic)
    assert sum(seen.values()) == sum(batch.records for batch in topic.load)


def test_heavy_partitions_are_loaded_all_along() -> None:
    skewed = TopicTruth("t", "", 2, (Batch(100, 10),), 1, weights=(90, 10))
    first_half = [partition for partition, _ in truth.first_load(skewed)][:50]
    assert Counter(first_half) == {0: 45, 1: 5}


def test_records_grow_from_batch_to_batch() -> None:
    growing = TopicTruth("t", "", 2, (Batch(4, 100), Batch(2, 1500)), 1)
    assert [size for _, size in truth.first_load(growing)] == [100] * 4 + [1500] * 2


def test_what_does_not_divide_evenly_is_not_lost() -> None:
    topic = TopicTruth("t", "", 3, (Batch(10, 1),), 1)
    assert truth.records_per_partition(topic, 10) == (4, 3, 3)


def test_a_share_is_committed_on_every_partition() -> None:
    group = GroupTruth("g", 0.4, 3)
    topic = TopicTruth("t", "", 2, (Batch(20, 1),), 1, groups=(group,))
    assert truth.committed_after_load(topic, group) == (4, 4)


def test_the_group_that_stays_behind_is_the_one_that_blocks() -> None:
    live, slow = GroupTruth("live", 1.0, KEEPS_UP), GroupTruth("slow", 0.5, 1)
    topic = TopicTruth("t", "", 1, (Batch(1, 1),), 1, groups=(live, slow))
    assert (topic.blocking_group, topic.expected) == ("slow", "held")


def test_groups_that_keep_up_block_nothing() -> None:
    topic = TopicTruth("t", "", 1, (Batch(1, 1),), 1, groups=(GroupTruth("g", 1.0, KEEPS_UP),))
    assert (topic.blocking_group, topic.expected) == (None, "consumed")


def test_a_topic_without_a_group_is_unknown_never_consumed() -> None:
    assert TopicTruth("t", "", 1, (Batch(1, 1),), 1).expected == "unknown"


def test_a_compacted_topic_is_refused_and_a_compacted_deletable_one_is_not() -> None:
    def topic(policy: str) -> TopicTruth:
        return TopicTruth("t", "", 1, (Batch(1, 1),), 1, config={"cleanup.policy": policy})

    assert topic("compact").expected == "refused"
    assert topic("compact,delete").deletable


def test_the_demo_shows_every_kind_of_answer_and_some_undeclared_topics() -> None:
    assert {t.expected for t in truth.TOPICS} == {"refused", "unknown", "held", "consumed"}
    undeclared = [t.name for t in truth.TOPICS if t.owner is None]
    assert undeclared == ["app-logs", "sensor-readings"]
