"""Prometheus metrics of a test broker, by the JMX exporter's Java agent from Maven Central."""

from __future__ import annotations

from pathlib import Path

from dashboard.demo import ivy

VERSION = "1.0.1"
_AGENT = "jmx_prometheus_javaagent"
# As docs/collect.md says: with every bean a scrape takes minutes.
_RULES = """
lowercaseOutputName: true
includeObjectNames: ["kafka.server:type=BrokerTopicMetrics,*"]
rules:
  - pattern: kafka.server<type=BrokerTopicMetrics, name=(BytesOut|BytesIn|MessagesIn)PerSec, topic=(.+)><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
    labels: {topic: "$2"}
  - pattern: kafka.server<type=BrokerTopicMetrics, name=(BytesOut|BytesIn|MessagesIn)PerSec><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
"""  # noqa: E501


def fetch(java: str, cache_dir: Path) -> Path:
    """The agent's jar, downloaded on first use."""
    home = cache_dir / f"jmx-exporter-{VERSION}"
    jar = home / "jars" / f"{_AGENT}-{VERSION}.jar"
    if not jar.is_file():
        home.mkdir(parents=True, exist_ok=True)
        wanted = [ivy.Artifact("io.prometheus.jmx", _AGENT, VERSION)]
        failure = ivy.retrieve(java, home, wanted, jar.parent)
        assert failure is None, ivy.cause(failure)
    return jar


def flags(agent: Path, port: int, folder: Path) -> list[str]:
    """What a broker's Java needs to answer on a loopback port: http://127.0.0.1:PORT/metrics."""
    rules = folder / "exporter.yaml"
    rules.write_text(_RULES)
    return [f"-javaagent:{agent}=127.0.0.1:{port}:{rules}"]
