"""Our own metrics in Prometheus text: what is known now, in gauges, and what purges gave back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from dashboard.domain.acts import CHECKPOINT_ENTRY, KIP_370, TWO_LOG_DIRS
from dashboard.exporter.own_reading import Own, Purges
from dashboard.purge.journal.rows import CLOSED_RUN_STATES, OPEN_RUN_STATES
from dashboard.views.facts import partition_facts

__all__ = ["CONTENT_TYPE_LATEST", "families", "samples", "text"]
_PARTS = ("snapshot", "findings", "journal")


def families(own: Own, now: datetime, top: int) -> list[Metric]:
    """Every family that has a sample, in a fixed order."""
    found: list[Metric] = [*_cluster(own), *_ages(own, now), *_brokers(own)]
    found += finding_families(own.tables, own.inventoried, top)
    if own.purges is not None:
        found += _purges(own.purges)
    return [family for family in found if family.samples]


def text(found: Iterable[Metric]) -> bytes:
    """Prometheus text, format 0.0.4, with HELP and TYPE of each family."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(list(found)))
    return generate_latest(registry)


def samples(found: Iterable[Metric]) -> list[dict[str, Any]]:
    """`{name, labels, value}` of every sample, in the order of the text."""
    return [
        {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for family in found
        for sample in family.samples
    ]


class _Fixed(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _cluster(own: Own) -> list[Metric]:
    info = GaugeMetricFamily(
        "lowwater_cluster_info", "Which cluster this is about.", labels=["cluster_id", "cluster"]
    )
    info.add_metric([own.cluster_id, own.name], 1)
    readable = GaugeMetricFamily(
        "lowwater_readable",
        "1: this part of the data could be read; 0: its samples are missing for now.",
        labels=["part"],
    )
    for part in _PARTS:
        readable.add_metric([part], int(part not in own.unreadable))
    price = GaugeMetricFamily(
        "lowwater_price_per_gib_month",
        "What a GiB on the brokers' disks costs a month, by the settings.",
        labels=["currency"],
    )
    if own.price is not None:
        price.add_metric([own.price.currency], own.price.per_gib_month)
    return [info, readable, price]


def _ages(own: Own, now: datetime) -> list[Metric]:
    """Of the newest snapshot, and of the one that the newest findings were made from."""
    found: list[Metric] = []
    for name, at, what in (
        ("snapshot", own.snapshot.taken_at if own.snapshot else None, "the newest snapshot"),
        ("findings", _findings_at(own), "the snapshot behind the newest findings"),
    ):
        moment = GaugeMetricFamily(
            f"lowwater_{name}_timestamp_seconds", f"Unix time at which {what} was taken."
        )
        age = GaugeMetricFamily(f"lowwater_{name}_age_seconds", f"Age of {what}.")
        if at is not None:
            moment.add_metric([], at.timestamp())
            age.add_metric([], (now - at).total_seconds())
        found += [moment, age]
    return found


def _findings_at(own: Own) -> datetime | None:
    rows = own.tables.get("quality")
    taken_at: datetime | None = pc.max(rows["taken_at"]).as_py() if rows else None
    return taken_at


def _brokers(own: Own) -> list[Metric]:
    """Each broker of the newest snapshot, and how many of them did not answer."""
    answered = GaugeMetricFamily(
        "lowwater_broker_answered",
        "1: the broker answered the newest snapshot; 0: its rows are missing.",
        labels=["broker_id"],
    )
    missing = GaugeMetricFamily(
        "lowwater_brokers_missing", "Brokers that did not answer the newest snapshot."
    )
    seen = (own.snapshot.details.get("brokers") if own.snapshot else None) or []
    for broker in seen:
        answered.add_metric([str(broker["broker_id"])], int(bool(broker["reachable"])))
    if seen:
        missing.add_metric([], sum(not broker["reachable"] for broker in seen))
    return [answered, missing]


def _purges(purges: Purges) -> list[Metric]:
    """Runs of this state folder; receipts only once they are final and were predicted."""
    runs = GaugeMetricFamily(
        "lowwater_purge_runs", "Purge runs in the journal, by state.", labels=["state"]
    )
    counted = Counter(run.state for run in purges.runs)
    for state in (*OPEN_RUN_STATES, *CLOSED_RUN_STATES):
        runs.add_metric([state], counted[state])
    undone = GaugeMetricFamily(
        "lowwater_purge_reverted_partitions",
        "Partitions whose purged records came back and were not purged again.",
    )
    undone.add_metric([], purges.reverted_partitions)
    predicted = CounterMetricFamily(
        "lowwater_purge_predicted_bytes", "Bytes that purges with a final receipt promised."
    )
    freed = CounterMetricFamily("lowwater_purge_freed_bytes", "Bytes that these purges freed.")
    receipts = CounterMetricFamily("lowwater_purge_receipts", "Final receipts that both count.")
    known = [
        run.receipt
        for run in purges.runs
        if run.receipt and run.receipt_final
        and None not in (run.receipt.predicted_bytes, run.receipt.freed_bytes)
    ]  # fmt: skip
    predicted.add_metric([], sum(receipt.predicted_bytes or 0 for receipt in known))
    freed.add_metric([], sum(receipt.freed_bytes or 0 for receipt in known))
    receipts.add_metric([], len(known))
    return [runs, undone, predicted, freed, receipts]


# The newest findings as Prometheus families: bytes, orphans, slow followers, completeness.
#
# Unknown is left out: a family without samples says that nothing is known, a 0 that there is none.

# No topic may hold a bracket; a group that is called so is summed with the rest.
OTHER = "(other)"
# Findings that are no folder, or one of a partition that the cluster does place there.
_NO_ORPHANS = [CHECKPOINT_ENTRY, TWO_LOG_DIRS]
_KINDS = "_bytes"
_NO_KIND = ("total_bytes", "usable_bytes", "used_bytes")


def finding_families(
    tables: Mapping[str, pa.Table], inventoried: Collection[int], top: int
) -> list[GaugeMetricFamily]:
    """All families of one analysis. `inventoried` are brokers whose disks were listed for it.

    At most `top` topics and groups have a series of their own; the rest is summed as `(other)`.
    """
    found: list[GaugeMetricFamily] = []
    if "reclaimable" in tables:
        found += _reclaimable(tables["reclaimable"], top)
    if "blockers" in tables:
        found.append(_held(tables["blockers"], top))
    if "disks" in tables:
        found += _disks(tables["disks"])
    if "growth" in tables:
        found += growth_families(tables["growth"])
    if "orphans" in tables:
        found += _orphans(tables["orphans"], inventoried)
    if "slow_followers" in tables:
        found += _slow(tables["slow_followers"])
    if "quality" in tables:
        found.append(_quality(tables["quality"]))
    return found


def _reclaimable(rows: pa.Table, top: int) -> list[GaugeMetricFamily]:
    bytes_by_topic = GaugeMetricFamily(
        "lowwater_reclaimable_bytes",
        "Bytes over all replicas that every known group has consumed, by topic; "
        "readers_declared tells whether its groups are known to be all its readers.",
        labels=["topic", "readers_declared"],
    )
    unmeasured = GaugeMetricFamily(
        "lowwater_reclaimable_unmeasured_partitions",
        "Consumed partitions whose bytes are not known; lowwater_reclaimable_bytes lacks them.",
    )
    facts = partition_facts(rows)
    consumed = facts.filter(facts["consumed"])
    sums = consumed.group_by(["topic", "readers_declared"]).aggregate([("bytes_likely", "sum")])
    ranked = _ranked(
        ((row["topic"], str(bool(row["readers_declared"])).lower()), row["bytes_likely_sum"])
        for row in sums.to_pylist()
    )
    for (topic, declared), size in ranked[:top]:
        bytes_by_topic.add_metric([topic, declared], size)
    for declared in ("false", "true"):
        rest = [size for (_, said), size in ranked[top:] if said == declared]
        if rest:
            bytes_by_topic.add_metric([OTHER, declared], sum(rest))
    unmeasured.add_metric([], consumed["bytes_likely"].null_count)
    return [bytes_by_topic, unmeasured]


def _held(rows: pa.Table, top: int) -> GaugeMetricFamily:
    found = GaugeMetricFamily(
        "lowwater_held_bytes",
        "Bytes over all replicas that this group alone keeps from being reclaimed.",
        labels=["group"],
    )
    sums = rows.group_by("group_id").aggregate([("bytes_held_alone", "sum")])
    ranked = _ranked((row["group_id"], row["bytes_held_alone_sum"]) for row in sums.to_pylist())
    shown = [pair for pair in ranked[:top] if pair[0] != OTHER]
    for group, size in shown:
        found.add_metric([group], size)
    if len(shown) < len(ranked):
        found.add_metric([OTHER], sum(size for _, size in ranked) - sum(s for _, s in shown))
    return found


def _disks(rows: pa.Table) -> list[GaugeMetricFamily]:
    """One series per kind of bytes that the `disks` table knows, whatever kinds these are."""
    labels = ["broker_id", "log_dir"]
    total = GaugeMetricFamily(
        "lowwater_disk_size_bytes", "Size of the disk that a log dir lies on.", labels=labels
    )
    usable = GaugeMetricFamily(
        "lowwater_disk_usable_bytes", "Bytes of it that are still free.", labels=labels
    )
    kinds = GaugeMetricFamily(
        "lowwater_disk_bytes",
        "Used bytes of a log dir by kind: reclaimable at once, held by a group, live, future "
        "copies, unexplained and so on.",
        labels=[*labels, "kind"],
    )
    names = [n for n in rows.column_names if n.endswith(_KINDS) and n not in _NO_KIND]
    for row in rows.to_pylist():
        place = [str(row["broker_id"]), row["log_dir"]]
        _add(total, place, row["total_bytes"])
        _add(usable, place, row["usable_bytes"])
        for name in names:
            _add(kinds, [*place, name.removesuffix(_KINDS)], row[name])
    return [total, usable, kinds]


def _orphans(rows: pa.Table, inventoried: Collection[int]) -> list[GaugeMetricFamily]:
    """KIP-370's two gauges, of its kinds alone; all kinds of folders under names of our own.

    A broker without such a row has none only if its disk was listed: else it is not known. A size
    that is not known makes its broker's sum unknown.
    """
    count = GaugeMetricFamily(
        "kafka_log_LogManager_OrphanLogPartitionCount",
        "Partitions that lie on a broker and that the cluster does not place there (KIP-370).",
        labels=["broker_id"],
    )
    size = GaugeMetricFamily(
        "kafka_log_LogManager_OrphanLogPartitionSize",
        "Bytes of disk that their folders take, indexes included (KIP-370).",
        labels=["broker_id"],
    )
    counted = rows.filter(pc.is_in(rows["kind"], pa.array(KIP_370)))
    sums = counted.group_by("broker_id").aggregate(
        [("kind", "count"), ("allocated_bytes", "sum"), ("allocated_bytes", "count")]
    )
    by_broker = {row["broker_id"]: row for row in sums.to_pylist()}
    for broker_id in sorted({*by_broker, *inventoried}):
        row = by_broker.get(broker_id)
        folder_count = row["kind_count"] if row else 0
        count.add_metric([str(broker_id)], folder_count)
        if row is None or row["allocated_bytes_count"] == folder_count:
            size.add_metric([str(broker_id)], row["allocated_bytes_sum"] if row else 0)
    folders = rows.filter(pc.invert(pc.is_in(rows["kind"], pa.array(_NO_ORPHANS))))
    return [count, size, *_by_verdict(folders)]


def _by_verdict(folders: pa.Table) -> list[GaugeMetricFamily]:
    keys = ["broker_id", "kind", "verdict"]
    found = [
        GaugeMetricFamily(f"lowwater_orphan_{name}", text, labels=keys)
        for name, text in (
            ("folders", "Orphan folders of every kind, by what may be done with them."),
            ("bytes", "Known bytes of records in these folders."),
            ("disk_bytes", "Known bytes of disk that these folders take, indexes included."),
        )
    ]
    sums = folders.group_by(keys).aggregate(
        [("kind", "count"), ("size_bytes", "sum"), ("allocated_bytes", "sum")]
    )
    for row in sums.sort_by([(key, "ascending") for key in keys]).to_pylist():
        labels = [str(row[key]) for key in keys]
        values = ("kind_count", "size_bytes_sum", "allocated_bytes_sum")
        for family, name in zip(found, values, strict=True):
            _add(family, labels, row[name])
    return found


def _slow(rows: pa.Table) -> list[GaugeMetricFamily]:
    slow = GaugeMetricFamily(
        "lowwater_slow_followers", "Follower replicas that are slow.", labels=["broker_id"]
    )
    records = GaugeMetricFamily(
        "lowwater_follower_lag_max_records",
        "Records that the furthest follower of a broker is behind its leader.",
        labels=["broker_id"],
    )
    seconds = GaugeMetricFamily(
        "lowwater_follower_lag_max_seconds",
        "How long before now the leader's log ended where that follower is.",
        labels=["broker_id"],
    )
    flagged = rows.append_column("is_slow", pc.cast(pc.fill_null(rows["slow"], False), pa.int64()))
    sums = flagged.group_by("broker_id").aggregate(
        [("is_slow", "sum"), ("lag_records", "max"), ("lag_seconds", "max")]
    )
    for row in sorted(sums.to_pylist(), key=lambda row: row["broker_id"]):
        place = [str(row["broker_id"])]
        slow.add_metric(place, row["is_slow_sum"])
        _add(records, place, row["lag_records_max"])
        _add(seconds, place, row["lag_seconds_max"])
    return [slow, records, seconds]


def _quality(rows: pa.Table) -> GaugeMetricFamily:
    found = GaugeMetricFamily(
        "lowwater_table_complete",
        "1: every broker's part of the table is there; 0: lowwater findings quality says why not.",
        labels=["table"],
    )
    whole: dict[str, bool] = {}
    for row in rows.to_pylist():
        whole[row["table"]] = whole.get(row["table"], True) and bool(row["complete"])
    for table, complete in sorted(whole.items()):
        found.add_metric([table], int(complete))
    return found


def _ranked(pairs: Iterable[tuple[Any, int | None]]) -> list[tuple[Any, int]]:
    """Known values, largest first, then by name."""
    known = [(name, value) for name, value in pairs if value is not None]
    return sorted(known, key=lambda pair: (-pair[1], pair[0]))


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


# The findings table `growth` as Prometheus families: how fast disks fill, and until when.

_PLACE = ["broker_id", "log_dir"]
# The soonest full disk is the one of the steepest slope.
_BOUNDS = (("likely", ""), ("low", "_low"), ("high", "_high"))


def growth_families(growth: pa.Table) -> list[GaugeMetricFamily]:
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
