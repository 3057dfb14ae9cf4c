"""Brokers' own metrics in the demo: the JMX exporter's Java agent, from Maven Central."""

from __future__ import annotations

from pathlib import Path

from dashboard.broker_metrics.exposition import RULES
from dashboard.core.errors import DemoError
from dashboard.demo.kafka import ivy
from dashboard.demo.kafka.jars import locked

VERSION = "1.0.1"
_AGENT = "jmx_prometheus_javaagent"


def resolve(java: str, cache_dir: Path, *, root: str | None = None) -> Path:
    """The agent's jar, half a megabyte, downloaded on first use into `cache_dir`.

    Raises DemoError EXPORTER_UNAVAILABLE. `root` is the address of another Maven repository.
    """
    home = cache_dir / f"jmx-exporter-{VERSION}"
    jar = home / "jars" / f"{_AGENT}-{VERSION}.jar"
    if jar.is_file():
        return jar
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "lock"):
        if not jar.is_file():
            wanted = [ivy.Artifact("io.prometheus.jmx", _AGENT, VERSION)]
            partial = home / "partial"
            failure = ivy.retrieve(java, home, wanted, partial, root=root)
            if failure is not None:
                raise DemoError(
                    f"the JMX exporter {VERSION} could not be fetched from "
                    f"{root or 'Maven Central'}: {ivy.cause(failure)}",
                    "Check the network; without it brokers' own metrics are not known.",
                    code="EXPORTER_UNAVAILABLE",
                )
            jar.parent.mkdir(exist_ok=True)
            (partial / jar.name).replace(jar)
    return jar


def address(port: int) -> str:
    """Where a broker that runs with `flags` shows its metrics."""
    return f"http://127.0.0.1:{port}/metrics"


def flags(agent: Path, port: int, folder: Path) -> list[str]:
    """What a broker's Java needs to show the short list of beans on a loopback port."""
    rules = folder / "exporter.yaml"
    rules.write_text(RULES, encoding="utf-8")
    return [f"-javaagent:{agent}=127.0.0.1:{port}:{rules}"]
