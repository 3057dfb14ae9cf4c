"""After a long silence of the service policies wait for a person: an `off` since may be gone."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import ClusterError, RefusedError
from dashboard.policies.checking import check
from dashboard.policies.service import alerts
from dashboard.policies.service.purging import Site
from dashboard.policies.service.service import Service
from dashboard.policies.service.switching import standing, switch_off
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out, held
from dashboard.purge.journal.gate import refuse_off
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.settings.current import CurrentSettings
from dashboard.settings.settings import PurgeSettings
from tests.unit.policies.service_room import ServiceRoom, Streams

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path / "state")
    purge = PurgeSettings(most_history_age=timedelta(days=3650))  # nobody collects here
    made.settings = replace(made.settings, purge=purge)
    made.live.topic(TOPIC)
    consumed(made)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def consumed(room: ServiceRoom) -> None:
    room.live.produce(TOPIC, 10)
    room.live.commit("billing", TOPIC)


def serve(room: ServiceRoom, seconds: float = 6) -> None:
    """A service that comes, works for so long, and ends in good order."""
    service = room.service()
    room.pass_time(service, seconds)
    service.close()


def later(room: ServiceRoom, **by: float) -> None:
    room.clock.now += timedelta(**by)


def stands(room: ServiceRoom) -> str:
    state = room.journal.policy_states(room.live.id).get("streams")
    return standing(room.settings.policies[0], state)


def off(room: ServiceRoom) -> None:
    switch_off(
        room.settings, room.journal, room.store, "streams", who="eve",
        from_where="here", now=room.clock(),
    )  # fmt: skip


def backed_up(room: ServiceRoom, folder: Path) -> Path:
    """All of the state folder, as a backup of the volume has it."""
    folder.mkdir()
    copy = sqlite3.connect(folder / "journal.sqlite")
    room.journal.file._db.backup(copy)
    copy.close()
    shutil.copy(room.folder / "journal.head", folder)
    return folder


def restored(room: ServiceRoom, folder: Path) -> None:
    """Into the files that were there, as `cp` does: of new ones their head tells."""
    room.journal.close()
    for file in room.folder.glob("journal.sqlite-*"):
        file.unlink()
    for file in folder.iterdir():
        shutil.copy(file, room.folder)
    room.journal = Journal(room.folder / "journal.sqlite")
    assert room.journal.file.rolled_back() is None, "nothing in it tells"


def test_a_restored_folder_that_forgot_off_and_stop_purges_nothing(
    room: ServiceRoom, tmp_path: Path
) -> None:
    serve(room)
    assert room.live.log_start(TOPIC) == 10
    folder = backed_up(room, tmp_path / "backup")
    later(room, hours=10)
    off(room)
    room.journal.set_read_only(True, "ann", room.clock())
    later(room, days=2)
    restored(room, folder)
    assert stands(room) == "on", "it was on then, and allowed"
    consumed(room)
    serve(room, 60)
    assert room.live.log_start(TOPIC) == 10
    assert stands(room) == "held"


def test_one_whose_service_was_down_when_it_was_backed_up_neither(
    room: ServiceRoom, tmp_path: Path
) -> None:
    """The switch itself, a minute old then, is the newest sign."""
    serve(room)
    later(room, hours=5)
    off(room)
    room.switch_on(room.settings.policies[0])
    folder = backed_up(room, tmp_path / "backup")
    off(room)
    later(room, minutes=121)
    restored(room, folder)
    consumed(room)
    serve(room, 60)
    assert room.live.log_start(TOPIC) == 10


def test_it_says_why_everywhere_and_tells_an_alert(room: ServiceRoom) -> None:
    serve(room)
    later(room, minutes=121)
    consumed(room)
    serve(room)
    status = room.status()
    assert status["state"] == "held"
    assert "no service gave a sign of life from 2026-03-01T12:00:0" in status["reason"]
    assert [error["code"] for error in status["errors"]] == ["SERVICE_SILENT"]
    (event,) = alerts.refused(room.journal, room.live.id)
    assert "policy streams is held: no service gave a sign" in event.text
    current = room.service().site.current
    site = Site(current, room.store, room.journal, room.clock, room.clock.sleep)
    (checked,) = check(site, room.live, room.settings.policies)
    assert checked.standing == "held"
    assert str(checked.held_by).startswith("SERVICE_SILENT: no service gave a sign of life")
    (entry,) = (e for e in room.journal.entries() if e.kind == "policy-held")
    assert (entry.body["policy"], entry.body["code"]) == ("streams", "SERVICE_SILENT")


def test_it_stays_held_until_a_person_switches_it_on_again(room: ServiceRoom) -> None:
    serve(room)
    later(room, minutes=121)
    consumed(room)
    serve(room, 1200)
    serve(room, 60)
    assert (stands(room), room.live.log_start(TOPIC)) == ("held", 10)
    room.switch_on(room.settings.policies[0])
    assert stands(room) == "on"
    serve(room)
    assert room.live.log_start(TOPIC) == 20


def test_who_confirms_it_before_its_service_starts_again_has_confirmed_it(
    room: ServiceRoom,
) -> None:
    """No service has held it by then: it stands as on, and the sentence counts all the same."""
    serve(room)
    later(room, hours=3)
    assert stands(room) == "on"
    room.switch_on(room.settings.policies[0])
    consumed(room)
    later(room, minutes=1)
    serve(room)
    assert (stands(room), room.live.log_start(TOPIC)) == ("on", 20)


def test_who_confirms_it_while_no_service_runs_has_confirmed_it(room: ServiceRoom) -> None:
    serve(room)
    later(room, hours=3)
    off(room)
    room.switch_on(room.settings.policies[0])
    later(room, minutes=119)
    consumed(room)
    serve(room)
    assert room.live.log_start(TOPIC) == 20


@pytest.mark.further_but("121-10")
@pytest.mark.parametrize(("minutes", "purged"), [(119, 20), (121, 10), (-121, 10)])
def test_the_limit_counts_to_either_side(room: ServiceRoom, minutes: float, purged: int) -> None:
    """A sign from the future tells of a clock that was set back, and not of how long ago."""
    room.clock.now += timedelta(hours=1)
    room.switch_on(room.settings.policies[0])
    later(room, hours=1)
    off(room)
    room.switch_on(room.settings.policies[0])
    serve(room)
    later(room, minutes=minutes)
    consumed(room)
    serve(room, 60)
    assert room.live.log_start(TOPIC) == purged


def test_a_timers_calls_may_lie_as_far_apart_as_the_settings_say(room: ServiceRoom) -> None:
    purge = replace(room.settings.purge, most_service_silence=timedelta(hours=25))
    room.settings = replace(room.settings, purge=purge)
    for hour in range(1, 4):
        serve(room, 1)
        assert room.live.log_start(TOPIC) == 10 * hour
        later(room, hours=24)
        consumed(room)


def test_the_limit_counts_as_its_settings_file_says_now(room: ServiceRoom) -> None:
    """A machine that slept for two minutes under its service, which began with two hours."""
    room.write()
    service = room.service()
    room.pass_time(service, 6)
    file = room.write(head='[purge]\nmost_service_silence = "1m"')
    consumed(room)
    later(room, minutes=2)
    room.pass_time(service, 6)
    assert (stands(room), room.live.log_start(TOPIC)) == ("held", 10)

    room.switch_on(room.settings.policies[0])
    file.write_text("this is no settings file")
    later(room, minutes=2)
    room.pass_time(service, 6)
    assert (stands(room), room.live.log_start(TOPIC)) == ("held", 10), "the last that was read"


@pytest.mark.further
def test_a_service_that_waits_for_its_windows_is_not_silent(room: ServiceRoom) -> None:
    purge = replace(room.settings.purge, most_service_silence=timedelta(minutes=2))
    room.settings = replace(room.settings, purge=purge)
    service = room.service()
    room.pass_time(service, 300)
    consumed(room)
    room.pass_time(service, 60)
    assert room.live.log_start(TOPIC) == 20


def test_a_machine_that_slept_under_its_service_holds_too(room: ServiceRoom) -> None:
    service = room.service()
    room.pass_time(service, 6)
    later(room, days=2)
    consumed(room)
    room.pass_time(service, 60)
    assert (stands(room), room.live.log_start(TOPIC)) == ("held", 10)


def test_a_journal_of_an_earlier_version_tells_by_its_lease_and_statuses(
    room: ServiceRoom,
) -> None:
    service = room.service()
    room.pass_time(service, 6)
    room.journal.file.rows("DELETE FROM policy_signs")
    consumed(room)
    later(room, minutes=119)
    serve(room)
    assert room.live.log_start(TOPIC) == 20
    room.journal.file.rows("DELETE FROM policy_signs")
    consumed(room)
    later(room, minutes=121)
    serve(room)
    assert room.live.log_start(TOPIC) == 20


def taken_over(room: ServiceRoom) -> RunRow:
    """By a worker that a page starts: no service looks."""
    (run,) = room.runs()
    with held(room.journal, room.folder, run.run_id, room.clock) as first:
        assert first
        found = carry_out(
            room.live, room.journal, run.run_id, now=room.clock, sleep=room.clock.sleep,
            read_only=lambda: None, policies=lambda: room.settings.policies,
            standards=lambda plan: standards(
                room.settings, room.store, plan.topic_ids, room.clock()
            ),
            steady=room.clock.steady,
        )  # fmt: skip
    assert found is not None
    return found


@pytest.mark.parametrize(("minutes", "state"), [(9, "done"), (11, "refused")])
def test_a_run_of_it_that_a_worker_takes_over_is_held_too(
    room: ServiceRoom, minutes: float, state: str
) -> None:
    room.service(start=lambda _: None).turn()
    later(room, minutes=minutes)
    run = taken_over(room)
    assert run.state == state
    if state == "refused":
        assert run.error is not None
        assert run.error["code"] == "SERVICE_SILENT"
        assert room.live.sent == []
        assert stands(room) == "held"


def test_a_run_that_no_service_could_take_over_for_so_long_is_held_too(room: ServiceRoom) -> None:
    """It is alive and leads; but whoever is to carry out the run reaches no broker."""
    room.service(start=lambda _: None).turn()

    def away() -> Streams:
        raise ClusterError("no broker answers", "Check the address.", code="BROKER_UNREACHABLE")

    site = Site(
        CurrentSettings(room.settings), room.store, room.journal, room.clock, room.clock.sleep
    )
    service = Service(site, away, emit=room.events.append)
    for _ in range(50):
        service.turn()
        room.clock.sleep(16)
    service.close()
    (run,) = room.runs()
    assert run.open
    assert stands(room) == "held"
    assert taken_over(room).state == "refused"
    assert room.live.sent == []


def test_a_thread_that_goes_on_after_the_machine_stood_still_sends_nothing(
    room: ServiceRoom,
) -> None:
    def stood_still() -> None:
        later(room, minutes=121)

    room.live.on_connect = [stood_still]
    room.pass_time(room.service(), 6)
    assert room.live.sent == []
    assert [run.state for run in room.runs()] == ["refused"]
    assert stands(room) == "held"


def test_the_database_takes_no_run_of_a_held_policy(room: ServiceRoom) -> None:
    """It was held while the service planned: by the heartbeat of another run of it."""
    service = room.service(start=lambda _: None)
    room.pass_time(service, 1)
    (run,) = room.runs()
    room.journal.set_run(run.run_id, "running", room.clock())
    later(room, minutes=121)
    room.journal.beat(run.run_id, room.clock())
    state = room.journal.policy_states(room.live.id)["streams"]
    with pytest.raises(RefusedError) as refused:
        refuse_off(state, "streams", state.definition_sha256, "prod")
    assert refused.value.code == "SERVICE_SILENT"
    assert "lowwater policies on streams" in refused.value.next_step
