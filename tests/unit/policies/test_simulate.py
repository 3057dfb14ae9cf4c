"""What a policy would have done last week: purges, bytes, both backlogs, and what is not known."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analytics import __main__ as service
from analytics import tasks
from dashboard.history.seen_topics import UNKNOWN_ID
from dashboard.history.week.walk import Asked, Walked
from dashboard.policies import simulate
from dashboard.policies.simulate import Simulation
from dashboard.purge.evidence import memory, standards
from dashboard.safety.unseen_readers import TopicReading
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import TopicDeclaration, declaration
from dashboard.store.snapshots import ClusterStore
from tests.support import in_process
from tests.unit.policies.examples import NOON, policy
from tests.unit.policies.kept_history import (
    Log,
    analysis,
    remembers,
    snapshot,
    store,
    topics_held,
)

pytestmark = pytest.mark.further

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
READ = {"g": 0}


def hourly(cluster: ClusterStore, hours: Sequence[Sequence[Log]]) -> None:
    """A snapshot an hour, the last one just now."""
    for at, logs in enumerate(hours):
        snapshot(cluster, NOON - HOUR * (len(hours) - 1 - at), logs)


def week(
    cluster: ClusterStore, definition: Policy, now: datetime, window: timedelta = timedelta(0)
) -> Simulation:
    """The week of a policy, with a replay window on every topic; by tasks it is the same."""
    of = declaration("*", {"readers": "groups"}, "here")

    def declared(topics: Collection[str]) -> dict[str, TopicDeclaration]:
        return dict.fromkeys(topics, replace(of, replay_window=window))

    found = simulate.week(cluster, definition, now, declared)
    assert simulate.week(cluster, definition, now, declared, walking=in_buckets) == found
    return found


def in_buckets(cluster: ClusterStore, asked: Asked) -> Walked | None:
    """As Spark's tasks walk it, each of which sees some of the partitions."""
    snapshot = replace(cluster.manifest("snapshots", asked.read[-1]), buckets=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "run", in_process.run)
        return service.by_tasks(None, cluster, snapshot, pickle.loads(pickle.dumps(asked)))


def backlogs(found: Simulation) -> list[tuple[int, int]]:
    return [(own, without) for _, own, without in found.points]


def told(found: Simulation) -> str:
    return "\n".join(found.notes)


def test_a_backlog_grows_without_the_policy_and_is_taken_at_each_snapshot_with_it(
    tmp_path: Path,
) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50})], [Log(200, {"g": 150})], [Log(300, {"g": 250})]])
    found = week(cluster, policy(), NOON)

    # 10 bytes a record on each of two replicas.
    assert backlogs(found) == [(1000, 1000), (2000, 3000), (2000, 5000)]
    assert (found.purges, found.partitions, found.bytes) == (3, 1, 5000)
    assert (found.largest_backlog_bytes, found.largest_backlog_without_bytes) == (2000, 5000)
    assert (found.snapshots, found.topics) == (3, 1)
    assert (found.from_, found.to) == (NOON - 2 * HOUR, NOON)
    assert "3 snapshots were read, 60 min apart (median)" in told(found)
    assert "at most once, where the policy may start one every 30 s" in told(found)


def test_what_is_no_replica_of_its_partition_adds_no_bytes(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50}, besides=True)], [Log(200, {"g": 150}, besides=True)]])
    assert backlogs(week(cluster, policy(), NOON)) == [(1000, 1000), (2000, 3000)]


def test_snapshots_count_by_their_own_times_where_one_was_dated_ahead_before_them(
    tmp_path: Path,
) -> None:
    """Their ids follow that one's."""
    cluster = store(tmp_path)
    snapshot(cluster, NOON + 400 * DAY, [Log(50, {"g": 50})])
    hourly(cluster, [[Log(100, {"g": 50})], [Log(200, {"g": 150})], [Log(300, {"g": 250})]])
    found = week(cluster, policy(), NOON)
    assert (found.snapshots, found.from_, found.to) == (3, NOON - 2 * HOUR, NOON)
    assert found.bytes == 5000


