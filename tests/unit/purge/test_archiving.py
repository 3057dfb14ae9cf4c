"""A run with an archive sends nothing that is not proved to be kept, whatever fails or ends."""

# ruff: noqa: ARG002  (the seam's arguments, of which a fake needs few)
from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.archive import keep
from dashboard.archive.format import read_batches
from dashboard.archive.manifest import Range, RunArchive, commits_sha256, part_name, partition_name
from dashboard.archive.place import Place, begin, committed
from dashboard.cluster.ranges import OUT_OF_RANGE, RangeError, Records, untold
from dashboard.core.clock import Stopwatch
from dashboard.core.errors import ArchiveError, ClusterError, JournalError, RefusedError
from dashboard.domain.model import BatchSpan, TopicPartition, TopicState
from dashboard.purge.execute.archiving import (
    INCOMPLETE,
    Archiving,
    Reading,
    refuse_unreached,
)
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.execute.execute import Execution
from dashboard.purge.execute.fresh import Fresh
from dashboard.purge.execute.send import Sender
from dashboard.purge.journal.rows import Options, RunView
from dashboard.purge.plan.facts import partition_facts
from dashboard.purge.plan.plan import Plan
from dashboard.settings.archive import ArchiveSettings
from tests.support.cluster import FakeCluster
from tests.support.kept_log import columns
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room

SETTINGS = ArchiveSettings(part_bytes=400, readers=2)


class Log(FakeCluster):
    """The fake cluster with records: each offset has one, but for `holes` that nobody explains."""

    holes: dict[int, int] = {}  # noqa: RUF012  # partition -> offset; replaced, never changed
    steps_over: int | None = None  # an offset that is no record, of every partition
    read_epoch = 3
    reads: int = 0
    on_read: Callable[[TopicPartition, int], None] = staticmethod(lambda *_: None)

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        wanted = [TOPIC] if names is None else list(names)
        own = super().topics(names)
        return {n: own.get(n, TopicState(n, "internal", True, ())) for n in wanted}

    def own_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None] | str]:
        return {name: {"retention.ms": "1000"} for name in topics}

    def batch_spans(
        self, key: TopicPartition, offset: int, most_bytes: int
    ) -> tuple[BatchSpan, ...] | str:
        return (BatchSpan(offset, offset + 9, 10, False, self.read_epoch),)

    def read(self, key: TopicPartition, start: int, target: int) -> Iterator[Records]:
        at = start
        while at < target:
            self.reads += 1
            self.on_read(key, at)
            if at < self.parts[key].starts[self.parts[key].leader_id or 1]:
                raise RangeError(OUT_OF_RANGE)
            end = min(at + 10, target)
            holes = (self.holes.get(key.partition), self.steps_over)
            found = [o for o in range(at, end) if o not in holes]
            at = end
            yield Records(columns(found), at, {self.read_epoch: found[-1] + 1} if found else {})


class ArchiveRoom(Room):
    """The room of a run whose records are kept in a folder first."""

    live: Log

    def __init__(self, folder: Path, partitions: int = 2) -> None:
        super().__init__(folder, partitions)
        self.live = Log(partitions)
        self.url = str(folder / "kept")
        Path(self.url).mkdir()

    def archived_plan(self) -> Plan:
        return replace(self.plan(), archive=self.url)

    def archiving(self, run_id: str) -> Archiving:
        run, plan = self.journal.head(run_id), self.journal.plan(run_id)
        return Archiving(
            self.live, self.journal, run, plan, self.reading, self.clock, lambda _: None
        )

    @property
    def reading(self) -> Reading:
        return Reading(
            dict, lambda: SETTINGS, lambda *_: nullcontext(untold), lambda *_: _Reader(self.live)
        )

    def execution(self, run_id: str, **more: Any) -> Execution:
        return super().execution(run_id, archiving=self.archiving(run_id), **more)

    def go(self, plan: Plan | None = None, **change: Any) -> RunView:
        return self.carry_out(plan or self.archived_plan(), archive=self.url, **change)

    def rows(self, view: RunView) -> dict[int, tuple[str, str | None]]:
        return {row.partition: (row.state, row.error) for row in view.partitions}

    def kept(self, run: RunArchive | None, key: TopicPartition, run_id: str) -> set[int]:
        """The offsets that can be read back from the parts that the commit names."""
        place = Place(self.url)
        known = run or begin(place, "cluster-1", run_id, lambda: pytest.fail("none"))[0]
        found = committed(place, known, key)
        offsets: set[int] = set()
        for part in found.parts if found else ():
            body = place.get(part_name("cluster-1", run_id, key, part.file))
            assert body is not None
            for batch in read_batches(body):
                offsets.update(batch.column("offset").to_pylist())
        return offsets


