"""How long what a topic's declared readers have not read had been there at most, lately.

Carried from snapshot to snapshot, a row per partition: when its log ended where (knots, as many as
tell an age to within a factor), where the reader that is furthest behind stood, the longest lags of
the running pane and of the one before it, and which groups had an offset, since when no other one
came. A lag is an interval: a record at an offset came
after the last moment at which the log ended at or below it, and before the first one past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.earlier import stepped
from analytics.readers.last_writes import NEVER, Knots, added, from_lists, other_topic
from analytics.replicas.points import matched, named
from dashboard.core.arrow import column, in_order, known_true, looked_up, places, unfolded, without
from dashboard.core.clock import microseconds
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

# Not a setting: lags of panes of one length cannot go on in panes of another.
PANE = 14 * 24 * 3600 * 1_000_000
_KEY = ["topic", "partition"]
_LAGS = ("lag_low_ms", "lag_high_ms", "before_low_ms", "before_high_ms")
_TIMES = ("pane_from", "since", "seen_at", "groups_since")
_VALUES = ("position", *_LAGS, *_TIMES)
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = FINDING_TABLES["reader_lags"].unstamped.schema.names


@dataclass(frozen=True)
class _State:
    """Per partition of `places` (_KEY and topic_id) its knots, _VALUES (NEVER is null), and the
    names of groups with an offset when it was read last.
    """

    places: pa.Table
    knots: Knots
    values: dict[str, Ints]
    groups: pa.Array


@dataclass(frozen=True)
class _Look:
    """One snapshot's partitions: where their logs began and ended, which groups have an offset, and
    the lowest of these, NEVER where none has one; `told`: whether all of that was read, by a clock
    that was right.
    """

    places: pa.Table
    start: Ints
    end: Ints
    told: Flags
    position: Ints
    groups: pa.Array


def judged(topics: pa.Table) -> pa.Array:
    """Those of `topics.with_new` whose groups are all their readers, and whose records expire."""
    deleted = known_true(pc.equal(topics["cleanup_policy"], "delete"))
    chosen = pc.and_(pc.and_(topics["readers_declared"], deleted), pc.invert(topics["is_system"]))
    return column(topics.filter(chosen), "topic")


def fold(
    cluster: ClusterStore,
    snapshot: Manifest,
    base: Manifest | None,
    before: Sequence[Manifest],
    topics: pa.Array,
) -> pa.Table:
    """The `reader_lags` of these topics (`judged`), without snapshot_id and taken_at, by its key.

    Goes on from those of `base`, an earlier analysis, over every snapshot since then. Without it,
    the longer lags that the analyses `before` (`earlier.going_on`) knew of the same panes count.
    """
    if not len(topics):
        return _to_table(_NOTHING)
    found = _from_table(cluster.read("findings", base.id, "reader_lags")) if base else _NOTHING

    def step(was: _State, now: Manifest) -> _State:
        return _stepped(was, _look(cluster, now, topics), microseconds(now.taken_at))

    found = stepped(cluster, base, snapshot, found, step)
    for analysis in () if base else before:
        if "reader_lags" in analysis.tables:
            known = cluster.read("findings", analysis.id, "reader_lags")
            found = _remembered(found, _from_table(known))
    return in_order(_to_table(found), _KEY)


def _look(cluster: ClusterStore, snapshot: Manifest, topics: pa.Array) -> _Look:
    chosen = cluster.read("snapshots", snapshot.id, "topics", ["topic_no", "topic", "topic_id"])
    chosen = chosen.filter(pc.is_in(chosen["topic"], value_set=topics))
    numbers = column(chosen, "topic_no")
    rows = cluster.read("snapshots", snapshot.id, "partitions", _READ)
    rows = rows.filter(pc.is_in(rows["topic_no"], value_set=numbers))
    commits = cluster.read("snapshots", snapshot.id, "group_offsets", _COMMITS)
    commits = commits.filter(pc.is_in(commits["topic_no"], value_set=numbers))
    wrong = commits.filter(commits["error"].is_valid())
    unread = places(column(wrong, "topic_no"), column(wrong, "partition"))
    commits = commits.filter(known_true(pc.greater_equal(commits["committed_offset"], 0)))
    commits = in_order(commits, ["group_id"])
    found = commits.group_by(["topic_no", "partition"], use_threads=False)  # lists keep that order
    found = found.aggregate([("committed_offset", "min"), ("group_id", "list")])
    at, own = (places(column(t, "topic_no"), column(t, "partition")) for t in (rows, found))
    position = looked_up(at, own, column(found, "committed_offset_min"))
    rows = named(rows, chosen)
    told = pc.and_(rows["high_watermark"].is_valid(), rows["log_start_offset"].is_valid())
    whole = clock_was_right(snapshot) and not snapshot.details.get("groups_incomplete")
    told = pc.and_(told, pc.invert(pc.is_in(at, value_set=unread)))
    return _Look(
        rows.select([*_KEY, "topic_id"]),
        integers(rows["log_start_offset"], 0),
        integers(rows["high_watermark"], 0),
        np.asarray(told.to_numpy()) & whole,
        integers(pa.chunked_array([position], pa.int64()), NEVER),
        looked_up(at, own, column(found, "group_id_list")),
    )


_READ = ["topic_no", "partition", "log_start_offset", "high_watermark"]
_COMMITS = ["topic_no", "partition", "group_id", "committed_offset", "error"]


def _stepped(before: _State, look: _Look, at: int) -> _State:
    """One snapshot more, taken `at` (microseconds). What it could not read stays as it was.

    Another topic id, a log that lost its end and a clock that stepped back begin anew.
    """
    row = matched(look.places, before.places, _KEY)
    was = {name: np.append(values, NEVER)[row] for name, values in before.values.items()}
    kept = before.knots.taken(row)
    anew = other_topic(look.places, before.places, row) | (was["seen_at"] > at)
    anew |= look.told & (kept.newest_end > look.end)
    was = {name: np.where(anew, NEVER, values) for name, values in was.items()}
    told = look.told & (was["seen_at"] != at)  # a snapshot that is analyzed again is one look
    drawn = added(kept.forgotten(anew), told, look.end, at)
    read = np.where(look.end <= look.start, look.end, look.position)
    judged_now = told & (read != NEVER)
    worst = np.where(was["position"] == NEVER, read, np.minimum(read, was["position"]))
    low, high = drawn.youngest(read, at), drawn.oldest(worst, at)
    known = judged_now & (high != NEVER)
    lag = (low // 1000, -(-high // 1000))
    values = _panes(was, known, told & ~known, at, lag)
    values["position"] = np.where(told, read, was["position"])
    values["seen_at"] = np.where(told, at, was["seen_at"])
    groups = before.groups.take(pa.array(row, mask=row < 0))
    came = (was["groups_since"] == NEVER) | _came(look.groups, groups)
    values["groups_since"] = np.where(told & came, at, was["groups_since"])
    return _State(look.places, drawn, values, pc.if_else(pa.array(told), look.groups, groups))


def _came(now: pa.Array, before: pa.Array) -> Flags:
    """Where a group has an offset that had none at the last look: whoever comes once a week may
    have come for the first time.
    """
    pairs = [unfolded(lists) for lists in (now, before)]
    coded = pa.concat_arrays([names for _, names in pairs]).dictionary_encode()
    codes = np.split(coded.indices.to_numpy(), [len(pairs[0][1])])
    width = max(len(coded.dictionary), 1)
    new, old = (
        rows.to_numpy().astype(np.int64) * width + of
        for (rows, _), of in zip(pairs, codes, strict=True)
    )
    came = np.zeros(len(now), dtype=bool)
    came[without(new, old) // width] = True
    return came


def _panes(
    was: dict[str, Ints], known: Flags, lost: Flags, at: int, lag: tuple[Ints, Ints]
) -> dict[str, Ints]:
    """The panes' longest lags with one more where it is `known`; none are where it is `lost`."""
    begins = at - at % PANE
    running, follows = was["pane_from"] == begins, was["pane_from"] == begins - PANE
    found = {}
    for name, value in zip(("low", "high"), lag, strict=True):
        now, earlier = was[f"lag_{name}_ms"], was[f"before_{name}_ms"]
        longest = np.where(running, np.maximum(now, value), value)
        previous = np.where(running, earlier, np.where(follows, now, NEVER))
        for key, new, old in (("lag", longest, now), ("before", previous, earlier)):
            kept = np.where(lost, NEVER, old)
            found[f"{key}_{name}_ms"] = np.where(known, new, kept)
    # What the panes have forgotten nobody may rest on.
    began = np.where(was["since"] == NEVER, at, np.maximum(was["since"], begins - PANE))
    found["since"] = np.where(known, began, np.where(lost, NEVER, was["since"]))
    found["pane_from"] = np.where(known, begins, np.where(lost, NEVER, was["pane_from"]))
    return found


