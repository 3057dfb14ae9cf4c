"""From the Overview to a finished purge with its receipt: real brokers, real Spark, a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Locator, Page, expect

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.journal.journal import Journal
from tests.brokers.workload import commit
from tests.support.browser import browser_page, dashboard_server, keep_screenshot, rests

pytestmark = [
    pytest.mark.browser,
    pytest.mark.brokers,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]
TOPIC = "e2e-invoices"
RECORDS, COMMITTED = 4000, 3000
SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"

[topics."e2e-*"]
owner = "team-e2e"
readers = "groups"
declared_by = "ada"
declared_at = "2026-03-01"
"""


@pytest.fixture
def settings_file(cluster: LocalCluster, tmp_path: Path) -> Iterator[Path]:
    with furnished(cluster, tmp_path) as path:
        yield path


@contextmanager
def furnished(cluster: LocalCluster, folder: Path) -> Iterator[Path]:
    """A topic with a group that has read three quarters of it, and settings that declare it."""
    admin = AdminClient(client(cluster.bootstrap))
    config = {"segment.bytes": "1048576", "file.delete.delay.ms": "1000"}
    admin.create_topics([NewTopic(TOPIC, 2, 3, config=config)])[TOPIC].result()
    producer = Producer(client(cluster.bootstrap))
    for partition in (0, 1):
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"x" * 1000, partition=partition)
        producer.flush()
    read = dict.fromkeys((Key(TOPIC, 0), Key(TOPIC, 1)), COMMITTED)
    commit({"bootstrap.servers": cluster.bootstrap}, "e2e-billing", read)
    path = folder / "lowwater.toml"
    path.write_text(SETTINGS.format(folder=folder))
    yield path
    admin.delete_topics([TOPIC])[TOPIC].result()


def purge_the_safest(page: Page) -> None:
    """By keyboard alone, from an Overview that has just opened."""
    tab_to(page, page.get_by_role("button", name="Plan the safest"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Type this sentence to confirm")).to_be_visible()
    keep_screenshot(page, "purge-preview")
    modes = page.get_by_role("radiogroup", name="Mode")
    leader_only = modes.locator("input").nth(1)
    tab_to(page, modes)
    page.keyboard.press("ArrowRight")
    expect(leader_only).to_be_checked()
    page.keyboard.press("ArrowLeft")
    expect(leader_only).not_to_be_checked()
    tab_to(page, page.get_by_label("Confirmation", exact=True))
    page.keyboard.type(f"purge {TOPIC} on e2e", delay=15)
    button = page.get_by_role("button", name="Purge 1 topic")
    expect(button).to_be_enabled()
    keep_screenshot(page, "purge-confirm")
    tab_to(page, button, 3)
    page.keyboard.press("Enter")


def tab_to(page: Page, target: Locator, most: int = 45) -> None:
    """Press Tab until the focus is there, as somebody without a mouse must."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if target.evaluate("it => it.contains(document.activeElement)"):
            return
    where = page.evaluate("document.activeElement.outerHTML.slice(0, 300)")
    raise AssertionError(f"{most} times Tab did not reach {target}; the focus is on {where}")


def confirm(page: Page) -> None:
    field = page.get_by_label("Confirmation", exact=True)
    field.click()
    page.keyboard.type(f"purge {TOPIC} on e2e", delay=15)
    button = page.get_by_role("button", name="Purge 1 topic")
    expect(button).to_be_enabled()
    keep_screenshot(page, "purge-confirm")
    button.click()


def test_from_overview_to_a_finished_purge_with_its_receipt(
    cluster: LocalCluster,
    settings_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings_file))
    assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "e2e"]) == 0
    assert main(["analyze"]) == 0
    outside: list[str] = []

    with dashboard_server({}) as url, browser_page(outside) as page:
        page.goto(url)
        expect(page.get_by_role("button", name="Plan the safest")).to_be_visible()
        rests(page)
        keep_screenshot(page, "overview")
        purge_the_safest(page)
        expect(page.get_by_text("✔ done · run")).to_be_visible()
        # Segments leave at the next retention check, every 5 s here.
        expect(page.locator(".lw-state .lw-counts")).to_contain_text("MiB")
        expect(page.locator(".lw-state .lw-counts")).not_to_contain_text("0 B")
        keep_screenshot(page, "purge-receipt")

    assert outside == []
    journal = Journal(settings_file.parent / "state" / "journal.sqlite")
    (run,) = journal.runs()
    assert (run.state, run.who) == ("done", "ada")
    assert run.receipt is not None and (run.receipt.freed_bytes or 0) > 0
    assert journal.verify().ok
    journal.close()
    keys = [Key(TOPIC, 0), Key(TOPIC, 1)]
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        replicas = live.replica_offsets(keys)
    assert len(replicas) == 6
    assert {replica.log_start_offset for replica in replicas} == {COMMITTED}


def all_keep_up(page: Page) -> None:
    """The page asks the brokers once: on a machine that stalls it has to be told to ask again."""
    said = page.get_by_text("Every live replica keeps up")
    for _ in range(5):
        with suppress(AssertionError):
            expect(said).to_be_visible(timeout=15_000)
            return
        page.get_by_role("button", name="Refresh").click()
    expect(said).to_be_visible()


def test_leader_only_verified_is_chosen_by_what_the_brokers_say(
    cluster: LocalCluster,
    settings_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings_file))
    assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "e2e"]) == 0

    with dashboard_server({}) as url, browser_page() as page:
        page.goto(f"{url}/purge?topics={TOPIC}")
        all_keep_up(page)
        expect(page.get_by_text("would be refused with UNSUPPORTED_VERSION")).to_be_visible()
        page.get_by_text("Leader only, verified", exact=True).click()
        confirm(page)
        expect(page.get_by_text("✔ done · run")).to_be_visible()

    journal = Journal(settings_file.parent / "state" / "journal.sqlite")
    (run,) = journal.runs()
    assert (run.state, run.mode) == ("done", "leader-only-verified")
    assert {r.leader_log_start_offset for r in journal.partitions(run.run_id)} == {COMMITTED}
    assert journal.verify().ok
    journal.close()
