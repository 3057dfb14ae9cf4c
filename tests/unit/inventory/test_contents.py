"""The small files of a log dir: what Kafka writes is read, anything else is named."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.inventory.contents import (
    DamagedError,
    Meta,
    parse_checkpoint,
    parse_meta,
    parse_topic_id,
)

_TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)
_ENTRIES = st.lists(st.tuples(_TOPICS, st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1)))


def test_meta_of_kraft_and_of_the_older_version() -> None:
    kraft = b"version=1\ncluster.id=Ab-_9\nnode.id=3\ndirectory.id=xyz\n"
    assert parse_meta(kraft.splitlines(True)) == Meta("Ab-_9", 3, "xyz")
    older = b"#\n#Tue\nversion=0\nbroker.id=7\ncluster.id=C\n"
    assert parse_meta(older.splitlines(True)) == Meta("C", 7, None)
    assert parse_meta([b"cluster.id=C\n", b"node.id=2147483647\n"]).node_id == 2**31 - 1
    assert parse_meta([b"cluster.id=C\n", b"node.id=2147483648\n"]).node_id is None
    with pytest.raises(DamagedError, match="neither"):
        parse_meta([b"version=1\n"])


def test_a_topic_id_is_22_characters_and_not_zero() -> None:
    assert parse_topic_id([b"version: 0\n", b"topic_id: aaaaaaaaaaaaaaaaaaaaA-"]) == (
        "aaaaaaaaaaaaaaaaaaaaA-"
    )
    for damaged in (b"", b"topic_id: short", b"topic_id: " + b"A" * 22, b"\xff\x00"):
        with pytest.raises(DamagedError):
            parse_topic_id([damaged])


@given(_ENTRIES)
def test_a_checkpoint_is_read_as_it_was_written(entries: list[tuple[str, int, int]]) -> None:
    lines = [b"0\n", b"%d\n" % len(entries)]
    lines += [f"{topic} {partition} {offset}\n".encode() for topic, partition, offset in entries]
    assert list(parse_checkpoint(lines)) == entries


def test_a_new_brokers_checkpoint_is_empty() -> None:
    assert list(parse_checkpoint([])) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\n", "line 1"),
        (b"1\n0\n", "line 1"),
        (b"0\n", "line 2"),
        (b"0\nmany\n", "line 2"),
        (b"0\n2\na 0 5\n", "announces 2 entries and holds 1"),
        (b"0\n1\na 0 5\nb 0 5\n", "announces 1 entries and holds 2"),
        (b"0\n1\na 0\n", "line 3"),
        (b"0\n1\na 0 9223372036854775808\n", "line 3 holds a number out of range"),
        (b"0\n1\na 4294967296 1\n", "line 3 holds a number out of range"),
    ],
)
def test_a_damaged_checkpoint_is_named(text: bytes, reason: str) -> None:
    with pytest.raises(DamagedError, match=reason):
        list(parse_checkpoint(text.splitlines(True)))


@given(st.lists(st.binary(max_size=60)))
def test_no_content_crashes_a_parser(lines: list[bytes]) -> None:
    for parse in (parse_meta, parse_topic_id, lambda given: list(parse_checkpoint(given))):
        with suppress(DamagedError):
            parse(lines)
