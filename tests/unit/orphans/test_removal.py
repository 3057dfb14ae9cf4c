"""The service that removes orphans by itself: what it does in a round, when the next one is due,
and what keeps it from acting.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from dashboard.core.canonical import written
from dashboard.core.errors import RefusedError, StoreError
from dashboard.domain import acts as words
from dashboard.exporter import own
from dashboard.orphans.removal import (
    FAILED,
    OFF,
    ON,
    STANDBY,
    Lead,
    Removal,
    Round,
    described,
    removal_families,
)
from dashboard.orphans.removal_story import read_stories, tell, untold
from dashboard.orphans.sweep.report import DayLimit, Outcome
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.verdicts import Verdict, Verdicts
from dashboard.purge.journal.journal import Journal
from tests.unit.inventory.disks import TOPIC_ID
from tests.unit.orphans.dying_sweep import killed
from tests.unit.orphans.sweep_acts import kinds, put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host

DAY = timedelta(days=1)
EVERY = timedelta(minutes=10)


@pytest.fixture(autouse=True)
def whole_milliseconds(host: Host) -> None:
    """As logs keep them."""
    host.now = host.now.replace(microsecond=0)


def service(
    host: Host,
    judge: Callable[[datetime], Verdicts] | None = None,
    *,
    journal: Journal | None = None,
    **options: Any,
) -> Removal:
    chosen = {"apply": True, "day": DayLimit(20, 2**40), "most_share": 0.5, **options}
    return Removal(
        Options((str(host.log_dir),), **chosen),
        judge or (lambda _now: host.verdicts()), lambda: nullcontext(host.live), every=EVERY,
        now=lambda: host.now, stopped=lambda: host.stopped, progress=host.said.append,
        chain=journal,
    )  # fmt: skip


def states(found: Round) -> list[tuple[str, str | None]]:
    assert found.report is not None, found.error
    return [(row.state, row.code) for row in found.report.rows]


def only(found: Round) -> Outcome:
    assert found.report is not None, found.error
    (row,) = found.report.rows
    return row


def strays(host: Host, count: int) -> list[Verdict]:
    """More strays beside the first, each with its verdict."""
    rows = [host.row()]
    for number in range(1, count):
        name = f"gone-{number}.{number:032x}-stray"
        host.disk.segment(host.disk.folder(name), 0)
        rows.append(replace(rows[0], directory=name, partition=number))
    newest = max(f.stat().st_mtime for f in host.log_dir.glob("*-stray/*.log"))
    return [replace(r, newest_at=datetime.fromtimestamp(newest + 1, host.now.tzinfo)) for r in rows]


def test_off_it_tells_and_on_it_moves_and_deletes_a_day_later(host: Host, tmp_path: Path) -> None:
    off = service(host, apply=False).turn()
    assert (off.state, states(off), host.stray.exists()) == (OFF, [("would_move", None)], True)
    journal = Journal(tmp_path / "journal.sqlite")
    acting = service(host, journal=journal)
    moved = acting.turn()
    assert (moved.state, states(moved)) == (ON, [("moved", None)])
    assert moved.next_at == host.now + EVERY
    began = host.now
    host.now += DAY - EVERY / 2
    lies = acting.turn()
    assert (only(lies).state, lies.next_at) == ("quarantined", began + DAY)
    host.now = lies.next_at
    gone = acting.turn()
    assert (states(gone)[0], gone.next_at) == (("deleted", None), host.now + EVERY)
    assert kinds(host) == ["moving", "moved", "deleting", "deleted"]

    told = [entry.body for entry in journal.entries()]
    assert [(b["from_seq"], b["to_seq"]) for b in told] == [(1, 2), (3, 4)]
    assert [act[:1] + act[2:3] for b in told for act in b["acts"]] == [
        ["moved", STRAY], ["deleted", STRAY],
    ]  # fmt: skip
    assert journal.verify().ok
    acting.turn()
    assert len(journal.entries()) == 2, "nothing new, nothing told"
    journal.close()


def test_a_scheduled_verdict_is_asked_for_again_when_its_time_has_come(host: Host) -> None:
    soon = host.now + timedelta(minutes=3)
    rows = [host.row(verdict=words.SCHEDULED, check_at=soon)]
    acting = service(host, lambda _now: host.verdicts(*rows))
    waits = acting.turn()
    assert (states(waits), waits.next_at) == ([("refused", "verdict")], soon)
    host.now = soon
    assert acting.turn().next_at == soon + EVERY, "the store has nothing newer yet"
    rows[:] = [host.row()]
    assert states(acting.turn()) == [("moved", None)]


def test_what_is_assigned_again_before_or_after_its_move_stays(host: Host) -> None:
    """A suspect is revived: the partition is the broker's again."""
    acting, unassigned = service(host), dict(host.live.states)
    revived = replace(host.live.states["live"], topic="gone", topic_id=TOPIC_ID)
    host.live.states["gone"] = revived
    assert states(acting.turn()) == [("refused", "assigned")]
    assert whole(host.stray)
    host.live.states = unassigned
    assert states(acting.turn()) == [("moved", None)]
    host.live.states = {**unassigned, "gone": revived}
    host.now += 2 * DAY
    kept = acting.turn()
    assert states(kept)[0] == ("refused", "assigned")
    (aside,) = host.quarantine.glob(f"*/{STRAY}")
    assert whole(aside)


