"""What is remembered of a group stays, whatever one snapshot could not see or somebody mislaid."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.history.findings_age import holes
from dashboard.history.known_since import carried_since, known_since
from dashboard.history.pruning import prune, prune_snapshots
from dashboard.purge.evidence import memory
from dashboard.settings.sections import SnapshotSettings
from tests.support import looks
from tests.support.lab import START, Lab, Snapshot, names


def _remembered(lab: Lab) -> dict[str, tuple[int | None, str | None]]:
    """Offset and topic id of each group on topic `t`, as plans read them."""
    found = memory.remembered(lab.cluster, ["t"])
    return {o.group_id: (o.committed_offset, o.topic_id) for o in found}


def _lingering(offset: int) -> Snapshot:
    """Topic `t` is deleted, while a coordinator still lists a commit of group g on it."""
    found = Snapshot().topic("other").topic("t", groups={"g": offset})
    found.tables["topics"][1] |= {"topic_id": None, "is_internal": None}  # no metadata names it
    for table in ("partitions", "replicas"):
        found.tables[table] = [row for row in found.tables[table] if row["topic_no"] == 0]
    return found


@pytest.mark.further_but("False-never", "True-together")
@pytest.mark.parametrize("analyzed", ["never", "each", "together"])
@pytest.mark.parametrize("known", [True, False])
def test_a_commit_on_a_topic_that_nobody_tells_the_id_of_is_none_on_one_made_anew(
    lab: Lab, analyzed: str, known: bool
) -> None:
    before = Snapshot().topic("other")
    anew = Snapshot().topic("other").topic("t", topic_id="anew", groups={"a": 60})
    first = before.topic("t", topic_id="first", groups={"g": 60}) if known else before
    for snapshot in (first, _lingering(60), anew):
        lab.write(snapshot)
        if analyzed == "each":
            lab.analyze()
    if analyzed == "together":
        lab.analyze()
    assert _remembered(lab) == {"g": (60, "first" if known else "?"), "a": (60, "anew")}
    if analyzed != "never":
        if analyzed == "each":
            lab.analyze(full=True)
        assert _remembered(lab)["g"] == (60, "first" if known else "?")
        assert lab.targets()["t"]["target_offset"] == 60
        assert looks.held(lab) == {("t", "a"): 60}


@pytest.mark.further
@pytest.mark.parametrize("full", [False, True])
def test_an_analysis_carries_since_when_groups_are_remembered(lab: Lab, full: bool) -> None:
    first = lab.write(Snapshot().topic("t", groups={"g": 60}))
    lab.analyze()
    newest = lab.write(Snapshot().topic("t"))
    prune(lab.cluster, "snapshots", lambda _: {newest}, START)
    lab.analyze(full=full)
    assert _remembered(lab)["g"][0] == 60
    told = carried_since(lab.cluster)
    assert known_since(lab.cluster) == told
    assert str(told).startswith(f"{first}:")


@pytest.mark.further_but("True")
@pytest.mark.parametrize("full", [False, True])
def test_a_topic_that_one_snapshot_did_not_see_keeps_its_groups(lab: Lab, full: bool) -> None:
    """Group g is gone for longer than snapshots are kept when DESCRIBE is missing for a moment."""
    for groups in ({"g": 20, "a": 60}, {"a": 60}):
        lab.write(Snapshot().topic("t", groups=groups))
        lab.analyze()
    _keep_the_newest(lab)
    lab.write(Snapshot().topic("other"))
    lab.analyze(full=full)
    assert looks.held(lab)[("t", "g")] == 20
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    lab.analyze(full=full)
    assert lab.targets()["t"]["target_offset"] == 20


@pytest.mark.further
@pytest.mark.parametrize("full", [False, True])
def test_a_topic_that_has_been_away_for_longer_than_snapshots_are_kept_is_forgotten(
    lab: Lab, full: bool
) -> None:
    lab.write(Snapshot().topic("t", groups={"g": 20}))
    lab.analyze()
    for day in (1, 90.5, 91.5):
        assert looks.held(lab) == {("t", "g"): 20}
        lab.minutes = int(day * 1440)
        lab.write(Snapshot().topic("other"))
        _keep_the_newest(lab)
        lab.analyze(full=full)
    # Missed since the first of the three, which is not kept any more.
    assert looks.held(lab) == {}


@pytest.mark.further
@pytest.mark.parametrize("full", [False, True])
def test_a_topic_is_not_forgotten_because_no_snapshot_is_older_than_its_absence(
    lab: Lab, full: bool
) -> None:
    """`watch` was off for a quarter, or somebody emptied the folder; then DESCRIBE is missing."""
    lab.write(Snapshot().topic("t", groups={"a": 60, "g": 20}))
    lab.analyze()
    lab.minutes = 100 * 1440
    for _ in range(12):
        lab.minutes += 15
        lab.write(Snapshot().topic("other"))
        at = START + timedelta(minutes=lab.minutes)
        prune_snapshots(lab.cluster, SnapshotSettings(timedelta(minutes=20)), at)
        _keep_the_newest(lab)
        lab.analyze(full=full)
    assert looks.held(lab) == {("t", "a"): 60, ("t", "g"): 20}
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    lab.analyze(full=full)
    assert lab.targets()["t"]["target_offset"] == 20


@pytest.mark.further
@pytest.mark.parametrize("ahead", [-100, 100])
@pytest.mark.parametrize("first", [True, False])
def test_a_clock_that_was_wrong_neither_begins_an_absence_nor_ends_it(
    lab: Lab, ahead: int, first: bool
) -> None:
    lab.minutes = 200 * 1440
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    lab.analyze()
    for wrong in (first, not first, False):
        lab.minutes += 10
        right = lab.minutes
        lab.minutes += ahead * 1440 * wrong
        lab.write(Snapshot().topic("other"), clock_ahead_seconds=86400.0 * ahead * wrong)
        lab.minutes = right
        _keep_the_newest(lab)
        lab.analyze()
        assert looks.held(lab) == {("t", "a"): 60}


def _keep_the_newest(lab: Lab) -> None:
    newest = lab.cluster.ids("snapshots")[-1]
    prune(lab.cluster, "snapshots", lambda _: {newest}, START + timedelta(hours=1))


@pytest.mark.further
def test_a_damaged_analysis_is_missed_until_somebody_removes_it(lab: Lab) -> None:
    """A fold over all kept snapshots does not know what it carried, whoever asks for one."""
    lab.write(Snapshot().topic("t", groups={"brief": 5}))
    first = lab.analyze().analysis_id
    lab.write(Snapshot().topic("t", groups={"g": 30}))
    _keep_the_newest(lab)
    _folder(lab, first).joinpath("holds.parquet").write_bytes(b"PAR1")
    for full in (False, True, True):
        lab.analyze(full=full)
        assert [*holes(lab.cluster)] == [first]
        assert [g["name"] for g in lab.targets()["t"]["guards"]] == ["groups-incomplete"]
    shutil.rmtree(_folder(lab, first))
    lab.analyze()
    assert lab.targets()["t"]["guards"] == []


@pytest.mark.further
@pytest.mark.parametrize("file", ["holds.parquet", "manifest.json"])
def test_a_full_fold_reads_what_was_put_back_of_all_that_was_missed(lab: Lab, file: str) -> None:
    """Two groups whose snapshots are gone, and of an application only its group's name."""
    lab.write(Snapshot().topic("t", groups={"g": 20}))
    lab.analyze()
    lab.write(
        Snapshot().topic("t", groups={"g": 25, "brief": 5}).group("brief", "t", is_streams=True)
        .topic("u", groups={"brief": 7})
    )  # fmt: skip
    only = _folder(lab, lab.analyze().analysis_id)
    lab.write(Snapshot().topic("t", groups={"g": 30}).topic("u", groups={"g": 30}))
    _keep_the_newest(lab)
    whole = only.joinpath(file).read_bytes()
    only.joinpath(file).write_bytes(b"PAR1")
    lab.analyze()
    assert [*holes(lab.cluster)] == [only.name]
    assert "brief" not in _remembered(lab)
    only.joinpath(file).write_bytes(whole)
    lab.analyze()
    assert [*holes(lab.cluster)] == [only.name], "as the guard says: until --full"
    lab.analyze(full=True)
    assert [*holes(lab.cluster)] == []
    assert looks.held(lab) == {("t", "g"): 30, ("u", "g"): 30, ("t", "brief"): 5, ("u", "brief"): 7}
    assert lab.targets()["t"]["target_offset"] == 5
    assert "brief" in memory.streams(lab.cluster)
    lab.write(Snapshot().topic("t", groups={"g": 60}))
    lab.analyze()
    assert looks.held(lab)[("t", "brief")] == 5


