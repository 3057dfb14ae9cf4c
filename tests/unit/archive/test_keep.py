"""A partition is kept only if each offset below its target was read, written and proved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dashboard.archive import keep
from dashboard.archive.format import SCHEMA, read_batches, stored_sha256
from dashboard.archive.keep import Keeper, Kept, Progress
from dashboard.archive.manifest import (
    PART,
    PARTITION,
    RUN,
    Gap,
    Range,
    RunArchive,
    part_name,
    partition_name,
    proof_name,
    run_name,
)
from dashboard.archive.place import Place, begin, committed, end
from dashboard.archive.reading import Explainer
from dashboard.core.errors import ArchiveError, RefusedError
from dashboard.domain.model import BatchSpan, TopicPartition
from dashboard.settings.archive import ArchiveSettings
from tests.support.kept_log import (
    KEY,
    TOPIC,
    TOPIC_ID,
    Batch,
    KeptLog,
    columns,
    data,
    marker,
    run_of,
)

SMALL = ArchiveSettings(part_bytes=100, readers=2)


def keeper(place: Place, log: KeptLog, **changed: Any) -> Keeper:
    given: dict[str, Any] = {
        "place": place, "run": run_of(), "settings": SMALL, "log": log, "open_reader": log.reader,
        "compacted": lambda _: False, **changed,
    }  # fmt: skip
    return Keeper(**given)


def kept(place: Place, log: KeptLog, **changed: Any) -> Kept:
    made = keeper(place, log, **changed)
    if "://" not in place.url:
        Path(place.url, "c1", "r1").mkdir(parents=True, exist_ok=True)  # as `begin` does
    found = made.keep(made.run.partitions)
    assert log.open_readers == 0
    return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "kept").mkdir()
    return Place(str(tmp_path / "kept"), lambda _: None)


def records_in(place: Place, run: RunArchive, key: TopicPartition = KEY) -> list[dict[str, Any]]:
    found = committed(place, run, key)
    assert found is not None
    rows = []
    for part in found.parts:
        body = place.get(part_name(run.cluster_id, run.run_id, key, part.file))
        assert body is not None
        for batch in read_batches(body):
            rows += batch.to_pylist()
    return rows


def test_all_below_the_target_is_kept_as_it_was(place: Place) -> None:
    log = KeptLog([data(0, 9), data(10, 40, epoch=2)])
    told: list[Progress] = []
    found = kept(place, log, told=told.append)
    (archive,) = found.committed.values()
    assert (archive.records, archive.skipped, found.incomplete, found.held) == (20, None, {}, False)
    assert len(archive.parts) > 2
    assert archive.covers(TOPIC_ID, 0, 20)
    assert archive.epochs == {1: 10, 2: 20}
    rows = records_in(place, run_of())
    expected = columns(range(20))
    assert [row["offset"] for row in rows] == expected["offset"]
    assert [row["value"] for row in rows] == expected["value"]
    assert [row["key"] for row in rows] == expected["key"]
    assert [[tuple(h.values()) for h in row["headers"]] for row in rows] == expected["headers"]
    last = told[-1]
    assert (last.committed, last.offsets_done, last.offsets, last.records) == (1, 20, 20, 20)


def test_a_later_look_at_the_log_hides_no_epoch_in_which_records_were_read(place: Place) -> None:
    """Others lead by the time that a gap is explained, and their log has something else there."""
    log = KeptLog([data(0, 18, epoch=5), marker(19, epoch=5)])

    def elected(at: int) -> None:
        log.batches[1:] = [marker(19, epoch=6)] if at == 18 else log.batches[1:]

    log.on_read = elected
    (archive,) = kept(place, log, settings=ArchiveSettings()).committed.values()
    assert len(archive.parts) == 1
    assert archive.epochs == {5: 19, 6: 20}


@pytest.mark.parametrize(
    ("batches", "compacted", "gaps", "skipped"),
    [
        ([data(0, 4), marker(5), data(6, 18), marker(19), data(20, 22)], False,
         [Gap(5, 6, "control"), Gap(19, 20, "control")], "control"),
        ([data(0, 4), marker(5), data(6, 18), marker(19)], False,
         [Gap(5, 6, "control"), Gap(19, 20, "control")], "control"),
        ([data(0, 9, without=(0, 3, 4)), data(15, 30, without=(19,))], True,
         [Gap(0, 1, "compacted"), Gap(3, 5, "compacted"), Gap(10, 15, "compacted"),
          Gap(19, 20, "compacted")], "compacted"),
        ([marker(3), data(5, 5), marker(17), data(22, 30)], True,
         [Gap(0, 3, "compacted"), Gap(3, 4, "control"), Gap(4, 5, "compacted"),
          Gap(6, 17, "compacted"), Gap(17, 18, "control"), Gap(18, 20, "compacted")], "compacted"),
        ([data(0, 30)], False, [], None),
    ],
    ids=["markers", "marker-at-the-end", "compacted", "both", "target-in-a-batch"],
)  # fmt: skip
def test_offsets_that_do_not_exist_are_told_apart(
    place: Place, batches: list[Batch], compacted: bool, gaps: list[Gap], skipped: str | None
) -> None:
    (archive,) = kept(place, KeptLog(batches), compacted=lambda _: compacted).committed.values()
    assert [part.gaps for part in archive.parts] == [()] * len(archive.parts)
    names = [proof_name("c1", "r1", KEY, part.first) for part in archive.parts]
    proofs = [proof for name in names if (proof := place.record(PART, name))]
    assert [proof.brief for proof in proofs] == list(archive.parts)
    merged: list[Gap] = []
    for gap in (g for proof in proofs for g in proof.gaps):
        if merged and (merged[-1].next, merged[-1].why) == (gap.first, gap.why):
            merged[-1] = Gap(merged[-1].first, gap.next, gap.why)
        else:
            merged.append(gap)
    assert merged == gaps
    assert archive.skipped == skipped


@pytest.mark.parametrize(
    ("log", "compacted", "why"),
    [
        (KeptLog([data(0, 30)], lost=(7,)), False, "offsets 7 to 7 have no record"),
        (KeptLog([data(0, 30, without=(5,))], lost=(7,)), True, "offsets 7 to 7 have no record"),
        (KeptLog([data(0, 9), data(12, 30)]), False, "10 to 11 are not in the log, and no log"),
        (KeptLog([data(0, 9, without=(5,)), data(10, 30)]), False, "no log cleaner"),
        (KeptLog([data(0, 9)]), False, "offsets 10 to 19 are not in the log, and nothing"),
    ],
    ids=["stepped-over", "beside-the-cleaner", "between", "within", "cut"],
)
def test_what_is_merely_not_there_ends_the_partition(
    place: Place, log: KeptLog, compacted: bool, why: str
) -> None:
    found = kept(place, log, compacted=lambda _: compacted)
    assert why in found.incomplete[KEY]
    assert (found.committed, committed(place, run_of(), KEY)) == ({}, None)


def test_parts_are_cut_by_their_gaps_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof names each gap, and a topic of transactions has a marker for each few records."""
    monkeypatch.setattr(keep, "_MOST_GAPS", 3)
    batches = [each for n in range(0, 20, 2) for each in (data(n, n), marker(n + 1))]
    log = KeptLog(batches, at_once=5)
    (archive,) = kept(place, log, settings=ArchiveSettings()).committed.values()
    assert (archive.records, [part.control for part in archive.parts]) == (10, [4, 5, 1])


