"""What this machine lacks or has taken already; words about its demo, its ports and disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dashboard.demo import state
from dashboard.demo.state import DemoState, ProcessId
from tests.bad_inputs.case import Case, Make, both, env, live, no_env, text

HTTP = "http://127.0.0.1:1/d"


def demo(_: pytest.MonkeyPatch) -> None:
    """A demo of this very process, whose brokers are not up yet."""
    ours = ProcessId.of(os.getpid())
    state.write(Path("state"), DemoState(ours, "/nowhere", "running", "4.3.1", "d", "s"))


def wrong(name: str, make: Make | None, words: str, code: str, word: str) -> Case:
    return Case(name, make, words, code, 1, word)


def sweep(broker: int) -> Make:
    return text("logs/meta.properties",
                f"cluster.id=sAmpLeCLusTer0000000x1\nnode.id={broker}\n")  # fmt: skip


CASES = [
    wrong("a demo to load that does not run", None, "demo load", "DEMO_NOT_RUNNING", "no demo"),
    wrong("a demo to load that only begins", demo, "demo load", "DEMO_STARTING", "not up yet"),
    wrong("a second demo", demo, "demo up", "DEMO_RUNNING", "runs already"),
    wrong("a demo in the folder of a real cluster", None, "demo up --data data", "FOLDER_TAKEN",
          "prod-eu"),
    wrong("a preview of another Kafka", env(LOWWATER_KAFKA_VERSION="3.9.2"),
          "demo up --leader-only-preview", "PREVIEW_VERSION", "3.9.2"),
    wrong("a Kafka that is no version", env(LOWWATER_KAFKA_VERSION="../../x"), "demo up",
          "KAFKA_VERSION_INVALID", "../../x"),
    wrong("no Java", both(env(PATH="/nowhere"), no_env("JAVA_HOME")), "demo up", "JAVA_MISSING",
          "java"),
    wrong("a Java that is none", env(JAVA_HOME="text"), "demo up", "JAVA_MISSING", "text"),
    wrong("metrics on a port that is taken", None, "metrics --port $PORT", "PORT_TAKEN", "$PORT"),
    wrong("pages on a port that is taken", None, "dashboard --port $PORT", "PORT_TAKEN", "$PORT"),
    wrong("pages at an address that is none", None, "dashboard --address nowhere",
          "ADDRESS_INVALID", "nowhere"),
    wrong("pages for everybody", None, "dashboard --address 0.0.0.0", "ADDRESS_OPEN", "0.0.0.0"),
    wrong("pages behind a proxy without https", None, "dashboard --behind-proxy http://h",
          "PROXY_INVALID", "http://h"),
    wrong("pages behind a proxy that is no address", None, "dashboard --behind-proxy 'https://[::1'",
          "PROXY_INVALID", "https://[::1"),
    wrong("metrics at an address that is none", None, "metrics --host nowhere.invalid --port 0",
          "PORT_TAKEN", "nowhere.invalid"),
    wrong("a store at an address that nobody answers", None, f"findings holds --data {HTTP}",
          "STORE_UNREACHABLE", HTTP),
    wrong("a triage of a broker that nobody knows", live(),
          "triage --broker 99 --need 1GiB --within 1h --out p", "BROKER_NOT_FOUND", "broker 99"),
    wrong("a triage of a broker below zero", live(),
          "triage --broker -5 --need 1GiB --within 1h --out p", "BROKER_NOT_FOUND", "broker -5"),
    wrong("a triage of a log dir that is not there", live(lambda c: c.alive.discard(1)),
          "triage --broker 1 --log-dir /nowhere --need 1GiB --within 1h --out p",
          "LOG_DIR_NOT_FOUND", "/nowhere"),
    wrong("a folder to restore that was never set aside", both(live(), sweep(9)),
          "orphans sweep --log-dirs logs --bootstrap-server h:1 --restore nothing",
          "QUARANTINED_UNKNOWN", "nothing"),
    Case("a folder to restore while all is read-only",
         both(live(), sweep(9), text("lowwater.toml", "read_only = true")),
         "orphans sweep --log-dirs logs --bootstrap-server h:1 --restore nothing", "READ_ONLY", 3,
         "read_only of the settings (lowwater.toml)"),
]  # fmt: skip