@pytest.mark.further
def test_what_was_put_back_does_not_outdo_what_was_seen_since(lab: Lab) -> None:
    """A topic that was made anew since, and a group that has read on."""
    lab.write(
        Snapshot().topic("t", groups={"g": 25, "h": 5}).topic("u", topic_id="1", groups={"b": 5})
    )
    only = _folder(lab, lab.analyze().analysis_id)
    whole = only.joinpath("holds.parquet").read_bytes()
    only.joinpath("holds.parquet").write_bytes(b"PAR1")
    lab.write(Snapshot().topic("t", groups={"g": 10}).topic("u", topic_id="2"))
    lab.analyze()
    _keep_the_newest(lab)
    only.joinpath("holds.parquet").write_bytes(whole)
    lab.analyze(full=True)
    assert looks.held(lab) == {("t", "g"): 10, ("t", "h"): 5}


@pytest.mark.further
@pytest.mark.parametrize("full", [False, True])
def test_a_newest_analysis_with_a_torn_manifest_is_missed_and_what_it_missed_too(
    lab: Lab, full: bool
) -> None:
    bad = lab.write(Snapshot().topic("t", groups={"g": 20, "brief": 5}))
    lab.write(Snapshot().topic("t", groups={"g": 30}))
    looks.file(lab, bad, "group_offsets").write_bytes(b"PAR1")
    lab.analyze()
    lab.write(Snapshot().topic("t", groups={"g": 40}))
    torn = lab.analyze().analysis_id
    _folder(lab, torn).joinpath("manifest.json").write_text('{"schema_version": [1')
    lab.write(Snapshot().topic("t", groups={"g": 50}))
    for _ in range(2):
        lab.analyze(full=full)
        assert [*holes(lab.cluster)] == sorted([bad, torn])


