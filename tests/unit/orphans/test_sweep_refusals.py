"""Each thing that keeps a sweep off a folder: it stays where it is, and the reason is told."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.core.errors import ClusterError
from dashboard.domain import acts as words
from dashboard.domain.model import Reassignment, ReplicaSize, TopicState
from dashboard.orphans.sweep import folder, places
from dashboard.orphans.sweep.folder import Measured, hidden_processes
from dashboard.orphans.sweep.report import Refusal
from tests.unit.inventory.disks import TOPIC_ID
from tests.unit.orphans.sweep_host import LIVE, STRAY, Host, topic

LONG = timedelta(hours=2)  # past the retention of the topics


def stays(host: Host, code: str, **changed: object) -> None:
    """The folder is refused with this code, dry and acting, and nothing was touched."""
    for apply in (False, True):
        outcome = host.one(host.row(**changed), apply=apply)
        assert (outcome.state, outcome.code) == ("refused", code), outcome.reason
    assert host.stray.is_dir()


def test_a_free_folder_goes(host: Host) -> None:
    """What all the refusals below are measured against."""
    assert host.one(apply=False).state == "would_move"
    assert host.one().state == "moved"
    assert not host.stray.exists()


@pytest.mark.parametrize("off", [timedelta(seconds=11), timedelta(seconds=-12), timedelta(days=-2)])
def test_a_clock_that_disagrees_with_the_cluster(host: Host, off: timedelta) -> None:
    """By one ahead verdicts may have been made: what is young is old by both. By one behind a
    quarantine would begin days ago.
    """
    host.live.controller_at = host.now - off
    stays(host, "clock")
    host.live.controller_at = ClusterError("nobody answers", "Start it.", code="CLOCK_UNREAD")
    stays(host, "unknown")
    host.live.controller_at = host.now - timedelta(seconds=10)
    assert host.one().state == "moved"


@pytest.mark.parametrize("verdict", [words.SCHEDULED, words.NEVER])
def test_what_is_not_removable(host: Host, verdict: str) -> None:
    at = host.now if verdict == words.SCHEDULED else None
    stays(host, "verdict", verdict=verdict, check_at=at)
    assert host.sweep(host.verdicts(host.row(verdict=verdict))).exit_code == 3


@pytest.mark.further_but(
    "changed0-log-dir", "changed3-name", "changed6-name", "changed9-kind", "changed12-topic-id"
)
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"log_dir": "/elsewhere"}, "log-dir"),
        ({"directory": "__cluster_metadata-0", "topic": "__cluster_metadata"}, "name"),
        ({"directory": "../data-0", "topic": ".."}, "name"),
        ({"directory": "remote-log-index-cache"}, "name"),
        ({"directory": "gone-00"}, "name"),
        ({"topic": "other"}, "name"),
        ({"partition": 1}, "name"),
        ({"kind": words.DELETED_TOPIC}, "kind"),
        ({"kind": words.TWO_LOG_DIRS}, "kind"),
        ({"kind": words.CHECKPOINT_ENTRY}, "kind"),
        ({"directory": STRAY.replace("0123", "3210")}, "gone"),
        ({"topic_id": "x" * 22}, "topic-id"),
        ({"topic_id": None}, "topic-id"),
        ({"size_bytes": 99}, "changed"),
        ({"size_bytes": None}, "changed"),
    ],
)
def test_a_row_that_is_not_this_folders(host: Host, changed: dict[str, object], code: str) -> None:
    stays(host, code, **changed)


def test_kinds_that_may_go(host: Host) -> None:
    """Each kind's folder by its own name; a topic's older folder may be stray by name, or not."""
    names = {
        words.DELETED_TOPIC: "gone-0",
        words.MOVED_AWAY: "gone-0",
        words.RECREATED_TOPIC: "gone-0",
        words.ABANDONED_FUTURE: "gone-0.0123-future",
        words.LATE_DELETE: "gone-0.0123-delete",
        words.STRAY: STRAY,
    }
    row = host.row()
    for kind, name in names.items():
        host.stray = host.stray.rename(host.log_dir / name)
        changed = replace(row, kind=kind, directory=name)
        assert host.one(changed, apply=False).state == "would_move", kind
    assert host.one(replace(row, kind=words.MOVED_AWAY), apply=False).state == "would_move"
    assert host.one(replace(row, kind=words.RECREATED_TOPIC)).state == "moved"


def test_a_name_that_kafka_cut_short(host: Host) -> None:
    """Kafka cuts the topic to fit 255 characters: then only its id tells which topic it is."""
    name = f"{'t' * 214}-0.{'0' * 32}-stray"
    assert len(name) == 255
    row = host.row()
    host.stray = host.stray.rename(host.log_dir / name)
    row = replace(row, directory=name, topic="t" * 230)
    assert host.one(replace(row, topic="u" * 230), apply=False).code == "name"
    assert host.one(replace(row, directory=name[1:]), apply=False).code == "name"
    host.live.states["t" * 230] = topic("t" * 230, TOPIC_ID)
    assert host.one(row, apply=False).code == "assigned"
    del host.live.states["t" * 230]
    # By the cut name there is no such topic, and no list shows one that we may not describe.
    cut = replace(row, topic="t" * 214)
    host.live.hidden_ids.add(TOPIC_ID)
    hidden = host.one(cut, apply=False)
    assert (hidden.code, "TOPIC_AUTHORIZATION_FAILED" in (hidden.reason or "")) == ("unknown", True)
    host.live.hidden_ids.clear()
    assert host.one(cut).state == "moved"


def test_a_newer_write(host: Host) -> None:
    row = host.row()
    later = row.newest_at.timestamp() + 2 if row.newest_at else 0
    os.utime(host.stray / f"{0:020}.log", (later, later))
    stays(host, "changed", newest_at=row.newest_at)


def test_a_changed_topic_id(host: Host) -> None:
    (host.stray / "partition.metadata").write_text(f"version: 0\ntopic_id: {'y' * 22}")
    stays(host, "topic-id")
    (host.stray / "partition.metadata").unlink()
    stays(host, "topic-id")


def test_links_of_every_kind(host: Host) -> None:
    log = host.stray / f"{0:020}.log"
    (host.stray / "more").symlink_to("/etc/passwd")
    stays(host, "link")
    (host.stray / "more").unlink()
    os.link(log, host.folder / "second name")
    stays(host, "link")
    (host.folder / "second name").unlink()
    (host.stray / "nested").mkdir()
    stays(host, "unusual")
    (host.stray / "nested").rmdir()
    row = host.row()
    host.stray.rename(host.folder / "real")
    host.stray.symlink_to(host.folder / "real")
    assert host.one(row).code == "link"
    assert host.stray.is_symlink()


@pytest.mark.parametrize("name", [".log.swap", ".log.cleaned", ".index.swap"])
def test_a_cleaner_that_was_killed_left_records_in_no_log_file(host: Host, name: str) -> None:
    """Its active segment is empty: to a living compacted partition nothing seemed to be lost."""
    log = host.stray / f"{0:020}.log"
    log.rename(log.with_name(f"{0:020}{name}"))
    (host.stray / f"{500:020}.log").touch()
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2,), isr=(2,))
    host.live.topic_configs = {"cleanup.policy": "compact", "retention.ms": "-1"}
    outcome = host.one(host.row(size_bytes=0))
    assert (outcome.code, name in str(outcome.reason)) == ("unusual", True)


def test_an_open_file_of_another_process(host: Host) -> None:
    code = "import sys; f=open(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    words_ = [sys.executable, "-S", "-c", code, str(host.stray / f"{0:020}.log")]
    with subprocess.Popen(words_, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        stays(host, "open-file")
        outcome = host.one()
        assert str(reader.pid) in (outcome.reason or "")
        reader.communicate()
    assert host.one().state == "moved"


def test_open_files_that_cannot_be_seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's own must be visible; of other processes the number is told."""
    monkeypatch.setattr(places, "lock_holder", lambda _: 0)  # of another pid namespace
    stays(host, "open-unknown")
    monkeypatch.undo()
    monkeypatch.setattr(folder, "PROC", host.folder / "proc")
    assert host.one().code == "open-unknown"
    monkeypatch.undo()
    if os.getuid() != 0:
        pytest.skip("only root can become a user who sees less")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            nothing = Measured(0, 0, 0, 0, 0, frozenset())
            broker = folder.Broker(os.getppid())
            folder.refuse_if_open(nothing, broker=broker, is_stray=True)
        except Refusal as refusal:
            os._exit(7 if refusal.code == "open-unknown" and hidden_processes() > 0 else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_open_file_of_the_broker_is_no_hindrance_for_a_stray_alone(host: Host) -> None:
    """A running broker holds every stray open and never looks at it again."""
    host.broker_opens(host.stray / f"{0:020}.log")
    assert "restarts" in (host.one(apply=False).reason or "")
    live = host.disk.folder("gone-0")
    host.disk.segment(live, 0)
    host.broker_opens(live / f"{0:020}.log")
    row = host.row(directory="gone-0", kind=words.DELETED_TOPIC)
    newest = host.row().newest_at
    assert newest is not None
    row = replace(row, newest_at=newest + timedelta(seconds=60))
    assert host.one(row).code == "open-file"
    assert live.is_dir()


@pytest.mark.parametrize("in_reassignment", [False, True])
def test_a_partition_that_the_broker_is_assigned(host: Host, in_reassignment: bool) -> None:
    replicas = (2,) if in_reassignment else (2, 1)
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=replicas, isr=replicas)
    if in_reassignment:
        host.live.moving = (Reassignment("gone", 0, (1,), ()),)
    stays(host, "assigned")


