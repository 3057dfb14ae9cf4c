"""The text of a receipt is a contract: journals keep it, `run --json` prints it.

`receipts.txt` holds receipts and the sizes they began with, as the product wrote them when receipts
became a type: each line has the case's name, `receipt` or `baseline`, and the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaOffsets, ReplicaSize
from dashboard.purge.journal.pack import unpack
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.guards import Override
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Room

GOLDEN = Path(__file__).with_name("receipts.txt")


class Watched:
    """One run of a room, and what its journal keeps of it after each look."""

    def __init__(self, room: Room, case: str) -> None:
        self.room, self.case = room, case

    def purged(self, **change: object) -> RunView:
        hour = {"watch_for_ms": 3_600_000}  # as long as the runs were watched whose texts are kept
        view = self.room.carry_out(**hour | change)  # type: ignore[arg-type]
        self.run_id = view.run.run_id
        self._watch = self.room.watching(view)
        return view

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self._watch.step()
            self.room.clock.sleep(1)

    def to_the_end(self) -> None:
        for _ in range(70):
            if self._watch.step() is None:
                return
            self.room.clock.sleep(60)
        raise AssertionError("the watch does not end")

    def lines(self) -> Iterator[str]:
        """What is stored; and what is printed is the same, key by key."""
        row = self.room.journal.file.rows(
            "SELECT receipt, baseline FROM runs WHERE run_id=?", self.run_id
        )[0]
        printed = self.room.journal.run(self.run_id).to_json()["receipt"]
        text = json.dumps(printed, separators=(",", ":"), ensure_ascii=False)
        assert text == unpack(row["receipt"])
        yield f"{self.case} receipt {text}"
        yield f"{self.case} baseline {unpack(row['baseline'])}"

    def disk(self, size: int, start: int, end: int = 100) -> None:
        """What every broker has of the partition from now on."""
        self.room.live.parts[KEY].starts = dict.fromkeys((1, 2, 3), start)
        offsets = tuple(ReplicaOffsets(b, *KEY, start, end, NOW) for b in (1, 2, 3))
        self.room.live.replica_offsets = lambda *_: offsets  # type: ignore[method-assign]
        replicas = tuple(ReplicaSize(b, "/d", *KEY, size, 0, False) for b in (1, 2, 3))
        self.room.live.log_dirs = lambda *_: LogDirsAnswer((), replicas, {})  # type: ignore[method-assign]


def estimated(room: Room, method: str = "segments", **change: object) -> None:
    found = Estimate(180_000, method, dict.fromkeys((1, 2, 3), 60_000), 150_000, 200_000)
    room.estimates = {KEY: replace(found, **change)}  # type: ignore[arg-type]


def plain(room: Room) -> Iterator[str]:
    watched = Watched(room, "plain")
    watched.purged()
    watched.to_the_end()
    yield from watched.lines()


def predicted(room: Room) -> Iterator[str]:
    estimated(room)
    watched = Watched(room, "predicted")
    watched.purged()
    watched.look()
    yield from watched.lines()
    watched.to_the_end()
    yield from watched.lines()


def written_meanwhile(room: Room) -> Iterator[str]:
    estimated(room, "proportional")
    watched = Watched(room, "written-meanwhile")
    watched.disk(100_000, 0)
    watched.purged()
    for size, start, end in ((101_000, 60, 101), (70_000, 60, 105), (65_000, 80, 110)):
        watched.disk(size, start, end)
        watched.look()
    watched.to_the_end()
    yield from watched.lines()


def cleaned(room: Room) -> Iterator[str]:
    estimated(room, cleaned_high={1: 10_000, 2: None, 3: 90_000})
    watched = Watched(room, "cleaned")
    watched.disk(100_000, 0)
    watched.purged()
    watched.disk(70_000, 60)
    watched.look()
    watched.disk(30_000, 60)
    watched.to_the_end()
    yield from watched.lines()


def begun_anew(room: Room) -> Iterator[str]:
    watched = Watched(room, "begun-anew")
    watched.disk(100_000, 0)
    watched.purged()
    watched.look()
    watched.disk(0, 60, 60)
    watched.to_the_end()
    yield from watched.lines()


def moved_before(room: Room) -> Iterator[str]:
    estimated(room)
    watched = Watched(room, "moved-before")
    plan = room.plan()
    watched.disk(90_000, 10)
    watched.purged(plan=plan)
    watched.disk(50_000, 60)
    watched.to_the_end()
    yield from watched.lines()


def not_done(room: Room) -> Iterator[str]:
    room.live.on_send = [lambda: room.live.elect(2)]
    room.live.answers = ["lost-before", 44]
    watched = Watched(room, "not-done")
    watched.purged()
    watched.look(2)
    yield from watched.lines()
    watched.to_the_end()
    yield from watched.lines()


def came_back(room: Room) -> Iterator[str]:
    room.live.answers = [7]
    watched = Watched(room, "came-back")
    watched.purged(mode="leader-only-verified")
    watched.look()
    room.live.elect(2)
    watched.look(2)
    watched.to_the_end()
    yield from watched.lines()


def made_anew(room: Room) -> Iterator[str]:
    watched = Watched(room, "made-anew")
    watched.purged()
    watched.look(2)
    room.live.topic_id = "id-2"
    watched.to_the_end()
    yield from watched.lines()


def after_another(room: Room) -> Iterator[str]:
    estimated(room)
    first, second = Watched(room, "first"), Watched(room, "second")
    first.disk(100_000, 0)
    first.purged()
    first.look()
    room.live.offsets_of["a"] = {0: 80}
    estimated(room, "sampled")
    second.purged()
    second.look()
    for watched in (first, second):
        watched.disk(20_000, 80)
        watched.to_the_end()
        yield from watched.lines()


def unmeasurable(room: Room) -> Iterator[str]:
    room.live.log_dirs = lambda *_: LogDirsAnswer((), (), {})  # type: ignore[method-assign]
    watched = Watched(room, "unmeasurable")
    known = Override("leader-log-dir-move", None, "known", "ann", NOW)
    watched.purged(plan=room.plan(overrides=(known,)), mode="leader-only-verified")
    watched.to_the_end()
    yield from watched.lines()


CASES = [
    plain, predicted, written_meanwhile, cleaned, begun_anew, moved_before, not_done, came_back,
    made_anew, after_another, unmeasurable,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_text_of_a_receipt_is_what_it_was(tmp_path: Path, case: object) -> None:
    room = Room(tmp_path)
    found = list(case(room))  # type: ignore[operator]
    room.journal.close()
    names = {line.split(" ")[0] for line in found}
    golden = GOLDEN.read_text().splitlines()
    assert found and found == [line for line in golden if line.split(" ")[0] in names]


# As the first release wrote them, with a key that no release of today knows.
_FIRST = {
    "predicted_bytes": 60, "unmeasured_partitions": 0, "freed_bytes": 50, "retention_bytes": 10,
    "produced_bytes": 7, "final": True, "arrived_at": "2026-03-01T12:00:00.000Z",
    "measured_at": "2026-03-01T12:07:00.000Z", "gap": None, "of_tomorrow": 1,
    "replicas": [{
        "topic": TOPIC, "partition": 0, "broker_id": 1, "size_bytes": 40, "log_start_offset": 60,
        "log_end_offset": 100, "before_bytes": 100, "start_before": 5, "predicted_bytes": 60,
        "dropped_bytes": 60, "freed_bytes": 50, "retention_bytes": 10, "produced_bytes": 7,
    }],
}  # fmt: skip


def test_a_receipt_of_the_first_release_means_what_it_meant() -> None:
    found = Receipt.from_json(_FIRST)
    (part,) = found.replicas
    assert found == Receipt(
        predicted_bytes=60, freed_bytes=50, retention_bytes=10, produced_bytes=7, final=True,
        arrived_at=NOW, measured_at=NOW + timedelta(minutes=7), replicas=(part,),
    )  # fmt: skip
    assert part == ReplicaReceipt(
        TOPIC, 0, 1, 40, 60, 100, before_bytes=100, start_before=5, predicted_bytes=60,
        dropped_bytes=60, freed_bytes=50, retention_bytes=10, produced_bytes=7,
        fallen_bytes=60, seen_bytes=7, own_bytes=50, first_offset=5, below_start=5,
    )  # fmt: skip
    told: Any = found.to_json()
    assert "aside" not in told and "calibration" not in told and "approved_by" not in told
    assert told["replicas"][0].keys() >= _FIRST["replicas"][0].keys()  # type: ignore[index]
