"""What the store remembers: groups seen in any kept snapshot, bytes measured, declarations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dashboard.core.clock import format_time, microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.model import ANY_TOPIC, Guard, TopicPartition
from dashboard.history import past_groups
from dashboard.history.findings_age import (
    holes,
    late,
    newest_analysis,
    newest_manifest,
    reasons,
    told_since,
)
from dashboard.history.known_since import began_at, carried_since, goes_on_from, known_since
from dashboard.history.once import Once
from dashboard.history.past_groups import Met, deleted, streams_known
from dashboard.history.seen_topics import UNKNOWN_ID, seen_topics
from dashboard.purge.evidence.estimates import leaders_keeping, of_curves
from dashboard.purge.journal.rows import RestedOn
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.plan.resolve import History, Keeping, LogEnd, ResolvedTarget
from dashboard.safety.guard_texts import elsewhere
from dashboard.settings.settings import PurgeSettings, Settings, TopicDeclaration, on_page
from dashboard.settings.topics import declared
from dashboard.store.clocks import seen_at
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

if TYPE_CHECKING:  # slow to import; a store without tables needs none
    import pyarrow as pa

_TRIES = 3
Found = TypeVar("Found")


def remembered(store: ClusterStore, topics: Iterable[str]) -> list[RememberedOffset]:
    """The last known offset of every group on `topics`, from the findings and newer snapshots.

    A group that is gone today still counts there until it is waived. Each offset names the id of
    the topic that it was committed on. Raises StoreError.
    """
    wanted = sorted(set(topics))
    return _unpruned(store, lambda: _remembered(store, wanted))


def streams(store: ClusterStore) -> frozenset[str]:
    """Groups that the newest analysis, or a snapshot since, knew as Kafka Streams applications.

    One that is gone counts, and one whose commits do not tell it any more. Raises StoreError.
    """
    return _unpruned(store, lambda: _streams(store))


def met(store: ClusterStore, topics: Iterable[str], now: datetime | None = None) -> Met:
    """When groups were met on `topics`, by the findings and newer snapshots. Who might read any
    topic is let go by `now`, this very moment; None: nobody is. Raises StoreError.
    """
    wanted = sorted(set(topics))
    return _unpruned(store, lambda: _met(store, wanted, now))


def _met(store: ClusterStore, wanted: list[str], now: datetime | None) -> Met:
    analysis = newest_manifest(store)
    found = past_groups.known(store, analysis, topics=wanted)
    untold = {group for group, topic in found if topic == ANY_TOPIC}
    if not untold:
        return found
    seen = _offset_seen(store, analysis, sorted(untold))
    return past_groups.without_told(found, seen, past_groups.a_week_past(store, now))


def _topics_there(store: ClusterStore) -> dict[str, str | None]:
    """The topics of the newest snapshot, with their ids: one that is gone nobody reads any more."""
    newest = store.latest("snapshots")
    if newest is None:
        return {}
    rows = seen_topics(store, newest, ["topic", "topic_id"]).to_pylist()
    return {row["topic"]: row["topic_id"] for row in rows if row["topic_id"] != UNKNOWN_ID}


def _offset_seen(
    store: ClusterStore, analysis: Manifest | None, groups: list[str]
) -> dict[str, int]:
    """When an offset of each of these groups was seen last, on a topic that is there, by the
    analysis or a snapshot that it has not seen; microseconds.
    """
    there = _topics_there(store)
    chosen = _among("group_id", groups)
    rows = [
        row
        for table in _last_known(store, analysis, chosen, [*_OFFSET, *_OF])
        for row in table.to_pylist()
    ]
    for snapshot in told_since(store, analysis, past_groups.DETAIL, None):
        found = store.read(
            "snapshots", snapshot, "group_offsets", [*_OFFSET, "topic_no"], only=chosen
        )
        if found.num_rows:
            named = seen_topics(store, snapshot, ["topic_no", "topic", "topic_id"]).to_pylist()
            of = {row["topic_no"]: row for row in named}
            at = {"last_seen_at": seen_at(store.manifest("snapshots", snapshot))}
            rows += [{**row, **of[row["topic_no"]], **at} for row in found.to_pylist()]
    seen: dict[str, int] = {}
    for row in rows:
        told = row["committed_offset"] is not None and row["last_seen_at"] is not None
        if told and row["topic"] in there and there[row["topic"]] in (None, row["topic_id"]):
            at_last = microseconds(row["last_seen_at"])
            seen[row["group_id"]] = max(at_last, seen.get(row["group_id"], at_last))
    return seen


_OFFSET = ["group_id", "committed_offset"]
_OF = ["topic", "topic_id", "last_seen_at"]


def _last_known(
    store: ClusterStore, analysis: Manifest | None, only: Any, columns: list[str] | None = None
) -> list[pa.Table]:
    """The last known offsets of an analysis, those of earlier topics of a name first."""
    if analysis is None:
        return []
    return [
        store.read("findings", analysis.id, name, columns, only=only)
        for name in ("former_readers", "holds")
        if name in analysis.tables  # earlier versions know no former readers
    ]


def _unpruned(store: ClusterStore, read: Callable[[], Found]) -> Found:
    """What is read of one analysis and the snapshots since: a newer one may have come meanwhile,
    and what only it remembers by now been pruned.
    """
    for _ in range(_TRIES):
        before = newest_analysis(store)
        try:
            found = read()
        except StoreError as error:
            if error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue
        if newest_analysis(store) == before:
            return found
    return read()


def _streams(store: ClusterStore) -> frozenset[str]:
    return frozenset(streams_known(store, newest_manifest(store)))


def _remembered(store: ClusterStore, wanted: list[str]) -> list[RememberedOffset]:
    found: dict[tuple[str, str, int], RememberedOffset] = {}
    analysis = newest_manifest(store)
    after = "" if analysis is None else str(analysis.details.get("snapshot_id", ""))
    last_known = [] if analysis is None else _last_known(store, analysis, _among("topic", wanted))
    for table in last_known:
        for row in table.to_pylist():
            _keep(found, RememberedOffset(*(row[name] for name in _FIELDS)))
    ids = store.ids("snapshots")
    for snapshot in late(ids, analysis):
        for offset in _group_offsets(store, snapshot, tuple(wanted)):
            known = found.get(_key(offset))
            if known is None or _later(offset.seen_at, known.seen_at):
                _keep(found, offset)
    for snapshot in ids:
        if snapshot >= after:
            for offset in _group_offsets(store, snapshot, tuple(wanted)):
                _keep(found, offset)
    return [found[key] for key in sorted(found)]


def with_holes(store: ClusterStore, facts: PlanFacts, rested: Sequence[RestedOn]) -> PlanFacts:
    """`facts`, with whom somebody deleted lately, and whose list of groups lacks what only a
    damaged snapshot knew, or where no snapshot tells anything, or none goes on from what runs
    `rested` on: another folder, or one that is not mounted, into which collecting writes. Raises
    StoreError.
    """
    known = store.latest("snapshots") is not None
    other, since = _unpruned(store, lambda: (elsewhere_of(store, rested), carried_since(store)))
    lately = _unpruned(store, lambda: deleted(store, facts.read_at, facts.groups.keys()))
    return replace(
        facts,
        deleted=facts.deleted | lately,
        incomplete=(*facts.incomplete, *reasons(holes(store))),
        unknown_to=None if known else store.store.root,
        elsewhere=other,
        known_since=since,
    )


def elsewhere_of(store: ClusterStore, rested: Sequence[RestedOn]) -> Guard | None:
    """Guard no-history, where the folder does not go on from what runs rested on; an empty one goes
    on from nothing.
    """
    for run in rested:
        if not goes_on_from(store, run.known_since):
            before, name = _moment(run.known_since), f"run {run.run_id}"
            return elsewhere(store.store.root, _moment(known_since(store)), name, before)
    return None


def _moment(since: str | None) -> str | None:
    at = None if since is None else began_at(since)
    return since if at is None else format_time(at)


def estimates(
    store: ClusterStore, facts: PlanFacts, resolved: Mapping[TopicPartition, ResolvedTarget]
) -> tuple[str | None, dict[TopicPartition, Estimate]]:
    """The newest analysis' id, and what each partition frees, from its `curves`.

    A partition without a curve has no estimate: not measurable, never zero.
    """
    analysis = store.latest("findings")
    if analysis is None:
        return None, {}
    from dashboard.estimate import curve_tables

    topics = sorted({key.topic for key in resolved})
    curves = curve_tables.read(store, analysis, _among("topic", topics))
    return analysis, of_curves(curves, facts, resolved)


def offsets_keeping(
    store: ClusterStore, facts: PlanFacts, sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Keeping]:
    """Per partition an offset at or above which surely as many bytes of the leader's log lie, and
    the log end up to which they were counted, beyond the high watermark too.

    From the newest analysis' `curves`: what was written since then is kept besides. A partition
    is missing where no curve of its leader is known, or its topic was recreated since.
    """
    analysis = store.latest("findings")
    if analysis is None:
        return {}
    from dashboard.estimate import curve_tables

    topics = sorted({key.topic for key in sizes})
    return leaders_keeping(
        curve_tables.read(store, analysis, _among("topic", topics)), facts, sizes
    )


def ends_before(
    store: ClusterStore, facts: PlanFacts, times: Mapping[TopicPartition, datetime]
) -> dict[TopicPartition, LogEnd]:
    """Each partition's log end in a kept snapshot taken at its time or before.

    A partition is missing where none is that old, or its topic was recreated since.
    """
    from dashboard.history.log_ends import log_ends

    found: dict[TopicPartition, LogEnd] = {}
    for at in sorted(set(times.values())):
        keys = {key for key, its in times.items() if its == at}
        found |= _ends_of(facts, keys, partial(log_ends, store, at))
    return found


def _ends_of(
    facts: PlanFacts, keys: Collection[TopicPartition], ends: Callable[[pa.Table], pa.Table]
) -> dict[TopicPartition, LogEnd]:
    """What `ends` tells of these partitions; it is given their topics, as LOG_ENDS wants them."""
    import pyarrow as pa

    names = sorted({key.topic for key in keys})
    ids = {key.topic: facts.partitions[key].topic_id for key in keys}
    topics = pa.table(
        {
            "topic_no": pa.array(range(len(names)), pa.int32()),
            "topic": pa.array(names, pa.string()),
            "topic_id": pa.array([ids[name] for name in names], pa.string()),
        }
    )
    found = {}
    for row in ends(topics).to_pylist():
        key = TopicPartition(names[row["topic_no"]], row["partition"])
        if row["high_watermark"] is not None and key in keys:
            found[key] = LogEnd(row["high_watermark"], row["leader_epoch"])
    return found


def with_new_topics(
    store: ClusterStore, facts: PlanFacts, now: datetime, purge: PurgeSettings
) -> PlanFacts:
    """`facts` with the topics that are new to who subscribes by a pattern, by kept snapshots: to
    every group, or to those that were down since; but for groups that settings say do not.
    """
    from dashboard.history.log_ends import missed, new_topics

    ids = {key.topic: seen.topic_id for key, seen in facts.partitions.items()}
    refresh, by_name = purge.pattern_refresh, purge.by_name(facts.groups)
    new = new_topics(store, now, refresh, ids, unknown=True)
    older = {name: topic_id for name, topic_id in ids.items() if name not in new}
    groups = facts.groups.keys() - by_name
    down = _unpruned(store, lambda: missed(store, now, refresh, older, groups))
    return replace(facts, new_topics=new, missed=down, by_name=by_name)


def history(store: ClusterStore, facts: PlanFacts) -> History:
    """What `resolve` asks of this store."""
    return History(
        keeping=lambda sizes: offsets_keeping(store, facts, sizes),
        ends_before=lambda times: ends_before(store, facts, times),
    )


def declarations(
    settings: Settings, store: ClusterStore, topics: Iterable[str]
) -> dict[str, TopicDeclaration]:
    """What is `declared` of each topic, whichever topic of the name the page's was made of
    (`of_topic`).
    """
    where = f"declarations of {store.name}"
    from_page = [on_page(entry, where) for entry in store.declarations()]
    found = {topic: declared(topic, settings.topics, from_page) for topic in sorted(set(topics))}
    return {topic: match for topic, match in found.items() if match is not None}


# A row's columns, in the order of the record's fields.
_FIELDS = (
    "group_id", "topic", "partition", "committed_offset", "topic_id", "leader_epoch",
    "last_seen_at",
)  # fmt: skip


def _read_offsets(
    store: ClusterStore, snapshot: str, topics: tuple[str, ...]
) -> Sequence[RememberedOffset]:
    dictionary = seen_topics(store, snapshot, ["topic_no", "topic", "topic_id"])
    named = {r["topic_no"]: r for r in dictionary.to_pylist() if r["topic"] in topics}
    if not named:
        return []
    chosen = _among("topic_no", sorted(named))
    found = store.read("snapshots", snapshot, "group_offsets", only=chosen).to_pylist()
    at = seen_at(store.manifest("snapshots", snapshot))
    rows = ({**row, **named[row["topic_no"]], "last_seen_at": at} for row in found)
    return [RememberedOffset(*(row[name] for name in _FIELDS)) for row in rows]


_group_offsets = Once(_read_offsets, most=100_000)  # some 200 bytes each


def _among(column: str, values: list[Any]) -> Any:
    """The condition that a column holds one of `values`."""
    import pyarrow.compute as pc  # slow to import; a store without tables needs none

    return pc.field(column).isin(values)


def _key(offset: RememberedOffset) -> tuple[str, str, int]:
    return offset.group_id, offset.topic, offset.partition


def _later(at: datetime | None, known: datetime | None) -> bool:
    """Whether it was seen after what is known; also where nobody knows when that was."""
    return known is None or (at is not None and at > known)


def _keep(found: dict[tuple[str, str, int], RememberedOffset], offset: RememberedOffset) -> None:
    if offset.committed_offset is None or offset.committed_offset < 0:
        return
    key, topic_id = _key(offset), offset.topic_id
    if topic_id in (None, UNKNOWN_ID) and key in found:
        # Who wrote it down knew no id of the topic: it is taken for the one that is known.
        topic_id = found[key].topic_id or topic_id
    found[key] = replace(offset, topic_id=topic_id)
