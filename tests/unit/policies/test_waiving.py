"""Whom a policy's definition waives: groups that no coordinator lists, by name, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dashboard.collect.tables import table_of, to_arrow
from dashboard.core.clock import format_time
from dashboard.core.errors import StoreError
from dashboard.policies import simulate
from dashboard.policies.checking import check
from dashboard.policies.service.purging import Job, Site
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import declaration
from dashboard.store.clocks import newest_seen
from dashboard.store.snapshots import ClusterStore
from dashboard.views.entries import Body, said
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "orders"
TEXT = f'topics = ["{TOPIC}"]\nmin_purge_interval_ms = 5000'
WAIVES = f'{TEXT}\nwaive = {{ "old" = "gone since May", "never-seen" = "forgotten" }}'
DECLARED = declaration(TOPIC, {"readers": "groups", "owner": "shop"}, "here")


class Room(ServiceRoom):
    """100 records that `shop` has read; `old` read 40 of them, says a snapshot, and is gone."""

    def __init__(self, folder: Path, of: Policy) -> None:
        super().__init__(folder, of)
        self.settings = replace(self.settings, topics=(DECLARED,))
        self.live.topic(TOPIC)
        self.live.produce(TOPIC, 100)
        self.live.commit("shop", TOPIC)
        self.snapshot("old", "shop")
        self.switch_on(of)

    def snapshot(self, *listed: str, old: int = 40) -> None:
        """A minute later, a snapshot in which these groups were listed; `shop` has read all."""
        self.clock.now += timedelta(minutes=1)
        committed = {"old": old, "shop": 100}
        columns: dict[str, dict[str, list[Any]]] = {
            "topics": {"topic_no": [0], "topic": [TOPIC], "topic_id": [f"id-{TOPIC}"]},
            "partitions": {
                "topic_no": [0], "partition": [0], "log_start_offset": [0],
                "last_stable_offset": [100], "high_watermark": [100],
            },
            "replicas": {
                "broker_id": [1], "topic_no": [0], "partition": [0], "is_leader": [True],
                "size_bytes": [100_000], "log_start_offset": [0], "log_end_offset": [100],
            },
            "groups": {"group_id": [*listed]},
            "group_offsets": {
                "group_id": [*listed], "topic_no": [0] * len(listed),
                "partition": [0] * len(listed),
                "committed_offset": [committed[name] for name in listed],
            },
        }  # fmt: skip
        at = self.clock()
        writer = self.store.begin("snapshots", at)
        for name, of in columns.items():
            writer.write(name, to_arrow(name, table_of(name, **of), writer.id, at))
        writer.commit(0.1, {"groups_incomplete": []})

    def cycle(self, **change: Any) -> dict[str, Any]:
        """The status of the policy after one cycle."""
        service = self.service(**change)
        service.turn()
        service.close()
        return self.status("p")

    def guards(self) -> list[str]:
        return [g["reason"] for p in self.status("p")["blocked"] for g in p["guards"]]

    def waived(self) -> list[tuple[str, str, str]]:
        """Of the one run."""
        (run,) = self.runs()
        plan = self.journal.plan(run.run_id)
        return [(w.group_id, w.reason, w.by) for w in plan.waivers]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path, policy(WAIVES))
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def test_without_a_waiver_a_group_that_is_gone_holds_the_topic(tmp_path: Path) -> None:
    room = Room(tmp_path, policy(TEXT))
    room.cycle()
    assert room.live.log_start(TOPIC) == 40
    room.journal.close()


def test_what_was_seen_stays_so_while_the_newest_snapshot_does_not_answer(room: Room) -> None:
    """`policies on` keeps it: a moment of 1970 would let every waived group come back since."""
    seen = newest_seen(room.store)
    with mock.patch.object(ClusterStore, "manifest", side_effect=StoreError("away", "Wait.")):
        assert newest_seen(room.store) == seen


def test_a_group_that_is_gone_is_waived_and_the_journal_names_why_and_by_whom(room: Room) -> None:
    status = room.cycle()
    assert (status["state"], room.live.log_start(TOPIC)) == ("ran", 100)
    assert "not waived" not in status["reason"]
    (of,) = room.settings.policies
    by = f"ann, by policy p as {of.definition_sha256[:12]}"
    # `never-seen` is known to nobody: it is left out, and no error.
    assert room.waived() == [("old", "gone since May", by)]
    (run,) = room.runs()
    (queued, *_) = room.journal.entries(run.run_id)
    assert queued.body["waivers"] == [
        {"group_id": "old", "reason": "gone since May", "by": by, "gone": True,
         "at": queued.body["waivers"][0]["at"], "since": format_time(newest_seen(room.store))}
    ]  # fmt: skip
    assert "waived old: gone since May" in said(queued.kind, Body.of(queued))
    (planned,) = room.journal.plan(run.run_id).partitions
    assert dict(planned.waived) == {"old": 40}


@pytest.mark.parametrize("members", [0, 1], ids=["without members", "alive"])
def test_a_group_that_is_listed_holds_as_ever_and_is_named(room: Room, members: int) -> None:
    room.live.members["old"] = members
    room.live.commit("old", TOPIC, offset=40)
    status = room.cycle()
    assert room.live.log_start(TOPIC) == 40
    assert status["reason"].endswith("not waived, since a coordinator lists it: old")
    assert room.waived() == []

    room.clock.now += timedelta(seconds=30)  # what it has not read is left, and nothing else
    status = room.cycle()
    assert "not waived, since a coordinator lists it: old" in status["reason"]
    assert (len(room.runs()), room.live.log_start(TOPIC)) == (1, 40)


def test_a_listed_group_whose_offset_is_gone_is_guarded_by_name(room: Room) -> None:
    room.live.offsets_of["old"] = {}
    status = room.cycle()
    assert (status["state"], room.runs(), room.live.log_start(TOPIC)) == ("refused", [], 0)
    assert any("group old is gone" in why for why in room.guards())
    assert status["reason"].endswith("not waived, since a coordinator lists it: old")


@pytest.mark.further_but("40-without members", "60-alive")
@pytest.mark.parametrize("members", [0, 1], ids=["without members", "alive"])
@pytest.mark.parametrize("offset", [40, 60])
def test_one_that_comes_back_between_plan_and_request_is_refused_and_nothing_is_sent(
    room: Room, members: int, offset: int
) -> None:
    """Also without members, and further on than it was: it is read again, and told so."""
    jobs: list[Job] = []
    service = room.service(start=jobs.append)
    service.turn()
    assert [name for name, *_ in room.waived()] == ["old"]
    room.live.members["old"] = members
    room.live.commit("old", TOPIC, offset=offset)
    jobs[0]()
    (run,) = room.runs()
    (row,) = room.journal.partitions(run.run_id)
    assert (run.state, row.state, row.error) == ("refused", "not_done", "unread-by-group")
    assert f"and stands at {offset}, below the target 100" in str(row.message)
    assert (room.live.sent, room.live.log_start(TOPIC)) == ([], 0)

    room.pass_time(service, 30)
    jobs[1]()
    service.close()
    assert room.live.log_start(TOPIC) == offset, "the next cycle goes as far as it has read"
    assert "not waived, since a coordinator lists it: old" in room.status("p")["reason"]


def test_one_that_came_back_and_has_read_all_stops_nothing(room: Room) -> None:
    jobs: list[Job] = []
    service = room.service(start=jobs.append)
    service.turn()
    room.live.commit("old", TOPIC)
    jobs[0]()
    service.close()
    assert ([run.state for run in room.runs()], room.live.log_start(TOPIC)) == (["done"], 100)


@pytest.mark.parametrize("again", [False, True], ids=["before", "confirmed again"])
def test_one_that_came_back_after_it_was_confirmed_is_waived_no_more(
    room: Room, again: bool
) -> None:
    """Back for an hour, to read all again: who confirmed the waiver judged it as it was before."""
    room.snapshot("old", "shop")
    room.snapshot("shop")
    if again:
        room.switch_on(room.settings.policies[0])
    status = room.cycle()
    told = "not waived, since it was met after the policy was switched on"
    assert (told in status["reason"]) is not again
    assert room.live.log_start(TOPIC) == (100 if again else 40)


@pytest.mark.further_but("-2-True", "2-False")
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("days_ahead", [-2, 2, 400])
def test_whether_it_came_back_is_told_by_the_order_of_snapshots_and_no_clock(
    tmp_path: Path, days_ahead: int, *, back: bool
) -> None:
    """The host's clock was wrong in the minute in which somebody confirmed it."""
    room = Room(tmp_path, policy(WAIVES))
    room.clock.now += timedelta(days=days_ahead)
    room.switch_on(room.settings.policies[0])
    room.clock.now -= timedelta(days=days_ahead)
    if back:
        room.snapshot("old", "shop")
    room.snapshot("shop")
    assert ("not waived" in room.cycle()["reason"]) is back
    assert room.live.log_start(TOPIC) == (40 if back else 100)
    assert room.journal.verify().ok
    room.journal.close()


