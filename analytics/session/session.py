"""The Spark session: fast here, or on a cluster by master or remote; our packages for workers; and
of a Spark that runs elsewhere: is it there, has it executors, and is its session still of use?

Figures behind the settings are in docs/architecture.md: with the class-data archive and C1 alone a
local session starts in less than half the time, and small queries need no adaptive planning.

A cluster can be gone at any moment. Spark itself then waits: for executors without an end, for a
Connect server ten minutes. Somebody waits for the findings, so both end here with a reason.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import socket
import socketserver
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
from py4j.protocol import Py4JError
from pyspark import accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import dashboard
from dashboard.core.errors import AnalysisError
from dashboard.core.processes import Java, find_java
from dashboard.settings.settings import Settings
from dashboard.store.local_files import LocalFiles
from dashboard.store.snapshot_files import write_atomically


def archive_path(settings: Settings, java: Java) -> Path:
    """Where the class-data archive of this Java and pyspark lies, whether it exists or not.

    Java takes one with the very files alone that it was made of, and says nothing of another.
    """
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    seen = [
        (jar.name, at.st_ino, at.st_mtime_ns, at.st_size) for jar in jars for at in [jar.stat()]
    ]
    key = hashlib.sha256(repr(seen).encode()).hexdigest()[:12]
    name = f"spark-{pyspark.__version__}-java-{java.version}-{key}".replace("/", "_")
    return settings.cache_dir / "class-data" / f"{name}.jsa"


def is_local(settings: Settings) -> bool:
    """Whether Spark runs inside this process' own JVM."""
    master = settings.spark_master
    return settings.spark_remote is None and (master == "local" or master.startswith("local["))


def open_session(settings: Settings, jvm_options: tuple[str, ...] | None = None) -> SparkSession:
    """A session for the analysis; `jvm_options` replaces the use of the class-data archive.

    Raises SettingsError when Java is missing or too old, AnalysisError when Spark cannot start.
    """
    _say_once_that_java_died()
    # Tasks run in Python: on this machine in this one, whatever is set for other work; on others in
    # the one that is named for them, else where ours is. The first python3 of a PATH has nothing.
    python = None if is_local(settings) else os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    builder = SparkSession.builder.appName("lowwater")
    if settings.spark_remote is not None:
        builder = builder.remote(settings.spark_remote)
        chosen = {}
    else:
        java = find_java()
        chosen = _OWN_JVM | (_local(settings, java, jvm_options) if is_local(settings) else {})
        builder = builder.master(settings.spark_master)
    for key, value in {**chosen, **settings.spark, **_ALWAYS}.items():
        builder = builder.config(key, value)
    try:
        if settings.spark_remote is not None:
            check_answers(settings.spark_remote)
        spark = builder.getOrCreate()
        if settings.spark_remote is not None:
            give_up_sooner(spark)
        if not is_local(settings):
            spark.addArtifacts(str(packed(settings.cache_dir / "python")), pyfile=True)
        return spark
    except (PySparkException, Py4JError, OSError) as error:
        raise AnalysisError(
            f"Spark ({place(settings)}) did not start: {first_line(error)}",
            "Run lowwater doctor; check LOWWATER_SPARK_MASTER and SPARK_REMOTE.",
            code="SPARK_UNAVAILABLE",
        ) from error


def _say_once_that_java_died() -> None:
    """What pyspark and py4j print of a connection whose Java was killed, page after page, is what
    an AnalysisError says in a sentence, with what to do.
    """
    logging.getLogger().addFilter(_without_traceback)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _unless_it_ended  # type: ignore[method-assign,assignment]


def _without_traceback(record: logging.LogRecord) -> bool:
    if record.exc_info and isinstance(record.exc_info[1], Py4JError | OSError):
        record.exc_info = None
    return True


def _unless_it_ended(server: socketserver.BaseServer, request: Any, client: Any) -> None:
    if not isinstance(sys.exc_info()[1], EOFError):
        socketserver.BaseServer.handle_error(server, request, client)


# Without Arrow, pandas and pyspark turn None into 'nan' silently: never fall back.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    # Above it Spark starts a job of its own only to list the files of many snapshots.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}

_OWN_JVM = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
}


def _local(settings: Settings, java: Java, jvm_options: tuple[str, ...] | None) -> dict[str, str]:
    archive = archive_path(settings, java)
    if jvm_options is None:
        jvm_options = (f"-XX:SharedArchiveFile={archive}",) if archive.is_file() else ()
    # The launcher is a second, short-lived JVM that only prints a command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Spark puts the host's outside address into its own; with it set, nothing is looked up.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # C1 alone would make do with a code cache of 48 MB, which a long-lived session fills.
    options = (
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=256m",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-Xlog:disable",
        *jvm_options,
    )
    return driver_memory(machine_memory()) | {
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.python.daemon.module": "analytics.session.daemon",
    }


# Our Python packages as one file, for workers of a cluster that has none of them installed.

_PACKAGES = ("analytics", "dashboard")
_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # the file's name tells its content, and is the same again


def packed(folder: Path) -> Path:
    """A zip of our packages in `folder`, named for its content. Raises StoreError."""
    root = Path(str(dashboard.__file__)).parents[1]
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                entry = zipfile.ZipInfo(str(file.relative_to(root)), _SAME_TIME)
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    content = body.getvalue()
    path = folder / f"lowwater-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        write_atomically(LocalFiles(), str(path), content)
    return path


# How much memory Spark may take on this machine, and what to set where it was too little.

