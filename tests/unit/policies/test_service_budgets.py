"""What a policy starts within any hour, bytes and partitions, whatever the findings cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import ConfigEntry, TopicPartition
from dashboard.purge.journal.policies import Use
from dashboard.store.tables import FINDING_TABLES, build
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom

T = "billing-sum-repartition"
RECORD = 100  # bytes, on each of three replicas
HOUR = timedelta(hours=1)
Made = Callable[..., ServiceRoom]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    rooms: list[ServiceRoom] = []

    def make(limit: str, every_ms: int = 5000) -> ServiceRoom:
        preset = REPARTITION.replace("5000", str(every_ms))
        rooms.append(ServiceRoom(tmp_path, policy(f"{preset}\n{limit}", "streams")))
        _in_segments_of(rooms[0], 1 << 20)
        return rooms[0]

    yield make
    for room in rooms:
        assert room.journal.verify().ok
        room.journal.close()


def _in_segments_of(room: ServiceRoom, size_bytes: int) -> None:
    configs = room.live.configs

    def found(topics: list[str], brokers: tuple[int, ...] = ()) -> tuple[ConfigEntry, ...]:
        sizes = [ConfigEntry("topic", n, "segment.bytes", str(size_bytes), "X") for n in topics]
        return (*configs(topics, brokers), *sizes)

    room.live.configs = found  # type: ignore[method-assign,assignment]


def analysed(room: ServiceRoom, start: int, end: int) -> None:
    """The newest findings saw the log from `start` to `end`, on three replicas."""
    writer = room.store.begin("findings", room.clock())
    rows = [(b, offset) for b in (1, 2, 3) for offset in (start, end)]
    columns = {
        "topic": [T] * 6, "partition": [0] * 6, "broker_id": [b for b, _ in rows],
        "log_dir": ["/d"] * 6, "offset": [offset for _, offset in rows],
        "bytes_below": [(offset - start) * RECORD for _, offset in rows],
        "topic_id": [f"id-{T}"] * 6,
    }  # fmt: skip
    writer.write("curves", build(FINDING_TABLES["curves"], columns))
    writer.commit(0.1, {"snapshot_id": "s"})
    room.store.set_latest(writer.id)


def written(room: ServiceRoom, records: int) -> None:
    """So many records come, and the application has read them."""
    room.live.produce(T, records)
    room.live.commit("billing", T)


@pytest.mark.further
def test_what_no_analysis_has_seen_is_not_purged_as_if_it_were_nothing(made: Made) -> None:
    room = made('most_bytes_per_hour = "1MiB"')
    room.live.topic(T)
    analysed(room, 0, 10)  # then `lowwater watch` died
    service = room.service()
    for _ in range(20):
        written(room, 100_000)
        room.pass_time(service, 6)
    assert room.runs() == []
    assert "larger than a whole hour's most_bytes_per_hour" in room.status()["reason"]


@pytest.mark.further
def test_an_hours_bytes_bound_what_leaves_while_findings_are_renewed(made: Made) -> None:
    room = made('most_bytes_per_hour = "300MiB"')
    room.live.topic(T)
    written(room, 1000)
    analysed(room, 0, 1000)
    service = room.service()
    for second in range(120):
        written(room, 20_000)
        room.pass_time(service, 1)
        if second % 20 == 19:
            analysed(
                room, room.live.log_start(T), room.live.parts[TopicPartition(T, 0)].high_watermark
            )
    gone = 3 * RECORD * room.live.log_start(T)
    use = room.journal.policy_use(room.live.id, "streams", room.clock() - HOUR)
    assert len(room.runs()) > 3
    assert 100 << 20 < gone <= use.bytes <= 300 << 20
    assert room.status()["state"] == "budget"


@pytest.mark.further
def test_a_log_that_was_empty_at_the_analysis_has_no_known_bytes(made: Made) -> None:
    room = made('most_bytes_per_hour = "1GiB"')
    room.live.topic(T)
    analysed(room, 0, 0)
    written(room, 10)
    room.pass_time(room.service(), 6)
    assert room.runs() == []
    assert "not measured" in room.status()["reason"]
    analysed(room, 0, 10)
    room.pass_time(room.service(), 120)
    assert len(room.runs()) == 1


@pytest.mark.further
def test_a_run_that_a_later_service_sends_counts_from_then(made: Made) -> None:
    room = made("most_partitions_per_hour = 1", every_ms=60_000)  # it looks on for over an hour
    room.live.topic(T, 2)
    for n in (0, 1):
        room.live.produce(T, 10, n)
        room.live.commit("billing", T, n)
    room.service(start=lambda _: None).turn()  # 12:00: queued, then the service dies
    room.clock.sleep(59 * 60)
    began: list[datetime] = []
    send = room.live.delete_records

    def sending(*args: object, **named: object) -> object:
        began.append(room.clock())
        return send(*args, **named)  # type: ignore[arg-type]

    room.live.delete_records = sending  # type: ignore[method-assign,assignment]
    service = room.service()
    room.pass_time(service, 300)
    assert len(began) == 1
    use = room.journal.policy_use(room.live.id, "streams", room.clock() - HOUR)
    assert use == Use(1, 0, 1)
    room.pass_time(service, 3600)
    assert len(began) == 2 and began[1] - began[0] >= HOUR