def _folder(lab: Lab, analysis_id: str) -> Path:
    return Path(lab.cluster.path) / "findings" / analysis_id


def test_what_was_seen_at_a_time_still_to_come_does_not_outdo_what_is_lower(lab: Lab) -> None:
    """The clock ran a day ahead; set right, a group was set back, and then was gone."""
    lab.minutes = 24 * 60
    lab.write(Snapshot().topic("t", groups={"a": 95, "g": 90, "gone": 70}))
    lab.analyze()
    lab.minutes = 10
    lab.write(Snapshot().topic("t", groups={"a": 95, "g": 10}))
    lab.write(Snapshot().topic("t", groups={"a": 95}))
    _keep_the_newest_of(lab, 2)
    lab.analyze(full=True)
    assert looks.held(lab) == {("t", "a"): 95, ("t", "g"): 10, ("t", "gone"): 70}


@pytest.mark.further
@pytest.mark.parametrize("ahead", [0, 100])
def test_a_clock_that_once_ran_far_ahead_makes_nobody_forget_what_is_hidden(
    lab: Lab, ahead: int
) -> None:
    """By its id every snapshot since is of one hour, and of a time to come."""
    seen = Snapshot().topic("t", groups={"a": 60})
    _taken(lab, 0, Snapshot().topic("t", groups={"a": 60, "dead": 20}))
    _taken(lab, 2, seen, ahead)
    for day in (3, 60, 93):
        _taken(lab, day, seen)
    for n in (1, 2, 3):
        _taken(lab, 93 + n / 100, Snapshot().topic("other"))
    _taken(lab, 93.1, seen)
    assert looks.held(lab) == {("t", "a"): 60, ("t", "dead"): 20}


def _taken(lab: Lab, day: float, snapshot: Snapshot, ahead: int = 0) -> None:
    """Collected on that day by a clock so many days ahead, pruned and analyzed."""
    lab.minutes = int((day + ahead) * 1440)
    lab.write(snapshot)
    lab.minutes = int(day * 1440) + 1
    prune_snapshots(lab.cluster, SnapshotSettings(), START + timedelta(days=day, minutes=2))
    lab.analyze()


