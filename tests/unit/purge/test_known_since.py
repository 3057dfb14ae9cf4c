"""A data folder that does not go on from what this machine's purges rested on is not taken for it.

The data volume is not mounted after a restart, and collecting fills the folder below the mount
point: its first snapshot is none of a cluster that nobody knew before, whatever the clocks say.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.cli.purge.delete_records import _lifting
from dashboard.core.errors import PlanError
from dashboard.history import known_since
from dashboard.history.pruning import prune
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options, PartitionRow, RunRow
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import Target, parse_target
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES, build
from tests.support.cluster import FakeCluster
from tests.support.collected import NOTHING_HIDDEN, taken
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Clock

JANUARY, MAY, JUNE, JULY = (datetime(2025, m, 1, tzinfo=NOW.tzinfo) for m in (1, 5, 6, 7))
BEFORE_NTP = datetime(1970, 1, 1, tzinfo=NOW.tzinfo)
LIFTED = ("readers-undeclared", "no-history")


def store_of(folder: Path, name: str = "right") -> ClusterStore:
    return ClusterStore(Store(str(folder / name)), "cluster-1")


def snapshot(store: ClusterStore, at: datetime) -> str:
    return taken(store, at, TOPIC)


def analyzed(
    store: ClusterStore, at: datetime, *, tells: str = "id and hash", full: bool = False
) -> str:
    """A snapshot and its analysis: what it `tells` of its beginning are an "id and hash", or of
    earlier versions an "id" or "nothing".
    """
    shown = snapshot(store, at)
    newest = store.latest("findings")
    before = store.manifest("findings", newest) if newest else None
    since = known_since.of_analysis(store, [before] if before else [], anew=full or before is None)
    told = {"nothing": None, "id": str(since).partition(":")[0]}.get(tells, since)
    writer = store.begin("findings", at)
    for table in ("holds", "curves"):
        writer.write(table, build(FINDING_TABLES[table], {}))
    writer.commit(0.0, {"snapshot_id": shown} | ({known_since.DETAIL: told} if told else {}))
    store.set_latest(writer.id)
    return shown


def begins_with(store: ClusterStore, snapshot_id: str) -> str:
    """What an analysis carries whose memory began with this snapshot, which is kept."""
    body = (Path(store.path) / "snapshots" / snapshot_id / "manifest.json").read_bytes()
    return f"{snapshot_id}:{hashlib.sha256(body).hexdigest()[:16]}"


class Machine:
    """A cluster, and a journal with what was purged from here."""

    def __init__(self, folder: Path) -> None:
        # What is asked here is since when a folder knows the cluster, not how lately it was told.
        long = PurgeSettings(most_history_age=timedelta(days=3650))
        self.settings = Settings(state_dir=folder / "state", purge=long)
        self.live = FakeCluster()
        self.clock = Clock()
        self.made = 0

    def plan(self, store: ClusterStore, *lifted: str) -> Plan:
        self.made += 1
        request = PlanRequest((TOPIC,), parse_target("committed"), by=f"ann-{self.made}")
        read = read_live(self.live, self.settings, store, request, now=NOW)  # type: ignore[arg-type]
        return read.plan([Lift(name, "why") for name in lifted])

    def guard(self, store: ClusterStore) -> str | None:
        """Why guard no-history stands on a plan from this folder."""
        (found,) = self.plan(store).partitions
        return next((g.reason for g in found.guards if g.name == "no-history"), None)

    def journal(self) -> Journal:
        return Journal(self.settings.state_dir / "journal.sqlite")

    def queued(
        self, plan: Plan, *, sent: bool = False, earlier: bool = False, mode: str = "wait-all"
    ) -> str:
        """A run of the plan, one that has `sent` it already if so; by an `earlier` version if so,
        whose intents tell nothing of the store.
        """
        journal = self.journal()
        run_id, _ = journal.insert(
            plan, token=plan.sha256, mode=mode, who="ann", from_where="here",
            typed=plan.confirmation, options=Options(10_000, 2, 1, 3_600_000), connection={},
            now=NOW,
        )  # fmt: skip
        if sent:
            rows = [replace(row, state="sent") for row in journal.partitions(run_id)]
            seen = {} if earlier else {"known_since": plan.known_since}
            journal.intend(run_id, rows, lambda: NOW, **seen)
            journal.set_run(run_id, "done", NOW)
        journal.close()
        return run_id

    def purged(self, store: ClusterStore) -> Plan:
        plan = self.plan(store, *LIFTED)
        self.queued(plan, sent=True)
        return plan

    def carried_out(self, run_id: str, store: ClusterStore) -> tuple[RunRow, PartitionRow]:
        journal = self.journal()
        run = carry_out(
            self.live, journal, run_id, now=self.clock, sleep=self.clock.sleep,  # type: ignore[arg-type]
            read_only=lambda: None, steady=self.clock.steady,
            standards=lambda plan: standards(self.settings, store, plan.topic_ids, NOW),
        )  # fmt: skip
        (row,) = journal.partitions(run_id)
        journal.close()
        return run, row


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def right(tmp_path: Path) -> ClusterStore:
    """The folder that knows the cluster since January."""
    store = store_of(tmp_path)
    analyzed(store, JANUARY)
    analyzed(store, MAY)
    return store


@pytest.fixture
def below(tmp_path: Path) -> ClusterStore:
    """The folder below the mount point, into which `watch` wrote one snapshot in June."""
    store = store_of(tmp_path, "below")
    snapshot(store, JUNE)
    return store


@pytest.mark.parametrize("first", [BEFORE_NTP, JUNE])
def test_no_clock_makes_the_folder_below_a_mount_point_the_right_one(
    machine: Machine, right: ClusterStore, tmp_path: Path, first: datetime
) -> None:
    """The host began without a clock, and it was set between the first snapshot and the second."""
    machine.purged(right)
    below = store_of(tmp_path, "below")
    snapshot(below, first)
    assert machine.guard(below) is not None
    for _ in range(2):
        analyzed(below, JULY)
        assert machine.guard(below) is not None
    assert machine.guard(right) is None


def test_a_folder_whose_first_snapshot_was_of_a_clock_a_year_ahead_is_told_from_others(
    machine: Machine, below: ClusterStore, tmp_path: Path
) -> None:
    right = store_of(tmp_path)
    analyzed(right, NOW + timedelta(days=365))
    analyzed(right, MAY)
    machine.purged(right)
    assert machine.guard(below) is not None
    assert machine.guard(right) is None


def test_a_folder_that_began_after_what_was_purged_rested_on_is_named(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    assert machine.guard(below) is None, "nothing was purged from here"
    machine.purged(right)
    why = machine.guard(below) or ""
    assert str(below.store.root) in why
    assert "2025-06-01T00:00:00.000Z" in why
    assert "2025-01-01T00:00:00.000Z" in why
    assert machine.guard(right) is None
    analyzed(below, JULY)
    assert machine.guard(below) is not None, "an analysis of it makes it no older"


def test_a_folder_that_was_filled_below_the_mount_point_before_the_newest_purge_is_named_too(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    analyzed(below, JUNE)
    analyzed(right, JULY)
    machine.purged(right)
    assert machine.guard(below) is not None


def test_what_is_pruned_makes_a_folder_know_its_cluster_no_later(
    machine: Machine, right: ClusterStore
) -> None:
    machine.purged(right)
    analyzed(right, JUNE)
    for kind in ("snapshots", "findings"):
        prune(right, kind, lambda ids: ids[-1:], NOW)  # type: ignore[arg-type]
    analyzed(right, JULY)
    assert machine.guard(right) is None


def test_a_folder_that_a_backup_of_was_put_back_knows_enough(
    machine: Machine, right: ClusterStore, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "right", tmp_path / "backup")
    analyzed(right, JUNE)
    machine.purged(right)
    assert machine.guard(store_of(tmp_path, "backup")) is None


def test_a_person_who_purges_with_the_guard_lifted_begins_anew(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.purged(right)
    machine.purged(below)
    assert machine.guard(below) is not None, "without an analysis nothing says what it rested on"
    analyzed(below, JULY)
    unsent = machine.queued(machine.plan(below, *LIFTED))
    assert machine.guard(below) is not None, "nothing was sent yet"
    machine.journal().set_run(unsent, "cancelled", NOW)
    machine.purged(below)
    assert machine.guard(below) is None
    assert machine.guard(right) is not None, "it lacks what came and went meanwhile"
    machine.purged(right)
    assert machine.guard(right) is None
    assert machine.guard(below) is not None


def test_a_folder_that_is_another_one_before_sending_sends_nothing(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    """The first run of a journal, too: it rests on what its own plan rested on."""
    run, row = machine.carried_out(machine.queued(machine.plan(right, *LIFTED[:1])), below)
    assert (run.state, row.error) == ("refused", "no-history")
    run, row = machine.carried_out(machine.queued(machine.plan(right, *LIFTED[:1])), right)
    assert (run.state, row.error) == ("done", None)


def test_a_plan_of_another_machine_from_a_folder_that_knows_less_sends_nothing(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    analyzed(below, JULY)
    foreign = machine.plan(below, *LIFTED)  # nothing is journalled here yet: there was no guard
    assert foreign.overrides[0].name == "readers-undeclared"
    machine.purged(right)
    run, row = machine.carried_out(machine.queued(foreign), below)
    assert (run.state, row.error) == ("refused", "no-history")


def test_a_lifted_guard_is_lifted_before_sending_too(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.purged(right)
    run, row = machine.carried_out(machine.queued(machine.plan(below, *LIFTED)), below)
    assert (run.state, row.error) == ("done", None)


def test_stores_and_plans_of_earlier_versions_stand_in_nobodys_way(
    machine: Machine, tmp_path: Path
) -> None:
    old = store_of(tmp_path, "old")
    analyzed(old, JANUARY, tells="nothing")
    plan = machine.purged(old)
    assert (plan.known_since, "known_since" in plan.to_json_text()) == (None, False)
    analyzed(old, MAY, tells="nothing")
    prune(old, "snapshots", lambda ids: ids[-1:], NOW)
    assert machine.guard(old) is None
    analyzed(old, JUNE)
    assert machine.purged(old).known_since == begins_with(old, old.ids("snapshots")[0]), "May's"
    prune(old, "snapshots", lambda ids: ids[-1:], NOW)
    analyzed(old, JULY)
    assert machine.guard(old) is None


def test_without_its_analyses_a_folder_knows_what_its_snapshots_know(
    machine: Machine, right: ClusterStore
) -> None:
    machine.purged(right)
    prune(right, "snapshots", lambda ids: ids[-1:], NOW)
    prune(right, "findings", lambda _: (), NOW)
    right.fs.rm(f"{right.path}/findings/LATEST")
    assert machine.guard(right) is not None


def test_a_full_analysis_carries_what_it_was_told_and_what_was_put_back_before_it(
    right: ClusterStore,
) -> None:
    newest = right.manifest("findings", str(right.latest("findings")))
    first, *_ = right.ids("snapshots")
    told = begins_with(right, first)
    assert newest.details[known_since.DETAIL] == told
    before = "20241231T000000000Z-0000"  # somebody puts back what a backup has
    kept = Path(right.path) / "snapshots"
    shutil.copytree(kept / first, kept / before)
    older = begins_with(right, before)
    assert known_since.of_analysis(right, [newest], anew=False) == told
    assert known_since.of_analysis(right, [newest], anew=True) == f"{older} {told}"
    assert known_since.of_analysis(right, [], anew=True) == older
    prune(right, "snapshots", lambda ids: ids[-1:], NOW)
    assert known_since.of_analysis(right, [newest], anew=True) == told, "a full one forgets nothing"


def test_a_plan_keeps_since_when_it_knew_and_refuses_what_is_no_id(
    machine: Machine, right: ClusterStore
) -> None:
    plan = machine.plan(right)
    assert plan.known_since == begins_with(right, right.ids("snapshots")[0])
    assert Plan.from_json_text(plan.to_json_text(), "p.json") == plan
    for forged in ("9", "9999-12-31", right.ids("snapshots")[0] + ":", f"{plan.known_since} "):
        text = replace(plan, known_since=forged).to_json_text()
        with pytest.raises(PlanError, match="known_since"):
            Plan.from_json_text(text, "p.json")


def test_a_run_is_held_against_the_one_before_it_however_much_it_has_sent(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    analyzed(below, JULY)
    first, second = (
        machine.queued(machine.plan(store, *LIFTED), sent=True) for store in (right, below)
    )
    journal = machine.journal()
    for but, run_id in ((None, second), (second, first)):
        found = journal.rested_on("cluster-1", but=but)
        assert found is not None and found.run_id == run_id


@pytest.mark.further_but("cancelled", "leader-only")
@pytest.mark.parametrize("how", ["BROKER_UNREACHABLE", "TLS_FAILED", "cancelled", "leader-only"])
def test_a_run_of_which_nothing_left_moves_no_history(
    machine: Machine, right: ClusterStore, below: ClusterStore, how: str
) -> None:
    """Its intent is in the journal by the time at which the leader turns out not to be there."""
    analyzed(below, JULY)
    machine.purged(right)
    run_id = machine.queued(
        machine.plan(below, *LIFTED), mode="leader-only" if how == "leader-only" else "wait-all"
    )
    machine.live.leader_only_brokers = set()
    if how == "cancelled":
        cancel = machine.journal()
        machine.live.on_connect = [lambda: cancel.set_wish(run_id, "cancel", "ann", NOW)]
    elif how.isupper():
        machine.live.answers = [how] * 500
    run, row = machine.carried_out(run_id, below)
    assert run.state == ("cancelled" if how == "cancelled" else "refused")
    assert machine.live.parts[KEY].starts[1] < row.target_offset
    assert "intent" in {entry.kind for entry in machine.journal().entries(run_id)}
    assert machine.guard(right) is None
    assert machine.guard(below) is not None


def test_another_clusters_runs_say_nothing(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.queued(replace(machine.plan(right, *LIFTED), cluster_id="cluster-2"), sent=True)
    assert machine.guard(below) is None


def test_a_journal_that_cannot_be_read_leaves_planning_to_the_look_before_sending(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.purged(right)
    (machine.settings.state_dir / "journal.sqlite").write_bytes(b"no journal" * 500)
    assert machine.guard(below) is None


@pytest.mark.further
def test_what_an_earlier_version_kept_of_its_beginning_names_the_same_folder(
    machine: Machine, below: ClusterStore, tmp_path: Path
) -> None:
    """Its journal and its analyses have the id alone: nobody has to do anything."""
    old = store_of(tmp_path, "old")
    first = analyzed(old, JANUARY, tells="id")
    plan = machine.plan(old, *LIFTED)
    assert plan.known_since == first
    machine.queued(plan, sent=True, earlier=True)
    for at, full in ((MAY, False), (JUNE, True)):
        analyzed(old, at, full=full)
        assert machine.guard(old) is None
    assert machine.purged(old).known_since == begins_with(old, first)
    prune(old, "snapshots", lambda ids: ids[-1:], NOW)
    analyzed(old, JULY)
    assert machine.guard(old) is None
    assert machine.guard(below) is not None


def test_a_snapshot_of_that_id_with_another_content_is_another_folders(
    machine: Machine, right: ClusterStore, tmp_path: Path
) -> None:
    first, *_ = right.ids("snapshots")
    other = store_of(tmp_path, "other")
    shutil.copytree(Path(right.path) / "snapshots" / first, Path(other.path) / "snapshots" / first)
    machine.purged(right)
    assert machine.guard(other) is None, "it is a copy"
    manifest = Path(other.path) / "snapshots" / first / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    assert machine.guard(other) is not None


def test_an_emptied_folder_is_another_one_from_its_first_snapshot_on(
    machine: Machine, right: ClusterStore
) -> None:
    machine.purged(right)
    shutil.rmtree(Path(right.path) / "snapshots")
    analyzed(right, JUNE)
    assert machine.guard(right) is None, "its analyses remember all that they did"
    shutil.rmtree(right.path)
    analyzed(right, BEFORE_NTP)
    assert machine.guard(right) is not None


def test_what_was_lost_may_be_put_back_and_folded_again(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.purged(right)
    analyzed(below, JUNE)
    for name in right.ids("snapshots"):
        shutil.copytree(
            Path(right.path) / "snapshots" / name, Path(below.path) / "snapshots" / name
        )
    analyzed(below, JULY)
    assert machine.guard(below) is not None, "nobody has read what was put back"
    analyzed(below, JULY, full=True)
    assert machine.guard(below) is None
    machine.purged(below)
    assert machine.guard(right) is not None, "it has not got what the other one had besides"


def test_of_two_first_snapshots_at_once_the_first_in_the_listing_counts(
    machine: Machine, tmp_path: Path
) -> None:
    store = store_of(tmp_path)
    early, late = (store.begin("snapshots", at) for at in (MAY, JUNE))
    for writer in (late, early):
        writer.write("topics", build(SNAPSHOT_TABLES["topics"], {}))
        writer.commit(0.0, NOTHING_HIDDEN)
    analyzed(store, JULY)
    assert known_since.carried_since(store) == begins_with(store, early.id)
    prune(store, "snapshots", lambda ids: ids[-1:], NOW)
    analyzed(store, JULY)
    assert str(known_since.carried_since(store)).startswith(early.id)


def test_object_storage_tells_one_folder_from_another_too(machine: Machine) -> None:
    names = [f"memory://{secrets.token_hex(4)}" for _ in range(2)]
    right, below = (ClusterStore(Store(name), "cluster-1") for name in names)
    analyzed(right, MAY)
    machine.purged(right)
    analyzed(below, JANUARY)
    assert machine.guard(right) is None
    assert machine.guard(below) is not None


@pytest.mark.parametrize("says", [None, "below's"])
def test_what_a_plan_says_of_its_folder_moves_no_journal(
    machine: Machine, right: ClusterStore, below: ClusterStore, says: str | None
) -> None:
    """Sealed again by hand: what counts is what the worker's own store began with."""
    analyzed(below, JULY)
    true = machine.plan(right, *LIFTED)
    since = None if says is None else machine.plan(below).known_since
    run, row = machine.carried_out(machine.queued(replace(true, known_since=since)), right)
    if says is None:
        assert (run.state, row.error) == ("done", None)
        rested = machine.journal().rested_on("cluster-1")
        assert rested is not None and rested.known_since == true.known_since
    else:
        assert (run.state, row.error) == ("refused", "no-history")
        assert machine.journal().rested_on("cluster-1") is None


