"""The worker process of a run acts by the settings of who queued it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.core.errors import ClusterError, JournalError, SettingsError
from dashboard.domain.model import TopicPartition
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.jobs import queue, worker
from dashboard.purge.journal.journal import open_default
from dashboard.purge.journal.pack import pack
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.journal.wishes import pause
from dashboard.settings import current
from dashboard.settings.settings import PurgeSettings, Settings, load
from dashboard.store.snapshots import Store
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom, Streams
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_plan import free_plan

TOPIC = "billing-sum-repartition"
DEFINITION = REPARTITION + '\nwindows = ["Sun 12:00-13:00"]'


@pytest.fixture
def room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[ServiceRoom]:
    """A policy's run (it is Sunday, 12:00) whose service died before it sent anything."""
    definition = getattr(request, "param", DEFINITION)
    made = ServiceRoom(tmp_path, policy(definition, "streams"))
    one_by_one = PurgeSettings(partitions_per_request=1, requests_in_flight=1)
    made.settings = replace(made.settings, purge=one_by_one)
    made.live.topic(TOPIC, 2)
    for partition in (0, 1):
        made.live.produce(TOPIC, 10, partition)
        made.live.commit("billing", TOPIC, partition)
    made.service(start=lambda _: None).turn()
    monkeypatch.setattr(worker, "utc_now", made.clock)
    # The worker's alone: a thread of another test that sleeps would move this clock too.
    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=made.clock.sleep))
    monkeypatch.setattr(worker, "_settings", lambda _: made.settings)
    monkeypatch.setattr(worker, "_own_settings", Settings)
    monkeypatch.setattr(worker, "_connect", lambda *_: made.live)
    monkeypatch.setattr(Streams, "__enter__", lambda live: live, raising=False)
    monkeypatch.setattr(Streams, "__exit__", lambda *_: None, raising=False)
    yield made
    made.journal.close()


def work(room: ServiceRoom) -> str:
    run_id = room.runs()[0].run_id
    assert worker.main(["--run", run_id, "--state-dir", str(room.folder)]) == 0
    return room.journal.head(run_id).state


@pytest.mark.further
def test_a_workers_settings_say_whether_a_policys_run_may_begin(room: ServiceRoom) -> None:
    room.clock.sleep(300)
    assert work(room) == "done"
    assert room.live.log_start(TOPIC) == 10