def _remembered(found: _State, known: _State) -> _State:
    """`found`, and the longer lags that an earlier analysis knew of the same panes, and since when
    it did, where what is known goes on without a gap.
    """
    row = matched(found.places, known.places, _KEY)
    was = {name: np.append(values, NEVER)[row] for name, values in known.values.items()}
    values = dict(found.values)
    joins = (values["since"] != NEVER) & (was["since"] != NEVER) & (was["since"] < values["since"])
    joins &= (was["seen_at"] >= values["since"]) & ~other_topic(found.places, known.places, row)
    same, follows = (joins & (was["pane_from"] == values["pane_from"] - n) for n in (0, PANE))
    for end in ("low", "high"):
        now, before = f"lag_{end}_ms", f"before_{end}_ms"
        values[before] = np.where(same, np.maximum(values[before], was[before]), values[before])
        values[before] = np.where(follows, np.maximum(values[before], was[now]), values[before])
        values[now] = np.where(same, np.maximum(values[now], was[now]), values[now])
    told = np.maximum(was["since"], values["pane_from"] - PANE)
    values["since"] = np.where(joins, told, values["since"])
    # It saw snapshots that are pruned by now; what came after it is found by those that are kept.
    knew = (values["groups_since"] != NEVER) & (was["seen_at"] >= values["groups_since"])
    knew &= (was["groups_since"] != NEVER) & ~other_topic(found.places, known.places, row)
    values["groups_since"] = np.where(knew, was["groups_since"], values["groups_since"])
    return _State(found.places, found.knots, values, found.groups)


