"""Folder and file names are read as the broker reads them; hostile ones never crash."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.inventory.names import folder_of, is_left_out, is_plain, segment_file


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("orders-0", "orders", 0, "live"),
        ("a-b.c_d-12", "a-b.c_d", 12, "live"),
        ("-1-0", "-1", 0, "live"),
        ("orders-0.0a1b2c-delete", "orders", 0, "delete"),
        ("orders-7.0a1b2c-future", "orders", 7, "future"),
        ("a.b-7.0a1b2c-stray", "a.b", 7, "stray"),
        ("orders-0.0a1b-stray-3", "orders-0.0a1b-stray", 3, "live"),
        ("t-2147483647", "t", 2147483647, "live"),
    ],
)
def test_a_partition_folder_is_told_by_its_name(
    name: str, topic: str, partition: int, kind: str
) -> None:
    found = folder_of(name)
    assert found is not None
    assert (found.directory, found.topic, found.partition, found.kind) == (
        name, topic, partition, kind,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "orders", "orders-", "-0", "orders-x", "orders-00", "orders-2147483648", "orders--delete",
        "lost+found", "orders-0.delete", "orders-0-delete", "orders-\u0663", "", "a/b-0",
        "orders-0.x-deleted", "b" * 250 + "-0",
    ],
)  # fmt: skip
def test_any_other_folder_is_none(name: str) -> None:
    assert folder_of(name) is None


def test_the_metadata_log_and_the_remote_index_cache_are_left_out() -> None:
    assert is_left_out("__cluster_metadata-0")
    assert is_left_out("remote-log-index-cache")
    assert not is_left_out("__consumer_offsets-0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", (42, ".log")),
        ("00000000000000000042.log.deleted", (42, ".log.deleted")),
        ("09223372036854775807.timeindex", (2**63 - 1, ".timeindex")),
        ("09223372036854775808.log", None),
        ("42.log", None),
        ("\u0660" * 20 + ".log", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_a_segment_file_is_told_by_its_name(name: str, expected: tuple[int, str] | None) -> None:
    assert segment_file(name) == expected


@given(st.text())
def test_no_name_crashes_and_a_partition_folder_spells_itself(name: str) -> None:
    segment_file(name)
    folder = folder_of(name)
    if folder is not None:
        assert is_plain(name)
        assert name.startswith(f"{folder.topic}-{folder.partition}")


@given(
    st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.sampled_from(("delete", "future", "stray")),
    st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
)
def test_every_name_that_kafka_gives_is_understood(
    topic: str, partition: int, kind: str, unique: str
) -> None:
    live = folder_of(f"{topic}-{partition}")
    moved = folder_of(f"{topic}-{partition}.{unique}-{kind}")
    assert live is not None and moved is not None
    assert (live.topic, live.partition, live.kind) == (topic, partition, "live")
    assert (moved.topic, moved.partition, moved.kind) == (topic, partition, kind)
    assert re.fullmatch(r"\S+", moved.directory)
