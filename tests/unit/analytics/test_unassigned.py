"""Old folders that a broker lists, which was down while all was reassigned, are no replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from analytics.orphans import suspects
from analytics.orphans.suspects import Suspect
from tests.support.lab import Lab, Snapshot
from tests.unit.analytics.test_sightings import LISTED

OLD_BYTES = 7000
OLD = replace(
    LISTED, broker_id=3, kind="moved-away", size_bytes=OLD_BYTES, told_bytes=OLD_BYTES,
    has_topic=True, answered=True,
)  # fmt: skip


@pytest.fixture
def listed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Suspects as Spark finds them: the old folder of the first topic."""

    def found(_: object, snapshots: Sequence[object]) -> list[list[Suspect]]:
        return [[OLD] for _ in snapshots]

    monkeypatch.setattr(suspects, "suspects", found)
    return lab


def snapshot() -> Snapshot:
    """Topics alike on brokers 1 and 2, the first of them in an old folder of broker 3 as well."""
    made = Snapshot()
    for name in ("t", "alike", "missing"):
        made.topic(
            name, size=10_000, groups={"g": 50}, brokers=(1,) if name == "missing" else (1, 2)
        )
    for number in (0, 2):
        made.tables["replicas"].append(
            {"broker_id": 3, "log_dir": "/d1", "topic_no": number, "partition": 0,
             "size_bytes": OLD_BYTES, "is_future": False, "is_leader": False, "in_sync": False,
             "error": "NOT_IN_METADATA"})  # fmt: skip
    made.tables["log_dirs"] = [
        {"broker_id": b, "log_dir": "/d1", "total_bytes": 10**9, "usable_bytes": 5 * 10**8}
        for b in (1, 2, 3)
    ]
    return made


def bytes_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if "bytes" in name or name == "method"}


def test_no_byte_of_it_is_what_a_purge_frees(listed: Lab) -> None:
    listed.write(snapshot())
    listed.analyze()
    rows = listed.targets()
    assert bytes_of(rows["t"]) == bytes_of(rows["alike"])
    assert {row["broker_id"] for row in listed.rows("curves")} == {1, 2}
    assert {row["broker_id"] for row in listed.rows("slow_followers")} == {1, 2}


def test_it_stands_in_for_no_replica_that_is_missing(listed: Lab) -> None:
    listed.write(snapshot())
    listed.analyze()
    assert listed.targets()["missing"]["method"].endswith(", 1 of 2 replicas")


def test_as_an_orphan_it_is_no_live_byte_of_its_disk_and_none_below_zero(listed: Lab) -> None:
    for _ in range(2):
        made = snapshot()
        made.tables["replicas"].pop()  # of the third topic
        listed.write(made)
        listed.analyze()
    (disk,) = (row for row in listed.rows("disks") if row["broker_id"] == 3)
    assert (disk["orphan_bytes"], disk["live_bytes"]) == (OLD_BYTES, 0)
    assert (disk["reclaimable_bytes"], disk["held_bytes"], disk["guarded_bytes"]) == (0, 0, 0)


def test_of_a_topic_that_the_metadata_does_not_tell_of_growth_is_still_known(listed: Lab) -> None:
    """It may be hidden from us: its bytes are Kafka's."""
    for minute in range(15):
        made = Snapshot()
        made.topic("t")
        made.tables["topics"].append({"topic_no": 1, "topic": "hidden"})
        made.tables["replicas"].append(
            {"broker_id": 1, "log_dir": "/d1", "topic_no": 1, "partition": 0, "is_future": False,
             "size_bytes": 1000 * minute, "error": "NOT_IN_METADATA"})  # fmt: skip
        listed.write(made)
    listed.analyze()
    (row,) = (r for r in listed.rows("growth") if r["topic"] == "hidden" and r["broker_id"] is None)
    assert row["bytes_in_per_hour"] == 60_000