def _from_table(table: pa.Table) -> _State:
    values = {n: integers(table[n].cast(pa.int64()), NEVER) for n in _VALUES}
    drawn = from_lists(table["knot_times"], table["knot_ends"])
    return _State(table.select([*_KEY, "topic_id"]), drawn, values, column(table, "groups"))


def _to_table(found: _State) -> pa.Table:
    columns = {name: found.places[name] for name in found.places.column_names}
    for name, values in found.values.items():
        array = pa.array(values, mask=values == NEVER)
        columns[name] = array.cast(_TIME) if name in _TIMES else array
    columns["knot_times"], columns["knot_ends"] = found.knots.lists()
    columns["groups"] = found.groups
    return pa.table(columns).select(_COLUMNS)


_NOTHING = _from_table(FINDING_TABLES["reader_lags"].schema.empty_table())


def sums(lags: pa.Table, rows: pa.Table, taken_at: int) -> pa.Table:
    """What some partitions add to each topic: partitions, unknown (no lag is known, or was not
    read at `taken_at`, microseconds), lag_low_ms and lag_high_ms, the longest, since and
    groups_since, the latest, and, with their own null rows, guard: those that say that readers are
    not known.

    `rows`: those of `reclaimable` up to the high watermark. Sums of parts may be summed again.
    """
    seen = known_true(pc.equal(lags["seen_at"].cast(pa.int64()), taken_at))
    unknown = pc.or_(pc.invert(seen), lags["since"].is_null())
    found = {
        "topic": lags["topic"],
        "partitions": pa.repeat(pa.scalar(1, pa.int64()), lags.num_rows),
        "unknown": unknown.cast(pa.int64()),
        "since": lags["since"],
        "groups_since": lags["groups_since"],
    } | {
        f"lag_{end}_ms": pc.max_element_wise(lags[f"lag_{end}_ms"], lags[f"before_{end}_ms"])
        for end in ("low", "high")
    }
    own = rows.filter(pc.is_in(rows["topic"], value_set=pc.unique(lags["topic"])))
    guards = column(own, "guards")
    names = pc.struct_field(pc.list_flatten(guards), "name")
    of = column(own, "topic").take(pc.list_parent_indices(guards))
    stands = pa.table({"topic": of, "guard": names})
    stands = stands.filter(pc.is_in(stands["guard"], value_set=pa.array(UNKNOWN_READERS)))
    return summed(pa.concat_tables([pa.table(found), stands], promote_options="default"))


def summed(found: pa.Table) -> pa.Table:
    """One row per topic and guard; the row without a guard has the lags."""
    rows = found.group_by(["topic", "guard"]).aggregate(list(_SUMS.items()))
    return rows.rename_columns(["topic", "guard", *_SUMS])


_SUMS = {
    "partitions": "sum", "unknown": "sum", "since": "max", "groups_since": "max",
    "lag_low_ms": "max", "lag_high_ms": "max",
}  # fmt: skip
# Guards by which somebody may read, or build state from, more than the groups' offsets tell.
UNKNOWN_READERS = (
    "groups-incomplete", "no-committed-offset", "members-without-commits", "share-group",
    "changelog-source", "remote-storage",
)  # fmt: skip