# Java fills what it may: with 2 GiB it took 2.4 of a long session.
_LEAST, _MOST = 512 << 20, 1 << 30
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def driver_memory(machine: int) -> dict[str, str]:
    """Spark's properties for a Java in this process' machine of so many bytes.

    A quarter of them, 512 MiB to 1 GiB: tasks work in Python processes beside it. What tasks answer
    may be half of that, for above it Spark says so, and Java only dies.
    """
    heap = min(max(machine // 4, _LEAST), _MOST) >> 20
    return {"spark.driver.memory": f"{heap}m", "spark.driver.maxResultSize": f"{heap // 2}m"}


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUPS:
        try:
            limit = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        found = min(found, int(limit)) if limit.isdigit() else found
    return found


def too_little(error: BaseException) -> tuple[str, str] | None:
    """What had too little memory, and what to set, where that is why Spark failed; else None."""
    said = f"{type(error).__name__}: {error}"
    for sign, what, setting in _SIGNS:
        if sign in said:
            return what, setting
    return None


_TASKS = (
    'Let fewer tasks run at once (spark_master = "local[1]"; on a cluster spark.executor.cores), '
    "or give them more: spark.executor.memoryOverhead of [spark] on YARN and Kubernetes, else the "
    "machine's own."
)
# In this order: the name of Java's error ends in that of Python's.
_SIGNS = (
    ("OutOfMemoryError", "Spark's Java had too little memory",
     "Set spark.driver.memory in [spark], on a cluster spark.executor.memory too."),
    ("MemoryError", "a task's Python had too little memory", _TASKS),
    ("maxResultSize", "what tasks answered is more than spark.driver.maxResultSize",
     "Set spark.driver.maxResultSize in [spark], and spark.driver.memory to twice as much."),
    ("Python worker exited unexpectedly", "a task's Python was killed, often for want of memory "
     "(dmesg tells)", _TASKS),
)  # fmt: skip


_CONNECT_PORT = 15002
_CONNECT_SECONDS = 10.0
_RETRIES = 6  # waits of 0.05 s, four times as long each: a minute in all
_LOOK_SECONDS = 1.0


def place(settings: Settings) -> str:
    """Where Spark runs, fit for a message: what follows a `;` may be a token."""
    return (settings.spark_remote or settings.spark_master).split(";", 1)[0]


def first_line(error: Exception) -> str:
    """What an error of Spark says first; the rest are traces of two languages."""
    lines = str(error).strip().splitlines()
    causes = [line.strip() for line in lines if line.startswith("Caused by:")]
    told = [line.strip() for line in lines if not line.startswith("An error occurred while")]
    return (causes[-1:] or told[:1] or [type(error).__name__])[0].removeprefix(": ")


def no_connector(error: AnalysisError) -> bool:
    """Whether Spark failed because Hadoop has no file system for the store's URL."""
    cause = str(error.__cause__)
    missing = "No FileSystem for scheme" in cause
    return missing or ("ClassNotFoundException" in cause and "hadoop.fs." in cause)


def check_answers(remote: str) -> None:
    """OSError when nothing listens at a Connect address: pyspark would try for ten minutes."""
    address = urlsplit(remote.split(";", 1)[0])
    if address.scheme == "sc" and address.hostname:
        where = (address.hostname, address.port or _CONNECT_PORT)
        socket.create_connection(where, timeout=_CONNECT_SECONDS).close()


def give_up_sooner(spark: SparkSession) -> None:
    """Let a Connect session try again for a minute, where it would for ten."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = spark.client
    client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


def usable(spark: SparkSession, settings: Settings) -> bool:
    """Whether the session can run another statement, executors or not."""
    try:
        if settings.spark_remote is not None:
            spark.sql("select 1").toArrow()
            return True
        context: Any = spark.sparkContext._jsc
        return not context.sc().isStopped()
    except (PySparkException, Py4JError, OSError, AttributeError):
        return False


@contextmanager
def executors_watched(spark: SparkSession, settings: Settings) -> Iterator[None]:
    """Cancel what runs inside once there was no executor for `spark_wait`, with an AnalysisError.

    Local sessions run in the driver; a Connect server watches its own executors.
    """
    if settings.spark_remote is not None or _in_driver(spark):
        yield
        return
    done, starved = threading.Event(), threading.Event()
    seconds = settings.spark_wait.total_seconds()
    watcher = threading.Thread(
        target=_watch, args=(spark, seconds, done, starved), name="executors", daemon=True
    )
    watcher.start()
    try:
        yield
    except Exception as error:
        if starved.is_set():
            raise _starved(settings) from error
        raise
    finally:
        done.set()
        watcher.join(_LOOK_SECONDS)


def _in_driver(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext._jsc
    return bool(context.sc().isLocal())


def _watch(
    spark: SparkSession, seconds: float, done: threading.Event, starved: threading.Event
) -> None:
    context: Any = spark.sparkContext._jsc
    missed = 0.0
    while not done.wait(_LOOK_SECONDS):
        try:
            # The driver is one of them.
            there = len(context.sc().statusTracker().getExecutorInfos()) - 1
            missed = 0.0 if there > 0 else missed + _LOOK_SECONDS
            if missed >= seconds:
                starved.set()
                context.sc().cancelAllJobs()
        except (Py4JError, OSError):  # Spark is gone: what runs inside fails by itself
            return


def _starved(settings: Settings) -> AnalysisError:
    seconds = settings.spark_wait.total_seconds()
    return AnalysisError(
        f"Spark ({place(settings)}) gave no executor for {seconds:g} s",
        "See on the cluster's page whether workers are there and have the cores and memory that "
        "[spark] asks for (spark.executor.memory, spark.cores.max); spark_wait says how long to "
        "wait.",
        code="SPARK_NO_EXECUTORS",
    )
