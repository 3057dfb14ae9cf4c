"""The repartition doctor finds what is purged badly, and raises no false alarm beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.policies.doctor.diagnosis import Diagnosis, Rules
from dashboard.policies.doctor.repartition import diagnose
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from tests.unit.policies import kept_history
from tests.unit.policies.streams_topics import (
    END,
    STREAMS,
    TOPIC,
    Group,
    Log,
    analysis,
    run,
    snapshot,
)

pytestmark = pytest.mark.further

HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    monkeypatch.setattr("os.fsync", lambda _: None)  # hundreds of files that need not survive
    return kept_history.store(tmp_path)


def the_only(store: ClusterStore, rules: Rules | None = None) -> Diagnosis:
    (found,) = diagnose(store, None, Settings(), END, rules or Rules())
    assert json.dumps(found.to_json(), allow_nan=False)
    return found


def reads(log: Log, records: int, *, purged: bool = False, group: str = "app") -> None:
    """An application reads all that was written; then it may purge it, as Streams does."""
    log.write(records)
    log.commits[group] = log.end
    if purged:
        log.purge(log.end)


def test_a_topic_that_nobody_purges(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500))
    analysis(store, committed_bytes={(TOPIC, 0): 24_000_000})

    found = the_only(store)

    assert found.kind == "not-purged"
    assert "stands still since 2026-03-03 12:00 UTC" in found.sentence
    assert found.saves_bytes == 24_000_000
    assert found.setting is not None
    assert (found.setting.name, found.setting.to) == ("repartition.purge.interval.ms", "30000")
    assert "DELETE on topic" in found.setting.why
    assert found.evidence.confidence == "high"
    assert found.caution is not None and "no snapshot kept shows" in found.caution


def test_only_the_partitions_that_are_not_purged_are_counted(store: ClusterStore) -> None:
    purged, other = Log(), Log(partition=1)

    def step(_: int) -> None:
        reads(purged, 1500, purged=True)
        reads(other, 500)

    run(store, [purged, other], step)
    found = the_only(store)
    assert (found.kind, found.saves_bytes) == ("not-purged", None)
    assert "of 1 of its 2 partitions" in found.sentence


def test_a_purger_that_stopped_is_told_from_one_that_pauses(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda n: reads(log, 1500, purged=n < 12))
    assert the_only(store).kind == "not-purged"
    assert "since 2026-03-03 23:00 UTC" in the_only(store).sentence


@pytest.mark.further
def test_a_long_purge_interval_is_not_yet_no_purge(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda n: reads(log, 1500, purged=n % 8 == 3))
    assert the_only(store).kind == "healthy"


@pytest.mark.further_but("retention.ms")
@pytest.mark.parametrize("key", ["retention.ms", "retention.bytes"])
def test_retention_that_bounds_a_topic_is_no_alarm(store: ClusterStore, key: str) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500), configs={**STREAMS, key: "604800000"})
    found = the_only(store)
    assert found.kind == "healthy"
    assert "retention keeps it from growing" in found.sentence


@pytest.mark.further
def test_retention_as_old_streams_wrote_it_is_unlimited(store: ClusterStore) -> None:
    log = Log()
    endless = {**STREAMS, "retention.ms": str((1 << 63) - 1)}
    run(store, [log], lambda _: reads(log, 500), configs=endless)
    assert the_only(store).kind == "not-purged"


@pytest.mark.further
def test_settings_that_could_not_be_read_are_not_known(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500), configs={})
    assert the_only(store).kind == "not-known"


def test_a_compacted_topic_needs_another_cleanup_policy(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500), configs={**STREAMS, "cleanup.policy": "compact"})
    setting = the_only(store).setting
    assert setting is not None
    assert (setting.name, setting.now, setting.to) == ("cleanup.policy", "compact", "delete")


def test_an_idle_application_is_healthy(store: ClusterStore) -> None:
    log = Log(end=500, commits={"app": 500})
    run(store, [log], lambda _: None, groups=[Group(assigned=[TOPIC])])
    assert the_only(store).kind == "healthy"
    assert "idle" in the_only(store).sentence


def test_purges_that_free_nothing(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 5, purged=True))

    found = the_only(store)

    assert found.kind == "purged-too-often"
    assert (found.evidence.purges_at_least, found.evidence.segments_freed) == (24, 0)
    assert "24 purges seen at least, no segment became free" in found.sentence
    assert found.setting is not None
    assert (found.setting.where, found.setting.name) == (
        "application", "repartition.purge.interval.ms")  # fmt: skip
    # A segment of 1,000 records takes 200 h, segment.ms rolls it after 168 h: a tenth is 16.8 h.
    assert found.setting.to == str(12 * 3600 * 1000)
    assert found.saves_requests_per_hour == pytest.approx(1 - 1 / 12)
    assert found.saves_bytes == 0


def test_two_snapshots_within_a_second_hide_no_pace(store: ClusterStore) -> None:
    """Somebody collected twice by hand: no purge falls between these."""
    log = Log()
    run(store, [log], lambda _: reads(log, 5, purged=True), end=END - timedelta(seconds=1))
    run(store, [log], lambda _: None, snapshots=1)
    assert the_only(store).kind == "purged-too-often"


@pytest.mark.further
def test_purges_at_the_pace_of_segments_are_healthy(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500, purged=True))
    found = the_only(store)
    assert found.kind == "healthy"
    assert found.evidence.segments_freed == 12


@pytest.mark.further
def test_a_quiet_topic_rides_along_with_a_busy_one_of_its_application(store: ClusterStore) -> None:
    quiet, busy = Log(), Log(topic="app-sums-repartition", topic_id="other")

    def step(_: int) -> None:
        reads(quiet, 5, purged=True)
        reads(busy, 1700, purged=True)

    run(store, [quiet, busy], step)
    assert [d.kind for d in diagnose(store, None, Settings(), END)] == ["healthy", "healthy"]


@pytest.mark.further
def test_topics_of_one_application_share_its_requests(store: ClusterStore) -> None:
    logs = [Log(), Log(topic="app-sums-repartition", topic_id="other"), Log(partition=1, leader=2)]

    def step(_: int) -> None:
        for log in logs:
            reads(log, 5, purged=True)

    run(store, logs, step)
    found = {
        d.topic: d.saves_requests_per_hour or 0 for d in diagnose(store, None, Settings(), END)
    }
    share = 1 - 1 / 12
    assert found[TOPIC] == pytest.approx(1.5 * share)
    assert found["app-sums-repartition"] == pytest.approx(0.5 * share)


def test_purges_whose_bytes_cannot_be_seen_are_not_called_useless(store: ClusterStore) -> None:
    log = Log(sized=False)
    run(store, [log], lambda _: reads(log, 5, purged=True))
    found = the_only(store)
    assert found.kind == "healthy"
    assert found.evidence.segments_freed is None


def test_another_leader_is_no_freed_segment(store: ClusterStore) -> None:
    log = Log()

    def step(number: int) -> None:
        reads(log, 5, purged=True)
        log.leader = 1 + number % 2

    run(store, [log], step)
    assert the_only(store).evidence.segments_freed is None


def test_an_application_that_is_gone(store: ClusterStore) -> None:
    log = Log()

    def step(number: int) -> None:
        if number == 0:
            log.write(900)
        log.commits["app"] = 600 if number else 500

    run(store, [log], step, snapshots=40, groups=[Group(state="Empty", members=0)])

    found = the_only(store)

    assert found.kind == "application-dead"
    assert "group app is Empty and has no members, last commit 2026-03-02 22:00" in found.sentence
    assert found.saves_bytes == 2 * 900_000
    assert found.setting is not None
    assert (found.setting.name, found.setting.now, found.setting.to) == (
        "retention.ms", "-1", "86400000")  # fmt: skip
    assert found.caution is not None
    assert found.caution.startswith("300 records were never read")
    assert "behind by 39 h or more" in found.caution or "behind by 1" in found.caution


@pytest.mark.further
def test_a_group_that_is_not_listed_any_more(store: ClusterStore) -> None:
    log = Log()
    log.write(900)
    run(store, [log], lambda _: None, groups=[])
    analysis(store, last_commits={(TOPIC, "app"): END - timedelta(days=40)})
    found = the_only(store)
    assert found.kind == "application-dead"
    assert "is not listed any more, last commit 2026-01-23" in found.sentence
    assert found.caution is not None and "is not known" in found.caution


@pytest.mark.further
def test_no_group_was_ever_seen(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: None, groups=[Group("elsewhere")])
    found = the_only(store)
    assert (found.kind, found.evidence.confidence) == ("application-dead", "medium")


@pytest.mark.further_but("group0-incomplete0")
@pytest.mark.parametrize(
    ("group", "incomplete"),
    [(Group(state="Empty", members=0), ()), (Group("other", answered=False), ()),
     (Group("other"), ("no DESCRIBE on the cluster",))],
)  # fmt: skip
def test_an_application_that_may_come_back_is_not_called_dead(
    store: ClusterStore, group: Group, incomplete: tuple[str, ...]
) -> None:
    """One stopped two hours ago; of the others the list of groups may lack just this one."""
    log = Log()

    def step(number: int) -> None:
        if number < 23 and group.group_id == "app":
            reads(log, 500, purged=True)

    run(store, [log], step, groups=[group], incomplete=incomplete)
    assert the_only(store).kind == "not-known"


@pytest.mark.further
def test_a_quiet_member_keeps_its_application_alive(store: ClusterStore) -> None:
    log = Log(end=500, commits={"app": 500})
    run(store, [log], lambda _: None, snapshots=60, groups=[Group(assigned=())])
    assert the_only(store).kind == "healthy"


@pytest.mark.further
def test_a_topic_that_a_changed_topology_left_behind(store: ClusterStore) -> None:
    old, new = Log(end=500, commits={"app": 500}), Log(topic="app-new-repartition", topic_id="n")
    groups = [Group(assigned=[new.topic])]
    run(store, [old, new], lambda _: reads(new, 500, purged=True), groups=groups)
    found = {d.topic: d for d in diagnose(store, None, Settings(), END)}
    assert found[TOPIC].kind == "application-dead"
    assert "reads it no more" in found[TOPIC].sentence
    assert found["app-new-repartition"].kind == "healthy"


@pytest.mark.parametrize(
    "change",
    [{"state": "Reconciling"}, {"state": "PreparingRebalance"}, {"subscribed": [TOPIC]}],
    ids=["reconciles", "rebalances", "asks-for-it"],
)
def test_a_quiet_topic_that_nobody_has_amid_a_rebalance_is_not_left_behind(
    store: ClusterStore, change: dict[str, Any]
) -> None:
    """The newest snapshot falls between its revocation and the next assignment."""
    quiet, busy = Log(end=500, commits={"app": 500}), Log(topic="app-x-repartition", topic_id="x")
    groups = [replace(Group(assigned=[busy.topic]), **change)]
    run(store, [quiet, busy], lambda _: reads(busy, 500, purged=True), groups=groups)
    found = diagnose(store, None, Settings(), END)
    assert {d.topic: d.kind for d in found} == {TOPIC: "healthy", busy.topic: "healthy"}


@pytest.mark.further
def test_another_tool_that_purges_unread_records(store: ClusterStore) -> None:
    log = Log()

    def step(_: int) -> None:
        log.write(500)
        log.commits["app"] = log.end - 400
        log.purge(log.end)

    run(store, [log], step, snapshots=6)
    log.commits["app"] = 0
    found = the_only(store, Rules(least_snapshots=3))
    assert found.kind == "healthy", "each commit is past the log start one snapshot later"

    def further(_: int) -> None:
        log.write(500)
        log.purge(log.end)

    run(store, [log], further, snapshots=6, every=timedelta(minutes=10))
    assert the_only(store).kind == "two-purgers"
    assert "unread" in the_only(store).sentence


def test_few_snapshots_are_not_enough_history(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500), snapshots=3)
    found = the_only(store)
    assert (found.kind, found.evidence.snapshots) == ("not-known", 3)
    assert found.sentence.startswith("not enough history yet: 3 snapshots over 2 h")


@pytest.mark.further
def test_a_short_span_is_not_enough_history(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500), snapshots=20, every=timedelta(minutes=1))
    assert "not enough history yet" in the_only(store).sentence


@pytest.mark.further
def test_a_topic_that_was_made_anew_has_no_history(store: ClusterStore) -> None:
    log, again = Log(), Log(topic_id="another")
    run(store, [log], lambda _: reads(log, 500))
    run(store, [again], lambda _: reads(again, 1), snapshots=2, every=timedelta(minutes=1))
    assert the_only(store).kind == "healthy"


@pytest.mark.further
def test_a_damaged_snapshot_is_left_out(store: ClusterStore) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500))
    broken = store.ids("snapshots")[5]
    Path(store.path, "snapshots", broken, "partitions.parquet").write_bytes(b"no table")
    found = the_only(store)
    assert (found.kind, found.evidence.snapshots) == ("not-purged", 24)


@pytest.mark.further
def test_a_clock_that_ran_ahead_does_not_call_a_stopped_application_dead(
    store: ClusterStore,
) -> None:
    log = Log()
    run(store, [log], lambda _: reads(log, 500))
    log.write(300)
    ahead = timedelta(hours=25)
    snapshot(store, END + ahead, [log], groups=[Group(state="Empty", members=0)], configs=STREAMS,
             clock_ahead_seconds=ahead.total_seconds())  # fmt: skip
    (found,) = diagnose(store, None, Settings(), END + timedelta(minutes=2))
    assert (found.kind, found.evidence.snapshots) == ("not-purged", 25)


def test_nothing_is_said_where_there_is_nothing(store: ClusterStore) -> None:
    assert diagnose(store, None, Settings(), END) == []
    log = Log(topic="orders", topic_id="o")
    run(store, [log], lambda _: reads(log, 500), snapshots=2)
    assert diagnose(store, None, Settings(), END) == []


@pytest.mark.further
def test_the_longest_prefix_is_the_application(store: ClusterStore) -> None:
    log = Log(topic="app-eu-counts-repartition")
    groups = [Group("app"), Group("app-eu", state="Empty", members=0), Group("ap")]

    def step(_: int) -> None:
        log.commits = {"app-eu": 0}

    run(store, [log], step, snapshots=30, groups=groups)
    found = the_only(store)
    assert found.kind == "application-dead"
    assert "group app-eu" in found.sentence


@pytest.mark.further
def test_a_longer_name_that_is_at_home_elsewhere_calls_nobody_dead(store: ClusterStore) -> None:
    """`app` names a topic `x-counts`; a group `app-x`, dead for weeks, is another application."""
    log = Log(topic="app-x-counts-repartition")
    groups = [Group("app"), Group("app-x", state="Empty", members=0)]
    run(store, [log], lambda _: reads(log, 1500, purged=True), snapshots=30, groups=groups)
    assert the_only(store).kind == "healthy", "the one that commits there is its application"


@pytest.mark.further
@pytest.mark.parametrize("assigned", [(), ("app-x-counts-repartition",)])
def test_where_either_group_may_be_its_application_nobody_is_called_dead(
    store: ClusterStore, assigned: tuple[str, ...]
) -> None:
    log = Log(topic="app-x-counts-repartition")
    groups = [Group("app", assigned=assigned), Group("app-x", state="Empty", members=0)]
    if assigned:
        log.commits = {"app-x": 0}
    run(store, [log], lambda _: None, snapshots=30, groups=groups)
    found = the_only(store)
    assert (found.kind, found.setting) == ("not-known", None)
    assert "either may be its application" in found.sentence


@pytest.mark.further
def test_snapshots_that_do_not_tell_of_now_say_nothing(store: ClusterStore) -> None:
    log = Log(end=900, commits={"app": 600})
    groups = [Group(state="Empty", members=0)]
    run(store, [log], lambda _: None, snapshots=40, groups=groups)
    assert the_only(store).kind == "application-dead"
    (found,) = diagnose(store, None, Settings(), END + timedelta(minutes=4))
    assert (found.kind, found.setting) == ("not-known", None)
    assert "more than 3 x 60 s ago" in found.sentence


@pytest.mark.further
def test_several_strangers_that_commit_are_no_owner(store: ClusterStore) -> None:
    log = Log()

    def step(_: int) -> None:
        reads(log, 500, group="a")
        reads(log, 0, group="b")

    run(store, [log], step, groups=[Group("a"), Group("b")])
    assert the_only(store).kind == "not-known"


@pytest.mark.further
def test_problems_come_first_and_the_largest_before_the_others(store: ClusterStore) -> None:
    names = ("a-x-repartition", "b-x-repartition", "c-x-repartition")
    logs = [Log(topic=name, topic_id=name) for name in names]

    def step(_: int) -> None:
        reads(logs[0], 1500, purged=True, group="a")
        reads(logs[1], 500, group="b")
        reads(logs[2], 500, group="c")

    run(store, logs, step, groups=[replace(Group(), group_id=g) for g in "abc"])
    analysis(store, committed_bytes={(names[1], 0): 10, (names[2], 0): 20})
    found = diagnose(store, None, Settings(), END)
    assert [d.topic for d in found] == [names[2], names[1], names[0]]


@pytest.mark.further
def test_a_log_that_never_seems_to_grow_may_free_any_number(store: ClusterStore) -> None:
    """Three segments come and go between two looks: only their number is not known."""
    log = Log()
    run(store, [log], lambda _: reads(log, 3000, purged=True))
    found = the_only(store)
    assert (found.kind, found.evidence.segments_freed) == ("healthy", None)


def test_of_topics_that_are_no_repartition_topics_no_line_is_held(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ("a", TOPIC, "z")
    logs = [Log(topic=topic, topic_id=topic, commits={"app": 0}) for topic in topics]

    def step(_: int) -> None:
        for log in logs:
            log.write(100)

    run(store, logs, step, snapshots=3)
    analysis(store, committed_bytes={("a", 0): 1}, last_commits={("z", "app"): END})
    held = kept_history.topics_held(monkeypatch)
    assert [found.topic for found in diagnose(store, None, Settings(), END)] == [TOPIC]
    assert {*held} >= {"partitions", "replicas", "group_offsets", "holds", "reclaimable"}
    assert set().union(*held.values()) == {TOPIC}
