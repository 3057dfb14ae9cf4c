"""The Spark session: settings that make small local jobs fast, and clusters by master or remote.

Figures behind the settings are in docs/architecture.md: with the class-data archive and C1 alone
a local session starts in less than half the time, and small queries need no adaptive planning.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dashboard.errors import AnalysisError, SettingsError
from dashboard.settings import Settings

LEAST_JAVA = 17  # Spark 4's minimum; a later long-term release works too
_JAVA_COMMAND = "sudo apt-get install openjdk-17-jre-headless"


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark will run on: its command, major version and full version text."""

    command: str
    major: int
    version: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The java of JAVA_HOME, else of PATH. Raises SettingsError JAVA_MISSING or JAVA_TOO_OLD."""
    home = environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    try:
        if command is None:
            raise FileNotFoundError("no java on the PATH")
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingsError(
            f"Java was not found, and the analysis (Spark) needs Java {LEAST_JAVA}: {error}",
            f"Install it, on Debian: {_JAVA_COMMAND}; or let JAVA_HOME name it.",
            code="JAVA_MISSING",
        ) from error
    return _accept(command, answer.stderr + answer.stdout)


def _accept(command: str, text: str) -> Java:
    # 'openjdk version "17.0.15" 2025-04-15'; Java 8 calls itself 1.8.0.
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', text)
    major = int(match.group(2)) if match else 0
    version = match.group(1) if match else text.strip()
    if major < LEAST_JAVA:
        raise SettingsError(
            f"{command} is Java {version}, and the analysis (Spark) needs Java {LEAST_JAVA}",
            f"Install it, on Debian: {_JAVA_COMMAND}; or let JAVA_HOME name it.",
            code="JAVA_TOO_OLD",
        )
    return Java(command, major, version)


def archive_path(settings: Settings, java: Java) -> Path:
    """Where the class-data archive of this Java and pyspark lies, whether it exists or not."""
    name = f"spark-{pyspark.__version__}-java-{java.version}".replace("/", "_")
    return settings.cache_dir / "class-data" / f"{name}.jsa"


def is_local(settings: Settings) -> bool:
    """Whether Spark runs inside this process' own JVM."""
    return settings.spark_remote is None and settings.spark_master.startswith("local")


def open_session(settings: Settings, jvm_options: tuple[str, ...] | None = None) -> SparkSession:
    """A session for the analysis; `jvm_options` replaces the use of the class-data archive.

    Raises SettingsError when Java is missing or too old, AnalysisError when Spark cannot start.
    """
    # Workers would otherwise take the first python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("lowwater")
    if settings.spark_remote is not None:
        builder = builder.remote(settings.spark_remote)
        chosen = _ALWAYS
    else:
        chosen = _local(settings, jvm_options) if is_local(settings) else _ALWAYS
        builder = builder.master(settings.spark_master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise AnalysisError(
            f"Spark ({settings.spark_remote or settings.spark_master}) did not start: {error}",
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


def _local(settings: Settings, jvm_options: tuple[str, ...] | None) -> dict[str, str]:
    java = find_java()
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
    return _ALWAYS | {
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
    }
