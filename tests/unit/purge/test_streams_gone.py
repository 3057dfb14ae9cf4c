"""A Kafka Streams application counts when its group is gone, or when nothing tells it any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import GroupListing
from dashboard.history.past_groups import STREAMS_DETAIL
from dashboard.purge.evidence import memory
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.plan import Plan
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.policies import streams_topics as st
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import ServiceRoom
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room

LAST = RememberedOffset("app", TOPIC, 0, 60, "id-1")
APP = frozenset({"app"})


def room_in(folder: Path, offsets: dict[str, dict[int, int]]) -> Room:
    room = Room(folder)
    room.live.offsets_of = offsets
    room.remembered = (LAST,)
    room.standards = replace(room.standards, remembered=(LAST,))
    return room


def reasons(plan: Plan) -> list[str]:
    return [g.reason for p in plan.partitions for g in p.guards if g.name == "changelog-source"]


# Expired (offsets.retention.minutes), and set by hand: what tells it was the commits' metadata.
GONE = pytest.mark.parametrize("offsets", [{}, {"app": {0: 60}}], ids=["expired", "reset"])


@GONE
def test_a_table_s_source_is_planned_by_nobody(
    tmp_path: Path, offsets: dict[str, dict[int, int]]
) -> None:
    room = room_in(tmp_path, offsets)
    assert reasons(room.plan()) == []
    room.streams = APP
    assert reasons(room.plan()) == [
        "orders may be the source of a state store (Kafka Streams application app reads it): "
        "Kafka Streams restores from it whatever its groups committed."
    ]


@GONE
def test_nor_is_it_sent_by_a_plan_that_did_not_know(
    tmp_path: Path, offsets: dict[str, dict[int, int]]
) -> None:
    room = room_in(tmp_path, offsets)
    plan = room.plan()
    assert plan.free_partitions, "it was made without that memory"
    room.standards = replace(room.standards, streams=APP)
    view = room.carry_out(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "changelog-source")
    assert room.live.sent == []


@pytest.mark.further_but("expired")
@pytest.mark.parametrize("left", [(), ("table-app",)], ids=["expired", "reset"])
def test_a_policy_does_not_begin_with_it(tmp_path: Path, left: Sequence[str]) -> None:
    readers = '[overrides]\nreaders-undeclared = "its groups are all its readers"'
    wanted = f'topics = ["customers"]\nmin_purge_interval_ms = 5000\n{readers}'
    room = ServiceRoom(tmp_path, policy(wanted, "tidy"))
    room.live.topic("customers")
    room.live.produce("customers", 100)
    room.live.commit("table-app", "customers", offset=90)
    log = st.Log("customers", 0, "id-customers", end=100, commits={"table-app": 90})
    app = st.Group("table-app", "Empty", 0, is_streams=True)
    at = NOW - timedelta(hours=1)
    st.snapshot(room.store, at, [log], groups=[app], configs=st.STREAMS)
    if not left:
        room.live.offsets_of.clear()
    listed: GroupListing = room.live.groups(())
    assert [(g.group_id, g.is_streams) for g in listed.groups] == [(g, False) for g in left]
    service = room.service()
    service.turn()
    room.pass_time(service, 70)
    status = room.status("tidy")
    assert (status["state"], "application table-app reads it" in str(status["reason"])) == (
        "refused", True,
    )  # fmt: skip
    assert (room.live.log_start("customers"), room.live.sent) == (0, [])


def taken(store: ClusterStore, minutes: int, *groups: st.Group) -> str:
    log = st.Log(TOPIC, 0, "id-1", end=100)
    at = NOW + timedelta(minutes=minutes)
    st.snapshot(store, at, [log], groups=groups, configs=st.STREAMS)
    return store.ids("snapshots")[-1]


def analysis(store: ClusterStore, **details: object) -> None:
    writer = store.begin("findings", NOW)
    writer.commit(0.1, details)
    store.set_latest(writer.id)


def test_the_newest_analysis_and_snapshots_since_it_tell_them(tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "cluster-1")
    assert memory.streams(store) == frozenset()
    taken(store, 0, st.Group("old", is_streams=True), st.Group("plain"))
    judged = taken(store, 1, st.Group("seen", is_streams=True))
    assert memory.streams(store) == {"old", "seen"}
    analysis(store, snapshot_id=judged)
    assert memory.streams(store) == {"old", "seen"}, "one of an earlier version keeps none"
    analysis(store, snapshot_id=judged, **{STREAMS_DETAIL: {"kept": "long-ago"}})
    assert memory.streams(store) == {"kept"}, "it has told all up to its snapshot"
    taken(store, 2, st.Group("new", is_streams=True))
    taken(store, 3, st.Group("new"))
    assert memory.streams(store) == {"kept", "new"}


def test_what_an_analysis_of_an_earlier_version_could_not_read_is_not_read_here(
    tmp_path: Path,
) -> None:
    """It is missed by name already: every partition is guarded by `groups-incomplete`."""
    store = ClusterStore(Store(str(tmp_path)), "cluster-1")
    bad = taken(store, 0, st.Group("lost", is_streams=True))
    judged = taken(store, 1, st.Group("seen", is_streams=True))
    Path(f"{store.path}/snapshots/{bad}/groups.parquet").write_bytes(b"")
    analysis(store, snapshot_id=judged, left_out={bad: "damaged"})
    assert memory.streams(store) == {"seen"}