@pytest.mark.further
def test_confirmed_again_it_is_waived_also_where_a_collect_ran_far_ahead(room: Room) -> None:
    """Ids follow that collect for 400 days, and so does when they met a group."""
    room.clock.now += timedelta(days=400)
    room.snapshot("shop")
    room.clock.now -= timedelta(days=400)
    room.snapshot("old", "shop")
    room.snapshot("shop")
    assert "not waived, since it was met" in room.cycle()["reason"]
    room.switch_on(room.settings.policies[0])
    room.clock.now += timedelta(seconds=30)
    assert "not waived" not in room.cycle()["reason"]
    assert room.live.log_start(TOPIC) == 100


def test_a_switch_of_an_earlier_version_counts_from_its_own_time(room: Room) -> None:
    """It kept no more than that."""
    (of,) = room.settings.policies
    room.journal.switch_policy(
        room.live.id, of.name, of.definition_sha256, enabled=True, who="ann", typed="x",
        from_where="here", now=room.clock(),
    )  # fmt: skip
    room.snapshot("old", "shop")
    room.snapshot("shop")
    assert "not waived, since it was met" in room.cycle()["reason"]


@pytest.mark.further_but("alive")
@pytest.mark.parametrize("members", [0, 1], ids=["without members", "alive"])
def test_one_that_a_snapshot_met_between_plan_and_request_is_refused_though_it_is_gone_again(
    room: Room, members: int
) -> None:
    """Back for a minute, as far as 60; then somebody deleted it, to have it read all again."""
    jobs: list[Job] = []
    service = room.service(start=jobs.append)
    service.turn()
    room.live.members["old"] = members
    room.snapshot("old", "shop", old=60)
    room.snapshot("shop")
    jobs[0]()
    service.close()
    (run,) = room.runs()
    (row,) = room.journal.partitions(run.run_id)
    assert (run.state, row.state, row.error) == ("refused", "not_done", "unread-by-group")
    assert "Group old was waived as gone, and a snapshot met it since" in str(row.message)
    assert (room.live.sent, room.live.log_start(TOPIC)) == ([], 0)


