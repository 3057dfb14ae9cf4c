"""A service that runs obeys what its settings file says now: definitions, declarations, limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import SettingsError
from dashboard.domain.model import OffsetAtTime
from dashboard.policies.service import purging
from dashboard.purge.journal.rows import RunRow
from dashboard.settings.settings import load
from tests.unit.policies.service_room import REPARTITION, ServiceRoom, Streams

TOPIC = "billing-sum-repartition"
KEEP_A_DAY = """
[topics."billing-*"]
owner = "team billing"
readers = "groups"
replay_window = "24h"
declared_by = "dana"
declared_at = 2026-03-01
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    made.write()
    made.live.topic(TOPIC)
    # Everything that is still there is younger than any window.
    monkeypatch.setattr(made.live, "offsets_at", lambda keys, at: {
        key: OffsetAtTime(*key, made.live.log_start(key.topic)) for key in keys if at
    })  # fmt: skip
    yield made
    made.journal.close()


def read_ten_more(room: ServiceRoom) -> None:
    room.live.produce(TOPIC, 10)
    room.live.commit("billing", TOPIC)


def test_a_replay_window_that_is_written_counts_at_the_next_look(room: ServiceRoom) -> None:
    read_ten_more(room)
    service = room.service()
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 10
    room.write(tail=KEEP_A_DAY)
    read_ten_more(room)
    room.pass_time(service, 30)
    assert room.live.log_start(TOPIC) == 10, "the newest ten are younger than a day"
    room.write()
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 20


def test_a_definition_that_is_written_must_be_confirmed_and_then_counts(room: ServiceRoom) -> None:
    service = room.service()
    room.pass_time(service, 6)
    slower = REPARTITION.replace("5000", "20000")
    file = room.write(streams=slower)
    read_ten_more(room)
    room.pass_time(service, 30)
    assert (room.live.log_start(TOPIC), room.status()["state"]) == (0, "changed")
    assert "restart" not in room.status()["reason"]
    room.switch_on(load(file).policies[0])
    room.pass_time(service, 1)
    assert room.live.log_start(TOPIC) == 10
    read_ten_more(room)
    room.pass_time(service, 15)
    assert room.live.log_start(TOPIC) == 10, "it is due after 20 s now, no more after 5"
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 20


def test_a_policy_that_is_taken_out_purges_no_more(room: ServiceRoom) -> None:
    service = room.service()
    room.pass_time(service, 6)
    file = room.write()
    file.write_text(file.read_text().split("[policies", maxsplit=1)[0])
    read_ten_more(room)
    room.pass_time(service, 30)
    assert (room.runs(), service.policies) == ([], ())


def test_the_limit_of_partitions_counts_at_the_next_look(room: ServiceRoom) -> None:
    room.live.topic("billing-join-repartition")
    service = room.service()
    room.pass_time(service, 6)
    room.write(tail="[purge]\nmost_partitions = 1")
    for topic in (TOPIC, "billing-join-repartition"):
        room.live.produce(topic, 10)
        room.live.commit("billing", topic)
    room.pass_time(service, 10)
    assert [len(room.journal.partitions(run.run_id)) for run in room.runs()] == [1, 1]


@pytest.mark.further_but("[topics")
@pytest.mark.parametrize("wrong", ["replay_window = 5", "[topics", 'unknown = "x"'])
def test_a_file_that_is_wrong_by_now_stops_purging_and_says_why(
    room: ServiceRoom, wrong: str
) -> None:
    service = room.service()
    room.pass_time(service, 6)
    file = room.write(tail=wrong)
    read_ten_more(room)
    room.pass_time(service, 30)
    (error,) = room.status()["errors"]
    assert error["reason"].startswith(f"the settings file {file} is wrong by now")
    assert room.runs() == []
    file.unlink()
    room.pass_time(service, 30)
    assert (room.runs(), room.status()["errors"][0]["code"]) == ([], "READ_ONLY")
    room.write()
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 10
    assert room.status()["errors"] == []