def test_a_partition_that_moved_away_may_go_once_its_replicas_are_in_sync(host: Host) -> None:
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2, 3), isr=(2,))
    stays(host, "under-replicated")
    host.live.states["gone"] = topic("gone", "z" * 22, replicas=(2, 3), isr=(2,))
    stays(host, "under-replicated")
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2,), isr=(2,), leader_id=None)
    stays(host, "under-replicated")
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2, 3), isr=(2, 3))
    host.live.ends, row = (10, 500), host.row()
    host.now += LONG
    assert host.one(row).state == "moved"


@pytest.mark.parametrize(
    ("ends", "settings", "words"),
    [
        ((0, 3), {}, "it ends at 3, and this folder at 10"),
        ((0, 500), {}, "begins at 0, before the folder's end at 10"),
        ((9, 500), {}, "begins at 9"),
        ((None, None), {}, "does not tell its offsets"),
        ((10, 500), {"retention.ms": "-1"}, "for ever"),
        ((10, 500), {"retention.ms": str(10**12)}, "keeps the folder's newest record until"),
        ((10, 500), {"cleanup.policy": "compact"}, "'compact'"),
        ((10, 500), None, "DESCRIBE_CONFIGS"),
    ],
)
def test_the_last_copy_of_a_partition_that_was_forced_elsewhere_stays(
    host: Host,
    ends: tuple[int | None, int | None],
    settings: dict[str, str] | None,
    words: str,
) -> None:
    """Broker 1 was dead, and broker 2 was elected uncleanly: its log is in sync with itself."""
    host.live.states["gone"] = topic("gone", TOPIC_ID, leader_id=2, replicas=(2,), isr=(2,))
    host.live.ends, row = ends, host.row()
    host.live.topic_configs = {} if settings is None else host.live.topic_configs | settings
    host.now += LONG
    outcome = host.one(row)
    assert (outcome.state, outcome.code) == ("refused", "last-copy")
    assert words in (outcome.reason or "")
    assert host.stray.exists()