def test_times_are_told_as_the_policys_definition_tells_them(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    for at in (NOON - 3 * HOUR, NOON):
        snapshot(cluster, at, [Log(100, {"g": 50})])
    assert "2 snapshots were read, 3 h apart (median)." in told(week(cluster, policy(), NOON))


def test_what_retention_took_is_not_counted_for_the_policy(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50})], [Log(200, {"g": 150}, start=120)]])
    found = week(cluster, policy(), NOON)

    assert backlogs(found) == [(1000, 1000), (600, 600)]
    assert found.bytes == 1600
    assert "The log start of 1 partition moved by retention or by purges" in told(found)


def test_the_lowest_of_all_groups_decides_also_of_one_that_is_gone(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"a": 90, "b": 40})], [Log(200, {"a": 190})]])
    found = week(cluster, policy(), NOON)

    assert backlogs(found) == [(800, 800), (0, 800)]
    assert found.bytes == 800


def test_a_group_that_the_policy_waives_holds_until_no_list_shows_it(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"a": 90, "b": 40})], [Log(200, {"a": 190})]])
    waives = policy('waive = { "b" = "gone", "nobody" = "forgotten" }')
    found = week(cluster, waives, NOON)

    assert backlogs(found) == [(800, 800), (3000, 3800)]
    assert found.bytes == 3800
    assert "At 1 of 2 snapshots group b was listed: it is not waived then" in told(found)
    assert "group nobody" not in told(found)


def test_a_waived_group_without_a_commit_on_a_partition_holds_it_no_more(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"a": 90, "b": 40}), Log(100, {"a": 90, "b": None}, partition=1)]])
    logs = [Log(100, {"a": 90}), Log(100, {"a": 90}, partition=1)]
    snapshot(cluster, NOON + HOUR, logs)
    assert week(cluster, policy(), NOON + HOUR).bytes == 800
    assert week(cluster, policy('waive = { "b" = "gone" }'), NOON + HOUR).bytes == 3600


