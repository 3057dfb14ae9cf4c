"""Runs in flight are counted by themselves: one that ends, or never starts, hides no other. What
an earlier cycle came to hides no error of a later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.core.errors import ClusterError, RefusedError
from dashboard.policies.service.outcome import Outcome, Statuses, of_error
from dashboard.policies.service.purging import Job
from tests.unit.policies.service_room import ServiceRoom

TOPIC, OTHER = "billing-sum-repartition", "billing-join-repartition"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    made.live.topic(TOPIC)
    made.live.topic(OTHER)
    made.live.commit("billing", OTHER)
    consumed(made, TOPIC)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def consumed(room: ServiceRoom, topic: str) -> None:
    room.live.produce(topic, 10)
    room.live.commit("billing", topic)


def test_a_run_that_is_taken_over_beside_another_of_its_application_hides_it_not(
    room: ServiceRoom,
) -> None:
    first = room.service(start=lambda _: None)
    first.turn()
    first.close()  # with its run queued, as one that is killed
    jobs: list[Job] = []
    service, tidied = room.service(start=jobs.append), []
    service.link.tidy = lambda: tidied.append(1)  # type: ignore[method-assign]
    consumed(room, OTHER)
    room.pass_time(service, 40)
    old, new = (run.run_id for run in room.runs())
    assert service.applications.in_flight == {old, new}
    taken_over = jobs[1]
    taken_over()
    assert [run.state for run in room.runs()] == ["done", "queued"]
    assert service.applications.in_flight == {new}
    assert tidied == [], "the other run uses the connection"
    consumed(room, TOPIC)
    room.pass_time(service, 30)
    assert len(room.runs()) == 2, "its application is busy still"
    jobs[0]()
    assert (service.applications.in_flight, tidied) == (frozenset(), [1])


def test_a_run_that_could_not_be_started_is_taken_over_later(room: ServiceRoom) -> None:
    failures = [RuntimeError("can't start new thread")]

    def start(job: Job) -> None:
        if failures:
            raise failures.pop()
        job()

    service = room.service(start=start)
    service.turn()
    assert service.applications.in_flight == frozenset()
    assert "can't start new thread" in room.status()["reason"]
    room.pass_time(service, 40)
    assert room.runs()[0].state == "done"
    assert room.live.log_start(TOPIC) == 10


def test_a_plan_that_got_no_answer_is_told_once_and_shown_until_one_is_made(
    room: ServiceRoom,
) -> None:
    service = room.service()
    room.pass_time(service, 1)
    consumed(room, TOPIC)
    room.live.failing["offsets"] = ClusterError("the leader hung up", "Look at its log.")
    room.pass_time(service, 60)
    status = room.status()
    assert status["state"] == "waiting"
    assert [e["code"] for e in status["errors"]] == ["CLUSTER_UNREACHABLE"]
    assert status["reason"].startswith("billing: the leader hung up")
    told = [(event["state"], event["code"]) for event in room.told("cycle")]
    assert told == [("ran", None), ("waiting", "CLUSTER_UNREACHABLE")]
    room.live.failing.clear()
    room.pass_time(service, 6)
    assert (room.live.log_start(TOPIC), room.status()["errors"]) == (20, [])


@pytest.mark.parametrize(("code", "shown"), [("TOO_SOON", "nothing"), ("LEADER_LOST", "waiting")])
def test_a_plan_that_comes_too_soon_only_waits_for_its_time(
    room: ServiceRoom, code: str, shown: str
) -> None:
    """Somebody purged the partition by hand meanwhile; the other one is an error."""
    statuses = Statuses(room.journal, room.live.id, "prod", room.events.append)
    refused = RefusedError("nothing was queued", "Wait.", code=code)
    for outcome in (Outcome("nothing", "none", "billing"), of_error(refused, "billing")):
        statuses.note("streams", outcome, room.clock())
    statuses.looked("streams", ["billing"], topics=1, partitions=1, next_at=None, now=room.clock())
    assert room.status()["state"] == shown
