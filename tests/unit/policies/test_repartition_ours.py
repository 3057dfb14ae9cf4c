"""The repartition doctor tells our own purges from others', by the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.policies.doctor.diagnosis import Diagnosis
from dashboard.policies.doctor.repartition import diagnose
from dashboard.purge.journal.gate import sent_between
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from tests.unit.policies import examples, kept_history
from tests.unit.policies.streams_topics import END, STREAMS, TOPIC, Log, run
from tests.unit.purge.test_plan import free_plan

PRESET = 'preset = "repartition"'
HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    monkeypatch.setattr("os.fsync", lambda _: None)
    return kept_history.store(tmp_path / "data")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def ours(journal: Journal, log: Log, at: datetime, state: str = "done") -> None:
    """A run of ours purges the log up to what was committed, and is recorded."""
    offset = log.commits["app"] or 0
    plan = free_plan()
    (planned,) = plan.partitions
    planned = replace(planned, topic=log.topic, partition=log.partition, target_offset=offset)
    plan = replace(plan, cluster_id=kept_history.CLUSTER, created_at=at, partitions=(planned,))
    run_id, _ = journal.insert(
        plan, token=plan.sha256, mode="wait-all", who="policy tidy", from_where="here", typed="",
        options=Options(30_000, 500, 2, 0), connection={}, now=at,
    )  # fmt: skip
    (row,) = journal.partitions(run_id)
    journal.record(run_id, "sent", [replace(row, state=state, sent_at=at)], at)
    journal.set_run(run_id, "done", at)
    if state == "done":
        log.purge(offset)


def the_only(store: ClusterStore, journal: Journal, policies: tuple[Policy, ...] = ()) -> Diagnosis:
    (found,) = diagnose(store, journal, Settings(policies=policies), END)
    return found


def switch_on(journal: Journal, policy: Policy) -> Policy:
    journal.switch_policy(
        kept_history.CLUSTER, policy.name, policy.definition_sha256, enabled=True, who="ann",
        typed="", from_where="here", now=END,
    )  # fmt: skip
    return policy


def reads(log: Log, records: int) -> None:
    log.write(records)
    log.commits["app"] = log.end


def time_of(number: int, snapshots: int = 25) -> datetime:
    """Some minutes before the n-th snapshot."""
    return END - HOUR * (snapshots - 1 - number) - timedelta(minutes=5)


def both(
    journal: Journal, log: Log, *, streams: bool, records: int = 1550
) -> Callable[[int], None]:
    """Ours purges between all snapshots; Streams, if it does at all, once more behind us."""

    def step(number: int) -> None:
        reads(log, records)
        ours(journal, log, time_of(number))
        if streams:
            reads(log, records)
            log.purge(log.end)

    return step


def test_streams_and_our_runs_compete(store: ClusterStore, journal: Journal) -> None:
    log = Log()
    run(store, [log], both(journal, log, streams=True))

    found = the_only(store, journal)

    assert found.kind == "two-purgers"
    # The run before the first snapshot is older than what is kept.
    assert "Lowwater sent 24 purges, and the log start moved between 24 pairs" in found.sentence
    assert found.setting is not None
    assert (found.setting.where, found.setting.name) == ("lowwater", "runs on this topic")
    assert found.saves_requests_per_hour == pytest.approx(1.0)
    # What Streams purged behind us is counted as its own; at which interval ours hide.
    assert (found.evidence.purges_at_least, found.evidence.others_at_least) == (24, 24)
    assert found.rhythm is None


@pytest.mark.further
def test_our_runs_alone_do_not_compete(store: ClusterStore, journal: Journal) -> None:
    log = Log()
    run(store, [log], both(journal, log, streams=False))
    found = the_only(store, journal)
    assert (found.kind, found.evidence.others_at_least) == ("healthy", 0)


@pytest.mark.further
def test_retention_that_moves_the_log_start_is_no_second_purger(
    store: ClusterStore, journal: Journal
) -> None:
    log = Log()
    configs = {**STREAMS, "retention.ms": "3600000"}
    run(store, [log], both(journal, log, streams=True), configs=configs)
    assert the_only(store, journal).kind == "healthy"


@pytest.mark.further
def test_a_purge_that_shows_late_is_still_ours(store: ClusterStore, journal: Journal) -> None:
    """Sent just after the snapshot began, and seen by it."""
    log = Log()

    def step(number: int) -> None:
        reads(log, 1500)
        ours(journal, log, time_of(number) + timedelta(minutes=6))

    run(store, [log], step)
    assert the_only(store, journal).kind == "healthy"


@pytest.mark.further
def test_one_purge_by_hand_beside_streams_is_no_competition(
    store: ClusterStore, journal: Journal
) -> None:
    log = Log()

    def step(number: int) -> None:
        reads(log, 1500)
        if number == 12:
            ours(journal, log, time_of(number))
        reads(log, 10)
        log.purge(log.end)

    run(store, [log], step)
    assert the_only(store, journal).kind == "healthy"


def test_purges_of_another_cluster_or_refused_ones_are_not_ours(
    store: ClusterStore, journal: Journal
) -> None:
    log = Log()
    log.commits["app"] = 5
    ours(journal, log, END - HOUR, "not_done")
    times = [END - 3 * HOUR, END]
    assert sent_between(journal, kept_history.CLUSTER, "-repartition", times) == []
    ours(journal, log, END - 2 * HOUR)
    (sent,) = sent_between(journal, kept_history.CLUSTER, "-repartition", times)
    assert (sent.topic, sent.target_offset, sent.purges) == (TOPIC, 5, 1)
    assert sent_between(journal, "elsewhere", "-repartition", times) == []
    assert sent_between(journal, kept_history.CLUSTER, "-changelog", times) == []


def test_only_the_last_purge_of_a_period_is_read(store: ClusterStore, journal: Journal) -> None:
    log = Log()
    for minutes in (50, 40, 30):
        reads(log, 100)
        ours(journal, log, END - timedelta(minutes=minutes))
    times = [END - HOUR, END - timedelta(minutes=35), END]
    found = sent_between(journal, kept_history.CLUSTER, "-repartition", times)
    assert [(one.target_offset, one.purges) for one in found] == [(200, 2), (300, 1)]


@pytest.mark.further
def test_a_policy_that_streams_leaves_nothing_to(store: ClusterStore, journal: Journal) -> None:
    """Streams purges first, so no run is ever queued: the policy that is on tells it."""
    log = Log()

    def step(_: int) -> None:
        reads(log, 1500)
        log.purge(log.end)

    run(store, [log], step)
    tidy = examples.policy(PRESET, "tidy")
    assert the_only(store, journal, (tidy,)).kind == "healthy", "it is off"

    switch_on(journal, tidy)
    found = the_only(store, journal, (tidy,))
    assert found.kind == "two-purgers"
    assert "policy tidy is on" in found.sentence
    assert found.setting is not None
    assert (found.setting.name, found.setting.to) == ("policy tidy", "off")
    keeps = switch_on(journal, examples.policy(f'{PRESET}\ntarget = "keep:3d"', "tidy"))
    assert the_only(store, journal, (keeps,)).kind == "two-purgers", "and no advice besides"
    elsewhere = replace(tidy, cluster="another")
    assert the_only(store, journal, (switch_on(journal, elsewhere),)).kind == "healthy"


@pytest.mark.further
def test_our_own_policy_may_be_the_one_that_purges_too_often(
    store: ClusterStore, journal: Journal
) -> None:
    log = Log()
    tidy = switch_on(journal, examples.policy(PRESET, "tidy"))
    run(store, [log], both(journal, log, streams=False, records=5))
    found = the_only(store, journal, (tidy,))
    assert found.kind == "purged-too-often"
    assert found.setting is not None
    assert (found.setting.where, found.setting.name, found.setting.now) == (
        "lowwater", "min_purge_interval_ms", "30000")  # fmt: skip


@pytest.mark.further
@pytest.mark.parametrize(
    ("target", "name", "value"),
    [("keep:3d", "retention.ms", "259200000"), ("keep:10MiB", "retention.bytes", "10485760")],
)
def test_a_policy_that_keeps_a_time_is_what_retention_is_for(
    store: ClusterStore, journal: Journal, target: str, name: str, value: str
) -> None:
    log = Log()

    def step(_: int) -> None:
        log.write(500)
        log.commits["app"] = max(0, log.end - 1500)  # three hours behind

    run(store, [log], step)
    tidy = switch_on(journal, examples.policy(f'{PRESET}\ntarget = "{target}"', "tidy"))
    instead = the_only(store, journal, (tidy,))
    assert instead.kind == "retention-instead"
    assert instead.setting is not None
    assert (instead.setting.name, instead.setting.to) == (name, value)
    assert instead.caution is not None
    assert "behind by up to 3 h" in instead.caution
    assert "loses data" in instead.caution