def test_nobody_is_waived_at_a_snapshot_whose_list_is_incomplete(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    snapshot(cluster, NOON - HOUR, [Log(100, {"a": 90, "b": 40})])
    snapshot(cluster, NOON, [Log(200, {"a": 190})], incomplete=["no right"])
    found = week(cluster, policy('waive = { "b" = "gone" }'), NOON)
    assert (backlogs(found), found.bytes) == ([(800, 800), (0, 800)], 800)


def test_the_owner_is_not_waived_nor_the_last_reader_of_a_topic(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    name = "app-store-repartition"
    hourly(cluster, [[Log(100, {"app": 60}, topic=name), Log(100, {"b": 40})]])
    snapshot(cluster, NOON + HOUR, [Log(100, {"app": 60}, topic=name), Log(100)], groups=["app"])
    plain = week(cluster, policy('waive = { "b" = "gone" }'), NOON + HOUR)
    assert plain.bytes == 800, "b's own while it was listed; then nobody is known to read"
    owned = policy('preset = "repartition"\nwaive = { "app" = "gone" }')
    assert week(cluster, owned, NOON + HOUR).bytes == 1200


def test_a_partition_without_a_commit_of_one_of_its_topics_groups_is_kept(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    logs = [Log(100, {"a": 50, "b": 50}), Log(100, {"a": 50, "b": None}, partition=1)]
    hourly(cluster, [logs])
    found = week(cluster, policy(), NOON)

    assert (found.partitions, found.bytes) == (1, 1000)
    assert backlogs(found) == [(2000, 2000)]
    assert "1 partition is kept at some snapshot for the sake of groups" in told(found)


def test_the_owners_commits_decide_unless_another_group_has_read_less(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    name = "app-store-repartition"
    hourly(
        cluster,
        [
            [
                Log(100, {"app": 60}, topic=name),
                Log(100, {"app": 60, "spy": 20}, topic="app-other-repartition"),
                Log(100, {"x": 70}, topic="lost-repartition"),
                Log(100, {"app": 60}, topic="no-such"),
            ]
        ],
    )
    found = week(cluster, policy('preset = "repartition"'), NOON)

    assert (found.topics, found.partitions, found.bytes) == (3, 1, 1200)
    assert "No group is known that owns lost-repartition" in told(found)
    assert "1 partition is kept at some snapshot for the sake of groups" in told(found)


def test_each_application_has_a_run_of_its_own(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    logs = [
        Log(100, {app: 60}, topic=f"{app}-{n}-repartition") for app in ("a", "b") for n in (1, 2)
    ]
    hourly(cluster, [logs])
    assert week(cluster, policy('preset = "repartition"'), NOON).purges == 2


def test_the_interval_passes_between_two_purges(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100 * n, {"g": 100 * n - 50})] for n in range(1, 6)])
    found = week(cluster, policy(f"min_purge_interval_ms = {2 * 3600 * 1000}"), NOON)

    assert found.purges == 3
    assert backlogs(found)[1:3] == [(2000, 3000), (4000, 5000)]
    assert "5 snapshots were read, 60 min apart (median)." in found.notes


def test_windows_triggers_and_missing_groups_keep_it_back_and_are_told(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    for hour, (used, incomplete) in enumerate([(0.9, ["no right"]), (0.5, []), (0.9, [])]):
        logs = [Log(100 * (hour + 1), {"g": 100 * hour + 50})]
        at = NOON - HOUR * (2 - hour)
        snapshot(cluster, at, logs, used=used, incomplete=incomplete)
    found = week(cluster, policy('trigger = "disk-above:80%"'), NOON)
    assert (found.purges, found.bytes) == (1, 5000)
    assert "At 1 of 3 snapshots its trigger, disk-above:80%, did not hold" in told(found)
    assert "At 1 of 3 snapshots the list of groups was incomplete" in told(found)

    closed = week(cluster, policy('windows = ["Wed 11:30-13:00"]'), NOON)
    assert (closed.purges, closed.bytes) == (1, 5000)
    assert "At 2 of 3 snapshots its windows were closed" in told(closed)

    grown = week(cluster, policy('trigger = "growth-above:1KiB/h"'), NOON)
    assert grown.purges == 2
    assert "At 1 of 3 snapshots its trigger" in told(grown)
    assert week(cluster, policy('trigger = "growth-above:2KiB/h"'), NOON).purges == 0


def test_a_budget_is_spent_on_the_longest_waiting_first(tmp_path: Path) -> None:
    cluster = store(tmp_path)

    def logs(hour: int) -> list[Log]:
        return [Log(100 * hour, {"g": 100 * hour}, partition=p) for p in (0, 1)]

    hourly(cluster, [logs(1), logs(2), logs(3)])
    by_count = week(cluster, policy("most_partitions_per_hour = 1"), NOON)
    assert (by_count.purges, by_count.partitions) == (3, 2)
    assert by_count.bytes == 2000 + 4000 + 4000
    assert "At 3 of 3 snapshots its budget left partitions out" in told(by_count)

    by_bytes = week(cluster, policy('most_bytes_per_hour = "2048B"'), NOON)
    # What partition 1 has to wait for in the first hour is more than an hour's bytes ever after.
    assert (by_bytes.purges, by_bytes.partitions, by_bytes.bytes) == (3, 1, 6000)


def test_what_is_not_measured_waits_for_a_budget_and_is_told(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50}, size_bytes=None)]])

    free = week(cluster, policy(), NOON)
    assert (free.purges, free.partitions, free.bytes) == (1, 1, 0)
    assert "1 partition is not measured at some snapshot" in told(free)
    assert week(cluster, policy('most_bytes_per_hour = "1GiB"'), NOON).purges == 0

    two = [Log(100, {"g": 50}, size_bytes=None), Log(100, {"g": 50}, partition=1)]
    snapshot(cluster, NOON + HOUR, two)
    budgeted = week(cluster, policy('most_bytes_per_hour = "1GiB"'), NOON + HOUR)
    assert (budgeted.partitions, budgeted.bytes) == (1, 1000)


