"""The service's threads: runs end in good order, what dies beside them is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.policies.run import _once, _Told
from dashboard.core.clock import utc_now
from dashboard.core.processes import Stop
from dashboard.policies.service.purging import Site
from dashboard.policies.service.service import Service, _Flights, serve
from dashboard.settings.current import CurrentSettings
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    made.settings = replace(made.settings, broker_timeout=timedelta(seconds=5))
    made.live.topic(TOPIC)
    made.live.produce(TOPIC, 10)
    made.live.commit("billing", TOPIC)
    yield made
    made.journal.close()


def served(room: ServiceRoom, stop: Stop, **change: Any) -> Service:
    current = CurrentSettings(room.settings)
    site = Site(current, room.store, room.journal, utc_now, time.sleep)
    return serve(site, lambda: room.live, emit=room.events.append, stop=stop, **change)


def stopped_when(said: Callable[[], bool]) -> Stop:
    """Set once something is so, at the latest after 240 s."""
    stop = Stop()

    def watch() -> None:
        until = time.monotonic() + 240
        while not said() and time.monotonic() < until:
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    return stop


def test_a_run_in_flight_ends_before_the_service_does(room: ServiceRoom) -> None:
    sending, whole = threading.Event(), room.live.delete_records

    def slow(*args: Any, **options: Any) -> Any:
        sending.set()
        time.sleep(0.5)  # it is told to stop meanwhile
        return whole(*args, **options)

    room.live.delete_records = slow  # type: ignore[method-assign]
    served(room, stopped_when(sending.is_set))
    assert [run.state for run in room.runs()] == ["done"]
    assert room.journal.lease(room.live.id) is None


def test_a_single_cycle_does_not_say_well_done_of_a_run_that_it_leaves_in_flight(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, answered, whole = threading.Event(), threading.Event(), room.live.delete_records

    def hangs(*args: Any, **options: Any) -> Any:
        sending.set()
        answered.wait(60)
        return whole(*args, **options)

    def patience(*_: Any) -> None:
        assert sending.wait(60)

    room.live.delete_records = hangs  # type: ignore[method-assign]
    monkeypatch.setattr(_Flights, "wait", patience)  # it is over before the broker answers
    told = _Told(as_json=True)
    service = served(room, told.stop, once=True)
    try:
        assert _once(service, told) == 2
    finally:
        answered.set()
    while service.applications.in_flight:
        time.sleep(0.01)
    assert _once(service, told) == 0


def test_what_fails_beside_the_service_is_told_and_stops_nothing(room: ServiceRoom) -> None:
    looked = threading.Event()

    def broken() -> None:
        raise ZeroDivisionError("no alert today")

    def over() -> bool:
        return bool(room.runs() and room.told("error")) and looked.is_set()

    served(room, stopped_when(over), beside=(broken, looked.set))
    assert room.runs() and looked.is_set()
    assert "no alert today" in room.told("error")[0]["error"]["message"]


def test_the_service_follows_what_it_purged(room: ServiceRoom) -> None:
    def receipt() -> bool:
        return bool(room.runs() and room.runs()[0].receipt)

    served(room, stopped_when(receipt))
    assert room.runs()[0].receipt is not None
