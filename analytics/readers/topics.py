"""What the analysis knows of each topic: its declaration, its settings, its readers, and who of
them may still want its records.

A row per topic, so they are put together on the driver and sent to every task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from analytics.readers.reader_lags import UNKNOWN_READERS
from dashboard.core.arrow import column, field, known_true, looked_up, unfolded
from dashboard.domain.model import DEFAULT_SEGMENT_BYTES
from dashboard.domain.system_topics import REMOTE_STORAGE, is_system_topic
from dashboard.history.log_ends import new_topics
from dashboard.history.past_groups import streams_known, streams_told
from dashboard.safety.guard_texts import NEVER_LIFTABLE
from dashboard.safety.targets import REPLAY_WINDOW
from dashboard.settings.settings import Settings, TopicDeclaration, of_topic, on_page
from dashboard.settings.topics import declared
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

_SCHEMA = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("is_system", pa.bool_()),
        ("readers_declared", pa.bool_()),
        ("restore_declared", pa.bool_()),
        ("owner", pa.string()),
        ("replay_window_ms", pa.int64()),
    ]
)


Declarations = tuple[Sequence[TopicDeclaration], Sequence[TopicDeclaration]]


def all_declarations(settings: Settings, stored: Sequence[Mapping[str, str]]) -> Declarations:
    """The settings' declarations, and those made on the page. Raises SettingsError."""
    return settings.topics, [
        on_page(entry, f"declarations.json, {entry.get('glob', '')}") for entry in stored
    ]


