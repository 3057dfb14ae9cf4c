"""How far behind each replica really is: the sizes of its files, four times a second.

Followers write the very batches of their leader, so sizes compare as log ends do; and the file
system answers however long a broker does not.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from dashboard.demo.kafka.brokers import LocalCluster

EVERY = 0.25
LAST = 3.0  # seconds before the window's end
_FOLDER = re.compile(r"(?!__)(.+)-(\d+)")
Place = tuple[str, int, int]  # topic, partition, broker


class Sampler:
    """Reads in a thread of its own."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._dirs = {broker: cluster.log_dirs(broker) for broker in cluster.broker_ids}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self._seen: dict[Place, list[tuple[float, int]]] = defaultdict(list)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def behind(self, until: float) -> dict[Place, float]:
        """The least age, in the LAST seconds before `until`, of the oldest bytes that each lacked.

        Seconds; 0 where it lacked none at some time. Bytes are as old as the time since some
        replica was first seen to have them.
        """
        first: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        for (topic, partition, _), seen in self._seen.items():
            first[topic, partition] += seen
        found = {}
        for where, seen in self._seen.items():
            ages = [
                _age(first[where[:2]], at, size) for at, size in seen if until - LAST <= at <= until
            ]
            if ages:
                found[where] = min(ages)
        return found

    def _run(self) -> None:
        while not self._ends.wait(EVERY):
            at = time.time()
            for broker, dirs in self._dirs.items():
                for place, size in _sizes(dirs).items():
                    self._seen[(*place, broker)].append((at, size))


def _sizes(dirs: list[Path]) -> dict[tuple[str, int], int]:
    """Bytes of each live replica; one that changes its log dir just now is in both."""
    found: dict[tuple[str, int], int] = {}
    for log_dir in dirs:
        for folder in log_dir.iterdir():
            if not (named := _FOLDER.fullmatch(folder.name)):
                continue
            with suppress(FileNotFoundError):  # deleted or moved meanwhile
                size = sum(file.stat().st_size for file in folder.glob("*.log"))
                place = (named[1], int(named[2]))
                found[place] = max(size, found.get(place, 0))
    return found


def _age(sizes: list[tuple[float, int]], at: float, size: int) -> float:
    """How long before `at` some replica was first seen to be larger."""
    newer = [seen for seen, more in sizes if more > size and seen <= at]
    return at - min(newer) if newer else 0.0
