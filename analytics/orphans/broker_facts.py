"""What a verdict needs to know of each broker: answers, settings, how much it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.safety import last_copy

SEGMENTS = ["broker_id", "log_dir", "directory", "kind", "log_bytes", "allocated_bytes"]
_TOPIC_SETTINGS = pa.schema([("name", pa.string()), ("key", pa.string()), ("value", pa.string())])
_MINUTE = timedelta(minutes=1)  # the broker's default of each of its intervals below
_REWRITES = (
    "log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms",
)  # fmt: skip
# The first one that is set counts (KafkaConfig.logRetentionTimeMillis).
_RETENTION = (
    ("log.retention.ms", timedelta(milliseconds=1)),
    ("log.retention.minutes", timedelta(minutes=1)),
    ("log.retention.hours", timedelta(hours=1)),
)


@dataclass(frozen=True)
class Brokers:
    """Of one snapshot. `held`: broker -> its folders and bytes, as far as they were told;
    `of_topics`: topics' settings that a verdict needs, as rows of name, key and value.
    """

    silent: frozenset[int]
    log_dirs: frozenset[tuple[int, str]]
    settings: Mapping[tuple[int, str], str]
    held: Mapping[int, tuple[int, int]]
    of_topics: pa.Table = field(default_factory=_TOPIC_SETTINGS.empty_table)

    def answered(self, broker_id: int, log_dir: str) -> bool:
        """Whether the broker, and for this log dir too, answered."""
        return broker_id not in self.silent and (broker_id, log_dir) in self.log_dirs

    def retention(self, broker_id: int) -> timedelta | None:
        """The default of topics that set none; negative: for ever; None: not told."""
        for key, unit in _RETENTION:
            value = self.settings.get((broker_id, key))
            if value is not None:
                return last_copy.times(int(value), unit)
        return None

    def delete_delay(self, broker_id: int) -> timedelta:
        """How long the broker keeps a `-delete` folder."""
        return self._interval(broker_id, "log.segment.delete.delay.ms")

    def rewrite_interval(self, broker_id: int) -> timedelta:
        """How long an entry may stay in a checkpoint file after its partition has gone."""
        return max(self._interval(broker_id, key) for key in _REWRITES)

    def _interval(self, broker_id: int, key: str) -> timedelta:
        value = self.settings.get((broker_id, key))
        return _MINUTE if value is None else last_copy.times(int(value), timedelta(milliseconds=1))

    def topic_settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """By topic the settings of it that were read."""
        wanted = pc.is_in(self.of_topics["name"], pa.array(set(topics), pa.string()))
        found: dict[str, dict[str, str]] = {}
        for row in self.of_topics.filter(wanted).to_pylist():
            found.setdefault(row["name"], {})[row["key"]] = row["value"]
        return found

    def share(self, broker_id: int, folders: int, size_bytes: int) -> float | None:
        """The larger share of the broker's folders and bytes that these are; None: not told."""
        if broker_id not in self.held:
            return None
        all_folders, all_bytes = self.held[broker_id]
        of_folders = folders / max(all_folders, folders, 1)
        return max(of_folders, size_bytes / max(all_bytes, size_bytes, 1))


def holdings(replicas: pa.Table, segments: pa.Table) -> pa.Table:
    """broker_id, scanned, folders and bytes of some of a snapshot's `replicas` (broker_id,
    size_bytes), as DescribeLogDirs told them, and of SEGMENTS of its inventories (scanned). Sums of
    parts may be summed again, where no folder lies in two.
    """
    return pa.concat_tables([_listed(replicas), _on_disk(segments)])


def brokers(read: Mapping[str, pa.Table], holdings: pa.Table) -> Brokers:
    """From the snapshot's small tables by name, and `holdings`."""
    told = read["log_dirs"].filter(read["log_dirs"]["error"].is_null())
    silent = read["brokers"].filter(read["brokers"]["error"].is_valid())
    configs = read["configs"]
    configs = configs.filter(configs["value"].is_valid())
    mine = configs.filter(pc.equal(configs["scope"], "broker"))
    of_topics = pc.and_(
        pc.equal(configs["scope"], "topic"), pc.is_in(configs["key"], pa.array(last_copy.SETTINGS))
    )
    return Brokers(
        silent=frozenset(silent["broker_id"].to_pylist()),
        log_dirs=frozenset(
            zip(told["broker_id"].to_pylist(), told["log_dir"].to_pylist(), strict=True)
        ),
        settings={
            (int(row["name"]), row["key"]): row["value"]
            for row in mine.select(["name", "key", "value"]).to_pylist()
            if row["name"].isdigit()
        },
        held=_held(holdings),
        of_topics=configs.filter(of_topics).select(_TOPIC_SETTINGS.names),
    )


def summed(holdings: pa.Table) -> pa.Table:
    """One row per broker, and whether it was scanned."""
    by, sums = ["scanned", "broker_id"], [("folders", "sum"), ("bytes", "sum")]
    return holdings.group_by(by).aggregate(sums).rename_columns([*by, "folders", "bytes"])


def _held(holdings: pa.Table) -> dict[int, tuple[int, int]]:
    """What an inventory found; where there is none, what DescribeLogDirs told is the best."""
    return {
        row["broker_id"]: (row["folders"], row["bytes"] or 0)
        for row in sorted(holdings.to_pylist(), key=lambda row: bool(row["scanned"]))
    }


def _listed(replicas: pa.Table) -> pa.Table:
    told = replicas.filter(replicas["size_bytes"].is_valid())
    sums = told.group_by("broker_id").aggregate([("size_bytes", "count"), ("size_bytes", "sum")])
    return _holdings(sums.rename_columns(["broker_id", "folders", "bytes"]), scanned=False)


def _on_disk(segments: pa.Table) -> pa.Table:
    first = pa.array(folder_starts(segments).astype(np.int64))
    sums = (
        segments.append_column("folders", first)
        .group_by("broker_id")
        .aggregate([("folders", "sum"), ("log_bytes", "sum")])
    )
    return _holdings(sums.rename_columns(["broker_id", "folders", "bytes"]), scanned=True)


def _holdings(sums: pa.Table, *, scanned: bool) -> pa.Table:
    return sums.append_column("scanned", pa.repeat(scanned, sums.num_rows))


def folder_starts(segments: pa.Table) -> np.ndarray:
    """Where another folder begins: the table is sorted by broker, log dir and folder."""
    new = np.ones(segments.num_rows, dtype=bool)
    if segments.num_rows > 1:
        new[1:] = np.logical_or.reduce(
            [
                pc.not_equal(found.slice(1), found.slice(0, len(found) - 1)).to_numpy(False)
                for found in (column(segments, name) for name in SEGMENTS[:3])
            ]
        )
    return new