def test_a_million_markers_are_explained_by_reading_their_headers_once() -> None:
    asked: list[int] = []

    def spans(at: int) -> tuple[BatchSpan, ...]:
        asked.append(at)
        odd = range(at | 1, (at | 1) + 40_000, 2)
        return tuple(BatchSpan(o, o, 1, True, 1) for o in odd)

    began = time.process_time()
    gaps = Explainer(spans, False).explain((o, o + 1) for o in range(1, 400_000, 2))
    assert (len(gaps), len(asked)) == (200_000, 10)
    assert time.process_time() - began < 20, "a look at all headers for each would take minutes"


def test_a_record_that_no_library_carries_ends_its_partition_alone(place: Place) -> None:
    def odd(at: int) -> None:
        if at == 6:
            raise UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data")

    log = KeptLog([data(0, 40)], on_read=odd)
    run = run_of(Range(TOPIC, 0, 0, 20), Range(TOPIC, 1, 12, 20))
    found = kept(place, log, run=run)
    assert "UnicodeDecodeError" in found.incomplete[KEY]
    assert [*found.committed] == [TopicPartition(TOPIC, 1)]


def test_retention_that_overtakes_the_reader_ends_the_partition(place: Place) -> None:
    log = KeptLog([data(0, 9), data(10, 40)])

    def deletes(at: int) -> None:
        log.log_start = 10 if at == 6 else log.log_start

    log.on_read = deletes
    found = kept(place, log)
    assert found.incomplete == {
        KEY: "the log starts at 10 by now, and offset 6 was next to be read"
    }