def test_the_last_records_stay_that_a_target_keeps(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})], [Log(200, {"g": 190})]])

    # 500 bytes of the leader's log are 50 records.
    by_bytes = week(cluster, policy('target = "keep:500B"'), NOON)
    assert backlogs(by_bytes) == [(1000, 1000), (2000, 3000)]
    # Only the first snapshot is an hour old, and nothing tells what was older than it.
    by_age = week(cluster, policy('target = "keep:1h"'), NOON)
    assert backlogs(by_age) == [(0, 0), (2000, 2000)]
    assert "1 partition is not told by any older snapshot what keep:1h keeps" in told(by_age)
    # The group has not read what is too old, so nobody purges it.
    assert week(cluster, policy('target = "keep:50B"'), NOON).bytes == 1900


def test_snapshots_before_the_week_tell_what_was_old_at_its_beginning(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    for at, end in ((NOON - timedelta(days=7, hours=1), 100), (NOON - timedelta(days=6), 200)):
        snapshot(cluster, at, [Log(end, {"g": end})])
    found = week(cluster, policy('target = "keep:1d"'), NOON)

    assert backlogs(found) == [(2000, 2000)]
    assert found.from_ == NOON - timedelta(days=6)


def test_retention_is_read_from_the_topics_settings(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    for hour, end in ((2, 100), (0, 200)):
        snapshot(
            cluster,
            NOON - HOUR * hour,
            [Log(end, {"g": end})],
            configs={"retention.ms": "3600000", "retention.bytes": "-1"},
        )
    assert week(cluster, policy('target = "retention"'), NOON).bytes == 2000

    shutil.rmtree(tmp_path)
    unknown = store(tmp_path)
    for hour in (2, 0):
        half = {"retention.ms": "3600000"}
        snapshot(unknown, NOON - HOUR * hour, [Log(100, {"g": 100})], configs=half)
    found = week(unknown, policy('target = "retention"'), NOON)
    assert found.bytes == 0
    assert "1 partition is not told by any older snapshot what retention keeps" in told(found)


def test_bytes_still_on_disk_are_those_of_the_newest_curve(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    # Large records first: of 100 records' 1,000 bytes the first 50 hold 900.
    hourly(cluster, [[Log(100, {"g": 50})]])
    analysis(cluster, NOON, knots=[(0, 0), (50, 900), (100, 1000)])

    assert week(cluster, policy(), NOON).bytes == 1800


def test_a_log_start_that_passed_the_policys_is_read_from_the_curve_too(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 20})], [Log(200, {"g": 150}, start=100)]])
    analysis(cluster, NOON, knots=[(0, 0), (100, 1000), (200, 2000)])
    found = week(cluster, policy(), NOON)

    assert backlogs(found) == [(400, 400), (1000, 1000)]


def test_what_left_before_the_newest_curve_is_spread_evenly(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 60})], [Log(200, {"g": 150}, start=100)]])
    analysis(cluster, NOON, knots=[(100, 0), (150, 900), (200, 1000)])
    found = week(cluster, policy(), NOON)

    assert backlogs(found) == [(1200, 1200), (1800, 1800)]
    assert found.bytes == 3000


