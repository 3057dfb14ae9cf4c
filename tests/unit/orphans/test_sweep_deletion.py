"""Before a folder in quarantine is deleted, all that was asked before its move is asked again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import format_time
from dashboard.core.errors import ClusterError, LowwaterError
from dashboard.domain import acts as words
from dashboard.domain.model import Reassignment, ReplicaSize, TopicState
from dashboard.orphans.sweep import aside as sweep_aside
from dashboard.orphans.sweep import log as sweep_log
from dashboard.orphans.sweep import sweep
from dashboard.orphans.sweep.aside import delete, find
from dashboard.orphans.sweep.report import Outcome, Refusal
from tests.unit.inventory.disks import TOPIC_ID, Disk
from tests.unit.orphans.dying_sweep import killed
from tests.unit.orphans.sweep_acts import kinds, site, whole
from tests.unit.orphans.sweep_host import STRAY, Host, topic

DAY = timedelta(hours=24)


def due(host: Host, apply: bool = True) -> Outcome:
    """What a sweep does with the only folder in quarantine, whose time is up."""
    none = host.row(broker_id=2, newest_at=host.now)
    (outcome,) = host.sweep(host.verdicts(none), apply=apply).rows
    return outcome


def hidden(host: Host) -> None:
    host.live.hidden_ids.add(TOPIC_ID)


def hosted_without_a_folder(host: Host) -> None:
    host.live.hosted.append(ReplicaSize(1, str(host.log_dir), "gone", 0, 100, 0, False))


def reassigned_to_us(host: Host) -> None:
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2,), isr=(2,))
    host.live.moving = (Reassignment("gone", 0, (1,), ()),)


def renewed_metadata(host: Host) -> None:
    meta = host.log_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("directory.id=D", "directory.id=E"))


WANTED = [
    (lambda h: h.live.states.clear(), "unknown"),
    (hidden, "unknown"),
    (lambda h: h.live.states.update(gone=TopicState("gone", None, False, (), "UNREADABLE")),
     "unknown"),
    (lambda h: h.live.states.update(gone=topic("gone", TOPIC_ID)), "assigned"),
    (lambda h: h.live.states.update(other=topic("other", TOPIC_ID)), "assigned"),
    (reassigned_to_us, "assigned"),
    (lambda h: h.live.states.update(gone=topic("gone", TOPIC_ID, replicas=(2,), isr=(2,))),
     "revived"),
    (lambda h: h.live.states.update(gone=topic("gone", "z" * 22, replicas=(2, 3), isr=(2,))),
     "under-replicated"),
    (hosted_without_a_folder, "hosted"),
    (renewed_metadata, "log-dir"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code"), WANTED)
def test_what_somebody_wants_again_is_not_deleted(
    host: Host, change: Callable[[Host], None], code: str
) -> None:
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    change(host)
    for apply in (False, True):
        outcome = due(host, apply)
        assert (outcome.state, outcome.code) == ("refused", code), outcome.reason
    with site(host) as opened:
        assert delete(opened, *find(opened, STRAY), lambda: None).code == code
    assert whole(aside)
    assert kinds(host) == ["moving", "moved"]


@pytest.mark.parametrize("apply", [False, True])
def test_a_clock_that_runs_ahead_of_the_cluster_ends_nobodys_time(host: Host, apply: bool) -> None:
    """A day ahead, the clock ended a quarantine of a day with its first sweep."""
    host.live.controller_at = moved = host.now
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    host.live.controller_at = moved + timedelta(seconds=2)
    outcome = due(host, apply)
    assert (outcome.state, outcome.code) == ("refused", "clock")
    assert "this host's clock is 86398 s ahead" in str(outcome.reason)
    with site(host) as opened:
        assert delete(opened, *find(opened, STRAY), lambda: None).code == "clock"
    host.live.controller_at = ClusterError("nobody answers", "Start it.", code="CLOCK_UNREAD")
    assert due(host, apply).code == "unknown"
    assert whole(aside)
    host.live.controller_at = host.now + DAY  # behind
    assert due(host, apply).code == "clock"
    host.live.controller_at = host.now - timedelta(seconds=10)  # as NTP keeps it
    assert due(host, apply=False).state == "would_delete"
    host.live.controller_at = host.now
    assert due(host).state == "deleted"
    assert not aside.exists()


def test_a_quarantine_begins_with_the_first_look_by_a_clock_that_was_proved(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of an earlier release: its host was two days behind, and NTP has set it right since."""
    real = host.now
    aside = moved_two_days_behind(host, monkeypatch)  # by a cluster that told no time then
    host.now = host.live.controller_at = real + timedelta(minutes=1)
    assert due(host, apply=False).state == "quarantined"
    assert kinds(host) == ["moving", "moved"]
    first = due(host)
    assert (first.state, format_time(host.now + DAY) in str(first.reason)) == ("quarantined", True)
    assert kinds(host) == ["moving", "moved", "seen"]
    host.now = host.live.controller_at = host.now + DAY - timedelta(minutes=1)
    assert due(host).state == "quarantined"
    assert kinds(host) == ["moving", "moved", "seen"]
    host.now = host.live.controller_at = host.now + timedelta(minutes=1)
    assert due(host).state == "deleted"
    assert not aside.exists()


