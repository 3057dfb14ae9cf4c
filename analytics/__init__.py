"""PySpark jobs that turn snapshots into findings; `open` hands both to notebooks.

Importing it costs nothing: pyspark, pyarrow and pandas come with the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from analytics.opened import Cluster

__all__ = ["archive", "open", "to_pandas"]


def open(
    data: str | None = None,
    *,
    cluster: str | None = None,
    snapshot: str | None = None,
    settings: str | None = None,
) -> Cluster:
    """The tables of one cluster as Spark DataFrames: `lw.open("data").findings("reclaimable")`.

    `data` is the folder or URL of the snapshots (None: as settings say, LOWWATER_DATA or
    lowwater.toml), `cluster` a name or id where there are several, `snapshot` an id (None: the
    newest analyzed one), `settings` another settings file. Opens no Spark session yet. Raises
    StoreError (nothing there, unknown cluster or snapshot) and SettingsError.
    """
    from analytics.opened import open_cluster

    return open_cluster(data, cluster=cluster, snapshot=snapshot, settings=settings)


def archive(where: str, *, topic: str | None = None, settings: str | None = None) -> DataFrame:
    """The records of a run's archive, a row each: `lw.archive("kept/CLUSTER_ID/RUN_ID")`.

    `where` is the folder or URL of the run, or its archive.json; `topic` one of its topics (None:
    all), `settings` another settings file, whose key opens sealed parts. Columns: topic, partition,
    offset, timestamp (UTC, null: none), timestamp_type, key, value, headers. Tasks read it when
    Spark acts on it. Raises ArchiveError and SettingsError.
    """
    from analytics.archived import archived_records

    return archived_records(where, topic=topic, settings=settings)


def to_pandas(frame: DataFrame) -> pd.DataFrame:
    """A DataFrame in pandas as it is: unknown stays null, integers whole, times aware UTC.

    Spark's own `toPandas` makes floats of integers beside an unknown (digits go above 2^53, and
    NaN is no longer "unknown"), and takes the zone off times.
    """
    import pandas as pd

    found: pd.DataFrame = frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)
    return found