@pytest.mark.parametrize(("before", "after"), [(0, 0), (30, 0), (0, -30)])
def test_what_was_seen_later_is_told_by_the_order_of_snapshots(
    lab: Lab, before: int, after: int
) -> None:
    """A group is seen, deleted, and met anew within minutes; each by a clock so far ahead."""
    for minutes, ahead, snapshot in (
        (60, before, Snapshot().topic("t", groups={"etl": 60, "a": 90})),
        (65, after, Snapshot().topic("t", groups={"a": 90}).group("etl", "t")),
        (70, 0, Snapshot().topic("t", groups={"a": 90})),
    ):
        lab.minutes = minutes + ahead
        lab.write(snapshot, clock_ahead_seconds=60.0 * ahead)
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]


@pytest.mark.further_but("0.5")
@pytest.mark.parametrize("ahead", [0.5, 120, -120])
def test_a_former_reader_counts_while_its_snapshot_is_kept_whatever_its_clock(
    lab: Lab, ahead: float
) -> None:
    """The topic is made anew right after; the clock that saw its reader was wrong."""
    lab.write(Snapshot().topic("t", groups={"etl": 90}, topic_id="old"),
              clock_ahead_seconds=60 * ahead)  # fmt: skip
    lab.analyze()
    for _ in range(3):
        lab.write(Snapshot().topic("t", groups={"a": 60}, topic_id="anew"))
        lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]
    assert _remembered(lab)["etl"] == (90, "old")


def _keep_the_newest_of(lab: Lab, count: int) -> None:
    newest = {*lab.cluster.ids("snapshots")[-count:]}
    prune(lab.cluster, "snapshots", lambda _: newest, START + timedelta(days=2))


@pytest.mark.further_but("False")
@pytest.mark.parametrize("full", [False, True])
def test_a_group_that_was_met_without_its_offset_has_begun_anew(lab: Lab, full: bool) -> None:
    """It was deleted, to read all again, and crashed before its first commit."""
    before = {"etl": 60, "a": 90}
    lab.write(Snapshot().topic("t", groups=before).topic("u", groups=before).group("etl", "t"))
    lab.analyze()
    assert lab.targets()["t"]["target_offset"] == 60
    ids = [lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90})
                     .group("etl", "t"))]  # fmt: skip
    ids.append(lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90})))
    done = lab.analyze(full=full)
    told = lab.targets()
    assert names(told["t"]) == names(told["u"]) == ["no-committed-offset"]

    prune(lab.cluster, "snapshots", lambda _: {ids[-1]}, START + timedelta(hours=1))
    met = set(memory.met(lab.cluster, ["t"]))
    assert met == {("etl", ""), ("etl", "t")}, "the analysis carries it"
    again = {"a": 90, "etl": 7}
    lab.write(Snapshot().topic("t", groups=again).topic("u", groups=again))
    lab.analyze()
    assert lab.targets()["t"]["target_offset"] == 7
    kept = lab.cluster.manifest("findings", lab.cluster.latest_analysis()).details
    assert (done.left_out, kept["met_readers"]) == ((), {})


def _crashing(lab: Lab) -> None:
    """A snapshot with a group that has members on t and its only commit on u."""
    readers = Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90, "etl": 90})
    lab.write(readers.group("etl", "t"))


def _gone_from(lab: Lab) -> None:
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90, "etl": 90}))


@pytest.mark.parametrize("full", [False, True])
def test_members_that_died_before_their_first_commit_hold_the_topic(lab: Lab, full: bool) -> None:
    _crashing(lab)
    _gone_from(lab)
    lab.analyze(full=full)
    told = lab.targets()
    assert (names(told["t"]), names(told["u"])) == (["no-committed-offset"], [])
    newest = {lab.cluster.latest_snapshot()}
    prune(lab.cluster, "snapshots", lambda _: newest, START + timedelta(hours=1))
    assert set(memory.met(lab.cluster, ["t", "u"])) >= {("etl", "t")}, "the analysis carries it"


def test_such_members_are_forgotten_with_the_last_kept_snapshot_of_their_time(lab: Lab) -> None:
    _crashing(lab)
    _gone_from(lab)
    lab.analyze()
    _keep_the_newest_of(lab, 1)
    _gone_from(lab)
    lab.analyze()
    assert names(lab.targets()["t"]) == []
    assert ("etl", "t") not in memory.met(lab.cluster, ["t"])


def test_such_members_count_no_more_once_their_group_has_committed_there(lab: Lab) -> None:
    _crashing(lab)
    lab.write(Snapshot().topic("t", groups={"a": 90, "etl": 70}).topic("u", groups={"a": 90}))
    _gone_from(lab)
    lab.analyze()
    found = lab.targets()["t"]
    assert found["target_offset"] == 70
    assert ["is listed no more" in guard["reason"] for guard in found["guards"]] == [True]