def test_a_day_has_its_limits_and_a_restart_begins_no_new_one(host: Host) -> None:
    rows = strays(host, 4)

    def judge(_now: datetime) -> Verdicts:
        return host.verdicts(*rows)

    few = {"day": DayLimit(2, 2**40)}
    first = service(host, judge, **few)
    assert sorted(states(first.turn()), key=str) == [
        ("moved", None), ("moved", None), ("refused", "day-limit"), ("refused", "day-limit"),
    ]  # fmt: skip
    first.close()
    again = service(host, judge, **few)
    assert ("moved", None) not in states(again.turn())
    host.now += DAY
    done = states(again.turn())
    assert (done.count(("deleted", None)), done.count(("moved", None))) == (2, 2)
    host.now += DAY / 2
    assert ("deleted", None) not in states(again.turn())


def test_of_all_that_is_due_no_more_is_deleted_than_a_day_allows(host: Host) -> None:
    rows = strays(host, 3)
    before = service(host, lambda _now: host.verdicts(*rows))
    before.turn()
    before.close()
    host.now += 5 * DAY  # none ran for long
    some = service(host, lambda _now: host.verdicts(*rows), day=DayLimit(9, 8192))
    done = [state for state in states(some.turn()) if state != ("refused", "gone")]
    assert sorted(done, key=str) == [
        ("deleted", None), ("refused", "day-limit"), ("refused", "day-limit"),
    ]  # fmt: skip
    some.close()


def test_what_a_person_put_back_stays_whatever_newer_verdicts_say(host: Host) -> None:
    acting = service(host)
    acting.turn()
    assert put_back(host).state == "restored"
    host.now += timedelta(hours=2)
    left = only(acting.turn())
    assert (left.code, "by hand" in (left.reason or "")) == ("restored", True)
    assert host.one().state == "moved", "by hand it may"


def test_of_two_services_one_acts_and_the_other_takes_over(host: Host) -> None:
    first, second = service(host), service(host)
    assert first.turn().state == ON
    stands_by = second.turn()
    assert (stands_by.state, stands_by.report) == (STANDBY, None)
    assert "another service" in described(stands_by, "prod")
    assert host.one(apply=False).state == "quarantined", "who looks by hand is not kept out"
    first.close()
    assert second.turn().state == ON
    second.close()


def test_a_meta_properties_that_was_written_anew_is_held_again(host: Host) -> None:
    lead = Lead((str(host.log_dir),))
    assert lead.take()
    meta = host.log_dir / "meta.properties"
    fresh = meta.with_suffix(".tmp")
    fresh.write_bytes(meta.read_bytes())
    fresh.replace(meta)
    assert lead.take()
    other = Lead((str(host.log_dir),))
    assert not other.take()
    lead.release()
    assert other.take()
    other.release()