def test_a_topic_that_was_recreated_is_another_one(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    old, new = Log(1000, {"g": 900}, topic_id="old"), Log(100, {"g": 50}, topic_id="new")
    hourly(cluster, [[old], [new]])
    found = week(cluster, policy(), NOON)

    assert backlogs(found) == [(18000, 18000), (1000, 1000)]
    assert (found.partitions, found.topics) == (2, 1)
    assert "moved" not in told(found)

    analysis(cluster, NOON, guards={0: ["share-group"]})
    guarded = week(cluster, policy(), NOON)
    assert guarded.purges == 0
    assert "1 partition is guarded today" in told(guarded)


def test_a_topic_whose_reader_no_group_shows_is_not_purged_as_its_plans_would_not(
    tmp_path: Path,
) -> None:
    """Also once its metrics are away: a plan refuses it all the same."""
    cluster = store(tmp_path)
    logs = [Log(100, {"g": 50}), Log(100, {"g": 50}, topic="u")]
    for at, sent in ((52, 0.0), (51, 5e8)):
        snapshot(cluster, NOON - HOUR * at, logs, bytes_out={"t": sent, "u": 0.0})
    both = policy('topics = ["t", "u"]')
    then = week(cluster, both, NOON - 51 * HOUR)
    assert "1 partition is guarded today" in told(then)
    assert "(unseen-reader-suspected on 1)" in told(then)
    assert then.partitions == 1
    snapshot(cluster, NOON, logs)
    found = week(cluster, both, NOON)
    assert "(unseen-reader-suspected on 2)" in told(found), "nobody can tell of u either by now"
    assert found.partitions == 0


def measured(topic: str, bytes_out: int, left: int, **other: object) -> dict[str, object]:
    """A row of `unseen_readers`: a whole day, of which groups explain all but `left`."""
    day = 24 * 3_600_000
    return {
        "topic": topic, "bytes_out": bytes_out, "explained_bytes": bytes_out - left,
        "window_ms": day, "partitions": 1, "measured_at": NOON - HOUR, "whole": True,
        "counted_ms": day, "unbroken_ms": day, "left_bytes": left, **other,
    }  # fmt: skip


def test_kept_snapshots_are_read_for_unseen_readers_only_where_an_analysis_does_not_settle_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody reads t; groups alone read u. Of v a part of the day was not counted, of w the
    measure is old, and x was not measured: there older days count.
    """
    cluster = store(tmp_path)
    topics = ("t", "u", "v", "w", "x")
    hourly(cluster, [[Log(100, {"g": 50}, topic=topic) for topic in topics]])
    rows = [
        measured("t", 10**9, 10**9),
        measured("u", 10**9, 0),
        measured("v", 10**9, 0, unbroken_ms=3_600_000),
        measured("w", 10**9, 0, measured_at=NOON - 4 * HOUR),
    ]
    analysis(cluster, NOON, unseen=rows)
    asked: list[str] = []
    read = standards.readings

    def readings(
        where: ClusterStore, names: Collection[str], now: datetime
    ) -> dict[str, TopicReading]:
        asked.extend(names)
        return read(where, names, now)

    monkeypatch.setattr(standards, "readings", readings)
    found = week(cluster, policy('topics = ["*"]'), NOON)
    assert asked == ["v", "w", "x"] * 2, "for each way it is walked"
    assert "(unseen-reader-suspected on 1)" in told(found)


def test_what_is_guarded_today_counts_as_guarded_unless_the_policy_lifts_it(
    tmp_path: Path,
) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50}, partition=p) for p in range(3)]])
    guards = {0: ["share-group"], 1: ["readers-undeclared"], 2: ["unread-by-group"]}
    analysis(cluster, NOON, guards=guards)

    found = week(cluster, policy(), NOON)
    assert (found.partitions, found.bytes) == (1, 1000)
    assert "2 partitions are guarded today" in told(found)
    assert "(readers-undeclared on 1, share-group on 1)" in told(found)
    lifted = policy('overrides = {"readers-undeclared" = "known"}')
    assert week(cluster, lifted, NOON).partitions == 2


def test_the_preset_lifts_where_all_groups_count_for_topics_that_the_application_reads_alone(
    tmp_path: Path,
) -> None:
    cluster = store(tmp_path)
    own = Log(100, {"app": 50}, topic="app-x-repartition")
    by_hand = Log(100, {"reporting": 50}, topic="app-by-hand-repartition")
    snapshot(cluster, NOON, [own, by_hand], streams=("app",))
    guards = {0: ["readers-undeclared"]}
    analysis(cluster, NOON, guards=guards, topics=(own.topic, by_hand.topic))
    preset = policy('preset = "repartition"\ncommitted_by = "all"')
    found = week(cluster, preset, NOON)
    assert found.partitions == 1
    assert "(readers-undeclared on 1)" in told(found)


def test_an_open_transaction_is_not_passed(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 90}, stable=40)]])
    assert week(cluster, policy(), NOON).bytes == 800


def test_without_snapshots_or_topics_nothing_is_said_but_why(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    nothing = week(cluster, policy(), NOON)
    assert (nothing.points, nothing.purges) == ((), 0)
    assert "No snapshot of this time is kept" in told(nothing)

    hourly(cluster, [[Log(100, {"g": 50})]])
    elsewhere = week(cluster, policy('topics = ["other"]'), NOON)
    assert "No topic that policy p is for" in told(elsewhere)
    assert elsewhere.to_json()["points"] == []


def test_a_snapshot_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 50})], [Log(200, {"g": 150})]])
    first, second = cluster.ids("snapshots")
    for broken, table in ((first, "topics"), (second, "group_offsets")):
        path = Path(cluster.path, "snapshots", broken, f"{table}.parquet")
        whole = path.read_bytes()
        path.write_bytes(b"PAR1 not really")
        assert len(week(cluster, policy(), NOON).points) == 1
        path.write_bytes(whole)

    for broken in (first, second):
        Path(cluster.path, "snapshots", broken, "group_offsets.parquet").write_bytes(b"")
    assert "No snapshot of this time is kept" in told(week(cluster, policy(), NOON))


def test_of_many_snapshots_only_as_many_are_read_as_can_be_afforded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "_MOST_CELLS", 2)
    monkeypatch.setattr(simulate, "_FEWEST", 1)
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100 + n, {"g": 50})] for n in range(8)])
    found = week(cluster, policy(), NOON)

    assert found.snapshots == 2
    assert found.to == NOON


def test_a_replay_window_keeps_in_the_past_what_it_keeps_now(tmp_path: Path) -> None:
    """Records below the log end of an hour ago are an hour old; later ones stay."""
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})], [Log(200, {"g": 200})], [Log(300, {"g": 300})]])
    assert week(cluster, policy(), NOON).bytes == 300 * 20
    kept = week(cluster, policy(), NOON, window=HOUR)
    assert kept.bytes == 200 * 20
    assert week(cluster, policy(), NOON, window=24 * HOUR).purges == 0, "no snapshot is that old"


def test_an_offset_past_the_end_of_the_log_is_no_reading_in_the_past_either(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 1_000_000})], [Log(200, {"g": 1_000_000, "h": 200})]])
    found = week(cluster, policy(), NOON)
    assert (found.purges, found.bytes) == (0, 0)


def test_a_group_that_was_gone_before_the_week_counts_as_in_plans(tmp_path: Path) -> None:
    """What plans would purge is what was read by the group that expired: 40 records."""
    cluster = store(tmp_path)
    snapshot(cluster, NOON - 9 * DAY, [Log(200, {"live": 190, "gone": 40})])
    hourly(cluster, [[Log(10_000, {"live": 10_000})], [Log(20_000, {"live": 20_000})]])
    assert week(cluster, policy(), NOON).bytes == 40 * 20, "without any analysis, by snapshots"

    remembers(cluster, NOON, [("gone", 40, NOON - 9 * DAY), ("live", 20_000, NOON)])
    shutil.rmtree(Path(cluster.path, "snapshots", cluster.ids("snapshots")[0]))
    assert {o.group_id for o in memory.remembered(cluster, ["t"])} == {"gone", "live"}
    found = week(cluster, policy(), NOON)
    assert (found.purges, found.bytes) == (1, 40 * 20)


def test_what_is_remembered_counts_from_when_it_was_seen(tmp_path: Path) -> None:
    """Group `brief` came and went between two of the snapshots that are read."""
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})], [Log(200, {"g": 200})], [Log(300, {"g": 300})]])
    remembers(cluster, NOON, [("brief", 150, NOON - HOUR * 1.5), ("g", 300, NOON)])
    assert backlogs(week(cluster, policy(), NOON)) == [(2000, 2000), (1000, 3000), (0, 3000)]


def test_what_was_seen_at_a_time_still_to_come_may_have_been_seen_before(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})], [Log(200, {"g": 200})]])
    remembers(cluster, NOON, [("gone", 40, NOON + DAY), ("g", 200, NOON)])
    assert week(cluster, policy(), NOON).bytes == 40 * 20


def test_snapshots_that_no_analysis_has_seen_are_remembered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four only two are read for what they hold; the commit of one between them counts."""
    cluster = store(tmp_path)
    logs = [{"g": 100, "brief": 10}, {"g": 100}, {"g": 100}, {"g": 100}]
    hourly(cluster, [[Log(100, commits)] for commits in logs])
    monkeypatch.setattr(simulate, "_MOST_CELLS", 2)
    monkeypatch.setattr(simulate, "_FEWEST", 1)
    found = week(cluster, policy(), NOON)
    assert found.snapshots == 2
    assert {o.group_id for o in memory.remembered(cluster, ["t"])} == {"g", "brief"}
    assert found.bytes == 10 * 20


@pytest.mark.parametrize("topic_id", ["gone", UNKNOWN_ID, None])  # None: of brokers before 2.8
def test_a_former_reader_of_a_topic_made_anew_forbids_as_in_plans(
    tmp_path: Path, topic_id: str | None
) -> None:
    """It may read the new topic, and nobody knows what it has read of it."""
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})]])
    remembers(cluster, NOON, [], [("old", 90, NOON - 9 * DAY)], topic_id=topic_id)
    found = week(cluster, policy(), NOON)
    assert found.purges == 0
    assert "for the sake of groups" in told(found)