class _Reader:
    def __init__(self, live: Log) -> None:
        self.read = live.read

    def close(self) -> None:
        pass


@pytest.fixture
def room(tmp_path: Path) -> ArchiveRoom:
    return ArchiveRoom(tmp_path)


def test_records_are_kept_and_proved_before_any_request_leaves(room: ArchiveRoom) -> None:
    found: dict[TopicPartition, set[int]] = {}
    plan = room.archived_plan()
    run_id = room.queue(plan, archive=room.url)
    room.live.on_send.append(
        lambda: found.update({key: room.kept(None, key, run_id) for key in room.live.parts})
    )
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert view.run.state == "done"
    assert found == {key: set(range(60)) for key in room.live.parts}
    archive = view.run.archive
    assert archive is not None
    assert (archive.state, archive.committed, archive.records) == ("proved", 2, 120)
    kinds = [entry.kind for entry in room.journal.entries()]
    assert kinds.index("archiving") < kinds.index("kept") < kinds.index("intent")
    run = begin(Place(room.url), "cluster-1", run_id, lambda: pytest.fail("none"))[0]
    commits = [committed(Place(room.url), run, key) for key in sorted(found)]
    assert room.journal.commits_kept(run_id) == commits_sha256(c for c in commits if c)
    body = view.to_json()["archive"]
    assert isinstance(body, dict)
    assert (body["url"], body["folder"]) == (room.url, f"cluster-1/{run_id}")
    assert room.journal.verify().ok


def test_a_partition_that_cannot_be_kept_whole_is_refused_and_the_others_go(
    room: ArchiveRoom,
) -> None:
    room.live.holes = {1: 33}
    view = room.go()
    assert room.rows(view) == {0: ("done", None), 1: ("not_done", INCOMPLETE)}
    assert "33" in str(view.partitions[1].message)
    assert [targets for _, targets, _ in room.live.sent] == [{TopicPartition(TOPIC, 0): 60}]
    assert view.run.archive is not None
    assert view.run.archive.state == "incomplete"


def _lost_commit(room: ArchiveRoom, run_id: str) -> None:
    for n in range(2):
        Place(room.url).remove(partition_name("cluster-1", run_id, TopicPartition(TOPIC, n)))


def _first_parts(room: ArchiveRoom, run_id: str) -> list[Path]:
    folder = Path(room.url, "cluster-1", run_id, TOPIC)
    return [min((folder / str(n)).glob("*.parquet")) for n in range(2)]


def _lost_part(room: ArchiveRoom, run_id: str) -> None:
    for part in _first_parts(room, run_id):
        part.unlink()


def _cut_part(room: ArchiveRoom, run_id: str) -> None:
    for part in _first_parts(room, run_id):
        part.write_bytes(part.read_bytes()[:-1])


def _older_start(room: ArchiveRoom, _: str) -> None:
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 4)


def _election(room: ArchiveRoom, _: str) -> None:
    for part in room.live.parts.values():
        part.epoch_ends[2] = 30


@pytest.mark.parametrize(
    ("happens", "start", "epoch"),
    [
        (_lost_commit, 0, 3), (_lost_part, 0, 3), (_cut_part, 0, 3), (_older_start, 7, 3),
        (_election, 0, 2),
    ],
    ids=[
        "commit-removed", "part-removed", "part-cut", "older-records-came-back",
        "read-from-a-log-that-lost",
    ],
)  # fmt: skip
def test_what_is_not_proved_or_not_there_before_a_request_leaves_is_refused(
    room: ArchiveRoom, happens: Callable[[ArchiveRoom, str], None], start: int, epoch: int
) -> None:
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, start)
    room.live.read_epoch = epoch
    run_id = room.queue(room.archived_plan(), archive=room.url)
    execution = room.execution(run_id)
    archiving = execution.archiving
    assert archiving is not None
    kept = archiving.keep

    def then_it_happens(*words: Any) -> Any:
        found = kept(*words)
        happens(room, run_id)
        return found

    archiving.keep = then_it_happens  # type: ignore[method-assign]
    execution.execute()
    view = room.journal.run(run_id)
    assert room.rows(view) == {0: ("not_done", INCOMPLETE), 1: ("not_done", INCOMPLETE)}
    assert room.live.sent == []