def test_thinning_spares_the_last_snapshot_that_met_such_members(lab: Lab) -> None:
    _crashing(lab)
    met_by = lab.cluster.latest_snapshot()
    for _ in range(3):
        lab.minutes += 15
        _gone_from(lab)
    now = START + timedelta(minutes=lab.minutes)
    prune_snapshots(lab.cluster, SnapshotSettings(timedelta(minutes=20)), now)
    assert [met_by] == lab.cluster.ids("snapshots")[:-2]
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]


def test_a_console_consumer_that_is_gone_holds_nothing(lab: Lab) -> None:
    """It commits nothing under the name that it makes up."""
    lab.write(Snapshot().topic("t", groups={"a": 90}).group("console-consumer-4711", "t"))
    lab.write(Snapshot().topic("t", groups={"a": 90}))
    lab.analyze()
    assert names(lab.targets()["t"]) == []


UNTOLD = {
    "rebalancing": {"type": "classic", "state": "PreparingRebalance", "members": 2},
    "assigning": {"type": "consumer", "state": "Assigning", "members": 1},
    "own-words": {"type": "classic", "state": "Stable", "members": None},
    "not-ready": {"type": "streams", "state": "NotReady", "members": None},
    "by-pattern": {"type": "consumer", "state": "Stable", "members": 1, "patterns": ["x.*"]},
}


def _untold(lab: Lab, kind: str, *elsewhere: str) -> None:
    readers = Snapshot().topic("t", groups={"a": 90}).topic("u", groups=dict.fromkeys(elsewhere, 1))
    readers.tables["groups"].append({"group_id": "etl", **UNTOLD[kind]})
    lab.write(readers)


@pytest.mark.further_but("rebalancing", "by-pattern")
@pytest.mark.parametrize("kind", UNTOLD)
def test_a_group_that_may_have_read_any_topic_holds_each_also_when_it_is_gone(
    lab: Lab, kind: str
) -> None:
    """It is stopped to be mended before anybody could tell what it reads; Kafka forgets it."""
    _untold(lab, kind)
    lab.write(Snapshot().topic("t", groups={"a": 90}))
    assert ("etl", "*") in memory.met(lab.cluster, ["t"]), "plans know it without an analysis"
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]
    lab.write(Snapshot().topic("t", groups={"a": 90}))
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"], "the analysis carries it"
    assert ("etl", "*") in memory.met(lab.cluster, ["t"])


@pytest.mark.further_but("2-0", "9-9")
@pytest.mark.parametrize(("days", "ahead"), [(2, 0), (2, 9), (9, 9), (9, 0)])
def test_it_is_let_go_once_a_snapshot_without_it_is_a_week_old_by_a_proved_clock(
    lab: Lab, days: int, ahead: int
) -> None:
    """Of what a clock collects that is `ahead` by so many days nobody knows how long ago it was."""
    _untold(lab, "rebalancing")
    lab.write(Snapshot().topic("t", groups={"a": 90}))
    lab.minutes += 1440 * (days + ahead)
    lab.write(Snapshot().topic("t", groups={"a": 90}), clock_ahead_seconds=86400.0 * ahead)
    lab.analyze()
    held = (days, ahead) != (9, 0)
    assert (names(lab.targets()["t"]) == ["no-committed-offset"]) is held
    now = START + timedelta(days=days, minutes=5)
    assert (("etl", "*") in memory.met(lab.cluster, ["t"], now)) is (days == 2)
    assert ("etl", "*") not in memory.met(lab.cluster, ["t"], now + timedelta(days=9))


def test_members_by_a_pattern_hold_all_that_it_takes_in_when_they_are_gone(lab: Lab) -> None:
    """They were assigned one topic when they were met, and died before they had the other."""
    group = {"group_id": "etl", "type": "consumer", "state": "Reconciling", "members": 1,
             "assigned": [{"topic": "t1", "partition": 0}], "patterns": ["t[0-9]"]}  # fmt: skip
    every = {name: {"a": 90} for name in ("t1", "t2", "other")}
    for groups in ([group], []):
        snapshot = Snapshot()
        for name, committed in every.items():
            snapshot = snapshot.topic(name, groups=committed)
        snapshot.tables["groups"].extend(groups)
        lab.write(snapshot)
    expected = {("etl", name) for name in ("", "t1", "t2")}
    assert set(memory.met(lab.cluster, every)) - {("a", "")} == expected
    lab.analyze()
    told = {topic: names(row) for topic, row in lab.targets().items()}
    held = ["no-committed-offset"]
    assert told == {"t1": held, "t2": held, "other": []}


