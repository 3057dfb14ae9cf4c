"""What a browser that has nothing of the pages must fetch before it shows one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dashboard.ui.session.routes import TITLES
from tests.bench.bench_first_visit import first_and_second
from tests.support import sample_store
from tests.support.browser import dashboard_server, launched

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
MOST_BYTES = 2_300_000  # Growth and Orphans, with charts and tables, are 2.1 MB
THINGS = {"topic": "?name=orders", "group": "?name=billing-replay", "broker": "?name=3"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a rich store."""
    folder = tmp_path_factory.mktemp("first-visit")
    sample_store.write(folder / "data", "rich")
    environ = {"LOWWATER_DATA": str(folder / "data"), "LOWWATER_STATE_DIR": str(folder / "state")}
    with dashboard_server(environ) as url:
        yield url


def test_no_first_visit_carries_more_than_a_tunnel_bears_and_the_next_one_next_to_nothing(
    pages: str,
) -> None:
    carried: dict[str, int] = {}
    again: dict[str, int] = {}
    with launched() as browser:
        for name in TITLES:
            address = f"{pages}/{'' if name == 'overview' else name}{THINGS.get(name, '')}"
            first, second = first_and_second(browser, address)
            carried[name], again[name] = first.size_bytes, second.size_bytes
    assert {name: size for name, size in carried.items() if size > MOST_BYTES} == {}
    assert min(carried.values()) > 300_000, "what is counted is what a page is made of"
    assert {name: size for name, size in again.items() if size > 500_000} == {}