def test_a_time_index_tells_of_newer_records_than_the_files_times(host: Host) -> None:
    host.live.states["gone"] = topic("gone", TOPIC_ID, leader_id=2, replicas=(2,), isr=(2,))
    host.live.ends, row = (10, 500), host.row()
    host.now += LONG
    last = int((host.now - timedelta(minutes=30)).timestamp() * 1000)
    (host.stray / f"{0:020}.timeindex").write_bytes(struct.pack(">qi", last, 9))
    assert host.one(row).code == "last-copy"


def test_where_the_records_of_a_folder_end_is_read_from_its_own_log(host: Host) -> None:
    host.live.states["gone"] = topic("gone", TOPIC_ID, leader_id=2, replicas=(2,), isr=(2,))
    log = host.stray / f"{0:020}.log"
    log.write_bytes(b"x" * 100)
    host.live.ends, row = (10, 500), host.row(log_end_offset=10)
    host.now += LONG
    assert "not known" in (host.one(row).reason or "")


def test_an_id_that_a_topic_of_another_name_has(host: Host) -> None:
    host.live.states["other"] = topic("other", TOPIC_ID)
    stays(host, "assigned")


def test_a_cluster_without_any_topic_smells_of_lost_metadata(host: Host) -> None:
    host.live.states = {}
    stays(host, "unknown")


