"""A first analysis that nobody waits for: Spark loads its classes, and Python workers begin."""

from __future__ import annotations

import tempfile
from contextlib import suppress

from pyspark.sql import SparkSession

from analytics.job import analyze
from analytics.session.session import is_local
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES


def warm(spark: SparkSession, settings: Settings) -> None:
    """Analyze an empty snapshot in a temporary folder, where Spark runs in this process' JVM.

    It fails silently: the first real analysis is slower then, and tells what is wrong.
    """
    if not is_local(settings):
        return
    with suppress(OSError, LowwaterError), tempfile.TemporaryDirectory() as folder:
        cluster = ClusterStore(Store(folder), "warm")
        writer = cluster.begin("snapshots", utc_now())
        for name, spec in SNAPSHOT_TABLES.items():
            writer.write(name, spec.schema.empty_table())
        writer.commit(0.0, {})
        analyze(spark, cluster, settings, now=utc_now)
