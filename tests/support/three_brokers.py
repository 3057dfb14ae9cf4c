"""One real Kafka cluster for all tests of a package; it ends with the last of them.

Idle brokers are not free: a dozen of them take most of a core from the tests that come after.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from dashboard import settings
from dashboard.demo import exporter
from dashboard.demo.brokers import LocalCluster
from dashboard.demo.jars import KafkaJars


@contextmanager
def three_brokers(jars: KafkaJars, exporters: Mapping[int, str]) -> Iterator[LocalCluster]:
    """Three brokers with their metrics at `exporters`; who stops or suspends one brings it back.

    Not in pytest's own temporary folder: that one keeps three runs' worth of Kafka logs.
    """
    agent = exporter.resolve(jars.java, settings.load().cache_dir)
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        flags = {
            i: exporter.flags(agent, urlsplit(url).port or 0, folder)
            for i, url in exporters.items()
        }
        with LocalCluster(folder, jars, jvm_flags=flags) as running:
            yield running
