"""How long each mode of a purge would take just now, and which brokers would hold it up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta

from dashboard.cluster.live import connect
from dashboard.core.errors import StoreError
from dashboard.domain.model import PartitionState
from dashboard.purge.forecast.reading import Reading, leader_ends, read
from dashboard.purge.forecast.stalls import UNUSABLE, Ends, Stall, followers_behind, stalls_of
from dashboard.purge.forecast.waits import Wait, waits_of
from dashboard.purge.plan.cluster_seam import prove_cluster
from dashboard.purge.plan.plan import Plan
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.connections import client_for
from dashboard.store.finding_rows import SlowFollower
from dashboard.store.snapshots import ClusterStore, Store

# Longer than any healthy answer about 10,000 partitions; a broker that hangs costs it once.
PATIENCE = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a wait-all request would meet, and what each leader speaks.

    `quick` partitions answer within `quick_seconds` (None: the brokers' long poll is not known);
    `waiting` ones with the next fetch of followers that are behind and fetch; `timing_out` ones
    as far as can be seen not before the request's timeout; `unusable` ones have no leader that
    answers.
    `not_alive` maps a broker that is down to its partitions: nobody waits for it. `leaders` maps
    a leader to its partitions, `versions` to its highest DeleteRecords version, where it said;
    of brokers in `moves_unknown` it is not known whether they move log dirs. `waits` has every
    partition's own interval; `slow` is what the newest analysis knows of the brokers in `stalls`.
    """

    read_at: datetime
    seconds: float
    timeout_seconds: float
    quick: int
    quick_seconds: float | None
    waiting: int
    timing_out: int
    unusable: int
    stalls: tuple[Stall, ...]
    not_alive: Mapping[int, int]
    leaders: Mapping[int, int]
    versions: Mapping[int, int]
    moves_unknown: tuple[int, ...] = ()
    waits: tuple[Wait, ...] = ()
    slow: Mapping[int, SlowBroker] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        return self.quick + self.waiting + self.timing_out + self.unusable


def forecast(
    settings: Settings,
    store_root: str,
    cluster: str | None,
    plan: Plan,
    *,
    client_overrides: Mapping[str, str] | None = None,
) -> Forecast:
    """The forecast for a plan's free partitions, read live; changes nothing, asks for no group.

    Raises StoreError, SettingsError, RefusedError CLUSTER_MISMATCH, and ClusterError when no
    broker answers.
    """
    store = Store(store_root).cluster(cluster)
    client = client_for(settings, store, client_overrides)
    patience = min(settings.broker_timeout, PATIENCE)
    with connect(client, patience, cluster_id=plan.cluster_id) as live:
        prove_cluster(live, plan.cluster_id)
        reading = read(live, [p.key for p in plan.free_partitions])
    found = judge(reading, {}, settings.purge)
    if not found.stalls:
        return found
    behind = followers_behind(reading, found.stalls)
    if behind:
        found = judge(reading, leader_ends(store, behind, reading.topic_ids), settings.purge)
    return replace(found, slow=slow_brokers(store, {s.broker_id for s in found.stalls}))


def judge(reading: Reading, ends: Ends, purge: PurgeSettings) -> Forecast:
    """The forecast from what was read, and from since when the leaders' logs ended where. Pure.

    A leader answers when every replica on an alive broker, and its own future replica, starts at
    the target (KIP-107, `Partition.lowWatermarkIfLeader`).
    """
    of_partition = {k: stalls_of(reading, s, ends) for k, s in sorted(reading.partitions.items())}
    stalls = [stall for found in of_partition.values() for stall in found]
    quick: list[PartitionState] = []
    waiting = unusable = 0
    for key, found in of_partition.items():
        state = reading.partitions[key]
        if not found:
            quick.append(state)
        elif any(stall.cause in UNUSABLE for stall in found):
            unusable += 1
        elif all(stall.fetching for stall in found):
            waiting += 1
    states = reading.partitions.values()
    leaders = Counter(s.leader_id for s in states if s.leader_id is not None)
    down = Counter(b for s in states for b in s.replicas if b not in reading.alive)
    return Forecast(
        read_at=reading.read_at,
        seconds=reading.seconds,
        timeout_seconds=purge.request_timeout.total_seconds(),
        quick=len(quick),
        quick_seconds=_quick_seconds(quick, reading, purge),
        waiting=waiting,
        timing_out=len(states) - len(quick) - waiting - unusable,
        unusable=unusable,
        stalls=tuple(stalls),
        not_alive=dict(sorted(down.items())),
        leaders=dict(sorted(leaders.items())),
        versions={b: v for b, v in sorted(reading.versions.items()) if b in leaders},
        moves_unknown=tuple(sorted(reading.log_dirs_unread & set(leaders))),
        waits=tuple(waits_of(reading, of_partition, purge.request_timeout.total_seconds())),
    )


def _quick_seconds(
    quick: Sequence[PartitionState], reading: Reading, purge: PurgeSettings
) -> float | None:
    """Idle followers come within their long poll; a leader's requests queue behind each other."""
    if not quick:
        return None
    followers = {b for s in quick for b in s.replicas if b != s.leader_id and b in reading.alive}
    if not followers:
        return 0.0
    known = [reading.fetch_wait_ms[b] for b in followers if b in reading.fetch_wait_ms]
    if not known:
        return None
    most = max(Counter(state.leader_id for state in quick).values())
    requests = -(-most // purge.partitions_per_request)
    return -(-requests // purge.requests_in_flight) * max(known) / 1000


# What the newest analysis knows of brokers with slow followers: what a live look cannot tell.

TABLE = "slow_followers"
_COLUMNS = [field.name for field in fields(SlowFollower)]


@dataclass(frozen=True, slots=True)
class SlowBroker:
    """Why most slow followers of a broker are slow, and when the last one has caught up.

    `caught_up_at` is None where one of them has no end in sight.
    """

    cause: str | None
    caught_up_at: datetime | None


def slow_brokers(store: ClusterStore, broker_ids: Collection[int | None]) -> dict[int, SlowBroker]:
    """Those of `broker_ids` that have slow followers.

    Empty without an analysis, or with one that did not look at followers.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from dashboard.core.arrow import records

    wanted = pa.array({broker for broker in broker_ids if broker is not None}, pa.int32())
    try:
        analysis_id = store.latest("findings")
        if analysis_id is None or TABLE not in store.manifest("findings", analysis_id).tables:
            return {}
        chosen = pc.field("slow") & pc.field("broker_id").isin(wanted)
        table = store.read("findings", analysis_id, TABLE, _COLUMNS, only=chosen)
    except StoreError:
        return {}
    rows = records(table, SlowFollower)
    slow: dict[int, list[SlowFollower]] = defaultdict(list)
    for row in rows:
        slow[row.broker_id].append(row)
    return {broker_id: _told(found) for broker_id, found in sorted(slow.items())}


def _told(rows: list[SlowFollower]) -> SlowBroker:
    causes = Counter(row.cause for row in rows if row.cause)
    ends = [
        row.observed_at + timedelta(seconds=row.catch_up_seconds)
        for row in rows
        if row.observed_at is not None and row.catch_up_seconds is not None
    ]
    return SlowBroker(
        causes.most_common(1)[0][0] if causes else None,
        max(ends) if len(ends) == len(rows) else None,
    )
