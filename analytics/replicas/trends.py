"""How each replica and each disk moved lately: sums that go on from snapshot to snapshot.

Each analysis goes on from the `trends` of the newest one over every snapshot since then, so its
cost follows the new snapshot and not the length of history. What a snapshot does to a replica:

- named, but it did not answer (its broker is down): its panes stay, so its last answer is known,
  and so do those of the log dirs of a broker that told of none;
- not named any more (deleted, moved to another broker, hidden by rights): it is forgotten, as a
  log dir is that its broker does not name, or whose broker is none of the cluster's any more;
- another topic id (recreated) or another log dir: its panes begin anew;
- a log end that went back (an unclean election): lag begins anew, bytes go on by the difference;
- taken before the one before it (the clock stepped back): everything begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.metrics.scrapes import read_times, seconds
from analytics.replicas import panes
from analytics.replicas.history import Step
from analytics.replicas.panes import SECOND, Kind, Pane, Panes, Samples
from analytics.replicas.points import matched
from dashboard.core import clock
from dashboard.core.arrow import column, in_order, places, shaped
from dashboard.estimate.curve_tables import PLACE, integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

# Not settings: sums that were carried in panes of one length cannot go on in panes of another.
SIZE = Kind(12 * 3600 * SECOND, ("size",), ("bytes_in", "bytes_out"))
LAG = Kind(15 * 60 * SECOND, ("lag", "end"))
DISK = Kind(SIZE.length, ("size",), unsure=("size",))
REPLICA = ["topic", "partition", "broker_id"]
# A follower that keeps up may lack what was written since its last fetch: the broker holds one
# for replica.fetch.wait.max.ms (500 ms by default), and the answer is on its way for as long.
FETCH_SECONDS = 1.0
# The sample before the newest one, and for how many samples in a row more than that was missing.
BEFORE = ("lag_before", "end_before", "before_at", "behind_n", "behind_since")
_PLACES = [*PLACE, "topic_id"]
_DIR = ["broker_id", "log_dir"]


@dataclass(frozen=True)
class Trends:
    """Replicas (`places`: PLACE and topic_id, in the order of `points.told`) and log dirs (`dirs`:
    broker_id, log_dir) with their panes. size: bytes of log, or of a log dir's disk those in use;
    lag: records behind the leader at the same instant; end: log end offset. last: BEFORE of each
    replica; before_at is 0 without a sample before, behind_since where behind_n is 0.
    """

    places: pa.Table
    size: Panes
    lag: Panes
    last: Pane
    dirs: pa.Table
    disk: Panes


def nothing() -> Trends:
    """Before the first snapshot."""
    where = pa.schema(
        [("topic", pa.string()), ("partition", pa.int32()), ("broker_id", pa.int32()),
         ("log_dir", pa.string()), ("topic_id", pa.string())]
    ).empty_table()  # fmt: skip
    none = {kind: panes.empty(kind, 0) for kind in (SIZE, LAG, DISK)}
    dirs = where.select(_DIR)
    last: Pane = {name: np.zeros(0, dtype=np.int64) for name in BEFORE}
    return Trends(where, none[SIZE], none[LAG], last, dirs, none[DISK])


def stepped(
    before: Trends,
    replicas: pa.Table,
    step: Step,
    log_dirs: pa.Table,
    *,
    brokers: pa.Array,
    taken_at: int,
    reading: float,
) -> Trends:
    """One snapshot more: its `points.told`, the step that `history.extended` made of those with a
    size and records, its table of log dirs, the ids of the cluster's brokers, its time in
    microseconds, and how many seconds lie between the first and the last log end that it read.
    """
    row = matched(replicas, before.places, REPLICA)
    where, other = _whose(before.places, replicas, row)
    size, lag = before.size.take(row), before.lag.take(row)
    sizes = _sizes(replicas, size, step, taken_at)
    old = panes.taken(before.last, row)
    ends, anew, judged, far = _ends(replicas, lag, other, taken_at, reading)
    disk, dirs = _disks(before, log_dirs, brokers, taken_at)
    return Trends(
        where,
        panes.added(size, sizes, other),
        panes.added(lag, ends, anew),
        _last(old, lag, ends, anew, judged=judged, far=far),
        dirs,
        disk,
    )


def _whose(before: pa.Table, replicas: pa.Table, row: Ints) -> tuple[pa.Table, Flags]:
    """PLACE and topic_id, as last known, and where they are not those from before."""
    index = pa.array(row, mask=row < 0)
    found = replicas.select(_PLACES)
    other = np.zeros(len(row), dtype=bool)
    for name in ("log_dir", "topic_id"):
        now, was = column(replicas, name), column(before, name).take(index)
        differs = pc.fill_null(pc.not_equal(now, was), False)
        other |= differs.to_numpy(zero_copy_only=False)
        at = found.column_names.index(name)
        found = found.set_column(at, name, pc.coalesce(now, was))
    return found, other


def _sizes(replicas: pa.Table, size: Panes, step: Step, taken_at: int) -> Samples:
    seen, now = _known(replicas, "size_bytes")
    growth, gone = np.zeros(len(now), dtype=np.int64), np.zeros(len(now), dtype=np.int64)
    records = pc.greater(replicas["end"], replicas["start"])
    drawn = seen & pc.fill_null(records, False).to_numpy()
    growth[drawn], gone[drawn] = step.growth, step.gone
    more = now - size.now["size_last"]
    came = more + gone
    # A size that shrank by itself (the cleaner) hides what came beside it: as much as before.
    came = np.where(came < 0, np.maximum(growth, 0), came)
    at = np.full(len(now), taken_at)
    flows = {"bytes_in": came, "bytes_out": came - more}
    return Samples(seen, SIZE.start(taken_at), at, {"size": now}, flows)


def _ends(
    replicas: pa.Table, lag: Panes, other: Flags, taken_at: int, reading: float
) -> tuple[Samples, Flags, Flags, Flags]:
    """Log ends and lags; where they begin anew; where a lag is known, be it from the last answer;
    and where that is more than two fetches explain.
    """
    told, end = _known(replicas, "log_end_offset")
    at = integers(replicas["observed_at"].cast(pa.int64()), taken_at)
    now = lag.now
    known = told & (now["n"] > 0)
    anew = other | (known & ((end < now["end_last"]) | (at < now["last_at"])))
    moving = known & ~anew & (at > now["last_at"])
    seconds = np.where(moving, (at - now["last_at"]) / SECOND, 1.0)
    rate = np.where(moving, (end - now["end_last"]) / seconds, 0.0)
    leader, led = leaders(replicas, told)
    # Both ends were read moments apart: the leader's is moved to the instant of the replica's.
    there = end[leader] + rate[leader] * ((at - at[leader]) / SECOND)
    behind = np.maximum(np.rint(there).astype(np.int64) - end, 0)
    values = {"lag": np.where(leader == np.arange(len(end)), 0, behind), "end": end}
    silent = ~told & led & (now["n"] > 0) & ~other
    lacks = np.where(silent, end[leader] - now["end_last"], values["lag"])
    judged = silent | (told & led)
    explained = rate[leader] * (FETCH_SECONDS + reading)
    far = judged & moving[leader] & (lacks > explained)
    return Samples(told & led, LAG.start(taken_at), at, values), anew, judged, far


def _last(old: Pane, lag: Panes, ends: Samples, anew: Flags, *, judged: Flags, far: Flags) -> Pane:
    follows = ends.seen & (lag.now["n"] > 0) & ~anew
    kept = {name: np.where(anew, 0, values) for name, values in old.items()}
    counted = kept["behind_n"] > 0
    since = np.where(counted, kept["behind_since"], ends.at)
    fresh = {
        "lag_before": np.where(follows, lag.now["lag_last"], 0),
        "end_before": np.where(follows, lag.now["end_last"], 0),
        "before_at": np.where(follows, lag.now["last_at"], 0),
    }
    found = {name: np.where(ends.seen, values, kept[name]) for name, values in fresh.items()}
    found["behind_n"] = np.where(judged, np.where(far, kept["behind_n"] + 1, 0), kept["behind_n"])
    found["behind_since"] = np.where(judged, np.where(far, since, 0), kept["behind_since"])
    return found


def leaders(replicas: pa.Table, told: Flags) -> tuple[Ints, Flags]:
    """The row of each replica's leader that told its log end, and where there is one."""
    where = places(column(replicas, "topic_no"), column(replicas, "partition"))
    leads = pc.fill_null(replicas["is_leader"], False).to_numpy() & told
    rows = np.flatnonzero(leads)
    found = pc.index_in(where, value_set=where.take(pa.array(rows)))
    index = integers(pa.chunked_array([found]), 0)
    led = found.is_valid().to_numpy(zero_copy_only=False)
    return (rows[index] if len(rows) else np.zeros(len(index), dtype=np.int64)), led