def test_read_only_that_is_written_while_a_worker_sends_stops_its_next_request(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, defined = room.folder / "lowwater.toml", f"[policies.streams]\n{DEFINITION}\n"
    file.write_text(defined)
    room.settings = replace(room.settings, source=file)
    monkeypatch.setattr(current, "_KEPT_SECONDS", 0)
    send = room.live.delete_records

    def first(*words: Any, **more: Any) -> Any:
        answer = send(*words, **more)
        file.write_text(f"read_only = true\n{defined}")
        return answer

    monkeypatch.setattr(room.live, "delete_records", first)
    assert work(room) == "cancelled"
    assert [list(targets) for _, targets, _ in room.live.sent] == [[TopicPartition(TOPIC, 0)]]
    run_id = room.runs()[0].run_id
    sent, held = room.journal.partitions(run_id)
    assert (sent.state, held.state, held.error) == ("done", "not_done", "READ_ONLY")
    assert held.message == f"read_only of the settings ({file}) is on"


def test_a_worker_that_comes_after_the_window_sends_nothing(room: ServiceRoom) -> None:
    room.clock.sleep(3600)
    assert work(room) == "refused"
    assert room.live.sent == []


def test_nothing_is_sent_of_a_run_with_options_that_a_newer_release_queued(
    room: ServiceRoom,
) -> None:
    """It is seen, said so of, and cancelled, by the release that somebody went back to."""
    (before,) = room.runs()
    told = {**before.options.to_json(), "most_bytes": 10}
    with closing(sqlite3.connect(room.journal.file.path)) as db, db:
        db.execute("UPDATE runs SET options = ?", (json.dumps(told),))
    (run,) = room.runs()
    assert run.options == replace(before.options, newer=("most_bytes",))
    assert started(room, "--again") == "queued"
    error = room.journal.head(run.run_id).error
    assert error is not None and "options of a newer release: most_bytes" in error["message"]
    with pytest.raises(JournalError, match="most_bytes"):
        carry_out(
            room.live, room.journal, run.run_id, now=room.clock, sleep=room.clock.sleep,
            read_only=lambda: None, standards=lambda _: pytest.fail("looked"),
        )  # fmt: skip
    queue.request_cancel(room.settings, room.journal, run.run_id, "ann")
    assert started(room, "--again") == "cancelled"
    assert room.live.sent == []


def away(*_: object) -> object:
    raise ClusterError("no broker answers", "Check the address.", code="BROKER_UNREACHABLE")


def unsettled(*_: RunRow) -> Settings:
    raise SettingsError("/etc/lowwater.toml is not there", "Mount it.", code="SETTINGS_NOT_FOUND")


def started(room: ServiceRoom, *words: str) -> str:
    """A worker that cannot start, as whoever looks starts one; the run's state then."""
    run_id = room.runs()[0].run_id
    if "--again" in words:
        assert room.journal.claim(room.journal.head(run_id), room.clock())
    assert worker.main(["--run", run_id, "--state-dir", str(room.folder), *words]) != 0
    return room.journal.head(run_id).state


def started_away(room: ServiceRoom, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another one, while no broker answers; the run's state then."""
    with monkeypatch.context() as fault:
        fault.setattr(worker, "_connect", away)
        return started(room, "--again")


LACKS = [("_connect", away), ("_settings", unsettled), ("_own_settings", unsettled)]


@pytest.mark.further_but("_connect-away")
@pytest.mark.parametrize(("seam", "lack"), LACKS)
def test_who_takes_a_run_up_and_lacks_what_it_needs_leaves_it_to_the_next(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch, seam: str, lack: Callable[..., object]
) -> None:
    run_id = room.runs()[0].run_id
    entries = len(room.journal.entries(run_id))
    with monkeypatch.context() as fault:
        fault.setattr(worker, seam, lack)
        assert started(room, "--again") == "queued"
        assert started(room, "--again") == "queued"
    error = room.journal.head(run_id).error
    assert error is not None
    assert error["message"].startswith("no worker could start, so it waits for another one: ")
    assert len(room.journal.entries(run_id)) == entries + 1, "said once"
    assert room.journal.verify().ok
    assert work(room) == "done"
    assert room.journal.head(run_id).error is None


@pytest.mark.parametrize("room", [f'{DEFINITION}\narchive = "none://kept"'], indirect=True)
def test_who_takes_a_run_up_and_cannot_reach_its_archive_leaves_it_to_the_next(
    room: ServiceRoom,
) -> None:
    assert started(room, "--again") == "queued"
    error = room.journal.head(room.runs()[0].run_id).error
    assert error is not None
    assert error["code"] == "ARCHIVE_URL_INVALID"
    assert room.journal.verify().ok
    assert work(room) == "refused", "the first one has nobody before it who had more"
    assert room.live.sent == []


def test_who_takes_up_a_run_that_has_sent_leaves_it_too(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = room.runs()[0].run_id
    row = replace(room.journal.partitions(run_id)[0], state="sent", attempts=1)
    room.journal.set_run(run_id, "running", room.clock())
    room.journal.intend(run_id, [row], room.clock)
    assert started_away(room, monkeypatch) == "running"
    assert room.journal.partitions(run_id)[0].state == "sent"
    assert work(room) == "done"


@pytest.mark.parametrize("why", ["first", "expired"])
def test_the_first_worker_closes_it_and_so_does_one_that_comes_too_late(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(worker, "_connect", away)
    if why == "expired":
        run = room.runs()[0]
        room.clock.sleep(run.options.unsent_for_ms / 1000)
        room.journal.beat(run.run_id, room.clock())
    assert started(room, *(["--again"] if why == "expired" else [])) == "refused"


def test_what_says_why_a_run_is_paused_stays(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = room.runs()[0].run_id
    why = {"code": "WORKER_SILENT", "message": "m", "next": "n"}
    with room.journal.file.write() as db:
        pause(db, run_id, why, room.clock())
    monkeypatch.setattr(worker, "_connect", away)
    assert started(room, "--again") == "paused"
    assert room.journal.head(run_id).error == why


def of_a_person(room: ServiceRoom) -> None:
    """Make the policy's run one that a person confirmed."""
    with room.journal.file.write() as db:
        db.execute("DELETE FROM run_policies")


@pytest.mark.further_but("_connect-away")
@pytest.mark.parametrize(("seam", "lack"), LACKS)
def test_workers_that_cannot_start_are_no_sign_of_life(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch, seam: str, lack: Callable[..., object]
) -> None:
    """Whoever looks starts one each minute; what was confirmed is long past when Kafka is back."""
    run_id = room.runs()[0].run_id
    of_a_person(room)
    with monkeypatch.context() as fault:
        fault.setattr(worker, seam, lack)
        for _ in range(10):
            assert started(room, "--again") == "queued"
            room.clock.sleep(60)
        room.clock.sleep(60)
        assert started(room, "--again") == "paused"
    error = room.journal.head(run_id).error
    assert error is not None and error["code"] == "WORKER_SILENT"
    assert room.journal.wish(run_id) == "pause", "a person resumes it"


def test_a_cancelled_run_is_not_left_to_another(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = room.runs()[0].run_id
    room.journal.set_wish(run_id, "cancel", "ann", room.clock())
    monkeypatch.setattr(worker, "_connect", away)
    assert started(room, "--again") == "cancelled"


@pytest.mark.parametrize("why", ["cancelled", "expired"])
def test_while_the_settings_of_who_starts_workers_are_wrong_a_run_ends_all_the_same(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    run = room.runs()[0]
    file = room.folder / "lowwater.toml"
    file.write_text("[purge]\nwatch_for = 1h\n")  # no quotes
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    monkeypatch.setattr(worker, "_own_settings", load)
    if why == "cancelled":
        room.journal.set_wish(run.run_id, "cancel", "ann", room.clock())
    else:
        room.clock.sleep(run.options.unsent_for_ms / 1000)
    assert started(room, "--again") == ("cancelled" if why == "cancelled" else "refused")
    error = room.journal.head(run.run_id).error
    assert error is not None and "lowwater.toml cannot be read" in error["message"]
    assert room.journal.busy_topics(run.cluster_id) == {}


def test_a_run_of_which_the_plan_cannot_be_read_says_so_and_ends_when_it_is_cancelled(
    room: ServiceRoom,
) -> None:
    """As after the return to an earlier version, which does not know all that a plan says."""
    run_id = room.runs()[0].run_id
    with room.journal.file.write() as db:
        db.execute("UPDATE runs SET plan=?", (pack('{"from_the_future": 1}'),))
    assert started(room, "--again") == "queued"
    error = room.journal.head(run_id).error
    assert error is not None and error["code"] == "JOURNAL_BROKEN"
    room.journal.set_wish(run_id, "cancel", "ann", room.clock())
    assert started(room, "--again") == "cancelled"


def test_what_nobody_foresaw_is_said_too(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no package reads the data folder's URL."""
    monkeypatch.setattr(worker, "_connect", lambda *_: Store("nowhere://bucket"))
    with pytest.raises(ValueError, match="nowhere"):
        started(room, "--again")
    error = room.journal.head(room.runs()[0].run_id).error
    assert error is not None
    assert "waits for another one: unexpected ValueError: Protocol not known" in error["message"]


def resumed(room: ServiceRoom) -> str:
    """A person's run that was paused, lost its worker, and was resumed: its id."""
    run_id = room.runs()[0].run_id
    of_a_person(room)
    room.journal.set_wish(run_id, "pause", "ann", room.clock())
    room.journal.set_run(run_id, "paused", room.clock())
    room.journal.set_wish(run_id, None, "ann", room.clock())
    return run_id


@pytest.mark.further
def test_a_resumed_run_that_no_worker_can_start_says_why_and_goes_on_with_the_next(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = resumed(room)
    assert started_away(room, monkeypatch) == "paused"
    error = room.journal.head(run_id).error
    assert error is not None and error["code"] == "BROKER_UNREACHABLE"
    assert error["message"].startswith("no worker could start, so it waits for another one: ")
    assert work(room) == "done"
    assert room.journal.head(run_id).error is None


@pytest.mark.further
def test_what_no_worker_could_start_for_is_not_said_of_a_run_that_went_on(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was sent before the pause: no round asks whether more may be."""
    run_id = resumed(room)
    rows = [replace(row, state="sent", attempts=1) for row in room.journal.partitions(run_id)]
    room.journal.intend(run_id, rows, room.clock)
    assert started_away(room, monkeypatch) == "paused"
    for part in room.live.parts.values():
        part.starts.update({1: 10, 2: 10, 3: 0})
    assert work(room) == "partial", "a follower stands still"
    assert room.journal.head(run_id).error is None


@pytest.mark.further
def test_a_resumed_run_that_none_could_start_for_long_waits_for_a_person_again(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = resumed(room)
    for _ in range(12):
        started_away(room, monkeypatch)
        room.clock.sleep(60)
    run = room.journal.head(run_id)
    assert (run.wish, run.error and run.error["code"]) == ("pause", "WORKER_SILENT")
    room.journal.set_wish(run_id, None, "ann", room.clock())
    assert work(room) == "done", "whoever resumes it knows of the silence"


@pytest.fixture
def respawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else, who starts the worker again from there."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr("dashboard.settings.settings.user_config_path", lambda _: tmp_path / "etc")
    monkeypatch.delenv("LOWWATER_SETTINGS", raising=False)
    monkeypatch.chdir(folder)
    return folder


def queued(folder: Path, source: Path | None) -> RunRow:
    """A run that was queued with these settings, or without a file."""
    settings = load(source) if source else Settings()
    settings = replace(settings, state_dir=folder, data=str(folder / "data"))
    with closing(open_default(settings)) as journal:
        plan = free_plan()
        run_id = queue.enqueue(
            settings, journal, plan, mode="wait-all", confirm=plan.confirmation, sha256=None,
            who="ann", token="click", now=NOW, start=False,
        )  # fmt: skip
        return journal.head(run_id)


def test_a_run_that_was_queued_without_a_file_reads_none_of_who_starts_it_again(
    respawned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queued(tmp_path, None)
    (respawned / "lowwater.toml").write_text(
        'broker_timeout = "3s"\n[clusters.prod]\n"bootstrap.servers" = "elsewhere:9092"\n'
    )
    monkeypatch.setenv("LOWWATER_BROKER_TIMEOUT", "2s")
    chosen = worker._settings(run)
    assert (chosen.source, chosen.clusters) == (None, {})
    assert chosen.broker_timeout == timedelta(seconds=10)


def test_a_run_keeps_the_file_of_who_queued_it(
    respawned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = tmp_path / "mine.toml", respawned / "lowwater.toml"
    mine.write_text('broker_timeout = "7s"\n')
    theirs.write_text('broker_timeout = "3s"\n')
    run = queued(tmp_path, mine)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(theirs))
    assert worker._settings(run).source == mine
    mine.write_text('broker_timeout = "9s"\n')
    assert worker._settings(run).broker_timeout == timedelta(seconds=7), "as it was queued"


@pytest.mark.parametrize("whose", ["queuer", "starter", "variable", "nobody"])
def test_read_only_of_either_stops_it(
    respawned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    mine, theirs = tmp_path / "mine.toml", respawned / "lowwater.toml"
    mine.write_text("")
    theirs.write_text("")
    run = queued(tmp_path, mine)
    if whose == "variable":
        monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    elif whose != "nobody":
        (mine if whose == "queuer" else theirs).write_text("read_only = true")
    if whose == "queuer":  # a variable of who starts it does not take that back
        monkeypatch.setenv("LOWWATER_READ_ONLY", "false")
    said = worker._read_only(run, worker._settings(run), worker._own_settings())()
    assert (said is None) is (whose == "nobody")


def test_a_variable_of_who_queued_it_still_stands_above_his_file(
    respawned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("read_only = true")
    monkeypatch.setenv("LOWWATER_READ_ONLY", "false")
    run = queued(tmp_path, mine)
    monkeypatch.delenv("LOWWATER_READ_ONLY")
    assert respawned == Path.cwd()
    assert worker._read_only(run, worker._settings(run), worker._own_settings())() is None
