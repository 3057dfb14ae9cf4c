"""Fixtures of the whole run: the jars that real brokers start from, and the ports."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as examples
from hypothesis.internal.conjecture import providers

from dashboard.demo.kafka import brokers, jars
from dashboard.settings import settings, settled_file
from tests import levels, sharing, thorough
from tests.support import class_data, memory_disk
from tests.support.examples import SHARE

# A shell that starts us in the background lets us ignore Ctrl-C, and so would every process that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

memory_disk.use()

# Processes side by side share the cores: Arrow's own threads in each are in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Servers of tests stand on this machine, also where a proxy leads to all others.
known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
os.environ["no_proxy"] = ",".join(filter(None, ("127.0.0.1", "localhost", known)))

# The objects of thousands of modules stay to the end: looking through them for garbage took up to
# a tenth of all processor time.
gc.set_threshold(20_000, 20, 20)

# What a test has just written is whole; those of half-written files wait as users do.
settled_file.QUIET_SECONDS = 0.0

# A port is looked for some time before its broker listens: processes side by side look apart.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    first = 15_000 + int(worker.removeprefix("gw")) % 5 * 3_400
    brokers.PORTS = range(first, first + 3_400)

# Machines stall, so no example is timed. `make test` tries the same examples each time, so that a
# change is judged by itself; `make test-all` looks for new ones (--hypothesis-profile=roaming).
examples.register_profile(
    "roaming", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
usual = examples.get_profile("roaming")
examples.register_profile(
    "steady", usual, derandomize=True, max_examples=usual.max_examples // SHARE
)


def pytest_configure(config: pytest.Config) -> None:
    """Keep what else was imported out of the steady profile's examples.

    Hypothesis draws constants of all local modules that are loaded, and which those are depends on
    the files that this worker ran before. Its names are private: without one nothing is run.
    """
    if config.getoption("--hypothesis-profile") is None:
        examples.load_profile("steady")
        assert callable(providers._get_local_constants)
        none = providers._local_constants
        providers._get_local_constants = lambda: none


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import this worker's share of the test files before all workers collect all of them.

    In a fresh clone pytest compiles each file that it imports, and keeps what came out: workers
    that go through the same files in the same order would each compile them all.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for module in sharing.modules(session.config.args, session.config.rootpath)[number::workers]:
        with suppress(Exception, pytest.skip.Exception):  # collecting tells of them
            importlib.import_module(module)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args == config.getini("testpaths"):
        names = thorough.unknown(item.nodeid for item in items)
        assert not names, f"tests/thorough.py names what is not there: {names}"
        config.stash[levels.UNBORNE] = levels.unborne(items)
    for item in items:
        if levels.is_further(item):
            item.add_marker(pytest.mark.further)
        if thorough.is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)
    items.sort(key=lambda item: sharing.rank(item.nodeid.split("::", 1)[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing.Together | None:
    return sharing.Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def kafka_jars() -> jars.KafkaJars:
    """The jars of the version under test (LOWWATER_KAFKA_VERSION); downloaded on first use."""
    chosen = settings.load()
    found = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    return class_data.archived(found, chosen.cache_dir)