def _disks(
    before: Trends, log_dirs: pa.Table, brokers: pa.Array, taken_at: int
) -> tuple[Panes, pa.Table]:
    log_dirs = log_dirs.filter(log_dirs["log_dir"].is_valid())
    # What comes while a broker is away belongs to its disk's pace: panes that began with its
    # catching up would tell that alone.
    away = pc.and_(
        pc.is_in(before.dirs["broker_id"], value_set=brokers),
        pc.invert(pc.is_in(before.dirs["broker_id"], value_set=column(log_dirs, "broker_id"))),
    )
    silent = before.dirs.filter(away)
    log_dirs = in_order(pa.concat_tables([log_dirs, silent], promote_options="default"), _DIR)
    dirs = log_dirs.select(_DIR)
    used = pc.subtract(log_dirs["total_bytes"], log_dirs["usable_bytes"])
    seen = used.is_valid().to_numpy()
    at = np.full(len(seen), taken_at)
    values = {"size": integers(used, 0)}
    samples = Samples(seen, DISK.start(taken_at), at, values, kind=DISK)
    old = before.disk.take(matched(dirs, before.dirs, _DIR))
    return panes.added(old, samples, np.zeros(len(seen), dtype=bool)), dirs


def _known(table: pa.Table, name: str) -> tuple[Flags, Ints]:
    return table[name].is_valid().to_numpy(), integers(table[name], 0)