def test_nobody_is_waived_by_a_list_that_may_lack_a_group(room: Room) -> None:
    room.live.incomplete = ("broker 3 did not answer",)
    status = room.cycle()
    assert (status["state"], room.live.log_start(TOPIC)) == ("refused", 0)
    assert any("broker 3 did not answer" in why for why in room.guards())


def test_the_last_reader_of_a_topic_is_not_waived_away(room: Room) -> None:
    """That nobody reads it is more than the definition says."""
    del room.live.offsets_of["shop"]
    room.settings = replace(
        room.settings, policies=(policy(f'{TEXT}\nwaive = {{ "old" = "x", "shop" = "y" }}'),)
    )
    room.switch_on(room.settings.policies[0])
    assert room.cycle()["state"] == "refused"
    assert room.live.log_start(TOPIC) == 0


def test_a_definition_that_waives_one_more_is_off_until_it_is_confirmed(room: Room) -> None:
    confirmed = policy(TEXT)
    room.switch_on(confirmed)
    assert room.cycle()["state"] == "changed"
    assert (room.runs(), room.live.log_start(TOPIC)) == ([], 0)
    room.switch_on(room.settings.policies[0])
    assert room.cycle()["state"] == "ran"


def test_one_that_is_taken_out_while_its_run_waits_is_waived_no_more(room: Room) -> None:
    room.settings = replace(room.settings, policies=(policy(WAIVES),))
    jobs: list[Job] = []
    service = room.service(start=jobs.append)
    service.turn()
    room.switch_on(policy(TEXT))  # the definition without the waiver is confirmed
    jobs[0]()
    service.close()
    (run,) = room.runs()
    assert (run.state, room.live.sent) == ("refused", [])
    assert run.error is not None
    assert run.error["code"] == "POLICY_CHANGED"


def test_what_is_checked_names_whom_it_waives_and_whom_not(room: Room) -> None:
    room.live.commit("old", TOPIC, offset=40)
    site = room.service().site
    assert isinstance(site, Site)
    (found,) = check(site, room.live, site.settings.policies)
    told = found.to_json("prod")
    assert told["waive"] == {"old": "gone since May", "never-seen": "forgotten"}
    assert [each["not_waived"] for each in told["applications"]] == [["old"]]


@pytest.mark.further_but("listed-waives nobody")
@pytest.mark.parametrize("waives", [WAIVES, TEXT], ids=["waives", "waives nobody"])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "gone"])
def test_what_the_past_would_have_purged_is_what_a_cycle_purges(
    tmp_path: Path, waives: str, *, listed: bool
) -> None:
    of = policy(waives)
    room = Room(tmp_path, of)
    if listed:
        room.live.commit("old", TOPIC, offset=40)
    room.snapshot(*(["old"] if listed else []), "shop")
    now = room.clock()
    week = simulate.week(room.store, of, now, lambda names: dict.fromkeys(names, DECLARED))
    room.cycle()
    purged = room.live.log_start(TOPIC)
    assert week.bytes == purged * 1000
    assert purged == (100 if waives == WAIVES and not listed else 40)
    times = {True: 2, False: 1}[listed] if waives == WAIVES else 0
    told = [note for note in week.notes if "group old was listed: it is not waived then" in note]
    assert [note.split(" of ")[0] for note in told] == ([f"At {times}"] if times else [])
    room.journal.close()