def test_such_a_group_holds_nothing_once_it_has_told_what_it_reads(lab: Lab) -> None:
    _untold(lab, "rebalancing")
    told = Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90})
    lab.write(told.group("etl", "u"))
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90}))
    assert set(memory.met(lab.cluster, ["t"])) == {("etl", "")}
    lab.analyze()
    found = lab.targets()
    assert (names(found["t"]), names(found["u"])) == ([], ["no-committed-offset"])


def test_nor_where_it_has_an_offset_anywhere(lab: Lab) -> None:
    _untold(lab, "rebalancing", "a", "etl")
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90, "etl": 1}))
    assert ("etl", "*") not in memory.met(lab.cluster, ["t"])
    lab.analyze()
    assert names(lab.targets()["t"]) == []
    assert ("etl", "*") not in memory.met(lab.cluster, ["t"])


def test_an_offset_that_was_seen_before_tells_nothing_of_what_it_reads_since(lab: Lab) -> None:
    """The group was deleted, and came back with another reader: it rebalanced, and is gone."""
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 1, "etl": 1}))
    _untold(lab, "rebalancing", "a")
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 1}))
    assert ("etl", "*") in memory.met(lab.cluster, ["t"])
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]
    assert ("etl", "*") in memory.met(lab.cluster, ["t"]), "the analysis carries it"


@pytest.mark.further_but("True")
@pytest.mark.parametrize("lists", [True, False])
def test_an_offset_on_a_topic_that_is_deleted_is_none_of_them(lab: Lab, lists: bool) -> None:
    """Its name is used again, for the topic's next version; `lists`: disks still name the old."""
    lab.write(Snapshot().topic("t", groups={"a": 90}).topic("old", groups={"etl": 5}))
    lab.analyze()
    _untold(lab, "rebalancing")
    now = Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90})
    if lists:
        now.tables["topics"].append({"topic_no": 2, "topic": "old", "topic_id": None})
    lab.write(now)
    assert ("etl", "*") in memory.met(lab.cluster, ["t"])
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]
    assert ("etl", "*") in memory.met(lab.cluster, ["t"])


@pytest.mark.further_but("at the end")
@pytest.mark.parametrize("analyzed", ["at the end", "each time"])
def test_an_offset_on_a_topic_that_was_made_anew_is_none_either(lab: Lab, analyzed: str) -> None:
    """It read the earlier topic of that name, was met in a rebalance, and died before a commit."""

    def snapshot(topic_id: str, **groups: int) -> Snapshot:
        made = Snapshot().topic("t", groups={"a": 90})
        return made.topic("other", topic_id=topic_id, groups=groups or None)

    rebalances = snapshot("anew")
    rebalances.tables["groups"].append(
        {"group_id": "etl", "assigned": [], "coordinator_answered": True, **UNTOLD["rebalancing"]}
    )
    for one in (snapshot("id", etl=5), rebalances, snapshot("anew")):
        lab.write(one)
        if analyzed == "each time":
            lab.analyze()
    if analyzed == "at the end":
        lab.analyze()
    assert ("etl", "*") in memory.met(lab.cluster, ["t"])
    assert names(lab.targets()["t"]) == ["no-committed-offset"]


@pytest.mark.further
@pytest.mark.parametrize("offset", [True, False])
def test_a_listed_group_without_members_holds_what_it_has_offsets_on(
    lab: Lab, offset: bool
) -> None:
    """Without any it may read every topic, whatever snapshots met it on before."""
    known = {"etl": 50} if offset else {}
    for members in ("u",), (), ():
        made = Snapshot().topic("t", groups={"a": 90}).topic("u", groups={"a": 90, **known})
        lab.write(made.group("etl", *members))
        lab.analyze()
    found = lab.targets()
    assert names(found["t"]) == ([] if offset else ["no-committed-offset"])
    assert found["u"]["held_by"] == ("etl" if offset else "a")
