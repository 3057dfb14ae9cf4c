"""Facts of the moment, told beside the offsets: moves, share groups, silent readers."""

from __future__ import annotations

import pytest

from tests.support.lab import Lab, Snapshot, names

pytestmark = pytest.mark.spark


@pytest.mark.further
def test_moves_and_readers_without_commits_are_told(lab: Lab) -> None:
    snapshot = (
        Snapshot()
        .topic("moving", groups={"g": 50})
        .topic("shared", groups={"g": 50})
        .topic("watched", groups={"g": 50})
        .topic("table-changelog", policy="compact,delete", groups={"g": 50})
        .topic("risky", groups={"g": 50}, unclean__leader__election__enable="true")
        .topic("unread", end=0, size=0)
        .group("sharing", "shared", type="share")
        .group("watcher", "watched")
    )
    moving = {"topic_no": 0, "partition": 0}
    snapshot.tables["reassignments"] = [{**moving, "adding": [3, 4], "removing": []}]
    snapshot.tables["replicas"].append(
        {**moving, "broker_id": 1, "log_dir": "/d2", "size_bytes": 70, "is_future": True}
    )
    snapshot.tables["log_dirs"] = [
        {"broker_id": 1, "log_dir": log_dir, "total_bytes": 1000, "usable_bytes": free}
        for log_dir, free in (("/d1", 0), ("/d2", 900))
    ]
    lab.write(snapshot)

    lab.analyze()

    found = lab.targets()
    reassigning, moved = found["moving"]["guards"]
    assert (reassigning["name"], moved["name"]) == ("reassigning", "leader-log-dir-move")
    assert "adding [3, 4], removing []" in reassigning["reason"]
    assert "broker 1, is moving the partition to /d2" in moved["reason"]
    assert found["moving"]["replicas"] == 2, "a copy under way is no replica yet"
    assert names(found["shared"]) == ["share-group"]
    assert (
        "it reads this topic, and its start offset here" in found["shared"]["guards"][0]["reason"]
    )
    assert names(found["watched"]) == ["members-without-commits"]
    assert names(found["table-changelog"]) == ["changelog-source"]
    assert names(found["risky"]) == ["unclean-election-enabled"]
    assert names(lab.targets("high-watermark")["unread"]) == [], "nothing would be deleted"

    full, second = lab.rows("disks")
    assert (full["unexplained_bytes"], full["measured"]) == (0, False)
    assert full["error"] == "replicas add up to 49000 bytes more than the disk's used bytes"
    assert (second["future_bytes"], second["live_bytes"]) == (70, 0)
    assert (second["unexplained_bytes"], second["measured"]) == (30, True)


@pytest.mark.further
def test_share_groups_count_with_their_start_offsets(lab: Lab) -> None:
    snapshot = (
        Snapshot()
        .topic("taken", groups={"g": 50, "sharing": 30})
        .topic("begins", groups={"g": 50})
        .topic("other", groups={"g": 50})
        .group("sharing", type="share")
    )
    begins = {"group_id": "sharing", "topic_no": 1, "partition": 0}  # -1 in Kafka's answer
    snapshot.tables["group_offsets"].append({**begins, "committed_offset": None})
    lab.write(snapshot)

    lab.analyze()

    found, end = lab.targets(), lab.targets("high-watermark")
    assert {topic: row["target_offset"] for topic, row in found.items()} == {
        "taken": 30, "begins": 50, "other": 50,
    }  # fmt: skip
    assert {topic: names(row) for topic, row in found.items()} == {
        "taken": [], "begins": ["share-group"], "other": [],
    }  # fmt: skip
    assert names(end["taken"]) == ["unread-by-group", "unread-by-group"]
