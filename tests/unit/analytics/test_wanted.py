"""Who may still want an idle topic's records: an analysis finds it, and no line is given."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.core.arrow import records
from dashboard.settings.settings import TopicDeclaration
from dashboard.topics.idle import IdleTopic, not_proposed
from tests.support.lab import Lab, Snapshot

_WEEK = str(7 * 86_400_000)


def idle_topics(lab: Lab) -> list[IdleTopic]:
    table = lab.cluster.read("findings", lab.cluster.latest_analysis(), "idle_topics")
    return records(table, IdleTopic)


def analyzed(lab: Lab, **topic: Any) -> IdleTopic:
    """The row of a topic `t`."""
    name = topic.pop("name", "t")
    for _ in range(2):
        lab.write(Snapshot().topic(name, **{"retention__ms": _WEEK, **topic}))
    lab.analyze()
    (row,) = (row for row in idle_topics(lab) if row.topic == name)
    return row


def test_a_topic_that_every_group_has_read_is_proposed(lab: Lab) -> None:
    row = analyzed(lab, groups={"g": 100})
    assert (row.guards, not_proposed(row)) == ([], None)


def test_so_is_one_without_records_that_nobody_ever_read(lab: Lab) -> None:
    assert not_proposed(analyzed(lab, start=100)) is None


@pytest.mark.further_but(
    "topic0-group slow has not read 70 records",
    "topic2-no-committed-offset on 1 of 1 partitions: No group that counts has committed",
    "topic4-beyond-last-stable-offset on 1 of 1 partitions",
)
@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ({"groups": {"g": 100, "slow": 30}}, "group slow has not read 70 records"),
        ({"groups": {"slow": 3}, "start": 40}, "group slow has not read 60 records"),
        ({}, "no-committed-offset on 1 of 1 partitions: No group that counts has committed"),
        ({"groups": {"g": 100}, "name": "replayed-t"},
         "its replay window of 2 min may cover any of its records"),
        ({"groups": {"g": 100}, "stable": 80}, "beyond-last-stable-offset on 1 of 1 partitions"),
        ({"groups": {"g": 100}, "remote__storage__enable": "true"}, "remote-storage"),
        ({"groups": {"g": 100}, "retention__ms": "-1"}, "its retention.ms is unlimited"),
    ],
)  # fmt: skip
def test_no_line_while_a_record_may_be_wanted(lab: Lab, topic: dict[str, Any], said: str) -> None:
    why = not_proposed(analyzed(lab, **topic))
    assert why is not None and said in why


def test_what_a_replay_window_covers_is_counted_and_unread_records_are_those_of_the_whole_log(
    lab: Lab,
) -> None:
    window = TopicDeclaration("t", "team", "groups", timedelta(days=15), "ann", "")
    lab.settings = replace(lab.settings, topics=(window,))
    for end in (60, 100, 100):
        lab.minutes += 10 * 24 * 60
        lab.write(Snapshot().topic("t", end=end, groups={"slow": 10}, retention__ms=_WEEK))
    lab.analyze()
    (row,) = idle_topics(lab)
    assert not_proposed(row) == (
        "its replay window of 15 d covers 40 records; group slow has not read 90 records"
    )


def test_a_group_that_is_gone_counts_where_it_stood(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 100, "gone": 30}, retention__ms=_WEEK))
    row = analyzed(lab, groups={"g": 100})
    assert not_proposed(row) == "group gone has not read 70 records"


@pytest.mark.parametrize("days", [1, 15])
def test_a_window_over_the_whole_log_hides_no_reader_from_advice_on_retention(
    lab: Lab, days: int
) -> None:
    """Purged up to its window, or younger than it: nothing can be purged, but all may be read."""
    window = TopicDeclaration("t", "team", "groups", timedelta(days=days), "ann", "")
    lab.settings = replace(lab.settings, topics=(window,))
    for start in (0, 60, 60):
        lab.minutes += 2 * 24 * 60
        made = Snapshot().topic("t", start=start, groups={"g": 100}, retention__ms=_WEEK)
        lab.write(made.group("silent", "t"))
    lab.analyze()
    (row,) = lab.rows("retention_fit")
    assert row["guards"] == ["members-without-commits"]


def test_a_partition_without_a_leader_is_unknown_and_no_group_that_is_missed(lab: Lab) -> None:
    declared = TopicDeclaration("t", "team", "groups", timedelta(0), "ann", "")
    lab.settings = replace(lab.settings, topics=(declared,))
    for _ in range(2):
        made = Snapshot().topic("t", groups={"g": 100}, retention__ms=_WEEK)
        made.tables["partitions"][0].update(
            leader_id=None, high_watermark=None, last_stable_offset=None, log_start_offset=None
        )
        lab.write(made)
    lab.analyze()
    (row,) = lab.rows("retention_fit")
    assert (row["guards"], row["unknown_partitions"]) == ([], 1)