@pytest.mark.parametrize("at", [0, 6])
def test_retention_that_goes_on_before_anything_is_proved_leaves_less_to_keep(
    place: Place, at: int
) -> None:
    """Ranges are fixed when a run begins; a partition's turn may come hours later."""
    log = KeptLog([data(0, 9), data(10, 40)])

    def deletes(offset: int) -> None:
        log.log_start = 10 if offset == at else log.log_start

    log.on_read = deletes
    told: list[Progress] = []
    found = kept(place, log, settings=ArchiveSettings(), told=told.append)
    (archive,) = found.committed.values()
    assert (archive.start, archive.target, archive.records) == (10, 20, 10)
    assert (told[-1].offsets, told[-1].offsets_done) == (10, 10)
    assert [row["offset"] for row in records_in(place, run_of())] == list(range(10, 20))
    assert end(place, run_of(), found.committed, ()).partitions == (
        Range(TOPIC, 0, 10, 20, kept=True),
    )
    log.reads.clear()
    assert kept(place, log).committed == found.committed
    assert log.reads == []


def test_retention_that_passes_the_target_leaves_nothing_to_keep(place: Place) -> None:
    log = KeptLog([data(0, 9), data(10, 40)])

    def deletes(at: int) -> None:
        log.log_start = 25 if at == 6 else log.log_start

    log.on_read = deletes
    found = kept(place, log)
    assert (found.passed, found.incomplete, found.committed) == ({KEY}, {}, {})
    ended = end(place, run_of(), found.committed, found.passed)
    assert (ended.state, ended.partitions) == ("whole", ())


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at_put", range(1, 10))
def test_who_goes_on_after_a_death_reads_nothing_twice_that_was_proved(
    tmp_path: Path, at_put: int
) -> None:
    class Dying(Place):
        puts = 0

        def put(self, name: str, body: bytes) -> None:
            Dying.puts += 1
            if Dying.puts == at_put:
                raise Died
            super().put(name, body)

    log, url = KeptLog([data(0, 40)]), str(tmp_path / "kept")
    try:
        kept(Dying(url, lambda _: None), log)
    except Died:
        pass
    else:
        pytest.fail("it ended before")
    proved = sorted(p.name for p in (tmp_path / "kept").rglob("part-*.json"))
    log.reads.clear()
    (archive,) = kept(Place(url, lambda _: None), log).committed.values()
    next_ones = [p.next for p in archive.parts if f"part-{p.first:020}.json" in proved]
    assert log.reads == (
        [(max(next_ones, default=0), 20)] if max(next_ones, default=0) < 20 else []
    )
    assert [row["offset"] for row in records_in(Place(url), run_of())] == list(range(20))


