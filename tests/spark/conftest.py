"""One Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.session.session import open_session
from dashboard.settings.settings import Settings
from tests.support import lab as labs


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> labs.Lab:
    return labs.empty(tmp_path, spark)