def test_what_moved_by_a_proved_clock_counts_from_its_move(host: Host) -> None:
    host.live.controller_at = host.now
    host.one()
    host.now = host.live.controller_at = host.now + DAY
    assert due(host).state == "deleted"
    assert kinds(host) == ["moving", "moved", "deleting", "deleted"]


def moved_two_days_behind(host: Host, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a folder lies that was moved, and had got its ctime, by a clock two days behind."""
    host.now -= 2 * DAY
    with monkeypatch.context() as patched:
        patched.setattr(sweep, "changed_at", lambda _: host.now - timedelta(hours=3))
        return Path(host.one().quarantined_as or "")


@pytest.mark.further_but("<lambda>-unknown0", "<lambda>-assigned0", "<lambda>-revived")
@pytest.mark.parametrize(("change", "code"), WANTED)
def test_a_deletion_that_was_killed_goes_on_only_where_it_might_begin(
    host: Host, change: Callable[[Host], None], code: str
) -> None:
    aside = Path(host.one().quarantined_as or "")
    killed(lambda: host.sweep(keep=timedelta(0)), "half:remove")
    begun = aside.with_name(f"{STRAY}.deleting")
    left = sorted(begun.iterdir())
    assert len(left) == 3
    change(host)
    assert due(host).code == code
    assert sorted(begun.iterdir()) == left


def test_another_cluster_at_the_same_address(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    with site(host) as opened:
        place, item = find(opened, STRAY)
        host.live.id = "other"  # it was the right one when the sweep began
        assert delete(opened, place, item, lambda: None).code == "cluster"
    with pytest.raises(LowwaterError) as caught:
        due(host)
    assert caught.value.code == "CLUSTER_MISMATCH"
    assert whole(aside)


def test_a_log_dir_that_is_not_named_or_changes_meanwhile(host: Host) -> None:
    other = Disk(host.folder / "b")
    meta = other.path / "meta.properties"
    meta.write_text(meta.read_text().replace("directory.id=D", "directory.id=E"))
    host.live.paths.append(str(other.path))
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    with site(host) as opened:
        place, item = find(opened, STRAY)
        elsewhere = replace(item, log_dir=str(other.path))
        assert delete(opened, place, elsewhere, lambda: None).code == "log-dir"
        renewed_metadata(host)
        assert delete(opened, place, item, lambda: None).code == "log-dir"
    assert whole(aside)


def test_a_broker_that_starts_again_meanwhile_has_read_the_log_dir_anew(host: Host) -> None:
    with site(host) as opened:
        (log_dir,) = opened.log_dirs
        log_dir.still_so()
        host.stop_broker()
        with pytest.raises(Refusal, match="started or ended"):
            log_dir.still_so()
        host.start_broker()
        with pytest.raises(Refusal, match="started or ended"):
            log_dir.still_so()


def test_the_switch_is_asked_right_before_the_deletion(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    asked: list[str | None] = [None]

    def stopped() -> str | None:
        return asked.pop(0) if asked else "an approver stopped it"

    with site(host) as opened:
        place, item = find(opened, STRAY)
        assert stopped() is None
        assert delete(opened, place, item, stopped).code == "read-only"
        assert sweep_aside.restore(opened, place, item, stopped).code == "read-only"
    assert whole(aside)


def test_a_topic_that_lived_elsewhere_when_its_folder_moved_is_no_revival(host: Host) -> None:
    aside = elsewhere_aside(host)
    assert due(host).state == "deleted"
    assert not aside.exists()


def elsewhere_aside(host: Host) -> Path:
    """Where a folder lies whose living partition is past it, and whose time is up."""
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2,), isr=(2,))
    host.live.ends, row = (10, 500), host.row()
    host.now += timedelta(hours=2)
    aside = Path(host.one(row).quarantined_as or "")
    host.now += DAY
    return aside


@pytest.mark.further_but("None-ends0", "after:deleting-ends1", "after:rename-ends2")
@pytest.mark.parametrize("ends", [(0, 3), (0, 500), (None, None)])
@pytest.mark.parametrize("point", [None, "after:deleting", "after:rename", "half:remove"])
def test_the_last_copy_of_a_partition_that_was_forced_elsewhere_is_not_deleted(
    host: Host, ends: tuple[int | None, int | None], point: str | None
) -> None:
    """Its leader was elected uncleanly while it lay here: what lies here is all that there is."""
    aside = elsewhere_aside(host)
    if point is not None:
        killed(lambda: due(host), point)
    host.live.ends = ends
    for apply in (False, True):
        outcome = due(host, apply=apply)
        assert (outcome.state, outcome.code) == ("refused", "last-copy"), outcome.reason
    assert [f for f in aside.parent.glob("*/*.log") if f.stat().st_size]
    host.live.ends = (10, 500)
    assert due(host).state == "deleted"


def test_a_topic_that_keeps_more_by_now_keeps_what_lies_in_quarantine(host: Host) -> None:
    aside = elsewhere_aside(host)
    host.live.topic_configs["retention.ms"] = "-1"
    assert due(host).code == "last-copy"
    assert whole(aside)


def test_a_topic_made_anew_under_the_name_has_a_folder_of_its_own(host: Host) -> None:
    folder = host.disk.folder("gone-0")
    host.disk.segment(folder, 0)
    later = host.now + timedelta(minutes=1)
    host.one(host.row(directory="gone-0", kind=words.DELETED_TOPIC, newest_at=later))
    host.live.states["gone"] = topic("gone", "z" * 22)
    hosted_without_a_folder(host)
    host.now += DAY
    assert due(host).code == "hosted"
    (host.log_dir / "gone-0").mkdir()
    assert due(host).state == "deleted"
    assert (host.log_dir / "gone-0").is_dir()


def test_a_log_of_an_earlier_release_is_read_as_it_is(host: Host) -> None:
    host.one()
    log = host.quarantine / "sweep.log"
    first, *_ = [json.loads(line) for line in log.read_text().splitlines()]
    body = {k: v for k, v in first["body"].items() if k not in ("directory_id", "topic_lived")}
    assert len(first["body"]) - len(body) == 2
    log.write_text("")
    folder = os.open(host.quarantine, os.O_RDONLY)
    made = sweep_log.SweepLog(folder, "here", host.now)
    made.append("moving", body, host.now)
    made.append("moved", {"item": body["item"]}, host.now)
    made.close()
    os.close(folder)
    host.now += DAY
    host.live.states["gone"] = topic("gone", TOPIC_ID)
    assert due(host).code == "assigned"
    del host.live.states["gone"]
    assert due(host).state == "deleted"


def test_an_answer_that_is_lost_ends_nobodys_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moved by a clock two days behind, which nobody proved; the next question is answered."""
    real = host.now
    aside = moved_two_days_behind(host, monkeypatch)
    host.now = real
    lost = [ClusterError("nobody answers", "Start it.", code="CLOCK_UNREAD")]

    def told() -> datetime:
        if lost:
            raise lost.pop()
        return host.now

    monkeypatch.setattr(host.live, "controller_time", told)
    assert due(host).code == "unknown"
    assert whole(aside)
    assert due(host).state == "quarantined", "counted from this look on"