PANES = ("before", "running")
_SCHEMA = FINDING_TABLES["trends"].unstamped.schema
_READ = [name for name in _SCHEMA.names if name != "pane"]
_PREFIXED = ("from", "n", "first_at", "last_at", "since", "x", "xx")


class Carried:
    """The trends of an earlier analysis, or none, as snapshot after snapshot is added to them.

    `with_disks`: those of log dirs as well, which belong to no partition; `reading`:
    `scrapes.seconds` of the snapshots, where the store shows a part of each.
    """

    def __init__(
        self,
        cluster: ClusterStore,
        base: Manifest | None,
        *,
        with_disks: bool = True,
        reading: Mapping[str, float] | None = None,
    ) -> None:
        read = cluster.read("findings", base.id, "trends", _READ) if base else _SCHEMA.empty_table()
        self._cluster = cluster
        self._counted = base.details["snapshot_id"] if base else None
        self._with_disks = with_disks
        self._reading = dict(reading or {})
        self.trends = from_table(read)

    def add(self, snapshot: Manifest, replicas: pa.Table, step: Step) -> None:
        """Go on with one snapshot: its `points.told`, and the step that it was.

        That of the earlier analysis, which is analyzed again, is among the sums already.
        """
        if snapshot.id == self._counted:
            return
        log_dirs = self._cluster.read("snapshots", snapshot.id, "log_dirs")
        log_dirs = log_dirs if self._with_disks else log_dirs.slice(0, 0)
        brokers = self._cluster.read("snapshots", snapshot.id, "brokers", ["broker_id"])
        self.trends = stepped(
            self.trends,
            replicas,
            step,
            log_dirs,
            brokers=column(brokers, "broker_id"),
            taken_at=microseconds(snapshot),
            reading=self.reading(snapshot.id),
        )

    def reading(self, snapshot_id: str) -> float:
        """Seconds between the first and the last log end that a snapshot read."""
        if snapshot_id not in self._reading:
            self._reading |= seconds(read_times(self._cluster, [snapshot_id]))
        return self._reading[snapshot_id]


