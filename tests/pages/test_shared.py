"""What a page tells of an analysis is made once: a second session computes none of it anew."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.ui import lags, making_room, overview, reclaimable, treemap
from dashboard.ui.growth import what_if
from dashboard.views import facts
from tests.pages import conftest
from tests.pages.conftest import Open, said

_MADE = {
    "overview": ((treemap, "treemap"), (overview, "blockers_listed"), (making_room, "rooms")),
    "reclaimable": ((reclaimable, "frame"), (reclaimable, "_waivable"), (facts, "by_guard")),
    "growth": ((what_if, "outcomes"),),
    "followers": ((lags, "heat"), (lags, "topic_of")),
}


@pytest.mark.parametrize("page", _MADE)
def test_a_second_session_of_an_analysis_shows_what_the_first_one_made(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    made: list[str] = []

    def counted(module: Any, name: str) -> None:
        make = getattr(module, name)

        def made_once(*given: Any, **named: Any) -> Any:
            made.append(name)
            return make(*given, **named)

        monkeypatch.setattr(module, name, made_once)

    for module, name in _MADE[page]:
        counted(module, name)
    first = open_page(page)
    assert {*made} == {name for _, name in _MADE[page]}
    made.clear()

    monkeypatch.setattr(conftest, "new_server", lambda: None)
    second = open_page(page)
    assert not made
    assert len(said(second).splitlines()) == len(said(first).splitlines())
