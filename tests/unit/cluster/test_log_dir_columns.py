"""Log dirs as columns are, row by row, what the schemas give."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.cluster.protocol.offset_columns import decode
from dashboard.domain.columns import Sizes
from dashboard.domain.model import LogDirsAnswer, ReplicaSize
from tests.support.fake_broker import VERSIONS, FakeBroker
from tests.unit.cluster.answers import log_dirs_answer


def read(answer: Any, version: int = 4) -> tuple[Sizes, LogDirsAnswer]:
    with FakeBroker(versions={**VERSIONS, 35: version}) as broker:
        broker.answers[35] = lambda _, at: answer(at)
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live:
            return live.sizes(), live.log_dirs()


def records(sizes: Sizes) -> tuple[ReplicaSize, ...]:
    """Columns as the records of the model; the lag is not kept."""
    return tuple(
        ReplicaSize(broker, b.log_dirs[d], b.names[t], int(p), int(s), 0, bool(f))
        for broker, b in sizes.brokers.items()
        for t, d, p, s, f in zip(
            b.topic, b.log_dir, b.partition, b.size_bytes, b.is_future, strict=True
        )
    )


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_every_version_gives_what_the_records_say(version: int) -> None:
    sizes, listed = read(log_dirs_answer, version)
    assert records(sizes) == listed.replicas
    assert [(r.size_bytes, r.is_future) for r in listed.replicas] == [(700, False), (30, True)]
    assert sizes.log_dirs == listed.log_dirs
    assert sizes.log_dirs[0].total_bytes == (1000 if version >= 4 else None)
    assert sizes.log_dirs[0].usable_bytes is None
    assert sizes.errors == {}


@pytest.mark.parametrize("version", [2, 4])
def test_a_refusal_is_an_error_of_the_broker_and_not_an_empty_disk(version: int) -> None:
    sizes, listed = read(
        lambda at: log_dirs_answer(at, error=31 if at >= 3 else 0, empty=True), version
    )
    assert sizes.errors == listed.errors == {1: "CLUSTER_AUTHORIZATION_FAILED"}
    assert sizes.brokers == {}


def body() -> bytes:
    return bytes(log_dirs_answer(4).encode())


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-20], lambda b: b + b"\0"])
def test_an_answer_of_another_length_is_refused(change: Any) -> None:
    with pytest.raises((struct.error, ValueError, IndexError)):
        decode(memoryview(change(body())), 4)


def test_rows_that_a_newer_broker_tagged_are_read_one_by_one() -> None:
    plain = struct.pack(">iqq?B", 0, 700, 0, False, 0)
    tagged = plain[:-1] + bytes([1, 0, 2, 9, 9])
    found = decode(memoryview(body().replace(plain, tagged, 1)), 4)
    ((name, rows),) = found.dirs[0].topics
    assert name == "orders"
    assert rows[["size", "future"]].tolist() == [(700, False), (30, True)]
