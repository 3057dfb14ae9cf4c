"""What is written beside the parts is read as it was, and false or changed files are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dashboard.archive.manifest import (
    PART,
    PARTITION,
    RUN,
    ArchivedTopic,
    Encryption,
    Gap,
    Part,
    PartitionArchive,
    Range,
    Reached,
    RunArchive,
    part_file,
    part_name,
    partition_name,
    proof_name,
    sealed,
)
from dashboard.core.errors import ArchiveError, RefusedError
from dashboard.domain.model import TopicPartition

ONE = Part(
    10, 20, part_file(10, "0a1b2c3d"), 8, 500, 900, "ab", (Reached(3, 20),), 1, 1, "compacted",
    (Gap(12, 13, "control"), Gap(19, 20, "compacted")),
)  # fmt: skip
TWO = Part(
    20, 22, part_file(20, "0a1b2c3e"), 1, 300, 100, "cd", (Reached(4, 22),), 1, 0, "control",
    (Gap(21, 22, "control"),),
)  # fmt: skip
WHOLE = PartitionArchive("orders", "id-1", 3, 10, 22, (ONE.brief, TWO.brief))
RUN_ARCHIVE = RunArchive(
    "c1", "local", "r1", "ef", datetime(2026, 3, 1, tzinfo=UTC), "open",
    Encryption("aes-256-gcm", "0123456789abcdef"),
    (ArchivedTopic("orders", "id-1", 12, 3, {"cleanup.policy": "delete"}),),
    (Range("orders", 3, 10, 22),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "found"),
    [(PART, ONE), (PARTITION, WHOLE), (RUN, RUN_ARCHIVE)],
    ids=lambda each: type(each).__name__,
)
def test_it_is_read_as_it_was_written(kind: Any, found: Any) -> None:
    text = sealed(kind, found).decode()
    assert kind.parse(text, "x.json") == found
    with pytest.raises(RefusedError) as changed:
        kind.parse(text.replace('"sha256":"', '"sha256":"0'), "x.json")
    assert changed.value.code == "ARCHIVE_CHANGED"
    with pytest.raises(ArchiveError, match=r"x\.json is not JSON") as cut:
        kind.parse(text[:-1], "x.json")
    assert cut.value.code == "ARCHIVE_INVALID"


def test_sums_are_those_of_the_parts() -> None:
    assert (WHOLE.records, WHOLE.size_bytes, WHOLE.raw_bytes) == (9, 800, 1000)
    assert WHOLE.epochs == {3: 20, 4: 22}
    assert WHOLE.skipped == "control"


@pytest.mark.parametrize(
    "false",
    [
        replace(ONE, records=9),
        replace(ONE, gaps=()),
        replace(ONE, control=2, compacted=0),
        replace(ONE, ends=None),
        replace(ONE, next=21),
        replace(ONE, first=13, file=part_file(13, "0a1b2c3d")),
        replace(ONE, file="part-00000000000000000010.parquet"),
        replace(ONE, file=TWO.file),
        replace(ONE, file=f"../{ONE.file}"),
        replace(ONE, gaps=(Gap(19, 20, "compacted"), Gap(12, 13, "control"))),
        replace(
            ONE, first=20, file=TWO.file, records=0, control=0, compacted=0, ends=None, gaps=()
        ),
    ],
    ids=str,
)
def test_a_proof_that_does_not_account_for_each_offset_is_none(false: Part) -> None:
    with pytest.raises(ValueError, match=r"offset|gap"):
        sealed(PART, false)


@pytest.mark.parametrize(
    "false",
    [
        replace(WHOLE, parts=(ONE.brief,)),
        replace(WHOLE, parts=(TWO.brief,)),
        replace(WHOLE, parts=(TWO.brief, ONE.brief)),
        replace(WHOLE, parts=(ONE, TWO)),
        replace(WHOLE, parts=(replace(ONE.brief, control=0), TWO.brief)),
        replace(WHOLE, start=9),
        replace(WHOLE, target=23),
    ],
    ids=str,
)
def test_parts_that_are_not_the_range_commit_no_partition(false: PartitionArchive) -> None:
    with pytest.raises(ValueError, match=r"offset|gaps"):
        sealed(PARTITION, false)


def test_it_covers_only_its_own_range_of_its_own_topic() -> None:
    assert WHOLE.covers("id-1", 10, 22)
    assert WHOLE.covers("id-1", 15, 20)  # retention went on
    assert not WHOLE.covers("id-1", 9, 22)
    assert not WHOLE.covers("id-1", 10, 23)
    assert not WHOLE.covers("id-2", 10, 22)
    assert not WHOLE.covers(None, 10, 22)


def test_names_follow_from_what_they_name() -> None:
    key = TopicPartition("a.b", 3)
    assert partition_name("c", "r", key) == "c/r/a.b/3/partition.json"
    file = "part-00000000000000000005-0a1b2c3d.parquet"
    assert part_name("c", "r", key, part_file(5, "0a1b2c3d")) == f"c/r/a.b/3/{file}"
    assert proof_name("c", "r", key, 5) == "c/r/a.b/3/part-00000000000000000005.json"
