"""Overview: a disk that runs full is triaged there, and its plan is confirmed on Purge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.domain.model import LogDir
from dashboard.triage import answer
from dashboard.triage.selection import Question
from dashboard.ui import making_room
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests
from tests.unit.triage.world import D1, World, ask, read_to_the_end


@pytest.fixture(autouse=True)
def full_from_60_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the sample's disks has 61 % in use."""
    monkeypatch.setattr("dashboard.ui.making_room.FULL", 0.6)
    monkeypatch.setattr("dashboard.ui.making_room._ROOM", 0.5)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """What the page asked; the answer is that of a world where 9 segments can go, 400 MiB safely.

    Where it needs 1 GiB its log dir is offline; at 2 GiB the cluster does not answer.
    """
    found: list[Question] = []

    def triage(_settings: Any, _root: str, cluster: str, question: Question) -> Any:
        found.append(question)
        world = World({("safe", 0): read_to_the_end(4), ("unknown", 0): read_to_the_end(5)})
        if question.need_bytes == 2 << 30:
            raise ClusterError("nobody answers", "Start a broker.")
        if question.need_bytes == 1 << 30:
            world.dirs = [LogDir(2, D1, None, None, "KAFKA_STORAGE_ERROR")]
        said = ask(
            tmp_path / "world", world, question.need_bytes, "safe",
            accept_undeclared=question.accept_undeclared,
        )  # fmt: skip
        return replace(said, plan=said.plan and replace(said.plan, cluster_id=cluster))

    monkeypatch.setattr(answer, "triage", triage)
    return found


def full(app: Any) -> str:
    (label,) = [e.label for e in app.expander if "Make room" in e.label]
    return str(label)


@pytest.fixture
def open_room(open_page: Open) -> Open:
    """Overview with the panel open, as a click opens it."""

    def opened(*args: Any, **query: str) -> Any:
        app = open_page(*args, **query)
        app.session_state["lw-room"] = True
        return app.run()

    return opened


def look(app: Any, need: str) -> Any:
    (field,) = [f for f in app.text_input if f.label == "Bytes needed there"]
    field.set_value(need).run()
    return app.button(key="triage-look").click().run()


def test_a_full_disk_proposes_the_room_that_it_needs(
    open_room: Open, asked: list[Question]
) -> None:
    app = open_room()
    assert "Make room on broker 1 · /d1, 61% full" in full(app)
    app.button(key="triage-look").click().run()
    (question,) = asked
    assert (question.broker_id, question.log_dir) == (1, "/d1")
    assert question.within.total_seconds() == 30 * 60
    assert question.need_bytes == 5 * 2**30  # down to half of 40 GiB


@pytest.mark.further
def test_the_sentences_of_the_triage_lead_to_its_plan(
    open_room: Open, asked: list[Question], requests: Requests
) -> None:
    app = look(open_room(), "300MiB")
    text = said(app)
    assert "Surely enough: 1 partition of 1 topic frees 400.0 MiB on this disk" in text
    assert "retention check every 5 min" in text
    app.button(key="triage-plan").click().run()
    page = said(app)
    assert "Room on broker 2, /data/d1: 1 partition chosen by triage" in page
    assert "purge safe on prod" in page
    assert requests == []  # the plan is the one that the triage made
    app.button(key="drop-handed").click().run()
    assert "chosen by triage" not in said(app)


@pytest.mark.further
def test_what_is_accepted_takes_a_reason(open_room: Open, asked: list[Question]) -> None:
    app = open_room()
    app.checkbox(key="triage-undeclared").check().run()
    assert "Give the reason" in said(app)
    assert app.button(key="triage-look").disabled
    app.text_input(key="triage-reason").set_value("asked all").run()
    look(app, "800MiB")
    assert asked[-1].accept_undeclared == "asked all"
    app.button(key="triage-plan").click().run()
    assert "lifted: readers-undeclared" in said(app)


@pytest.mark.further
def test_an_offline_disk_shows_steps_and_no_plan(open_room: Open, asked: list[Question]) -> None:
    app = look(open_room(), "1GiB")
    assert "KAFKA_STORAGE_ERROR" in said(app)
    assert "<ol><li>Make room beside the segments" in said(app)
    assert "triage-plan" not in {b.key for b in app.button}


@pytest.mark.further
def test_a_cluster_that_does_not_answer_is_told(open_room: Open, asked: list[Question]) -> None:
    assert "nobody answers" in said(look(open_room(), "2GiB"))


def test_while_every_disk_has_room_any_of_them_can_be_asked_for_some(
    open_room: Open, asked: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.ui.making_room.FULL", 0.999)
    monkeypatch.setattr("dashboard.ui.making_room._ROOM", 0.8)
    app = open_room()
    assert "needs room" not in said(app) and "triage-open" not in {b.key for b in app.button}
    assert [e.label for e in app.expander if "Free up space" in e.label] == ["Free up space"]
    app.selectbox(key="triage-disk").select_index(2).run()
    app.button(key="triage-look").click().run()
    assert (asked[0].broker_id, asked[0].need_bytes) == (3, 4 * 2**30)  # a tenth of 40 GiB


def test_a_disk_that_needs_room_says_so_before_all_else_with_three_numbers_and_a_button(
    open_page: Open,
) -> None:
    app = open_page()
    text = said(app)
    assert text.index("broker 1 · /d1 needs room") < text.index("are consumed by every known group")
    alarm = next(html.body for html in app.get("html") if "needs room" in html.proto.body)
    assert "<b>61% full</b>" in alarm and "<b>40 h (32 h to 53 h)</b>" in alarm
    assert "can leave there at once" in alarm
    app.button(key="triage-open").click().run()
    assert next(e for e in app.expander if "Make room" in e.label).proto.expanded


def test_a_disk_that_is_full_within_a_day_alarms_unless_it_may_as_well_stand_still() -> None:
    disk = {"broker_id": 1, "log_dir": "/d", "total_bytes": 100 << 30, "usable_bytes": 60 << 30,
            "reclaimable_bytes": 7, "error": None}  # fmt: skip
    disk |= {"taken_at": utc_now()}
    place = {"taken_at": utc_now(), "topic": None, "broker_id": 1, "log_dir": "/d",
             "growth_per_hour": 1, "used_bytes_per_hour": 1}  # fmt: skip
    soon = place | {"days_to_full": 0.9, "days_to_full_low": 0.5, "days_to_full_high": 1.4}

    def urgent(**growth: Any) -> bool:
        disks, rates = (pa.Table.from_pylist([row]) for row in (disk, soon | growth))
        (room,) = making_room.rooms(disks, rates)
        return room.urgent

    assert urgent()
    assert not urgent(days_to_full=1.1)
    assert not urgent(days_to_full_high=None)


@pytest.mark.further
def test_a_size_that_is_none_is_told(open_room: Open) -> None:
    app = open_room()
    (field,) = [f for f in app.text_input if f.label == "Bytes needed there"]
    field.set_value("much").run()
    assert "Write bytes such as 40GiB" in said(app)


@pytest.mark.further
def test_a_size_may_be_typed_as_people_say_it(open_room: Open, asked: list[Question]) -> None:
    app = look(open_room(), "0.3 TB")
    (field,) = [f for f in app.text_input if f.label == "Bytes needed there"]
    assert (field.value, asked[0].need_bytes) == ("300000000000B", 300_000_000_000)
