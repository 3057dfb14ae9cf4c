"""Every page, popover, unfolded part and dialog, light and dark: no rule of axe-core is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Page, expect

from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.ui.session.routes import TITLES
from tests.brokers.purge_bench import Bench
from tests.support import archives, axe, marked, sample_store
from tests.support.browser import Theme, browser_page, dashboard_server, rests

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
THEMES: tuple[Theme, ...] = get_args(Theme)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a rich store with a policy and an archive."""
    folder = tmp_path_factory.mktemp("accessible")
    sample_store.write(folder / "data", "rich")
    file = marked.settings_file(folder, "prod-eu", "127.0.0.1:9")
    kept = {"orders": {0: archives.records(1200)}}
    archives.write(folder / "kept", kept, cluster_id=sample_store.CLUSTER_ID)
    with file.open("a") as settings:
        settings.write(f'\n[archive]\nurl = "{folder}/kept"\n')
    with dashboard_server({"LOWWATER_SETTINGS": str(file)}) as url:
        yield url


@pytest.mark.parametrize("theme", THEMES)
def test_every_page_and_what_opens_on_it(pages: str, theme: Theme) -> None:
    broken: dict[str, list[str]] = {}

    with browser_page(theme=theme) as page:
        for name in TITLES:
            page.goto(f"{pages}/{'' if name == 'overview' else name}")
            rests(page)
            broken[name] = axe.violations(page)
            broken[f"{name}, unfolded"] = unfolded(page)
            broken[f"{name}, popovers"] = popovers(page)
        page.goto(pages)
        rests(page)
        page.get_by_role("button", name="Report", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        expect(page.get_by_role("button", name="Paper (PDF)")).to_be_visible()
        broken["report"] = axe.violations(page)
        page.goto(pages)
        rests(page)
        page.get_by_role("button", name="Help", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("low watermark")
        broken["help"] = axe.violations(page)
        for address in (
            "purge?topics=orders",
            "purge?run=nothing",
            "audit?archives=true",
            "reclaimable?topic=orders",
            "topic?name=orders",
            "group?name=billing-replay",
            "broker?name=3",
        ):
            page.goto(f"{pages}/{address}")
            rests(page)
            broken[address] = axe.violations(page)

    assert {place: found for place, found in broken.items() if found} == {}


@pytest.mark.brokers
@pytest.mark.parametrize("theme", THEMES)
def test_a_purge_from_its_preview_to_its_receipt(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: Theme
) -> None:
    monkeypatch.setenv(
        "LOWWATER_SETTINGS",
        str(marked.settings_file(tmp_path, "test", cluster.bootstrap, topics="none")),
    )
    broken: dict[str, list[str]] = {}
    bench = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    try:
        topic = bench.topic(100, 50)
        bench.commit("accessible", topic, {0: 60})
        assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "test"]) == 0
        with dashboard_server({}) as url, browser_page(theme=theme) as page:
            page.goto(f"{url}/purge?topics={topic}")
            expect(page.get_by_text("Type this sentence to confirm")).to_be_visible()
            rests(page)
            broken["preview"] = axe.violations(page)
            page.get_by_label("Confirmation", exact=True).click()
            page.keyboard.type(f"purge {topic} on test", delay=15)
            button = page.get_by_role("button", name="Purge 1 topic")
            expect(button).to_be_enabled()
            broken["ready"] = axe.violations(page)
            button.click()
            expect(page.get_by_text("✔ done · run")).to_be_visible()
            broken["receipt"] = axe.violations(page)
            page.goto(f"{url}/audit")
            rests(page)
            broken["audit"] = axe.violations(page)
    finally:
        bench.close()

    assert {place: found for place, found in broken.items() if found} == {}


def unfolded(page: Page) -> list[str]:
    """What axe says once everything that folds is open."""
    parts = page.locator("[data-testid=stExpander] details:not([open]) > summary")
    if not parts.count():
        return []
    while parts.count():
        parts.first.click()
        page.wait_for_timeout(200)
    rests(page)
    return axe.violations(page)


def popovers(page: Page) -> list[str]:
    """What axe says of each popover that is open."""
    found: list[str] = []
    buttons = page.locator("[data-testid=stPopoverButton]")
    for at in range(buttons.count()):
        buttons.nth(at).click()
        expect(page.locator("[data-testid=stPopoverBody]")).to_be_visible()
        page.wait_for_timeout(300)
        found += axe.violations(page)
        page.keyboard.press("Escape")
    return found
