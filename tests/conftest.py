"""Fixtures of the whole run: the jars and addresses that real brokers start from."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as examples

from dashboard import settings
from dashboard.demo import exporter, jars
from dashboard.demo.server_properties import free_ports

# A shell that starts us in the background lets us ignore Ctrl-C, and so would every process that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines stall, so no example is timed. `make test` tries the same examples each time, so that a
# change is judged by itself; `make test-all` looks for new ones (--hypothesis-profile=roaming).
examples.register_profile(
    "roaming", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
examples.register_profile("steady", examples.get_profile("roaming"), derandomize=True)


@pytest.fixture(scope="session")
def kafka_jars() -> jars.KafkaJars:
    """The jars of the version under test (LOWWATER_KAFKA_VERSION); downloaded on first use."""
    chosen = settings.load()
    return jars.resolve(chosen.kafka_version, chosen.cache_dir)


@pytest.fixture(scope="session")
def exporters() -> dict[int, str]:
    """Where each broker of `cluster` shows its metrics."""
    return {i: exporter.address(port) for i, port in enumerate(free_ports(3), 1)}