def test_what_was_forged_into_an_earlier_versions_journal_switches_the_guard_on_not_off(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    machine.queued(replace(machine.plan(right, *LIFTED), known_since="9"), sent=True, earlier=True)
    assert "9" in (machine.guard(below) or "")
    assert machine.guard(right) is not None
    machine.purged(right)
    assert machine.guard(right) is None


def test_a_run_by_a_store_that_was_never_analyzed_moves_no_journal(
    machine: Machine, right: ClusterStore, below: ClusterStore
) -> None:
    first = machine.queued(machine.plan(right, *LIFTED), sent=True)
    forged = replace(machine.plan(right, *LIFTED), known_since=None)
    machine.queued(forged, sent=True)
    rested = machine.journal().rested_on("cluster-1")
    assert rested is not None and rested.run_id == first


@pytest.mark.parametrize(
    "write",
    [analyzed, snapshot, lambda _store, _at: None],
    ids=["analyzed", "collected alone", "empty"],
)
def test_a_yes_to_delete_records_makes_no_other_folder_the_one_that_counts(
    machine: Machine, tmp_path: Path, write: Callable[[ClusterStore, datetime], object]
) -> None:
    """Kafka's tool has no such word, and a nightly job says it without looking."""
    right = store_of(tmp_path)
    analyzed(right, JANUARY)
    machine.purged(right)
    below = store_of(tmp_path, "below")
    write(below, JUNE)
    request = PlanRequest((), Target("file", offsets={KEY: 5}), by="cron")
    read = read_live(machine.live, machine.settings, below, request, now=NOW)
    guarded = read.plan(())
    assert "no-history" in {g.name for p in guarded.partitions for g in p.guards}
    elsewhere, liftable = read.facts.elsewhere, machine.settings.purge.liftable_guards
    lifted = {lift.name for lift in _lifting(guarded, elsewhere, liftable)}
    assert lifted == {"readers-undeclared"}