def test_a_reader_of_an_earlier_topic_of_the_name_forbids_until_it_commits(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    anew = {"topic_id": "new"}
    hourly(
        cluster,
        [
            [Log(1000, {"g": 0, "old": 900}, topic_id="old")],
            [Log(100, {"g": 50}, **anew)],
            [Log(100, {"g": 60, "old": 20}, **anew)],
        ],
    )
    assert backlogs(week(cluster, policy(), NOON)) == [(0, 0), (1000, 1000), (400, 400)]
    assert week(cluster, policy(), NOON).bytes == 400


def test_a_reader_of_a_partition_that_is_not_there_reads_the_topic(tmp_path: Path) -> None:
    cluster = store(tmp_path)
    hourly(cluster, [[Log(100, {"g": 100})]])
    remembers(cluster, NOON, [("other", 5, NOON - 9 * DAY)], partition=7)
    assert week(cluster, policy(), NOON).purges == 0


def test_of_topics_that_are_none_of_the_policys_no_line_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page asks for it: what it takes follows the policy, and not the cluster."""
    cluster = store(tmp_path)
    for step in range(3):
        logs = [Log(100 + step, {"g": 50}, topic=topic) for topic in ("a", "t", "z")]
        snapshot(cluster, NOON - HOUR * (2 - step), logs)
    analysis(cluster, NOON, knots=[(0, 0), (100, 1000)], guards={0: ["compacted"]})
    held = topics_held(monkeypatch)
    assert week(cluster, policy(), NOON, HOUR).snapshots == 3
    assert {*held} >= {"partitions", "replicas", "group_offsets", "reclaimable"}
    assert set().union(*held.values()) == {"t"}