def test_a_put_that_a_store_takes_late_is_over_nothing_that_was_proved(place: Place) -> None:
    """The worker that sent it is gone; another one cut its parts elsewhere."""

    class Slow(Place):
        def put(self, name: str, body: bytes) -> None:
            if not name.endswith(".parquet"):
                return super().put(name, body)
            late.append((name, body))
            raise Died

    late: list[tuple[str, bytes]] = []
    log = KeptLog([data(0, 40)])
    with pytest.raises(Died):
        kept(Slow(place.url), log, settings=ArchiveSettings(part_bytes=200))
    (archive,) = kept(place, log).committed.values()
    for name, body in late:
        place.put(name, body)
    assert [row["offset"] for row in records_in(place, run_of())] == list(range(20))
    stored = [place.get(part_name("c1", "r1", KEY, part.file)) for part in archive.parts]
    assert [part.stored_sha256 for part in archive.parts] == [
        stored_sha256(body) for body in stored if body
    ]


def test_what_is_committed_is_not_read_again(place: Place) -> None:
    log = KeptLog([data(0, 40)])
    kept(place, log)
    log.reads.clear()
    assert kept(place, log).committed
    assert log.reads == []


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("committed_before", [True, False])
@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_part_of_an_earlier_worker_that_is_not_there_any_more_is_read_again(
    place: Place, lost: int, committed_before: bool, how: str
) -> None:
    log = KeptLog([data(0, 40)])
    (archive,) = kept(place, log).committed.values()
    first = archive.parts[lost].first
    name = part_name("c1", "r1", KEY, archive.parts[lost].file)
    body = place.get(name)
    assert body is not None
    place.remove(name) if how == "gone" else place.put(name, body[:-1] + bytes([body[-1] ^ 1]))
    if not committed_before:
        place.remove(partition_name("c1", "r1", KEY))
    log.reads.clear()
    assert kept(place, log).committed
    assert log.reads == [(first, 20)]
    assert [row["offset"] for row in records_in(place, run_of())] == list(range(20))


def test_what_one_process_proved_it_hashes_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved: dict[str, str] = {}
    log = KeptLog([data(0, 40)])
    kept(place, log, proved=proved)
    monkeypatch.setattr(keep, "stored_sha256", lambda _: pytest.fail("hashed again"))
    assert kept(place, log, proved=proved).committed


def test_a_part_that_is_not_what_was_written_is_no_proof(tmp_path: Path) -> None:
    class Flipping(Place):
        def put(self, name: str, body: bytes) -> None:
            super().put(name, body[:-1] + bytes([body[-1] ^ 1]) if ".parquet" in name else body)

    place = Flipping(str(tmp_path), lambda _: None)
    with pytest.raises(ArchiveError, match="is not what was written") as found:
        kept(place, KeptLog([data(0, 40)]))
    assert found.value.code == "ARCHIVE_NOT_AS_WRITTEN"
    assert [*tmp_path.rglob("*.json")] == []


def test_a_store_that_shows_things_late_is_waited_for(tmp_path: Path) -> None:
    class Late(Place):
        hidden: dict[str, int] = {}  # noqa: RUF012  # one store for all of a test

        def get(self, name: str) -> bytes | None:
            found = super().get(name)
            left = self.hidden.setdefault(name, 2)
            if found is not None and left:
                self.hidden[name] = left - 1
                return None if left == 2 else b"old"
            return found

    pauses: list[float] = []
    place = Late(str(tmp_path), pauses.append)
    assert kept(place, KeptLog([data(0, 40)]), fresh=True).committed
    assert pauses[:2] == [0.2, 1.0]


def test_a_store_that_fails_stops_all(tmp_path: Path) -> None:
    class Full(Place):
        left = 3

        def put(self, name: str, body: bytes) -> None:
            Full.left -= 1
            if Full.left < 0:
                raise ArchiveError("full", "free space", code="ARCHIVE_UNWRITABLE")
            super().put(name, body)

    run = run_of(*(Range(TOPIC, n, 0, 20) for n in range(20)))
    log = KeptLog([data(0, 40)])
    with pytest.raises(ArchiveError, match="full"):
        kept(Full(str(tmp_path)), log, run=run)
    assert len(log.reads) < 20


