"""The service beside others: a person who put back what it took, a second service, another
cluster's broker on its host, a journal that cannot be written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import JournalError, RefusedError
from dashboard.domain import acts as words
from dashboard.orphans import removal
from dashboard.orphans.removal import (
    FAILED,
    ON,
    Lead,
    Removal,
    confirmation,
    described,
    removal_families,
)
from dashboard.orphans.sweep.report import DayLimit
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.verdicts import Verdict
from dashboard.purge.journal.journal import Journal
from tests.unit.inventory.disks import Disk
from tests.unit.orphans.sweep_acts import kinds, put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host
from tests.unit.orphans.test_removal import DAY, EVERY, only, service, states, values

LIVE_NAME = "gone-0"
ANEW = "gone-0.ffffffffffffffffffffffffffffffff-stray"  # what a broker's start makes of it


def judged(host: Host, folder: Path, **changed: object) -> Verdict:
    """A verdict that lets a folder of that host go, of what was seen a while after it came."""
    newest = max(f.stat().st_mtime for f in folder.glob("*.log"))
    at = datetime.fromtimestamp(newest + 1, UTC)
    row = host.row(log_dir=str(folder.parent), directory=folder.name, newest_at=at)
    return replace(row, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["restored, then named anew", "moved back under another name"])
def test_what_a_person_put_back_stays_under_whatever_name(host: Host, how: str) -> None:
    acting = service(host)
    assert states(acting.turn()) == [("moved", None)]
    if how.startswith("restored"):
        assert put_back(host).state == "restored"
        host.stray.rename(host.log_dir / ANEW)
    else:
        (aside,) = host.quarantine.glob(f"*/{STRAY}")
        aside.rename(host.log_dir / ANEW)
    host.now += timedelta(hours=3)
    row = judged(host, host.log_dir / ANEW)
    later = service(host, lambda _now: host.verdicts(row))
    acting.close()
    for _ in range(2):
        refused = [r.code for r in later.turn().report.rows if r.state == "refused"]  # type: ignore[union-attr]
        assert refused == ["restored"]
        host.now += 2 * DAY
    assert whole(host.log_dir / ANEW)
    assert host.one(row).state == "moved", "by hand it may"


@pytest.mark.parametrize("original", ["lies there", "was removed"])
def test_what_a_person_copied_back_stays(host: Host, original: str) -> None:
    acting = service(host, lambda _now: host.verdicts(judged(host, host.stray)))
    assert states(acting.turn()) == [("moved", None)]
    (aside,) = host.quarantine.glob(f"*/{STRAY}")
    shutil.copytree(aside, host.stray)
    if original == "was removed":
        shutil.rmtree(aside)
    for _ in range(3):
        host.now += timedelta(hours=13)
        assert ("refused", "restored") in states(acting.turn())
    assert whole(host.stray)
    assert "moving" not in kinds(host)[2:], "nothing was set aside again"


def test_a_partition_that_leaves_the_broker_again_is_an_orphan_as_before(host: Host) -> None:
    """Its folder has the same name and topic id each time: nobody put it back."""
    for _ in range(2):
        folder = host.disk.folder(LIVE_NAME)
        host.disk.segment(folder, 0)
        row = judged(host, folder, kind=words.MOVED_AWAY)
        acting = service(host, lambda _now, row=row: host.verdicts(row))  # type: ignore[misc]
        assert ("moved", None) in states(acting.turn())
        host.now += 2 * DAY
        assert ("deleted", None) in states(acting.turn())
        acting.close()


def test_two_services_of_a_broker_do_not_share_out_its_log_dirs(host: Host) -> None:
    """Each would have a day's limit of its own."""
    other = host.folder / "b" / "data"
    disk = Disk(other)
    (other / ".lock").touch()
    meta = other / "meta.properties"
    meta.write_text(meta.read_text().replace("directory.id=D", "directory.id=E"))
    folder = disk.folder("gone-1.1123456789abcdef0123456789abcdef-stray")
    disk.segment(folder, 0)
    host.stop_broker()
    host.start_broker(other)
    host.live.paths.append(str(other))
    rows = [host.row(), judged(host, folder, partition=1)]

    def one(*log_dirs: Path) -> Removal:
        options = Options(tuple(map(str, log_dirs)), apply=True, most_share=1.0,
                          day=DayLimit(1, 2**40))  # fmt: skip
        return Removal(
            options, lambda _now: host.verdicts(*rows), lambda: nullcontext(host.live),
            every=EVERY, now=lambda: host.now, stopped=lambda: None, progress=host.said.append,
        )  # fmt: skip

    for mine, left_out in ((host.log_dir, other), (other, host.log_dir)):
        found = one(mine).turn()
        assert found.error is not None and found.error.code == "LOG_DIR_LEFT_OUT"
        assert str(left_out) in found.error.message
    assert host.stray.exists() and folder.exists()
    both = one(host.log_dir, other)
    assert sorted(states(both.turn()), key=str) == [("moved", None), ("refused", "day-limit")]
    assert host.stray.exists()
    assert host.one().state == "moved", "by hand a log dir may be named alone"


