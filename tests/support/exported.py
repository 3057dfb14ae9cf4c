"""Everything that `lowwater metrics` can tell: names, labels and values of a store that has all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from prometheus_client.core import Metric

from dashboard.core.clock import utc_now
from dashboard.exporter import own
from dashboard.exporter.own_reading import Purges, Reader
from dashboard.settings.sections import Price
from tests.support import sample_store

Labels = dict[str, set[str]]  # the values of each label


def families(folder: Path) -> list[Metric]:
    """Every family that there is, of a sample store written into `folder`."""
    seen = Reader(sample_store.write(folder), lambda: None).read()
    orphans = pa.table(
        {
            "broker_id": [1, 1], "kind": ["stray", "abandoned-future"],
            "verdict": ["removable", "scheduled"], "size_bytes": [1, 1], "allocated_bytes": [1, 1],
        }
    )  # fmt: skip
    followers = pa.table(
        {"broker_id": [1], "lag_records": [1], "lag_seconds": [1.0], "slow": [True]}
    )
    all_of_it = replace(
        seen,
        tables={**seen.tables, "orphans": orphans, "slow_followers": followers},
        purges=Purges(),
        price=Price(0.08, "EUR"),
    )
    return own.families(all_of_it, utc_now(), 50)


def labels_by_name(found: list[Metric]) -> dict[str, Labels]:
    """The labels of each series' name, with the values that they have there."""
    labels: dict[str, Labels] = defaultdict(lambda: defaultdict(set))
    for sample in own.samples(found):
        labels[sample["name"]].update()  # one without labels is there too
        for label, value in sample["labels"].items():
            labels[sample["name"]][label].add(value)
    return labels
