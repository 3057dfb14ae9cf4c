"""Streams applications in a cluster in memory, a journal in a file, and services on a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dashboard.core.canonical import written
from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    DeleteRecordsResult,
    Group,
    TopicPartition,
)
from dashboard.policies.service.purging import Site
from dashboard.policies.service.service import Service
from dashboard.policies.service.switching import switch_on
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.settings.current import CurrentSettings
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.cluster import FakeCluster, FakePartition
from tests.support.collected import collected
from tests.unit.policies.examples import policy
from tests.unit.purge.room import Clock

REPARTITION = 'preset = "repartition"\nmin_purge_interval_ms = 5000'


class Streams(FakeCluster):
    """Topics that applications write and read; each commits where it has read."""

    def __init__(self) -> None:
        super().__init__(0)
        self.offsets_of, self.topic_id = {}, "id-orders"
        self.plain: set[str] = set()  # groups that are no Streams applications
        self.down = False
        self.starts: list[tuple[datetime, TopicPartition]] = []
        self.now: datetime | None = None
        self.collect: Callable[[str], object] = lambda _: None  # has a snapshot show a new topic

    def _asked(self, part: str) -> None:
        if self.down:
            raise ClusterError("no broker answers", "Start it.", retriable=True)
        super()._asked(part)

    def topic(self, name: str, partitions: int = 1) -> None:
        self.collect(name)
        for n in range(partitions):
            self.parts[TopicPartition(name, n)] = FakePartition(
                {1: 0, 2: 0, 3: 0}, high_watermark=0, last_stable_offset=0
            )

    def produce(self, topic: str, count: int, partition: int = 0) -> None:
        p = self.parts[TopicPartition(topic, partition)]
        p.high_watermark += count
        p.last_stable_offset = p.high_watermark

    def commit(self, group: str, topic: str, partition: int = 0, offset: int | None = None) -> None:
        """The group has read up to `offset`, or all."""
        key = TopicPartition(topic, partition)
        upto = self.parts[key].high_watermark if offset is None else offset
        self.offsets_of.setdefault(group, {})[key] = upto

    def log_start(self, topic: str, partition: int = 0) -> int:
        p = self.parts[TopicPartition(topic, partition)]
        return p.starts[p.leader_id or 1]

    def _group(self, name: str) -> Group:
        is_streams = name not in self.plain and _is_owner(name, self.offsets_of[name])
        return replace(super()._group(name), is_streams=is_streams)

    def delete_records(
        self, leader_id: int, targets: Mapping[TopicPartition, int], **more: Any
    ) -> DeleteRecordsResult:
        if self.now is not None and not self.down:
            self.starts += [(self.now, key) for key in targets]
        return super().delete_records(leader_id, targets, **more)


def _is_owner(group: str, commits: Iterable[TopicPartition]) -> bool:
    """Whether it commits on a repartition topic of its own, as an application does."""
    names = {key.topic for key in commits}
    return any(n.startswith(f"{group}-") and n.endswith("-repartition") for n in names)


class ServiceRoom:
    """One cluster with applications, and services that come and go beside one journal."""

    def __init__(self, folder: Path, *policies: Policy) -> None:
        self.folder = folder
        self.live = Streams()
        self.clock = Clock()
        an_hour_ago = self.clock() - timedelta(hours=1)  # also where a test sets the clock back
        data = Store(str(folder / "data"))
        self.store = collected(ClusterStore(data, self.live.id), an_hour_ago)
        self.live.collect = lambda topic: collected(self.store, an_hour_ago, topic)
        self.store.write_connection("here:9092", None, "prod")
        self.settings = Settings(
            data=str(folder / "data"),
            state_dir=folder,
            policies=policies or (policy(REPARTITION, "streams"),),
            # Clocks jump here as tests like; what a silence holds is told by test_silence.py, and
            # what an old memory does by test_memory_age.py.
            purge=PurgeSettings(
                most_silence=timedelta(days=3650),
                most_service_silence=timedelta(days=3650),
                most_history_age=timedelta(days=3650),
                pattern_refresh=timedelta(0),  # its topics are new, and read by name
            ),
        )
        (folder / "journal.sqlite").write_bytes(_empty_journal())
        self.journal = Journal(folder / "journal.sqlite")
        # These tests end services, never the machine: nothing has to reach the disk.
        self.journal.file._db.execute("PRAGMA synchronous=OFF")
        self.events: list[dict[str, Any]] = []
        for each in self.settings.policies:
            self.switch_on(each)

    def switch_on(self, each: Policy) -> None:
        switch_on(
            self.settings, self.journal, self.store, each, typed=each.confirmation("prod"),
            who="ann", from_where="here", now=self.clock(),
        )  # fmt: skip

    def write(self, head: str = "", tail: str = "", streams: str = REPARTITION) -> Path:
        """The settings as a file, which every service from now on reads again."""
        file = self.folder / "lowwater.toml"
        places = f'data = "{self.settings.data}"\nstate_dir = "{self.settings.state_dir}"'
        file.write_text(f"{places}\n{head}\n[policies.streams]\n{streams}\n{tail}\n")
        self.settings = replace(self.settings, source=file)
        return file

    def service(self, **change: Any) -> Service:
        current = CurrentSettings(self.settings)
        site = Site(current, self.store, self.journal, self.clock, self.clock.sleep)
        return Service(site, lambda: self.live, emit=self.events.append, **change)

    def pass_time(self, service: Service, seconds: float) -> None:
        """Let the service have its turns for so long."""
        until = self.clock() + timedelta(seconds=seconds)
        while self.clock() < until:
            wait = service.turn()
            left = (until - self.clock()).total_seconds()
            self.clock.sleep(max(0.001, min(wait, left)))

    def runs(self) -> list[RunRow]:
        """Oldest first."""
        return self.journal.runs()[::-1]

    def status(self, name: str = "streams") -> dict[str, Any]:
        found: dict[str, Any] = written(self.journal.policy_statuses(self.live.id)[name][1])
        return found

    def told(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]


@cache
def _empty_journal() -> bytes:
    """Making a journal's tables takes a tenth of a second; a copy of them takes none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        Journal(path).close()
        return path.read_bytes()