def describe(topics: pa.Table, declarations: Declarations) -> pa.Table:
    """One row per topic of the snapshot's `topics` table: topic_no, topic, topic_id, is_system,
    readers_declared, restore_declared (no table is built from it), owner (null: undeclared),
    replay_window_ms (0: none).
    """
    rows = [
        _row(topic, declared(topic["topic"], *declarations))
        for topic in topics.select(["topic_no", "topic", "topic_id", "is_internal"]).to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _row(topic: Mapping[str, object], found: TopicDeclaration | None) -> dict[str, object]:
    name, topic_id = str(topic["topic"]), topic["topic_id"]
    if found is not None:
        found = of_topic(found, None if topic_id is None else str(topic_id))
    vouched = found is not None and found.readers == "groups"
    window = found.replay_window if found is not None else timedelta(0)
    return {
        "topic_no": topic["topic_no"],
        "topic": name,
        "topic_id": topic_id,
        "is_system": bool(topic["is_internal"]) or is_system_topic(name),
        "readers_declared": vouched,
        "restore_declared": found is not None and found.state_restore == "none",
        "owner": found.owner or None if found is not None else None,
        "replay_window_ms": window // timedelta(milliseconds=1),
    }


SETTINGS = (
    "cleanup.policy", "segment.bytes", "segment.ms", "retention.ms", *REMOTE_STORAGE,
    "unclean.leader.election.enable",
)  # fmt: skip


def with_settings(topics: pa.Table, configs: pa.Table) -> pa.Table:
    """`topics` with the settings that decide about a purge, from the snapshot's `configs`.

    Adds cleanup_policy (null: not readable), segment_bytes, segment_ms and retention_ms (null: not
    known; -1: for ever), remote_storage, unclean_election.
    """
    of_topics = configs.filter(pc.equal(configs["scope"], "topic"))
    names = column(topics, "topic")

    def value(key: str) -> pa.Array:
        found = of_topics.filter(pc.equal(of_topics["key"], key))
        return looked_up(names, column(found, "name"), column(found, "value"))

    def is_true(*keys: str) -> pa.Array:
        return reduce(pc.or_, (known_true(pc.equal(value(key), "true")) for key in keys))

    segment_bytes = pc.fill_null(value("segment.bytes").cast(pa.int64()), DEFAULT_SEGMENT_BYTES)
    return (
        topics.append_column("cleanup_policy", value("cleanup.policy"))
        .append_column("segment_bytes", segment_bytes)
        .append_column("segment_ms", value("segment.ms").cast(pa.int64()))
        .append_column("retention_ms", value("retention.ms").cast(pa.int64()))
        .append_column("remote_storage", is_true(*REMOTE_STORAGE))
        .append_column("unclean_election", is_true("unclean.leader.election.enable"))
    )


def with_new(
    topics: pa.Table, cluster: ClusterStore, snapshot: Manifest, refresh: timedelta
) -> pa.Table:
    """`topics` with is_new: consumers that subscribe by a pattern may not know it yet.

    In the first minutes of a store nobody knows how old a topic is: that is left to planning.
    """
    ids = dict(zip(topics["topic"].to_pylist(), topics["topic_id"].to_pylist(), strict=True))
    found = new_topics(cluster, snapshot.taken_at, refresh, ids, unknown=False)
    new = [name in found for name in topics["topic"].to_pylist()]
    return topics.append_column("is_new", pa.array(new, pa.bool_()))


# Kafka Streams applications as an analysis remembers them, and hands them on to the next one.


def streams_remembered(
    cluster: ClusterStore,
    snapshot: Manifest,
    base: Manifest | None,
    before: Sequence[Manifest],
    holding: pa.Table,
) -> dict[str, str]:
    """Each application and the last snapshot that told so, by name; `holding` (group_id) are the
    groups that hold an offset.

    Goes on from `base`, without it from all kept snapshots and what the analyses `before` knew
    (`earlier.going_on`). One is let go when neither an offset
    of it nor a kept snapshot as old is left.
    """
    found = dict(pair for analysis in before for pair in streams_told(analysis).items())
    found |= streams_known(cluster, base, snapshot.id)
    oldest = next(iter(cluster.ids("snapshots")), snapshot.id)
    holding = _holding(holding, [name for name, last in found.items() if last < oldest])
    return {n: last for n, last in sorted(found.items()) if last >= oldest or n in holding}


def _holding(holding: pa.Table, names: list[str]) -> set[str]:
    if not names:
        return set()
    of = column(holding, "group_id")
    own = of.filter(pc.is_in(of, value_set=pa.array(names, pa.string())))
    return set(pc.unique(own).to_pylist())


# Who may still want the records of a topic: what a purge of all of them would be guarded by.

_KEY = ["topic", "name", "group_id"]
# Of groups more is known than this guard tells: what they have not read, inside a window too.
_UNREAD = "unread-by-group"
_GUARDS = (*UNKNOWN_READERS, *NEVER_LIFTABLE, "readers-undeclared")


def wanted_sums(rows: pa.Table, partitions: pa.Table) -> pa.Table:
    """topic, name, group_id, and what some partitions add: partitions, records, reason (of one of
    them). The name is a guard's; or REPLAY_WINDOW, for records that the declared window covers.
    Records are null where a guard counts none. Sums of parts may be summed again.

    `rows`: those of `reclaimable` up to the high watermark, of `partitions.described` partitions.
    """
    parts = [_guards(rows), _windowed(rows), _unread(partitions)]
    return wanted_summed(pa.concat_tables(parts, promote_options="default"))


def wanted_summed(found: pa.Table) -> pa.Table:
    """One row per topic, name and group."""
    rows = found.group_by(_KEY).aggregate(list(_SUMS.items()))
    return rows.rename_columns([*_KEY, *_SUMS])


_SUMS = {"partitions": "sum", "records": "sum", "reason": "min"}


def _guards(rows: pa.Table) -> pa.Table:
    at, guards = unfolded(column(rows, "guards"))
    found = _table(column(rows, "topic").take(at), field(guards, "name"))
    found = found.append_column("reason", field(guards, "reason"))
    return found.filter(pc.is_in(found["name"], value_set=pa.array(_GUARDS)))


def _windowed(rows: pa.Table) -> pa.Table:
    """Up to the high watermark nothing but a replay window lowers a target."""
    rows = rows.filter(known_true(pc.less(rows["target_offset"], rows["high_watermark"])))
    found = _table(column(rows, "topic"), pa.repeat(REPLAY_WINDOW, rows.num_rows))
    records = pc.subtract(column(rows, "high_watermark"), column(rows, "target_offset"))
    return found.append_column("records", records)


def _unread(partitions: pa.Table) -> pa.Table:
    """What each group that counts, the gone ones too, has not read of the whole log."""
    at, positions = unfolded(column(partitions, "positions"))
    topic, start, end = (
        column(partitions, name).take(at)
        for name in ("topic", "log_start_offset", "high_watermark")
    )
    begin = pc.max_element_wise(field(positions, "committed_offset"), start)
    found = _table(topic, pa.repeat(_UNREAD, len(at)))
    found = found.append_column("group_id", field(positions, "group_id"))
    found = found.append_column("records", pc.subtract(end, begin))
    return found.filter(known_true(pc.greater(found["records"], 0)))


def _table(topic: pa.Array, name: pa.Array) -> pa.Table:
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(topic))
    return pa.table({"topic": topic, "name": name, "partitions": ones})
