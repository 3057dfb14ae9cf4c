"""Reads one number of a broker's JMX, by the JmxTool of Kafka's tools, on loopback only."""

from __future__ import annotations

import subprocess

from dashboard.demo.kafka.jars import KafkaJars
from tests.support import class_data


def flags(port: int) -> list[str]:
    """What a broker's Java needs to answer JMX on a loopback port."""
    here = "com.sun.management.jmxremote"
    return [
        f"-D{here}.port={port}",
        f"-D{here}.rmi.port={port}",
        f"-D{here}.host=127.0.0.1",
        f"-D{here}.authenticate=false",
        f"-D{here}.ssl=false",
        "-Djava.rmi.server.hostname=127.0.0.1",
    ]


def gauge(jars: KafkaJars, port: int, name: str, operation: str) -> int:
    """One gauge of a broker's purgatory of `operation`, such as DeleteRecords."""
    bean = f"kafka.server:type=DelayedOperationPurgatory,name={name},delayedOperation={operation}"
    done = subprocess.run(
        [
            *class_data.java(jars), "org.apache.kafka.tools.JmxTool",
            "--one-time", "--report-format", "csv",
            "--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi",
            "--object-name", bean, "--attributes", "Value",
        ],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(done.stdout.strip().splitlines()[-1].rpartition(",")[2].strip('"'))
