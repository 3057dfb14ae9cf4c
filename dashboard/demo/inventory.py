"""Takes stock of the demo's disks again and again, as `lowwater inventory scan` does once."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.core.stop import Stop
from dashboard.inventory import scan
from dashboard.inventory.log_dirs import parse_log_dirs
from dashboard.inventory.recorder import Recorder

EVERY_SECONDS = 2.0
# Rest at least so many times a round's CPU time: 5,000 partitions must not keep a core busy. On a
# busy machine the time by the clock says nothing of that.
REST = 10.0


@dataclass(frozen=True, slots=True)
class Disk:
    """A broker's log dirs, with commas between them, and the file that tells what they hold."""

    broker_id: int
    log_dirs: str
    file: str


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m dashboard.demo.inventory --disk ID LOG_DIRS FILE …`; 0 when asked to end."""
    parser = argparse.ArgumentParser(prog="inventory")
    parser.add_argument("--disk", nargs=3, action="append", required=True)
    found = parser.parse_args(arguments).disk
    ended = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    run([Disk(int(broker_id), log_dirs, file) for broker_id, log_dirs, file in found], ended)
    return 0


def run(disks: Sequence[Disk], ended: Stop) -> None:
    """Scans every disk, rests, and again until `ended`; a new trouble is told once."""
    told: Mapping[int, str] = {}
    while True:
        began = time.process_time()
        troubles = take_stock(disks)
        for broker_id, trouble in troubles.items():
            if told.get(broker_id) != trouble:
                print(f"broker {broker_id}: {trouble}", flush=True)
        told = troubles
        if ended.wait(max(EVERY_SECONDS, REST * (time.process_time() - began))):
            return


def take_stock(disks: Sequence[Disk]) -> dict[int, str]:
    """Replaces every disk's file; why one could not be, by broker id: its old file stays."""
    troubles = {}
    for disk in disks:
        log_dirs = parse_log_dirs(disk.log_dirs)
        try:
            with Recorder(
                disk.file, disk.broker_id, log_dirs, newest_from=scan.NEWEST_FROM
            ) as recorder:
                scan.scan(log_dirs, recorder, now=utc_now)
                recorder.finish()
        except LowwaterError as error:
            troubles[disk.broker_id] = error.message
    return troubles


if __name__ == "__main__":
    raise SystemExit(main())
