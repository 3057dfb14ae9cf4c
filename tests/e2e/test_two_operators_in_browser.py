"""Two operators and ten clicks at one moment, in two real browser windows: one purge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import follower, resumed, until
from tests.brokers.purge_proof import Left, assert_proved
from tests.support.browser import browser_page, dashboard_server, fresh_page, keep_screenshot

pytestmark = [pytest.mark.browser, pytest.mark.brokers]
SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"
broker_timeout = "20s"

[topics."*"]
owner = "team-e2e"
readers = "groups"
declared_by = "ada"
declared_at = "2026-03-01"
"""
BUTTON = "Purge 1 topic"
# Streamlit answers a click in its own time: all ten leave both windows at the same moment.
FIVE_CLICKS_AT = """(button, at) => setTimeout(() => {
    for (let i = 0; i < 5; i++) button.click()
}, at - Date.now())"""


@pytest.fixture
def bench(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    (tmp_path / "lowwater.toml").write_text(SETTINGS.format(folder=tmp_path))
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
    yield made
    made.close()


def ready_to_purge(page: Page, url: str, topic: str, who: str) -> None:
    """Preview a plan of the topic and type its sentence; the button is on."""
    page.goto(f"{url}/purge?topics={topic}")
    expect(page.get_by_text("Type this sentence to confirm")).to_be_visible()
    name = page.get_by_label("Who", exact=True)
    name.fill(who)
    name.press("Tab")
    page.get_by_label("Confirmation", exact=True).click()
    page.keyboard.type(f"purge {topic} on test", delay=15)
    expect(page.get_by_role("button", name=BUTTON)).to_be_enabled()


def click_together(*pages: Page) -> None:
    """Five clicks in each window, all at once."""
    moment = pages[0].evaluate("Date.now() + 1500")
    for page in pages:
        page.get_by_role("button", name=BUTTON).evaluate(FIVE_CLICKS_AT, moment)


def test_two_operators_and_ten_clicks_are_one_purge(bench: Bench, cluster: LocalCluster) -> None:
    topic = bench.topic(100)
    bench.commit("e2e-two", topic, {0: 60})
    assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "test"]) == 0
    hung = follower(bench, topic)

    with dashboard_server({}) as url, browser_page() as ada:
        assert ada.context.browser is not None
        bob = fresh_page(ada.context.browser)
        ready_to_purge(ada, url, topic, "ada")
        bench.commit("e2e-two", topic, {0: 70})  # another plan: up to 70
        ready_to_purge(bob, url, topic, "bob")
        with resumed(cluster, hung):
            cluster.suspend(hung)  # so that the first run is still open when the second one comes
            click_together(ada, bob)
            until(lambda: any(was_told(page) for page in (ada, bob)))
            second = ada if was_told(ada) else bob
            second.get_by_text("is being purged by run").scroll_into_view_if_needed()
            keep_screenshot(second, "topic-busy")
        (run,) = bench.journal.runs()
        view = bench.wait(run.run_id)
        first = ada if run.who == "ada" else bob
        assert not was_told(first)
        expect(first.get_by_text("done · run")).to_be_visible()

    target = {"ada": 60, "bob": 70}[run.who]
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(target, 100)))
    assert [e.kind for e in bench.journal.entries(run.run_id)].count("queued") == 1
    bench.kill_worker(run.run_id)


def was_told(page: Page) -> bool:
    """Whether this window says that somebody else's run holds the topic."""
    return page.get_by_text("is being purged by run").is_visible()
