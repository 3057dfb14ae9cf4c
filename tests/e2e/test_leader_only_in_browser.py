"""The native leader-only mode from a browser: by brokers that speak DeleteRecords v3, for real."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.demo.kafka import preview
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.journal.journal import Journal
from dashboard.settings import settings
from tests.brokers import preview_cluster
from tests.brokers.purge_faults import until
from tests.e2e.test_purge_in_browser import COMMITTED, TOPIC, all_keep_up, confirm, furnished
from tests.support import class_data
from tests.support.browser import browser_page, dashboard_server, keep_screenshot

pytestmark = [
    pytest.mark.browser,
    pytest.mark.brokers,
    pytest.mark.slow,
    pytest.mark.timeout(600, func_only=True),  # the first one compiles the preview broker
]


@pytest.fixture
def cluster(kafka_jars: KafkaJars) -> Iterator[LocalCluster]:
    """Three preview brokers: no release has v3 (KIP-1343)."""
    if kafka_jars.version != preview.KAFKA_VERSION:
        pytest.skip(f"the preview broker is made from Kafka {preview.KAFKA_VERSION} alone")
    cache = settings.load().cache_dir
    jars = class_data.archived(preview.resolve(kafka_jars.version, cache), cache)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        preview_cluster.start(Path(folder), jars) as running,
    ):
        yield running.brokers


def test_leader_only_is_chosen_confirmed_and_sent_as_v3(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with furnished(cluster, tmp_path) as file:
        monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
        assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "e2e"]) == 0
        with dashboard_server({}) as url, browser_page() as page:
            page.goto(f"{url}/purge?topics={TOPIC}")
            all_keep_up(page)
            expect(page.get_by_text("would be refused with UNSUPPORTED_VERSION")).to_have_count(0)
            modes = page.get_by_role("radiogroup", name="Mode")
            modes.get_by_text("Leader only", exact=True).click()
            keep_screenshot(page, "leader-only-chosen")
            confirm(page)
            expect(page.get_by_text("✔ done · run")).to_be_visible()
            expect(page.get_by_text("leader-only · plan")).to_be_visible()
            expect(page.get_by_text("Followers have followed: every replica of 2")).to_be_visible()
            keep_screenshot(page, "leader-only-done")

        journal = Journal(tmp_path / "state" / "journal.sqlite")
        (run,) = journal.runs()
        assert (run.state, run.mode) == ("done", "leader-only")
        answers = [e.body for e in journal.entries(run.run_id) if e.kind == "answer"]
        assert {answer["api_version"] for answer in answers} == {3}
        rows = journal.partitions(run.run_id)
        assert [row.leader_log_start_offset for row in rows] == [COMMITTED, COMMITTED]
        assert journal.verify().ok
        journal.close()
        keys = [Key(TOPIC, 0), Key(TOPIC, 1)]

        def starts() -> set[int | None]:
            with connect({"bootstrap.servers": cluster.bootstrap}) as live:
                replicas = live.replica_offsets(keys)
            assert len(replicas) == 6
            return {replica.log_start_offset for replica in replicas}

        until(lambda: starts() == {COMMITTED})