def test_another_place_to_work_in_takes_a_restart(room: ServiceRoom, tmp_path: Path) -> None:
    service = room.service()
    room.pass_time(service, 6)
    file = room.write()
    file.write_text(file.read_text().replace(f'"{tmp_path}"', f'"{tmp_path}/other"'))
    read_ten_more(room)
    room.pass_time(service, 30)
    (error,) = room.status()["errors"]
    assert f"state_dir of {file} is {tmp_path}/other by now" in error["reason"]
    assert "Restart it" in error["reason"]
    assert room.runs() == []


def test_what_was_planned_while_the_settings_changed_is_not_queued(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_ten_more(room)
    prepared, looks = purging.prepared, 0

    def meanwhile(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        found = prepared(*given)
        room.write(tail=KEEP_A_DAY)
        return found

    monkeypatch.setattr(purging, "prepared", meanwhile)
    room.pass_time(room.service(), 30)
    assert looks > 1
    assert (room.runs(), room.live.log_start(TOPIC)) == ([], 0)


def test_a_run_that_waits_to_begin_is_asked_by_the_definition_of_then(room: ServiceRoom) -> None:
    read_ten_more(room)
    slower = REPARTITION.replace("5000", "20000")
    room.service(start=lambda job: (room.write(streams=slower), job())).turn()
    (run,) = room.runs()
    assert _code(run) == "POLICY_CHANGED"
    assert room.live.sent == []


def test_without_a_file_settings_stay_as_they_were(room: ServiceRoom) -> None:
    file = room.write()
    room.settings = replace(room.settings, source=None)
    service = room.service()
    file.write_text("read_only = true")
    read_ten_more(room)
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 10


def test_it_connects_anew_as_soon_as_it_would_sign_in_otherwise(room: ServiceRoom) -> None:
    """Each request that purges has a connection of its own: all would be refused, and no look."""
    first, second = room.live, Streams()
    second.parts, second.offsets_of = first.parts, first.offsets_of
    closed: list[Streams] = []
    first.close = lambda: closed.append(first)  # type: ignore[method-assign]
    doors: list[Any] = [first, SettingsError("half a certificate", "Wait."), second]

    def open_live() -> Streams:
        door = doors.pop(0)
        if isinstance(door, Exception):
            raise door
        return door

    changed = False
    service = room.service(outdated=lambda: changed and bool(doors))
    service.link._open = open_live
    read_ten_more(room)
    room.pass_time(service, 6)
    assert (len(first.sent), len(second.sent), len(doors)) == (1, 0, 2)
    changed = True
    room.pass_time(service, 6)
    read_ten_more(room)
    room.pass_time(service, 10)
    assert (len(first.sent), len(second.sent), closed) == (1, 1, [first])
    assert [told["error"]["message"] for told in room.told("error")] == ["half a certificate"]


def test_who_takes_a_run_over_signs_in_anew_first(room: ServiceRoom) -> None:
    """It stood by for weeks, with the connection of when it led."""
    read_ten_more(room)
    room.service(start=lambda _: None).turn()  # it dies with the run queued
    first, second = room.live, Streams()
    second.parts, second.offsets_of = first.parts, first.offsets_of
    service = room.service(outdated=lambda: service.link._live is first)
    service.link._open = lambda: first
    service.link.live()
    service.link._open = lambda: second
    room.clock.sleep(60)
    service.turn()
    assert (len(first.sent), len(second.sent)) == (0, 1)


def test_a_cluster_that_is_down_while_a_certificate_is_half_written_ends_no_service(
    room: ServiceRoom,
) -> None:
    service = room.service()
    room.pass_time(service, 6)
    room.live.down = True

    def half() -> Streams:
        raise SettingsError("half a certificate", "Wait.")

    service.link._open = half
    read_ten_more(room)
    room.pass_time(service, 30)
    room.live.down = False
    room.pass_time(service, 40)
    assert room.live.log_start(TOPIC) == 10


def _code(run: RunRow) -> str:
    return str((run.error or {}).get("code"))