def test_what_is_asked_of_the_place_is_asked_before_the_look_at_the_cluster(
    room: ArchiveRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look counts for seconds; ten thousand commits, and their parts, take longer."""
    get, size_bytes = Place.get, Place.size_bytes

    def slow_get(self: Place, name: str) -> bytes | None:
        if name.endswith("partition.json") and kept:
            room.clock.sleep(40)
        return get(self, name)

    def slow_size(self: Place, name: str) -> int | None:
        room.clock.sleep(40)
        asked.append(name)
        return size_bytes(self, name)

    kept: list[bool] = []
    asked: list[str] = []
    monkeypatch.setattr(Place, "get", slow_get)
    monkeypatch.setattr(Place, "size_bytes", slow_size)
    room.live.on_read = lambda _, at: kept.append(True) if at == 50 else None
    view = room.go()
    assert view.run.state == "done"
    assert len(asked) == len(set(asked)) > 2, "of each part once"


@pytest.mark.parametrize("lost", ["part", "manifest"])
def test_what_was_there_before_the_first_request_is_asked_for_again_after_a_pause(
    room: ArchiveRoom, lost: str
) -> None:
    """A canary goes, somebody pauses the run, and a clean-up goes by."""
    run_id = room.queue(room.archived_plan(), archive=room.url, canary=True)
    execution = room.execution(run_id)

    def first_is_sent() -> None:
        room.journal.set_wish(run_id, "pause", "ann", NOW)

    def pauses(seconds: float) -> None:
        room.clock.sleep(seconds)
        if room.journal.wish(run_id) == "pause" and len(room.live.sent) == 1:
            room.clock.sleep(90)
            folder = Path(room.url, "cluster-1", run_id)
            if lost == "part":
                sorted(folder.glob(f"{TOPIC}/1/*.parquet"))[-1].unlink()
            else:
                (folder / "archive.json").unlink()
            room.journal.set_wish(run_id, None, "ann", NOW)

    room.live.on_send.append(first_is_sent)
    execution.sleep = pauses
    execution.execute()
    view = room.journal.run(run_id)
    assert [row.state for row in view.partitions] == ["done", "not_done"]
    assert len(room.live.sent) == 1


def test_a_worker_that_does_not_find_what_another_began_begins_nothing_anew(
    room: ArchiveRoom,
) -> None:
    """The volume is not mounted where it stands, or somebody emptied it."""
    run_id = room.queue(room.archived_plan(), archive=room.url)

    def dies(_: TopicPartition, at: int) -> None:
        if at == 30:
            raise Died

    room.live.on_read = dies
    with pytest.raises(Died):
        room.execution(run_id).execute()
    room.live.on_read = lambda *_: None
    Path(room.url).rename(Path(room.url).with_name("unmounted"))
    Path(room.url).mkdir()
    with pytest.raises(ArchiveError, match="this archive had begun"):
        refuse_unreached(room.journal.head(run_id), SETTINGS)
    room.execution(run_id).execute()
    head = room.journal.head(run_id)
    assert (head.state, head.error and head.error["code"]) == ("refused", "ARCHIVE_UNREACHABLE")
    assert (room.live.sent, [*Path(room.url).rglob("*.json")]) == ([], [])


def test_records_of_an_older_epoch_are_asked_for_where_a_later_look_saw_the_one_that_leads(
    room: ArchiveRoom,
) -> None:
    """The last offset is a marker of epoch 3, which leads; what was read below is of epoch 2, and
    the log that leads now has that no further than 30.
    """
    room.live.read_epoch = 2
    room.live.steps_over = 59
    room.live.batch_spans = lambda *_: (BatchSpan(59, 59, 1, True, 3),)  # type: ignore[method-assign]
    _election(room, "")
    view = room.go()
    assert room.rows(view) == {0: ("not_done", INCOMPLETE), 1: ("not_done", INCOMPLETE)}
    assert room.live.sent == []


def test_a_worker_with_another_key_than_the_archive_began_with_cannot_go_on(
    room: ArchiveRoom, tmp_path: Path
) -> None:
    plan = room.archived_plan()
    run_id = room.queue(plan, archive=room.url)
    refuse_unreached(room.journal.head(run_id), SETTINGS)
    room.execution(run_id).execute()
    (tmp_path / "key").write_text("ab" * 32)
    refuse_unreached(room.journal.head(run_id), SETTINGS)
    with pytest.raises(ArchiveError) as refused:
        refuse_unreached(room.journal.head(run_id), replace(SETTINGS, key_file=tmp_path / "key"))
    assert refused.value.code == "ARCHIVE_KEY_WRONG"


def test_an_older_epoch_that_the_leader_still_has_in_full_is_no_doubt(room: ArchiveRoom) -> None:
    room.live.read_epoch = 2
    for part in room.live.parts.values():
        part.epoch_ends[2] = 60
    assert room.go().run.state == "done"


def test_retention_that_goes_on_behind_the_reading_changes_nothing(room: ArchiveRoom) -> None:
    def retention(key: TopicPartition, at: int) -> None:
        if at == 50:
            room.live.parts[key].starts = dict.fromkeys((1, 2, 3), 20)

    room.live.on_read = retention
    assert room.go().run.state == "done"


def test_a_partition_whose_log_begins_past_its_target_has_nothing_left_to_keep(
    room: ArchiveRoom,
) -> None:
    plan = room.archived_plan()
    room.live.parts[TopicPartition(TOPIC, 1)].starts = dict.fromkeys((1, 2, 3), 60)
    run_id = room.queue(plan, archive=room.url)
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert room.rows(view) == {0: ("done", None), 1: ("done", None)}
    assert [[*targets] for _, targets, _ in room.live.sent] == [[TopicPartition(TOPIC, 0)]]
    assert view.run.archive is not None
    assert view.run.archive.state == "proved"


def test_what_retention_took_before_its_turn_need_not_be_kept(room: ArchiveRoom) -> None:
    def retention(key: TopicPartition, at: int) -> None:
        if at == 0:
            room.live.parts[key].starts = dict.fromkeys((1, 2, 3), 20)

    room.live.on_read = retention
    view = room.go()
    assert room.rows(view) == {0: ("done", None), 1: ("done", None)}
    assert view.run.archive is not None
    assert (view.run.archive.state, view.run.archive.records) == ("proved", 80)


def test_each_of_many_partitions_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand the search for those that were left out took minutes, all alone."""
    room = ArchiveRoom(tmp_path, partitions=30)
    asked: list[int] = []

    def key(one: Range) -> TopicPartition:
        asked.append(one.partition)
        return TopicPartition(one.topic, one.partition)

    monkeypatch.setattr(Range, "key", property(key))
    assert room.go().run.state == "done"
    assert len(asked) < 30 * 20


@pytest.mark.parametrize("code", ["ARCHIVE_UNWRITABLE", "ARCHIVE_UNREACHABLE"])
def test_a_place_that_fails_stops_all_before_anything_is_deleted(
    room: ArchiveRoom, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def full(self: Place, name: str, body: bytes) -> None:
        if "part-" in name:
            raise ArchiveError(f"the archive {self.url} is full", "Free space.", code=code)
        put(self, name, body)

    put = Place.put
    monkeypatch.setattr(Place, "put", full)
    view = room.go()
    assert (view.run.state, room.live.sent) == ("refused", [])
    assert view.run.error == {
        "code": code, "message": f"the archive {room.url} is full", "next": "Free space.",
    }  # fmt: skip
    assert view.run.archive is not None
    assert view.run.archive.state == "failed"


def test_an_error_that_nobody_foresaw_refuses_the_run_and_kills_no_worker(
    room: ArchiveRoom,
) -> None:
    def odd(_: TopicPartition, at: int) -> None:
        if at == 30:
            raise KeyError("orders")

    room.live.on_read = odd
    view = room.go()
    assert (view.run.state, room.live.sent) == ("refused", [])
    assert view.run.error is not None
    assert "unexpected KeyError: 'orders'" in view.run.error["message"]
    assert view.run.archive is not None
    assert view.run.archive.state == "failed"


@pytest.mark.further_but("cancel")
@pytest.mark.parametrize("wish", ["pause", "cancel", "read-only"])
def test_who_stops_the_run_is_heard_while_it_reads(
    room: ArchiveRoom, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    monkeypatch.setattr(keep, "_TICK_SECONDS", 0.01)
    run_id = room.queue(room.archived_plan(), archive=room.url)
    execution = room.execution(run_id)

    def asks(_: TopicPartition, at: int) -> None:
        if at != 10 or room.live.reads > 4:
            return
        if wish == "read-only":
            room.read_only = True
        else:
            room.journal.set_wish(run_id, wish, "ann", NOW)
        time.sleep(0.3)

    def resumed(_: float) -> None:
        assert room.live.sent == []
        if room.journal.wish(run_id) == "pause":
            read_by_then.append(room.live.reads)
            room.journal.set_wish(run_id, None, "ann", NOW)

    read_by_then: list[int] = []
    room.live.on_read = asks
    execution.sleep = resumed
    execution.execute()
    view = room.journal.run(run_id)
    if wish == "pause":
        assert view.run.state == "done"
    else:
        assert (view.run.state, room.live.sent) == ("cancelled", [])
    assert all(reads <= 4 for reads in read_by_then or [room.live.reads])


def test_kafka_that_cannot_be_asked_is_waited_for_and_then_given_up(room: ArchiveRoom) -> None:
    room.live.own_configs = lambda _: (_ for _ in ()).throw(  # type: ignore[method-assign]
        ClusterError("away", "wait")
    )
    view = room.go()
    assert (view.run.state, room.live.sent) == ("refused", [])
    assert {row.error for row in view.partitions} == {"LEADER_NOT_AVAILABLE"}


def test_the_sender_itself_lets_nothing_leave_without_a_proof(room: ArchiveRoom) -> None:
    """Whoever forgets the gate, or hands the wrong proofs over, meets it here."""
    run_id = room.queue(room.archived_plan(), archive=room.url)
    run, rows = room.journal.head(run_id), room.journal.partitions(run_id)
    facts = partition_facts(
        room.live.topics([TOPIC]), room.live.offsets(room.live.parts), (),
        room.live.log_dirs(),
    )  # fmt: skip
    watch = Stopwatch(room.clock, room.clock.steady)
    sender = Sender(room.live, room.journal, run, watch, lambda: True, lambda _: None)
    with pytest.raises(RefusedError) as refused:
        sender.send({row.key: row for row in rows}, facts, Fresh.now_ready(watch, watch.mark()))
    assert (refused.value.code, room.live.sent) == ("ARCHIVE_INCOMPLETE", [])


@pytest.mark.parametrize("asks", ["plan", "run"])
def test_a_run_that_asks_for_another_archive_than_its_plan_is_refused(
    room: ArchiveRoom, asks: str
) -> None:
    plan = room.archived_plan() if asks == "plan" else room.plan()
    run_id = room.queue(plan, archive=None if asks == "plan" else room.url)
    with pytest.raises(RefusedError, match="its plan asks for") as refused:
        room.execution(run_id)
    assert refused.value.code == "ARCHIVE_INCOMPLETE"


def test_a_worker_that_keeps_nothing_refuses_a_run_that_asks_for_it(room: ArchiveRoom) -> None:
    run_id = room.queue(room.archived_plan(), archive=room.url)
    run = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None, standards=lambda _: room.standards, steady=room.clock.steady,
    )  # fmt: skip
    assert (run.state, run.error and run.error["code"]) == ("refused", "ARCHIVE_INCOMPLETE")
    assert room.live.sent == []


def test_what_began_in_time_may_take_longer_than_its_plan_stands(tmp_path: Path) -> None:
    room = ArchiveRoom(tmp_path, partitions=3)
    run_id = room.queue(room.archived_plan(), archive=room.url, unsent_for_ms=25 * 3_600_000)

    alone = threading.Lock()  # of two that sleep before either beats the worker looks silent

    def slow(_: TopicPartition, at: int) -> None:
        with alone:
            room.clock.sleep(250)
            room.journal.beat(run_id, room.clock())

    room.live.on_read = slow
    run = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None, standards=lambda _: room.standards, steady=room.clock.steady,
        reading=room.reading,
    )  # fmt: skip
    assert run.state == "done"
    assert room.clock() - NOW > timedelta(hours=1)


def test_an_older_release_sends_nothing_of_such_a_run() -> None:
    plain = Options(1, 1, 1, 1)
    assert "archive" not in plain.to_json()
    told = {**plain.to_json(), "archive_of_tomorrow": "x"}
    newer = Options.of(json.dumps(told))
    with pytest.raises(JournalError, match="archive_of_tomorrow"):
        newer.all_known("run r1")
    with_one = replace(plain, archive="s3://b")
    assert Options.of(json.dumps(with_one.to_json())) == with_one


class Died(BaseException):
    """The worker's process ends here."""


@pytest.mark.further_but("0", "3", "7", "11", "15", "18", "22", "26")
@pytest.mark.parametrize("seed", range(30))
def test_whatever_fails_or_dies_no_offset_goes_that_cannot_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Deaths, full stores, files that vanish, retention and elections at random moments."""
    chance = random.Random(seed)
    room = ArchiveRoom(tmp_path, partitions=3)
    run_id = room.queue(room.archived_plan(), archive=room.url)
    put = Place.put

    def odd_put(self: Place, name: str, body: bytes) -> None:
        fate = chance.random()
        if fate < 0.04:
            raise Died
        if fate < 0.045:
            raise ArchiveError("full", "free", code="ARCHIVE_UNWRITABLE")
        put(self, name, body)
        if fate > 0.96:
            raise Died

    def odd_read(key: TopicPartition, at: int) -> None:
        fate, part = chance.random(), room.live.parts[key]
        if fate < 0.02:
            raise Died
        if fate < 0.05:
            part.starts = dict.fromkeys(part.starts, max(*part.starts.values(), at - 15))
        elif fate < 0.06:
            room.live.elect(chance.choice([1, 2, 3]))
        elif fate > 0.97:
            for file in [*Path(room.url).rglob("p*rt*.parquet" if fate > 0.985 else "p*n.json")][
                :1
            ]:
                file.unlink(missing_ok=True)

    def no_proof_no_request() -> None:
        _, targets, _ = room.live.sent[-1]
        for key, target in targets.items():
            start = min(room.live.parts[key].starts.values())
            assert room.kept(None, key, run_id) >= set(range(start, target))
        room.live.on_send.append(no_proof_no_request)

    monkeypatch.setattr(Place, "put", odd_put)
    room.live.on_read = odd_read
    room.live.on_send.append(no_proof_no_request)
    for _ in range(60):
        try:
            room.execution(run_id).execute()
        except Died:
            continue
        break
    view = room.journal.run(run_id)
    assert not view.run.open
    sent = {key for _, targets, _ in room.live.sent for key in targets}
    for row in view.partitions:
        assert (row.state in ("done", "leader_done")) <= (
            row.key in sent or min(room.live.parts[row.key].starts.values()) >= 60
        )


def test_a_partition_that_was_refused_is_no_part_of_a_whole_archive(
    room: ArchiveRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first commit still lies there when a third worker ends the archive."""
    run_id = room.queue(room.archived_plan(), archive=room.url)
    whole, calls = Archiving.in_place, 0

    def dies(archiving: Archiving, keys: Iterable[TopicPartition]) -> Any:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise KeyboardInterrupt
        return whole(archiving, keys)

    monkeypatch.setattr(Archiving, "in_place", dies)
    with pytest.raises(KeyboardInterrupt):
        room.execution(run_id).execute()  # both are committed
    _first_parts(room, run_id)[1].unlink()
    room.live.holes = {1: 3}  # what is read again is not whole any more
    with pytest.raises(KeyboardInterrupt):
        room.execution(run_id).execute()
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert [(row.state, row.error) for row in view.partitions] == [
        ("done", None), ("not_done", INCOMPLETE),
    ]  # fmt: skip
    assert view.run.archive is not None
    assert view.run.archive.state == "incomplete"
    ended = begin(Place(room.url), view.run.cluster_id, run_id, lambda: pytest.fail("none"))[0]
    assert ended.state == "incomplete"
