"""A service purges what is due, once per interval, and says why anything waits."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.collect.tables import table_of, to_arrow
from dashboard.policies.service.leading import RENEW_EVERY
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out, held
from dashboard.purge.jobs.queue import enqueue
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.settings import PurgeSettings, declaration
from dashboard.store.tables import FINDING_TABLES, build
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def consumed(room: ServiceRoom, topic: str = TOPIC, group: str = "billing") -> None:
    """Ten records more, all read."""
    if not any(key.topic == topic for key in room.live.parts):
        room.live.topic(topic)
    room.live.produce(topic, 10)
    room.live.commit(group, topic)


def test_a_purge_follows_the_owners_commits(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service()
    room.pass_time(service, 1)
    assert room.live.log_start(TOPIC) == 10
    assert [(r.policy, r.state, r.who) for r in room.runs()] == [
        ("streams", "done", "policy streams")
    ]


def test_starts_lie_an_interval_apart_however_often_is_committed(room: ServiceRoom) -> None:
    service = room.service()
    for _ in range(120):
        consumed(room)
        room.pass_time(service, 0.5)
    starts = [run.queued_at for run in room.runs()]
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(starts)]
    assert min(gaps) >= 5
    assert max(gaps) < 6
    assert len(starts) == 12


def test_nothing_is_queued_where_nothing_is_below_the_target(room: ServiceRoom) -> None:
    room.live.topic(TOPIC)
    room.live.commit("billing", TOPIC)
    room.pass_time(room.service(), 60)
    assert room.runs() == []
    assert room.status()["state"] == "nothing"


def test_each_application_runs_by_itself(room: ServiceRoom) -> None:
    consumed(room)
    consumed(room, "orders-join-repartition", "orders")
    room.pass_time(room.service(), 1)
    assert {run.policy for run in room.runs()} == {"streams"}
    assert len(room.runs()) == 2
    assert room.live.log_start("orders-join-repartition") == 10


def test_an_unknown_owner_is_refused_by_name_and_stops_no_other(room: ServiceRoom) -> None:
    consumed(room)
    room.live.topic("nobody-sum-repartition")
    room.live.produce("nobody-sum-repartition", 10)
    room.pass_time(room.service(), 1)
    assert room.live.log_start(TOPIC) == 10
    assert room.live.log_start("nobody-sum-repartition") == 0
    status = room.status()
    assert status["state"] == "refused"
    assert "nobody-sum-repartition" in status["reason"]
    assert status["errors"][0]["code"] == "OWNER_UNKNOWN"
    assert status["last_run"] == room.runs()[0].run_id


def test_another_group_that_is_behind_blocks_and_is_shown(room: ServiceRoom) -> None:
    consumed(room)
    room.live.commit("audit", TOPIC, offset=3)
    room.pass_time(room.service(), 1)
    assert room.runs() == []
    status = room.status()
    assert status["state"] == "refused"
    assert [g["name"] for g in status["blocked"][0]["guards"]] == ["unread-by-group"]


def served(room: ServiceRoom) -> None:
    service = room.service()
    room.pass_time(service, 6)
    service.close()


def guards(room: ServiceRoom) -> list[str]:
    return [g["name"] for b in room.status()["blocked"] for g in b["guards"]]


@pytest.mark.parametrize("committed_by", ["owner", "all"])
def test_the_preset_vouches_for_no_group_that_is_only_called_like_an_application(
    tmp_path: Path, committed_by: str
) -> None:
    """Somebody's own topic, read by a plain group: others may read it without committing."""
    room = ServiceRoom(
        tmp_path, policy(f'{REPARTITION}\ncommitted_by = "{committed_by}"', "streams")
    )
    own = "clicks-by-user-repartition"
    for name, group in ((TOPIC, "billing"), (own, "clicks")):
        room.live.topic(name)
        room.live.produce(name, 10)
        room.live.commit(group, name)
    room.live.plain.add("clicks")
    served(room)
    assert (room.live.log_start(TOPIC), room.live.log_start(own)) == (10, 0)
    assert "readers-undeclared" in guards(room)

    room.settings = replace(
        room.settings,
        topics=(declaration(own, {"readers": "groups", "state_restore": "none"}, "here"),),
    )
    served(room)
    assert room.live.log_start(own) == 10


