"""The findings table `growth` as Prometheus families: how fast disks fill, and until when."""

from __future__ import annotations

import pyarrow as pa
from prometheus_client.core import GaugeMetricFamily

_PLACE = ["broker_id", "log_dir"]
# The soonest full disk is the one of the steepest slope.
_BOUNDS = (("likely", ""), ("low", "_low"), ("high", "_high"))


def families(growth: pa.Table) -> list[GaugeMetricFamily]:
    """A series per log dir and bound; one that is not known, or not full ever, has none."""
    rate = GaugeMetricFamily(
        "lowwater_disk_used_growth_bytes_per_hour",
        "Slope of a disk's used bytes over the last 12 to 24 hours; low to high holds the truth "
        "in 9 cases of 10.",
        labels=[*_PLACE, "bound"],
    )
    days = GaugeMetricFamily(
        "lowwater_disk_days_to_full",
        "Days until the disk is full at that slope; none where it does not grow.",
        labels=[*_PLACE, "bound"],
    )
    for row in growth.filter(growth["topic"].is_null()).to_pylist():
        place = [str(row["broker_id"]), row["log_dir"]]
        for bound, end in _BOUNDS:
            for family, name in ((rate, "used_bytes_per_hour"), (days, "days_to_full")):
                if row[name + end] is not None:
                    family.add_metric([*place, bound], row[name + end])
    return [rate, days]