def test_who_asks_to_stop_is_heard_while_it_reads(place: Place) -> None:
    log = KeptLog([data(0, 40)])
    run = run_of(*(Range(TOPIC, n, 0, 20) for n in range(50)))
    waits = keeper(place, log, run=run, hold=lambda: True)

    def slow(_: int) -> None:
        waits._stop.wait(5)

    log.on_read = slow
    found = waits.keep(run.partitions)
    assert found.held
    assert len(log.reads) <= SMALL.readers
    assert kept(place, KeptLog([data(0, 40)]), run=run).held is False


def test_a_run_is_begun_once_and_ends_by_what_became_of_it(place: Place) -> None:
    run = run_of(Range(TOPIC, 0, 0, 20), Range(TOPIC, 1, 5, 20))
    assert begin(place, "c1", "r1", lambda: run) == (run, True)
    assert begin(place, "c1", "r1", lambda: pytest.fail("made twice")) == (run, False)
    log = KeptLog([data(0, 40)])
    found = kept(place, log, run=run, fresh=True)
    assert end(place, run, found.committed, ()).state == "whole"
    assert end(place, run, {}, ()).state == "incomplete"
    body = place.get(run_name("c1", "r1"))
    assert body is not None
    assert RUN.parse(body.decode(), "x").state == "incomplete"


def test_a_commit_that_was_changed_or_is_anothers_counts_for_nothing(place: Place) -> None:
    run = run_of(Range(TOPIC, 0, 0, 20))
    kept(place, KeptLog([data(0, 40)]), run=run)
    name = partition_name("c1", "r1", KEY)
    body = place.get(name)
    assert body is not None
    place.put(partition_name("c1", "r1", TopicPartition(TOPIC, 1)), body)
    with pytest.raises(ArchiveError, match="is of orders-0"):
        committed(place, run, TopicPartition(TOPIC, 1))
    place.put(name, body.replace(b'"target":20', b'"target":21'))
    with pytest.raises(RefusedError) as changed:
        committed(place, run, KEY)
    assert changed.value.code == "ARCHIVE_CHANGED"
    assert PARTITION.parse(body.decode(), "x").target == 20


def test_a_store_that_takes_the_manifest_of_a_run_and_keeps_none_begins_nothing(
    tmp_path: Path,
) -> None:
    """Without `archive.json` nobody finds the rest again."""

    class Forgets(Place):
        def put(self, name: str, body: bytes) -> None:
            if not (forgetting and name.endswith("archive.json")):
                super().put(name, body)

    forgetting = True
    place, run = Forgets(str(tmp_path), lambda _: None), run_of(Range(TOPIC, 0, 0, 20))
    with pytest.raises(ArchiveError, match=r"archive\.json is not what was written"):
        begin(place, "c1", "r1", lambda: run)
    forgetting = False
    begin(place, "c1", "r1", lambda: run)
    found, forgetting = kept(place, KeptLog([data(0, 40)]), run=run), True
    with pytest.raises(ArchiveError) as late:
        end(place, run, found.committed, ())
    assert late.value.code == "ARCHIVE_NOT_AS_WRITTEN"


def test_a_rate_holds_for_all_readers_together() -> None:
    from dashboard.archive.reading import Pace

    waits: list[float] = []
    pace = Pace(1000)
    pace.took(500, waits.append)
    pace.took(500, waits.append)
    assert 0.4 < waits[0] <= 0.5
    assert 0.9 < waits[1] <= 1.0
    Pace(None).took(10**9, lambda _: pytest.fail("no limit"))


def test_columns_are_those_of_the_schema() -> None:
    assert list(columns([1])) == SCHEMA.names
