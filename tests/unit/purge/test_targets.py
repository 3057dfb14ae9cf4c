"""Targets as typed, and Kafka's offsets JSON in and out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.errors import LowwaterError, UsageError
from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.targets import (
    parse_keep,
    parse_target,
    read_offsets_json,
    write_offsets_json,
)


@pytest.mark.parametrize(
    "text", ["committed", "offset:0", "offset:5000", "high-watermark", "retention",
             "keep:24h", "keep:7d", "keep:500ms", "keep:10GiB", "keep:1500B", "keep:8PiB",
             "timestamp:2026-03-01T04:00:00.000Z"],
)  # fmt: skip
def test_a_target_is_spelt_as_it_was_typed(text: str) -> None:
    assert parse_target(text).text == text


def test_a_typed_minus_one_means_the_high_watermark() -> None:
    assert parse_target("offset:-1").kind == "high-watermark"


@pytest.mark.parametrize(
    ("text", "size"), [("1500B", 1500), ("10GiB", 10 << 30), (" 8PiB ", 8 << 50)]
)
def test_bytes_to_keep_are_read_in_binary_units(text: str, size: int) -> None:
    found = parse_keep(text)
    assert (found.keep_bytes, found.keep_for, found.text) == (size, None, f"keep:{text.strip()}")


_LONGEST_MS = 36_500 * 86_400_000  # a hundred years: no duration is longer


@given(st.integers(1, 10**12), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_an_age_to_keep_is_exact(number: int, unit: str) -> None:
    ms = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]
    if number * ms > _LONGEST_MS:
        with pytest.raises(UsageError):
            parse_keep(f"{number}{unit}")
    else:
        expected = timedelta(milliseconds=1) * (number * ms)
        assert parse_keep(f"{number}{unit}").keep_for == expected


@pytest.mark.parametrize(
    "text",
    ["", "commited", "offset:", "offset:-2", "offset:1.5", "offset:٣", "high-watermark:3",
     "timestamp:2026-03-01T04:00:00", "timestamp:1969-12-31T23:59:59.999Z", "timestamp:",
     "timestamp:yesterday", "retention:24h",
     "keep", "keep:", "keep:0h", "keep:0GiB", "keep:10GB", "keep:10", "keep:-1h", "keep:1.5h",
     "keep:9999999PiB", "keep:99999999999d"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(LowwaterError) as refused:
        parse_target(text)
    assert refused.value.exit_code == 1


def test_an_offsets_file_survives_the_way_out_and_back() -> None:
    offsets = {TopicPartition("b", 1): 5, TopicPartition("a", 0): 2**62, TopicPartition("b", 0): 0}
    text = write_offsets_json(offsets)
    assert read_offsets_json(text, "f.json").offsets == offsets
    assert text.index('"a"') < text.index('"b"')


def test_kafkas_own_sample_is_read() -> None:
    text = '{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}'
    target = read_offsets_json(text, "f.json")
    assert (target.text, target.offsets) == ("file", {TopicPartition("t", 0): 5})


ROW = '{"topic":"t","partition":0,"offset":5}'


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f'{{"partitions":[{ROW}],"version":2}}', "$.version"),
        (f'{{"partitions":[{ROW}],"version":true}}', "$.version"),
        (f'{{"partitions":[{ROW},{ROW}],"version":1}}', "$.partitions[1]"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":-2}]}', "$.partitions[0].offset"),
        ('{"partitions":[{"topic":"t","partition":-1,"offset":2}]}', "$.partitions[0].partition"),
        ('{"partitions":[{"topic":"","partition":0,"offset":2}]}', "$.partitions[0].topic"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":2.5}]}', "$.partitions[0].offset"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":"2"}]}', "$.partitions[0].offset"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":true}]}', "$.partitions[0].offset"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "$.partitions[0].offset"),
        (
            f'{{"partitions":[{{"topic":"t","partition":0,"offset":{2**63}}}]}}',
            "$.partitions[0].offset",
        ),
        ('{"partitions":[{"topic":"t","partition":0,"offset":1,"x":1}]}', "$.partitions[0].x"),
        ('{"partitions":[7]}', "$.partitions[0]"),
        ('{"partitions":[]}', "$.partitions"),
        ('{"version":1}', "$.partitions"),
        (f'{{"partitions":[{ROW}],"more":1}}', "$.more"),
        ("[]", "$"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":1,"offset":9}]}', "twice"),
        ("{", "not JSON"),
    ],
)
def test_a_bad_offsets_file_is_refused_with_the_place(text: str, path: str) -> None:
    with pytest.raises(LowwaterError) as refused:
        read_offsets_json(text, "f.json")
    assert (refused.value.code, refused.value.exit_code) == ("OFFSETS_INVALID", 1)
    assert "f.json" in refused.value.message
    assert path in refused.value.message
