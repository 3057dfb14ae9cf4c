"""A Spark cluster of the pip package: a master and workers as processes on loopback ports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
import venv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pyspark
from packaging.requirements import Requirement

HOME = Path(pyspark.__file__).parent
_PATIENCE_SECONDS = 120
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What a driver must be told for such a cluster, in LOWWATER_SPARK_CONF's words.
OPTIONS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _QUICK_JVM,
    "spark.executor.extraJavaOptions": _QUICK_JVM,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
}


@dataclass
class Daemon:
    """One process of Spark and the log it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> str:
        """The first group of `pattern` as soon as its log has it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text(errors="replace")):
                return found[1]
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            time.sleep(0.05)
        raise AssertionError(f"{pattern} is not in {self.log}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Standalone:
    """A master and its workers, of one core each; `folder` holds their logs and work folders."""

    folder: Path
    master: Daemon
    workers: list[Daemon] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.master.said(r"Starting Spark master at (spark://\S+)")

    def state(self) -> dict[str, Any]:
        """What the master's page tells: workers, active and completed applications."""
        port = self.master.said(r"MasterWebUI.*started at http://\S+:(\d+)")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=30) as answer:
            return dict(json.load(answer))

    def add_worker(self) -> Daemon:
        number = len(self.workers)
        worker = daemon(
            self.folder, f"worker-{number}", "org.apache.spark.deploy.worker.Worker",
            "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "512m",
            "--work-dir", str(self.folder / f"work-{number}"), self.url,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def finished_tasks(self, worker: int) -> int:
        """How many tasks the executors of a worker have told as finished."""
        logs = (self.folder / f"work-{worker}").glob("app-*/*/stderr")
        return sum(log.read_text(errors="replace").count("Finished task ") for log in logs)


def bare_python(folder: Path, *more: str) -> Path:
    """A Python with numpy and pyarrow alone, and no package of ours: a machine of a cluster.

    `more`: packages that stand there too, with all that they require.
    """
    venv.create(folder)
    (own,) = folder.glob("lib/python*/site-packages")
    for name in sorted({"numpy", "pyarrow", *_with_requirements(more)}):
        package = metadata.distribution(name)
        for top in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            if not own.joinpath(top).exists():
                own.joinpath(top).symlink_to(package.locate_file(top))
    return folder / "bin" / "python"


def _with_requirements(names: Iterable[str]) -> set[str]:
    """These packages and what they require, extras aside."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            asked = map(Requirement, metadata.requires(name) or ())
            left += [r.name for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def daemon(folder: Path, name: str, *words: str, memory: str = "256m") -> Daemon:
    """Start a class of Spark; its log lies beside it, loopback is all it binds to."""
    log = folder / f"{name}.log"
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": _QUICK_JVM,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_JVM,
    }
    command: Sequence[str] = [str(HOME / "bin" / "spark-class"), *words]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment
        )
    return Daemon(process, log)


@contextmanager
def standalone(folder: Path, workers: int = 2, port: int = 0) -> Iterator[Standalone]:
    """A cluster with its workers registered; none of its processes is left afterwards."""
    words = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--webui-port", "0")
    cluster = Standalone(folder, daemon(folder, "master", *words, "--port", str(port)))
    try:
        for worker in [cluster.add_worker() for _ in range(workers)]:
            worker.said("(Successfully registered with master)")
        yield cluster
    finally:
        for one in [*cluster.workers, cluster.master]:
            one.process.terminate()  # a worker ends its executors itself
        for one in [*cluster.workers, cluster.master]:
            try:
                one.process.wait(30)
            except subprocess.TimeoutExpired:
                one.kill()
