"""The panel that breaks things: on the demo's Overview, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.core import demo_faults
from dashboard.core.demo_faults import Fault
from tests.pages.conftest import Open, said


@pytest.mark.further
def test_outside_of_a_demo_there_is_none(open_page: Open) -> None:
    app = open_page()
    assert "demo" not in said(app)
    assert [button.key for button in app.button if str(button.key).startswith("demo-")] == []


@pytest.mark.further
def test_a_click_asks_and_the_next_takes_it_back(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setenv(demo_faults.MARK, str(room))
    app = open_page()
    for kind, about in demo_faults.KINDS.items():
        assert about.does in said(app)
        assert app.button(key=f"demo-{kind}").label == f"Break a {kind}"

    app.button(key="demo-group").click().run()
    assert demo_faults.asked(room) == {"group"}

    demo_faults.tell(room, Fault("group", "breaking"))
    assert app.run().button(key="demo-group").disabled

    demo_faults.tell(room, Fault("group", "broken", "session-builder has no members"))
    app.run()
    assert "session-builder has no members" in said(app)
    app.button(key="demo-group").click().run()
    assert demo_faults.asked(room) == set()


def test_other_pages_have_none(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(demo_faults.MARK, str(tmp_path))
    app = open_page("reclaimable")
    assert "This is a demo" not in said(app)
    assert [button.key for button in app.button if str(button.key).startswith("demo-")] == []