@pytest.fixture
def theirs(host: Host) -> Iterator[Host]:
    """Broker 1 of cluster D, whose log dir lies beside that of broker 1 of cluster C."""
    made = Host.__new__(Host)
    vars(made).update(vars(host), log_dir=host.folder / "other", said=[], _broker=None)
    made.disk = Disk(made.log_dir)
    meta = made.log_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("cluster.id=C", "cluster.id=D"))
    made.stray = made.disk.folder(STRAY)
    made.disk.segment(made.stray, 0)
    (made.log_dir / ".lock").touch()
    made.live = type(host.live)([str(made.log_dir)])
    made.live.id = "D"
    made.start_broker()
    yield made
    made.stop_broker()


def test_a_broker_of_another_cluster_with_the_same_id_is_another_one(
    host: Host, theirs: Host, tmp_path: Path
) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        mine = service(host, journal=journal, day=DayLimit(1, 2**40))
        its = service(
            theirs, lambda _now: replace(theirs.verdicts(), cluster_id="D"),
            journal=journal, day=DayLimit(1, 2**40), most_share=1.0,
        )  # fmt: skip
        assert states(mine.turn()) == [("moved", None)]
        assert ("moved", None) in states(its.turn()), "that day's limit is another broker's"
        told = values(removal_families(mine.turn()))
        assert told["lowwater_orphan_acts_folders_total", "1", "moved"] == 1
        assert told["lowwater_orphan_quarantined_folders", "1"] == 1
        acts = [(e.body["cluster_id"], act[1]) for e in journal.entries() for act in e.body["acts"]]
        assert acts == [("C", str(host.log_dir)), ("D", str(theirs.log_dir))]


class Full:
    """A journal on a full disk."""

    def __init__(self, journal: Journal) -> None:
        self.told_of_orphans = journal.told_of_orphans
        self.journal, self.is_full = journal, True

    def tell_of_orphans(self, *told: object) -> None:
        if self.is_full:
            raise JournalError("the journal's disk is full", "Free it.")
        self.journal.tell_of_orphans(*told)  # type: ignore[arg-type]


def test_what_the_chain_could_not_be_told_is_told_in_the_round_and_nothing_more_is_done(
    host: Host, tmp_path: Path
) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        chain = Full(journal)
        acting = service(host, journal=chain)  # type: ignore[arg-type]
        moved = acting.turn()
        assert (moved.state, states(moved)) == (FAILED, [("moved", None)])
        assert moved.error is not None and "is full" in described(moved, "prod")
        assert moved.to_json()["totals"]["moved"]["folders"] == 1
        host.now += 2 * DAY
        again = acting.turn()
        assert (again.state, again.report) == (FAILED, None)
        (aside,) = host.quarantine.glob(f"*/{STRAY}")
        assert whole(aside), "not deleted while no chain can tell it"
        chain.is_full = False
        late = acting.turn()
        assert (late.state, states(late)[0]) == (ON, ("deleted", None))
        assert [act[0] for e in journal.entries() for act in e.body["acts"]] == ["moved", "deleted"]


def test_what_cannot_be_locked_leads_nobody(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise JournalError("cannot be locked", "Ask.", code="SWEEP_LOCK_FAILED")

    first, second, lock = *(Lead((str(host.log_dir),)) for _ in range(2)), removal.lock
    monkeypatch.setattr(removal, "lock", refused)
    for _ in range(2):
        with pytest.raises(JournalError):
            first.take()
    monkeypatch.setattr(removal, "lock", lock)
    assert (first.take(), second.take()) == (True, False)
    first.release()


def test_a_service_that_may_not_act_lets_another_act(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise RefusedError("ann may not", "Ask.", code="ROLE_TOO_LOW")

    first, second = service(host), service(host)
    monkeypatch.setattr(first, "_admit", refused)
    assert (first.turn().state, second.turn().state) == (FAILED, ON)
    second.close()


def test_a_folder_larger_than_a_day_has_a_way_out(host: Host) -> None:
    left = only(service(host, day=DayLimit(20, 4096)).turn())
    assert (left.code, "--most-bytes" in (left.reason or "")) == ("day-limit", True)
    assert host.one().state == "moved", "by hand it may"


def test_the_sentence_tells_whose_limit_it_is_and_another_place() -> None:
    options = Options(("/a",), day=DayLimit(20, 2**30))
    assert "of each broker" in confirmation("prod", options)
    others = (
        {"keep": timedelta(hours=24, minutes=1)}, {"most_share": 0.05001},
        {"day": DayLimit(20, 2**30 + 1)}, {"day": DayLimit(21, 2**30)},
    )  # fmt: skip
    said = {confirmation("prod", replace(options, **other)) for other in ({}, *others)}  # type: ignore[arg-type]
    assert len(said) == 1 + len(others), "nothing is rounded"
    assert "set aside in /q" in confirmation("prod", replace(options, quarantine_dirs=("/q",)))