def test_a_topic_that_cannot_be_read(host: Host) -> None:
    error = "TOPIC_AUTHORIZATION_FAILED"
    for topic_id in (None, "z" * 22):
        host.live.states["gone"] = TopicState("gone", topic_id, False, (), error)
        stays(host, "unknown")


def test_a_replica_that_the_broker_hosts_here_in_no_other_folder(host: Host) -> None:
    host.live.hosted.append(ReplicaSize(1, str(host.log_dir), "gone", 0, 100, 0, False))
    stays(host, "hosted")
    (host.log_dir / "gone-0").mkdir()
    assert host.one().state == "moved"


def test_a_live_folder_with_a_forged_verdict(host: Host) -> None:
    live = host.log_dir / "live-3"
    host.disk.segment(live, 0)
    (live / "partition.metadata").write_text("version: 0\ntopic_id: live567890123456789012")
    row = host.row(
        directory="live-3", topic="live", partition=3, topic_id="live567890123456789012",
        kind=words.DELETED_TOPIC, newest_at=host.now + timedelta(minutes=1),
    )  # fmt: skip
    assert host.one(row).code == "assigned"
    host.live.states = {"other": topic("other", "o" * 22)}
    assert host.one(row).code == "hosted"
    assert live.is_dir()


def test_more_than_a_twentieth_of_the_folders_at_once(host: Host) -> None:
    host.live.hosted = [replace(r, size_bytes=10_000) for r in host.live.hosted]
    names = [f"gone-{n}.{n:032x}-stray" for n in range(1, 4)]
    later = host.now + timedelta(minutes=1)
    rows = [host.row()]
    for number, name in enumerate(names, start=1):
        host.disk.segment(host.disk.folder(name), 0)
        rows.append(host.row(directory=name, partition=number, newest_at=later))
    report = host.sweep(host.verdicts(*rows))
    assert {row.code for row in report.rows} == {"share"}
    assert report.exit_code == 3
    moved = host.sweep(host.verdicts(*rows[:2]))
    assert [row.state for row in moved.rows] == ["moved", "moved"]
    # What lies in quarantine counts: two and one more are over again.
    again = host.sweep(host.verdicts(*rows[2:3]))
    assert [row.code for row in again.rows if row.state == "refused"] == ["share"]


def test_what_the_script_or_a_person_set_aside_is_in_the_share_too(host: Host) -> None:
    host.live.hosted = [replace(r, size_bytes=10_000) for r in host.live.hosted]
    host.quarantine.mkdir(mode=0o700)
    (host.quarantine / "sweep-script.log").touch()
    for number in (7, 8):
        (host.quarantine / f"20261125T022901-{number}-0" / f"gone-{number}").mkdir(parents=True)
    for apply in (False, True):
        assert host.one(apply=apply).code == "share"
    shutil.rmtree(host.quarantine / "20261125T022901-8-0")
    assert host.one().state == "moved"


def test_bytes_are_a_share_too(host: Host) -> None:
    host.disk.segment(host.stray, 0, 100 * LIVE)
    stays(host, "share", size_bytes=100 * LIVE)