def test_nor_for_an_application_that_does_not_read_the_topic_that_is_called_like_its_own(
    tmp_path: Path,
) -> None:
    """Somebody made it by hand; a mirror that commits nowhere may read it, too."""
    room = ServiceRoom(tmp_path, policy(f'{REPARTITION}\ncommitted_by = "all"', "streams"))
    consumed(room)
    consumed(room, "billing-by-hand-repartition", "reporting")
    served(room)
    starts = [room.live.log_start(name) for name in (TOPIC, "billing-by-hand-repartition")]
    assert starts == [10, 0]
    assert guards(room) == ["readers-undeclared"]


def test_an_application_that_a_kept_snapshot_knew_is_one(room: ServiceRoom) -> None:
    """A tool has set its offsets since: its commits no longer tell."""
    consumed(room)
    room.live.plain.add("billing")
    served(room)
    assert guards(room) == ["readers-undeclared"]
    writer = room.store.begin("snapshots", room.clock())
    columns = {"group_id": ["billing"], "type": ["classic"], "state": ["Empty"], "members": [0],
               "is_streams": [True]}  # fmt: skip
    groups = table_of("groups", **columns)
    writer.write("groups", to_arrow("groups", groups, writer.id, room.clock()))
    writer.commit(0.1, {})
    served(room)
    assert room.live.log_start(TOPIC) == 10


def test_one_guarded_partition_stops_no_other(room: ServiceRoom) -> None:
    room.live.topic(TOPIC, 2)
    for partition in (0, 1):
        room.live.produce(TOPIC, 10, partition)
        room.live.commit("billing", TOPIC, partition)
    room.live.commit("audit", TOPIC, 0)
    room.live.commit("audit", TOPIC, 1, offset=3)
    room.pass_time(room.service(), 1)
    assert [room.live.log_start(TOPIC, n) for n in (0, 1)] == [10, 0]
    assert room.status()["state"] == "ran"
    assert [b["partition"] for b in room.status()["blocked"]] == [1]


def test_an_unreadable_topic_stops_its_application_alone(room: ServiceRoom) -> None:
    consumed(room)
    consumed(room, "orders-join-repartition", "orders")
    room.live.config_errors = {"topic orders-join-repartition": "TOPIC_AUTHORIZATION_FAILED"}
    room.pass_time(room.service(), 1)
    assert room.live.log_start(TOPIC) == 10
    assert room.status()["errors"][0]["code"] == "CONFIGS_UNREADABLE"


def test_an_unreadable_topic_stops_no_other_of_its_application(room: ServiceRoom) -> None:
    consumed(room)
    consumed(room, "billing-join-repartition")
    room.live.config_errors = {"topic billing-join-repartition": "TOPIC_AUTHORIZATION_FAILED"}
    room.pass_time(room.service(), 1)
    assert room.live.log_start(TOPIC) == 10
    assert room.live.log_start("billing-join-repartition") == 0
    assert room.status()["state"] == "ran"
    assert "billing-join-repartition" in room.status()["errors"][0]["reason"]


def test_guarded_partitions_keep_nobodys_place_in_a_full_plan(room: ServiceRoom) -> None:
    room.settings = replace(
        room.settings, purge=PurgeSettings(most_partitions=2, pattern_refresh=timedelta(0))
    )
    room.live.topic(TOPIC, 6)
    for partition in range(6):
        room.live.produce(TOPIC, 10, partition)
        room.live.commit("billing", TOPIC, partition)
        room.live.commit("audit", TOPIC, partition, offset=3 if partition < 3 else 10)
    service = room.service()
    room.pass_time(service, 1)
    assert [room.live.log_start(TOPIC, n) for n in range(6)] == [0, 0, 0, 10, 10, 0]
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC, 5) == 10
    assert room.runs()[0].state == "done"


