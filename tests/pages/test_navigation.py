"""The row of pages: each is reached from each other one, and the one that is shown is marked."""

from __future__ import annotations

import re

import pytest

from dashboard.ui.session import routes
from tests.pages.conftest import Open, read, said


@pytest.mark.further_but("overview", "purge")
@pytest.mark.parametrize("page", routes.LISTED)
def test_the_page_that_is_shown_is_marked_for_screen_readers_too(
    open_page: Open, page: str
) -> None:
    app = open_page(page)
    marked = re.findall(
        r'<a href="([^"]+)" target="_self" aria-current="page">(.*?)</a>', said(app)
    )
    assert marked == [("./" if page == "overview" else page, routes.TITLES[page])]
    shown = [read(link.label) for link in app.page_link][: len(routes.LISTED) - 1]
    assert shown == [routes.TITLES[name] for name in routes.LISTED if name != page]


def test_on_a_page_that_is_not_in_the_row_none_is_marked(open_page: Open) -> None:
    assert "aria-current" not in said(open_page("topic", name="orders"))
