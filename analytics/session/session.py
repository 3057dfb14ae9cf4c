"""The Spark session: fast here, or on a cluster by master or remote; and our packages for workers.

Figures behind the settings are in docs/architecture.md: with the class-data archive and C1 alone
a local session starts in less than half the time, and small queries need no adaptive planning.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import dashboard
from analytics.session.elsewhere import check_answers, first_line, give_up_sooner, place
from dashboard.core.errors import AnalysisError
from dashboard.core.processes import Java, find_java
from dashboard.settings.settings import Settings
from dashboard.store.local_files import LocalFiles
from dashboard.store.snapshot_files import write_atomically


def archive_path(settings: Settings, java: Java) -> Path:
    """Where the class-data archive of this Java and pyspark lies, whether it exists or not."""
    name = f"spark-{pyspark.__version__}-java-{java.version}".replace("/", "_")
    return settings.cache_dir / "class-data" / f"{name}.jsa"


def is_local(settings: Settings) -> bool:
    """Whether Spark runs inside this process' own JVM."""
    master = settings.spark_master
    return settings.spark_remote is None and (master == "local" or master.startswith("local["))


def open_session(settings: Settings, jvm_options: tuple[str, ...] | None = None) -> SparkSession:
    """A session for the analysis; `jvm_options` replaces the use of the class-data archive.

    Raises SettingsError when Java is missing or too old, AnalysisError when Spark cannot start.
    """
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