def microseconds(snapshot: Manifest) -> int:
    """When it was taken, as the carried sums count time."""
    return clock.microseconds(snapshot.taken_at)


def from_table(table: pa.Table) -> Trends:
    """The trends in a table as it was written; `nothing` in an empty one."""
    if not table.num_rows:
        return nothing()
    half = table.num_rows // 2
    dirs = table["topic"].slice(0, half).null_count
    replicas = [table.slice(at, half - dirs) for at in (0, half)]
    disks = [table.slice(at + half - dirs, dirs) for at in (0, half)]
    return Trends(
        places=replicas[1].select([*PLACE, "topic_id"]),
        size=_panes(replicas, SIZE, "size"),
        lag=_panes(replicas, LAG, "lag"),
        last={name: integers(_plain(replicas[1][name]), 0) for name in BEFORE},
        dirs=disks[1].select(_DIR),
        disk=_panes(disks, DISK, "size"),
    )


def to_table(found: Trends) -> pa.Table:
    """The columns of the findings table, without snapshot_id and taken_at, sorted by its key."""
    pieces = []
    for name, size, lag, disk, last in (
        (PANES[0], found.size.before, found.lag.before, found.disk.before, {}),
        (PANES[1], found.size.now, found.lag.now, found.disk.now, _last_columns(found.last)),
    ):
        replicas = _columns(size, "size") | _columns(lag, "lag") | last
        pieces += [
            _piece(name, found.places, replicas),
            _piece(name, found.dirs, _columns(disk, "size")),
        ]
    return pa.concat_tables(pieces)


def _piece(pane: str, where: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    known: dict[str, pa.Array | pa.ChunkedArray] = {
        "pane": pa.repeat(pa.scalar(pane), where.num_rows),
        **{name: where[name] for name in where.column_names},
        **columns,
    }
    return shaped(known, where.num_rows, _SCHEMA)


def _columns(pane: Pane, kind: str) -> dict[str, pa.Array]:
    none = pane["n"] == 0
    mask = none if none.any() else None
    # NaN is not known: null in a table.
    return {
        _name(kind, name): pa.array(values, mask=None if name == "n" else mask, from_pandas=True)
        for name, values in pane.items()
    }


def _last_columns(pane: Pane) -> dict[str, pa.Array]:
    none = {"behind_since": pane["behind_n"] == 0, "behind_n": None}
    first = pane["before_at"] == 0
    return {name: pa.array(pane[name], mask=none.get(name, first)) for name in BEFORE}


def _panes(halves: list[pa.Table], kind: Kind, prefix: str) -> Panes:
    def one(table: pa.Table) -> Pane:
        whole = {n: integers(_plain(table[_name(prefix, n)]), 0) for n in kind.whole()}
        sums = {n: _floats(table[_name(prefix, n)]) for n in kind.sums()}
        for name in (
            kind.spread()
        ):  # an older minor did not count these: not known until its panes are over
            lost = (whole["n"] > 0) & table[_name(prefix, name)].is_null().to_numpy()
            sums[name] = np.where(lost, np.nan, sums[name])
        return whole | sums

    return Panes(before=one(halves[0]), now=one(halves[1]))


def _name(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if name in _PREFIXED else name


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.int64())


def _floats(values: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(pc.fill_null(values, 0.0).to_numpy())