def test_an_error_nobody_foresaw_stops_no_other(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed(room)
    consumed(room, "orders-join-repartition", "orders")
    from dashboard.policies.service import purging

    whole = purging.prepared

    def broken(site: object, live: object, each: object, application: Any, more: object) -> object:
        if application.owner == "billing":
            raise ZeroDivisionError("a bug")
        return whole(site, live, each, application, more)  # type: ignore[arg-type]

    monkeypatch.setattr(purging, "prepared", broken)
    room.pass_time(room.service(), 1)
    assert room.live.log_start("orders-join-repartition") == 10
    assert "a bug" in room.status()["errors"][0]["reason"]


def test_a_policy_that_is_off_or_changed_sends_nothing(tmp_path: Path) -> None:
    room = ServiceRoom(tmp_path, policy(REPARTITION, "streams"))
    consumed(room)
    changed = policy(REPARTITION.replace("5000", "6000"), "streams")
    never = policy(REPARTITION, "never")
    room.settings = _with(room, changed, never)
    room.pass_time(room.service(), 10)
    assert room.runs() == []
    assert (room.status()["state"], room.status("never")["state"]) == ("changed", "off")
    room.switch_on(changed)
    room.pass_time(room.service(), 20)
    assert room.live.log_start(TOPIC) == 10


def test_a_window_delays(tmp_path: Path) -> None:
    room = ServiceRoom(tmp_path, policy(REPARTITION + '\nwindows = ["Sun 14:00-15:00"]', "streams"))
    consumed(room)  # it is Sunday, 12:00
    service = room.service()
    room.pass_time(service, 60)
    assert room.status()["state"] == "outside-window"
    assert room.status()["next_at"] == "2026-03-01T14:00:00.000Z"
    room.clock.sleep(7200)
    room.pass_time(service, 20)
    assert room.live.log_start(TOPIC) == 10


def test_an_open_window_is_no_longer_said_to_be_closed(tmp_path: Path) -> None:
    text = 'topics = ["t"]\nmin_purge_interval_ms = 5000\noverrides = {readers-undeclared = "x"}'
    room = ServiceRoom(tmp_path, policy(text + '\nwindows = ["Sun 12:01-15:00"]', "streams"))
    consumed(room, "t", "any")
    manual(room, "t")  # a minute before the window opens
    service = room.service()
    room.pass_time(service, 58)
    assert room.status()["state"] == "outside-window"
    manual(room, "t", records=10)
    room.pass_time(service, 4)
    assert room.status()["state"] == "waiting"
    assert room.status()["next_at"] is not None


def test_a_run_that_another_worker_carries_out_is_left_to_it(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service(start=lambda _: None)
    service.turn()
    run_id = room.runs()[0].run_id
    with held(room.journal, room.settings.state_dir, run_id, room.clock):
        room.clock.sleep(20)
        other = room.service()
        room.pass_time(other, 20)
        assert room.live.sent == []
        assert other.following.runs == ()
        assert room.status()["state"] == "busy"


def test_a_trigger_that_no_finding_supports_purges_nothing(tmp_path: Path) -> None:
    room = ServiceRoom(tmp_path, policy(REPARTITION + '\ntrigger = "disk-above:80%"', "streams"))
    consumed(room)
    room.pass_time(room.service(), 10)
    assert (room.runs(), room.status()["state"]) == ([], "not-triggered")


@pytest.mark.parametrize(
    ("ahead", "purges"), [(-60, 1), (10, 1), (11, 0), (2 * 3600, 0), (-181, 0)]
)
def test_a_trigger_goes_by_findings_of_now_alone(tmp_path: Path, ahead: int, purges: int) -> None:
    room = ServiceRoom(tmp_path, policy(REPARTITION + '\ntrigger = "disk-above:80%"', "streams"))
    consumed(room)
    taken_at = room.clock() + timedelta(seconds=ahead)
    writer = room.store.begin("findings", taken_at)
    disk = {"snapshot_id": ["s"], "taken_at": [taken_at], "broker_id": [1], "log_dir": ["/d"],
            "total_bytes": [100], "usable_bytes": [5]}  # fmt: skip
    writer.write("disks", build(FINDING_TABLES["disks"], disk))
    writer.write("growth", FINDING_TABLES["growth"].schema.empty_table())
    writer.commit(0.1, {"snapshot_id": "s"})
    room.store.set_latest(writer.id)
    room.service().turn()
    assert len(room.runs()) == purges


@pytest.mark.further
def test_a_budget_of_partitions_gives_turns_to_all(tmp_path: Path) -> None:
    text = REPARTITION + "\nmost_partitions_per_hour = 1"
    room = ServiceRoom(tmp_path, policy(text, "streams"))
    room.live.topic(TOPIC, 3)
    for partition in range(3):
        room.live.produce(TOPIC, 10, partition)
        room.live.commit("billing", TOPIC, partition)
    service = room.service()
    room.pass_time(service, 60)
    assert len(room.runs()) == 1
    assert room.status()["state"] == "budget"
    for _ in range(2):
        room.clock.sleep(3600)
        room.pass_time(service, 60)
    assert [room.live.log_start(TOPIC, n) for n in range(3)] == [10, 10, 10]


def test_a_manual_purge_in_flight_delays_that_topic_alone(room: ServiceRoom) -> None:
    consumed(room)
    consumed(room, "billing-join-repartition")
    run_id = _manual(room)
    service = room.service()
    room.pass_time(service, 10)
    assert room.live.log_start("billing-join-repartition") == 10
    assert room.live.log_start(TOPIC) == 0
    room.journal.set_run(run_id, "cancelled", room.clock())
    room.pass_time(service, 10)
    assert room.live.log_start(TOPIC) == 10


def test_the_read_only_switch_holds_every_policy(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service()
    room.journal.set_read_only(True, "ann", room.clock())
    room.pass_time(service, 10)
    assert (room.runs(), room.status()["errors"][0]["code"]) == ([], "READ_ONLY")
    room.journal.set_read_only(False, "ann", room.clock())
    room.pass_time(service, 5)
    assert room.live.log_start(TOPIC) == 10


def test_read_only_in_the_settings_file_holds_a_service_that_runs(room: ServiceRoom) -> None:
    file = room.write()
    service = room.service()
    room.pass_time(service, 5)
    consumed(room)
    for text, said in (
        ("read_only = true", f"read_only of the settings ({file}) is on"),
        ("read_only = ", f"the settings file {file} is wrong by now, so every purge is off: "),
    ):
        room.write(text)
        room.pass_time(service, 10)
        (error,) = room.status()["errors"]
        assert (room.runs(), error["code"]) == ([], "READ_ONLY")
        assert error["reason"].startswith(said)
    room.write("read_only = false")
    room.pass_time(service, 6)
    assert room.live.log_start(TOPIC) == 10


def test_read_only_in_the_settings_file_stops_a_services_run_in_flight(room: ServiceRoom) -> None:
    room.write()
    consumed(room)
    room.service(start=lambda job: (room.write("read_only = true"), job())).turn()
    assert [run.state for run in room.runs()] == ["cancelled"]
    assert room.live.sent == []


def test_an_outage_is_visible_and_tried_again_ever_more_rarely(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service()
    room.live.down = True
    room.pass_time(service, 300)
    assert room.runs() == []
    assert room.status()["errors"][0]["code"] == "CLUSTER_UNREACHABLE"
    assert room.status()["next_at"] is not None
    assert len(room.told("error")) == 1, "the same is said once"
    room.live.down = False
    room.pass_time(service, 31)
    assert room.live.log_start(TOPIC) == 10
    assert room.status()["errors"] == []


def test_a_policy_that_is_taken_out_is_waited_for_no_more(room: ServiceRoom) -> None:
    source = room.write()
    service = room.service()
    service.turn()
    source.write_text(f'data = "{room.settings.data}"\nstate_dir = "{room.settings.state_dir}"\n')
    room.clock.sleep(60)
    service.turn()
    assert service.turn() == RENEW_EVERY.total_seconds(), "it looked twenty times a second"


def test_a_standby_says_who_leads_and_takes_over_when_the_lease_ends(room: ServiceRoom) -> None:
    first, second = room.service(), room.service()
    first.turn()
    second.turn()
    assert len(room.told("leading")) == 1
    assert [e["leader"]["pid"] for e in room.told("standby")] == [os.getpid()]
    consumed(room)
    room.pass_time(second, 14)
    assert room.runs() == []
    room.pass_time(second, 5)
    assert room.live.log_start(TOPIC) == 10
    assert len(room.runs()) == 1


def test_a_released_lease_is_taken_at_once(room: ServiceRoom) -> None:
    first, second = room.service(), room.service()
    first.turn()
    first.close()
    second.turn()
    assert len(room.told("leading")) == 2
    first.turn()
    room.pass_time(second, 20)
    assert len(room.told("leading")) == 2, "the first one takes it no more"


def test_no_run_begins_once_it_is_told_to_stop(room: ServiceRoom) -> None:
    consumed(room)
    room.pass_time(room.service(stopping=lambda: True), 10)
    assert room.runs() == []


def test_a_run_in_flight_keeps_its_application_busy(room: ServiceRoom) -> None:
    waiting: list[object] = []
    consumed(room)
    service = room.service(start=waiting.append)
    room.pass_time(service, 60)
    assert (len(waiting), len(room.runs())) == (1, 1)
    assert room.status()["state"] == "busy"
    waiting[0]()  # type: ignore[operator]
    assert room.status()["state"] == "ran"
    assert room.live.log_start(TOPIC) == 10


def test_an_open_run_of_a_dead_service_is_carried_out_by_the_next(room: ServiceRoom) -> None:
    consumed(room)
    room.service(start=lambda _: None).turn()  # it dies right after it queued the run
    assert [run.state for run in room.runs()] == ["queued"]
    room.pass_time(room.service(), 40)
    assert [run.state for run in room.runs()] == ["done"]
    assert room.live.log_start(TOPIC) == 10


@pytest.mark.further
def test_closed_runs_are_followed_until_their_receipts_are_final(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service()
    room.pass_time(service, 1)
    run_id = room.runs()[0].run_id
    assert service.following.runs == (run_id,)
    again = room.service()  # the first one died
    room.pass_time(again, 40)
    while again.following.runs:
        room.clock.sleep(max(again.following.turn(), 0.1))
    assert room.journal.head(run_id).receipt_final


@pytest.mark.further
def test_a_final_receipt_needs_no_second_service(room: ServiceRoom) -> None:
    consumed(room)
    service = room.service()
    room.pass_time(service, 1)
    for _ in range(2000):
        room.clock.sleep(max(service.following.turn(), 0.1))
    assert service.following.runs == ()
    assert room.runs()[0].receipt_final
    assert room.clock() - room.runs()[0].queued_at < timedelta(hours=1)


def _with(room: ServiceRoom, *policies: object) -> object:
    return replace(room.settings, policies=policies)


def manual(room: ServiceRoom, topic: str, *, records: int = 0) -> None:
    """An operator's purge of a topic, from beginning to end."""
    if records:
        room.live.produce(topic, records)
        room.live.commit("any", topic)
    run_id = _manual(room, topic)
    carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None,
        standards=lambda plan: standards(room.settings, room.store, plan.topic_ids, room.clock()),
    )  # fmt: skip


def _manual(room: ServiceRoom, topic: str = TOPIC) -> str:
    """An operator's run of a topic, queued and not yet sent."""
    wanted = PlanRequest((topic,), parse_target("committed"), by="ann")
    read = read_live(room.live, room.settings, room.store, wanted, now=room.clock())
    plan = read.plan([Lift("readers-undeclared", "test")])
    return enqueue(
        room.settings, room.journal, plan, mode="wait-all", confirm=plan.confirmation,
        sha256=plan.sha256, who="ann", token=plan.plan_id, now=room.clock(), start=False,
    )  # fmt: skip
