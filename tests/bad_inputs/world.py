"""A sound world that each bad input then damages: store, journal, plan, verdicts, a disk."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dashboard.core.clock import utc_now
from dashboard.orphans import verdicts
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options
from dashboard.purge.plan.plan import Plan
from tests.support import sample_store
from tests.support.sample_plan import sample_plan
from tests.unit.inventory.disks import Disk, listed, scanned

CLIENT = "bootstrap.servers=127.0.0.1:1\nclient.id=lowwater\n"
OFFSETS = '{"partitions":[{"topic":"orders","partition":0,"offset":5}],"version":1}'


@dataclass(frozen=True, slots=True)
class World:
    """Where the sound world lies, and what the words of a case stand for; `taken` is a port."""

    path: Path
    confirmation: str
    sha256: str
    run_id: str
    open_run_id: str
    taken: socket.socket

    def words(self, text: str) -> str:
        """The words of a case with this world's values."""
        named = {"$CONFIRM": self.confirmation, "$SHA": self.sha256, "$OPEN": self.open_run_id,
                 "$RUN": self.run_id, "$PORT": str(self.taken.getsockname()[1])}  # fmt: skip
        for name, value in named.items():
            text = text.replace(name, value)
        return text


def build(path: Path) -> World:
    """The sound world in an empty folder."""
    now = utc_now().replace(microsecond=0)
    cluster = sample_store.write(path / "data", "rich", now=now)
    cluster.write_connection("127.0.0.1:1", None, sample_store.NAME)
    plan = replace(sample_plan(now), cluster_name=sample_store.NAME)
    found = verdicts.of_analysis(cluster, cluster.latest_analysis(), now=now)
    applied, running = replace(plan, created_by="erin"), replace(plan, created_by="frank")
    contents = {
        "plan.json": plan.to_json_text(),
        "applied.json": applied.to_json_text(),
        "verdicts.json": verdicts.write(found),
        "offsets.json": OFFSETS,
        "client.properties": CLIENT,
        "text": "a file\n",
    }
    for name, content in contents.items():
        (path / name).write_text(content, encoding="utf-8")
    _disk(path)
    run_id, open_id = _runs(path, applied, replace(running, cluster_id="another"), now)
    taken = socket.create_server(("127.0.0.1", 0))
    return World(path, plan.confirmation, plan.sha256, run_id, open_id, taken)


def _disk(path: Path) -> None:
    """Broker 1's log dir `logs`, its listing and its inventory."""
    disk = Disk(path / "logs")
    disk.segment(disk.folder("orders-0"), 0)
    (path / "listing").write_bytes(listed([disk.path]))
    scanned(path / "1.inventory", disk.path)


def _runs(path: Path, applied: Plan, running: Plan, now: datetime) -> tuple[str, str]:
    """The journal with a run that is done, and one of another cluster that its worker holds."""
    journal = Journal(path / "state" / "journal.sqlite")
    ids = []
    for plan in (applied, running):
        run_id, _ = journal.insert(
            plan, token=plan.created_by, mode="wait-all", who="erin", from_where="here",
            typed=plan.confirmation, options=Options(30_000, 500, 2, 1000),
            connection={"cluster_id": plan.cluster_id}, now=now,
        )  # fmt: skip
        ids.append(run_id)
    journal.set_run(ids[0], "running", now)
    rows = [replace(row, state="done") for row in journal.partitions(ids[0])]
    journal.record(ids[0], "read", rows, now)
    journal.set_run(ids[0], "done", now, watched_until=now)
    journal.close()
    return ids[0], ids[1]
