"""An S3 server on loopback (moto, a process) and what Spark needs to read from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_SECONDS = 240
_SERVER = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
# The SDK's bundle is 686 MB; these modules and what they need are 18 MB.
SDK = "2.35.4"
PACKAGES = ",".join(
    ["org.apache.hadoop:hadoop-aws:3.5.0"]
    + [f"software.amazon.awssdk:{module}:{SDK}" for module in ("s3", "s3-transfer-manager")]
)
# Spark asks a second repository for every file by itself.
_ONLY_CENTRAL = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def spark_options(endpoint: str, ivy: Path) -> dict[str, str]:
    """`[spark]` for this server; jars are kept in `ivy` from one run to the next."""
    ivy.mkdir(parents=True, exist_ok=True)
    settings = ivy / "settings.xml"
    settings.write_text(_ONLY_CENTRAL)
    return {
        "spark.jars.packages": PACKAGES,
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.jars.ivy": str(ivy),
        "spark.jars.ivySettings": str(settings),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def credentials(endpoint: str) -> dict[str, str]:
    """The variables that both s3fs and Spark read."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "hidden-from-logs",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a server that ends with the block."""
    log = folder / "s3.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdout=file, stderr=file, env=os.environ.copy()
        )
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (said := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())):
            assert time.monotonic() < deadline and process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield said[1]
    finally:
        process.terminate()
        process.wait(120)
