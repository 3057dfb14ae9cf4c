"""What a journal of a policy's runs costs: `python -m tests.bench.bench_journal [PARTITIONS]`.

Runs over 100 partitions x 3 replicas, carried out by the product's code on a cluster in memory and
followed to their final receipts; as a policy makes in 50 minutes at 30 s, scaled to a day. Then:
checking the chain, the same after one run more, the runs as pages read them, and archiving all.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.rows import Options
from dashboard.ui.purge.runs import JournalMemory
from tests.unit.purge.room import Room

RUNS = 100
EVERY = 30.0
RUNS_A_DAY = 86_400 / EVERY
OPTIONS = Options(30_000, 500, 2, 3_600_000)
AGAIN_GOAL = 0.1  # of the first look

_T = TypeVar("_T")


def main(partitions: int = 100) -> int:
    """Measure and print; 1 when a second look costs more than a tenth of the first."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        room = Room(Path(folder), partitions)
        # What is measured is reading and moving; the runs need not reach the disk one by one.
        room.journal.file.rows("PRAGMA synchronous=OFF")
        for _ in range(RUNS):
            _one(room)
        path = room.journal.file.path
        room.journal.file.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        size = path.stat().st_size
        days = RUNS / RUNS_A_DAY
        print(f"{RUNS} runs of {partitions} partitions: {size / RUNS / 1e3:.0f} kB each, "
              f"{size / days / 1e6:.0f} MB a day at one each 30 s")  # fmt: skip
        memory = JournalMemory(room.journal)
        verified, whole = _timed(lambda: memory.verify(room.clock()))
        _, runs = _timed(memory.runs)
        _one(room)
        after, again = _timed(lambda: memory.verify(room.clock()))
        _, runs_again = _timed(memory.runs)
        assert verified.ok and after.ok and after.entries > verified.entries
        print(f"verify the chain of {verified.entries} entries: {whole:.2f} s, "
              f"{whole / days:.1f} s for a day's; after one more run {again:.3f} s")  # fmt: skip
        print(f"read the runs: {runs:.3f} s, after one more {runs_again:.4f} s")
        room.journal.file.rows("PRAGMA synchronous=FULL")
        now = room.clock() + timedelta(days=1)
        moved, took = _timed(
            lambda: archive(
                room.journal, Path(folder) / "archive", before=now, who="bench",
                from_where="here", now=now,
            )
        )  # fmt: skip
        assert moved.runs == RUNS + 1 and room.journal.verify().ok
        _, shrunk = _timed(room.journal.file.shrink)
        print(f"archive all: {took:.1f} s, shrink the file {shrunk:.1f} s, "
              f"now {path.stat().st_size >> 10} KiB")  # fmt: skip
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reached = again + runs_again < AGAIN_GOAL * (whole + runs)
    print(f"goal: a second look below {AGAIN_GOAL:.0%} of the first: "
          f"{'reached' if reached else 'missed'}")  # fmt: skip
    return int(not reached)


def _one(room: Room) -> None:
    """Fifty records more in each partition, read by the group, purged and followed to the end."""
    for part in room.live.parts.values():
        part.high_watermark = part.last_stable_offset = part.high_watermark + 50
    offsets = room.live.offsets_of["a"]
    offsets.update({number: offset + 50 for number, offset in offsets.items()})
    room.clock.sleep(EVERY)
    plan = room.plan()
    run_id, _ = room.journal.insert(
        plan, token=plan.sha256, mode="wait-all", who="policy bench", from_where="here",
        typed="", options=OPTIONS, connection={}, now=room.clock(),
    )  # fmt: skip
    room.execution(run_id).execute()
    view = room.watch(room.journal.run(run_id))
    assert view.run.state == "done" and view.run.receipt_final


def _timed(call: Callable[[], _T]) -> tuple[_T, float]:
    began = time.perf_counter()
    return call(), time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