@pytest.mark.parametrize("why", ["read-only", "store", "cluster", "role", "odd"])
def test_what_keeps_it_from_acting_is_told_and_it_goes_on(
    host: Host, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [True]

    def judge(_now: datetime) -> Verdicts:
        if wrong and why == "store":
            raise StoreError("the store is away", "Bring it back.")
        if wrong and why == "odd":
            raise ZeroDivisionError("nobody foresaw it")
        return host.verdicts()

    def admit() -> None:
        if wrong and why == "role":
            raise RefusedError("ann may not", "Ask.", code="ROLE_TOO_LOW")

    acting = service(host, judge)
    monkeypatch.setattr(acting, "_admit", admit)
    host.stopped = "stop" if why == "read-only" else None
    host.live.id = "other" if why == "cluster" else "C"
    found = acting.turn()
    assert host.stray.exists()
    if why == "store":
        assert (found.state, found.waiting) == (ON, "the store is away. Bring it back.")
    else:
        assert (found.state, found.next_at) == (FAILED, host.now + timedelta(minutes=1))
        assert found.error is not None and found.error.message in described(found, "prod")
    wrong.clear()
    host.stopped, host.live.id = None, "C"
    assert states(acting.turn()) == [("moved", None)]


def test_old_verdicts_move_nothing_and_the_quarantine_is_emptied_all_the_same(host: Host) -> None:
    acting = service(host)
    acting.turn()
    old = host.verdicts()
    host.now += 2 * DAY
    found = service(host, lambda _now: old)
    acting.close()
    late = found.turn()
    assert "over a day ago" in (late.waiting or "")
    assert states(late) == [("deleted", None)]


def test_a_refusal_is_told_once_and_not_every_round(host: Host) -> None:
    acting = service(host, lambda _now: host.verdicts(host.row(size_bytes=99)))
    for _ in range(3):
        acting.turn()
    assert len(host.said) == 1


def test_its_metrics_are_those_of_the_logs(host: Host) -> None:
    assert removal_families(None) == []
    rows = strays(host, 3)
    acting = service(host, lambda _now: host.verdicts(*rows), day=DayLimit(2, 2**40))
    first = values(removal_families(acting.turn()))
    assert first["lowwater_orphan_service_state", "on"] == 1
    assert first["lowwater_orphan_acts_folders_total", "1", "moved"] == 2
    assert first["lowwater_orphan_acts_bytes_total", "1", "moved"] == 2 * 8192
    assert first["lowwater_orphan_quarantined_folders", "1"] == 2
    assert first["lowwater_orphan_service_refused_folders", "1", "day-limit"] == 1
    host.now += DAY
    acting.close()
    later = values(removal_families(service(host, lambda _n: host.verdicts(*rows)).turn()))
    assert later["lowwater_orphan_acts_folders_total", "1", "deleted"] == 2
    assert later["lowwater_orphan_quarantined_bytes", "1"] == 8192


def test_each_broker_of_a_shared_log_tells_its_own_folders(host: Host, tmp_path: Path) -> None:
    service(host).turn()
    (mine,) = read_stories(Options((str(host.log_dir),)))
    theirs = replace(mine, broker_id=2)
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        for broker in (2, 1):
            for _ in range(2):
                tell(journal, [mine if broker == 1 else theirs], lambda: host.now)
        told = {entry.body["broker_id"]: entry.body["acts"] for entry in journal.entries()}
        assert len(journal.entries()) == 2
    assert (told[2], told[1][0][0]) == ([], "moved")


def test_every_metric_of_it_stands_in_the_docs(host: Host) -> None:
    page = (Path(own.__file__).parents[2] / "docs" / "orphans-service.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `lowwater_")]
    found = removal_families(service(host, lambda _now: host.verdicts(*strays(host, 2))).turn())
    named = {(s.name, *s.labels) for family in found for s in family.samples}
    assert len({name for name, *_ in named}) >= 6
    for name, *labels in named:
        (line,) = (line for line in lines if f"`{name}`" in line.split("|")[1])
        assert all(f"`{label}`" in line.split("|")[2] for label in labels), name


def values(found: list[Metric]) -> dict[tuple[str, ...], float]:
    return {(s.name, *s.labels.values()): s.value for f in found for s in f.samples}


def test_what_was_done_before_a_kill_is_told_to_the_chain_by_the_next(
    host: Host, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    killed(lambda: service(host).turn(), "after:moved")
    assert journal.entries() == []
    service(host, journal=journal).turn()
    (entry,) = journal.entries()
    assert [act[0] for act in entry.body["acts"]] == ["moved"]
    (story,) = read_stories(Options((str(host.log_dir),)))
    told = journal.told_of_orphans(story.log, story.cluster_id, story.broker_id)
    assert told is not None and written(told) == entry.body
    assert untold(story, told) is None
    cut = replace(story, entries=story.entries[:1])
    retold = untold(cut, told)
    assert retold is not None and retold.log_replaced and retold.to_seq == 1
    another = untold(story, replace(told, hash="0"))
    assert another is not None and another.from_seq == 1
    journal.close()
