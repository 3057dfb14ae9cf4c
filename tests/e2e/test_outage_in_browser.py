"""What the header says while brokers are away: one, then all of them, then the collector itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, expect

from dashboard.demo import processes
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from tests.support.browser import browser_page, dashboard_server, keep_screenshot, rests

pytestmark = [pytest.mark.browser, pytest.mark.brokers, pytest.mark.timeout(600)]
SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"
broker_timeout = "2s"
every = "2s"
"""


@contextmanager
def watching(bootstrap: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`lowwater watch` as a process of its own."""
    words = ["watch", "--bootstrap-server", bootstrap, "--name", "test", "--every", "2s"]
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "dashboard.cli.main", *words],
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        processes.stop(process, 10)


def header_says(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".lw-head").first).to_contain_text(text, timeout=120_000)


def test_the_header_tells_one_broker_all_of_them_and_the_watch(
    kafka_jars: KafkaJars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "lowwater.toml"
    settings.write_text(SETTINGS.format(folder=tmp_path))
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    with (
        LocalCluster(tmp_path / "kafka", kafka_jars, brokers=3) as cluster,
        watching(cluster.bootstrap, tmp_path / "watch.log") as watch,
        dashboard_server({}) as url,
        browser_page() as page,
    ):
        admin = AdminClient(client(cluster.bootstrap))
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result()
        page.goto(url)
        header_says(page, "3 of 3 brokers")
        rests(page)
        shown = page.locator(".lw-head").first

        cluster.suspend(3)
        header_says(page, "2 of 3 brokers")
        expect(shown).to_contain_text("⚠ broker 3 did not answer")
        keep_screenshot(page, "outage-one-broker")

        cluster.suspend(1)
        cluster.suspend(2)
        header_says(page, "0 of 3 brokers")
        expect(shown).to_contain_text("⚠ no broker answered")
        alert = page.get_by_role("alert").filter(has_text="The cluster cannot be read")
        expect(alert).to_contain_text("CLUSTER_UNREACHABLE")
        expect(alert).to_contain_text("Next:")
        keep_screenshot(page, "outage-all-brokers")
        page.goto(f"{url}/followers")
        header_says(page, "0 of 3 brokers")
        keep_screenshot(page, "outage-all-brokers-followers")

        for broker in (1, 2, 3):
            cluster.resume(broker)
        header_says(page, "3 of 3 brokers")
        expect(alert).to_have_count(0)

        os.kill(watch.pid, signal.SIGKILL)
        # Killed between two attempts, or in the middle of one.
        header_says(page, re.compile(r"is watch running\?|hangs, or was killed"))
        expect(alert).to_have_count(0)
        keep_screenshot(page, "outage-watch-gone")
