"""The triage of one disk: look, weigh, choose the smallest safe set, plan it from live reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import going_on, utc_now
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.domain.system_topics import is_system_topic
from dashboard.history.findings_age import Age, age_of
from dashboard.purge.evidence import memory
from dashboard.purge.forecast import reading as forecast_reading
from dashboard.purge.forecast.forecast import Forecast, judge
from dashboard.purge.plan.drafts import PlanRequest, Read, read_live
from dashboard.purge.plan.facts import config_values
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import Target
from dashboard.settings.settings import Settings
from dashboard.store.connections import client_for
from dashboard.store.finding_rows import Blocker, GrowthRow, SlowFollower
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.triage import selection
from dashboard.triage import timing as followers
from dashboard.triage.pieces import NONE, WAIVED, Blocked, Disk, Here, Piece, gains, look, pieces
from dashboard.triage.selection import SURE, Chosen, Offer, Question, choose, sureness
from dashboard.triage.timing import Risk, Timing, timing

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.estimate.curve_tables import ReplicaCurves


@dataclass(frozen=True, slots=True)
class Triage:
    """What can be had on that disk, and the plan of it (None: nothing can be had safely).

    `age` is that of the snapshot by which bytes are known, `analysis_at` when its analysis began.
    `needed_bytes` is what was asked for and what is written meanwhile (`written_bytes`, None where
    that is not known). `unaccepted` are pieces that an undeclared topic keeps from being chosen,
    `blocked` what other guards keep, `unread` topics that could not be read live,
    `incomplete` why groups may be missing from their list.
    """

    question: Question
    cluster_name: str
    analysis_id: str
    analysis_at: datetime
    age: Age
    disk: Disk
    needed_bytes: int
    written_bytes: int | None
    chosen: tuple[Chosen, ...] = ()
    plan: Plan | None = None
    timing: Timing | None = None
    risks: tuple[Risk, ...] = ()
    mode: str = followers.WAIT_ALL
    offers: tuple[Offer, ...] = ()
    unaccepted: tuple[Piece, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    unread: tuple[str, ...] = field(default=())
    incomplete: tuple[str, ...] = field(default=())

    @property
    def here(self) -> Here:
        """What the plan frees on the disk in need, at once."""
        return sum((c.here for c in self.chosen), NONE)

    @property
    def sure(self) -> str:
        return sureness(self.here, self.needed_bytes)

    @property
    def in_time(self) -> bool | None:
        """Whether all of it has left by then in the worst case; None without a plan."""
        return None if self.timing is None else self.timing.within(self.question.within)

    @property
    def met(self) -> bool:
        """Whether the low estimate reaches the need, in time."""
        return self.sure == SURE and bool(self.in_time)


def triage(
    settings: Settings,
    store_root: str,
    cluster: str | None,
    question: Question,
    *,
    client_overrides: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Triage:
    """The triage of a disk of the cluster that `store_root` knows by this name or id.

    Changes nothing. Raises as `drafts.draft` does, StoreError NO_ANALYSIS, UsageError
    BROKER_NOT_FOUND or LOG_DIR_NOT_FOUND, and RefusedError GROUP_ALIVE.
    """
    store = Store(store_root).cluster(cluster)
    client = client_for(settings, store, client_overrides)
    with connect(client, settings.broker_timeout, cluster_id=store.cluster_id) as live:
        return triage_live(live, settings, store, question, now=now or utc_now())


def triage_live(
    live: LiveCluster,
    settings: Settings,
    store: ClusterStore,
    question: Question,
    *,
    now: datetime,
) -> Triage:
    """The same over an open cluster."""
    clock = going_on(now)
    found = known(store, question.broker_id, settings.every, now)
    disk = look(
        live, question.broker_id, question.log_dir, known=found.log_dirs, growth=found.growth
    )
    written = disk.written_in(question.within)
    answer = Triage(
        question,
        store.name,
        found.analysis_id,
        found.analysis_at,
        found.age,
        disk,
        question.need_bytes + (written or 0),
        written,
    )
    if disk.obstacle:
        return answer
    here = found.on(disk)
    dead = found.dead_groups(here)
    groups = {row.group_id for row in dead} | question.waived_groups
    topics, unread = _readable(live, found.topics(here, groups))
    answer = replace(answer, unread=tuple(unread))
    if not topics:
        return answer
    request = PlanRequest(
        tuple(sorted(topics)),
        Target("committed"),
        waive=question.waive,
        override=question.override,
        by=question.by,
    )
    read = read_live(live, settings, store, request, now=clock())
    answer = replace(answer, incomplete=read.facts.incomplete)
    selection.refuse_alive(read.facts.groups, read.waivers)
    answer, plain = _weighed(live, answer, read, here, dead)
    if not answer.chosen:
        return answer
    plan = _plan(store, plain, read, answer)
    return _timed(live, settings, replace(answer, plan=plan), found)


def _weighed(
    live: LiveCluster,
    answer: Triage,
    read: Read,
    here: ReplicaCurves,
    dead: Sequence[Blocker],
) -> tuple[Triage, Read]:
    """What is chosen, and what is not for those who ask why; and the reading without waivers."""
    waived = {w.group_id for w in read.waivers}
    plain = selection.waived(live, read, ()) if waived else read
    free, blocked = pieces(plain, here)
    every = [*free, *(gains(read, here, free) if waived else ())]
    accepted = [p for p in every if answer.question.override or not p.undeclared]
    most = read.settings.purge.most_partitions
    others = [row for row in dead if row.group_id not in waived]
    return (
        replace(
            answer,
            chosen=choose(accepted, answer.needed_bytes, most),
            offers=tuple(selection.offers(live, plain, here, free, others)),
            unaccepted=tuple(p for p in every if p not in accepted),
            blocked=tuple(blocked),
        ),
        plain,
    )


def _plan(store: ClusterStore, plain: Read, waived: Read, answer: Triage) -> Plan:
    """A plan of the chosen partitions; the waiver's targets only where it is needed."""
    raised = {c.key for c in answer.chosen if c.tier == WAIVED}
    resolved = {
        c.key: (waived if c.key in raised else plain).resolved[c.key] for c in answer.chosen
    }
    _, estimates = memory.estimates(store, plain.facts, resolved)
    read = waived if raised else plain
    made = replace(read, resolved=resolved, estimates=estimates)
    return made.plan(answer.question.override)


def _timed(live: LiveCluster, settings: Settings, answer: Triage, found: Known) -> Triage:
    """When the bytes leave, who makes that later, and which mode not to wait in vain."""
    broker_id, keys = answer.question.broker_id, {c.key for c in answer.chosen}
    topics = sorted({key.topic for key in keys})
    foreseen = _forecast(live, settings, keys)
    risks = followers.risks(found.followers, keys, foreseen)
    mode = followers.mode(risks, foreseen)
    untold = foreseen is None and bool(found.age.unusable)
    times = timing(
        live.configs(topics, [broker_id]),
        broker_id,
        topics,
        purge_seconds=followers.purge_seconds(mode, foreseen),
        follower_seconds=None if untold else followers.follower_seconds(risks, broker_id),
    )
    return replace(answer, risks=risks, mode=mode, timing=times)


def _forecast(
    live: LiveCluster, settings: Settings, keys: Collection[TopicPartition]
) -> Forecast | None:
    """How waiting for all would go just now; None where the cluster does not say."""
    try:
        return judge(forecast_reading.read(live, keys), {}, settings.purge)
    except ClusterError:
        return None


def _readable(live: LiveCluster, names: Collection[str]) -> tuple[list[str], list[str]]:
    """Topics that can be planned, and those that cannot: one of them must not stop the others."""
    wanted = sorted(names)
    states = live.topics(wanted) if wanted else {}
    configs = config_values(live.configs(wanted)) if wanted else {}
    good = [
        name
        for name in wanted
        if (state := states.get(name)) is not None
        and not state.error
        and configs.get(name, {}).get("cleanup.policy")
    ]
    return good, [name for name in wanted if name not in good]


# What the newest analysis knows of one broker: its replicas' curves, growth, followers, holds.
#
# Bytes stay where they lie, and what a group holds is read again; how a disk grows and who is slow
# is over by the time that findings are unusable: both are empty then.

_MOST_OFFERS = 5  # groups whose waiver is computed live


@dataclass(frozen=True)
class Known:
    """Tables of one analysis, when it began, and how old its snapshot is."""

    broker_id: int
    analysis_id: str
    analysis_at: datetime
    age: Age
    knots: pa.Table  # `curves` of this broker's replicas alone
    reclaimable: pa.Table
    growth: Sequence[GrowthRow]
    followers: Sequence[SlowFollower]
    blockers: Sequence[Blocker]

    @cached_property
    def curves(self) -> ReplicaCurves:
        """The curve of every replica of this broker."""
        from dashboard.estimate.curve_tables import from_table

        return from_table(self.knots)

    @cached_property
    def keys(self) -> list[TopicPartition]:
        """Whose curve each one is."""
        places = self.curves.places
        names, numbers = places["topic"].to_pylist(), places["partition"].to_pylist()
        return list(map(TopicPartition, names, numbers))

    @property
    def log_dirs(self) -> dict[str, int]:
        """The broker's log dirs with the bytes of their replicas when they were measured."""
        sizes = self.curves.curves.below[self.curves.curves.last].tolist()
        found: dict[str, int] = {}
        for name, size in zip(self.curves.places["log_dir"].to_pylist(), sizes, strict=True):
            found[name] = found.get(name, 0) + size
        return found

    def on(self, disk: Disk) -> ReplicaCurves:
        """The curves of what lies in that log dir now, or lay there if it does not list it."""
        import numpy as np
        import pyarrow as pa

        from dashboard.estimate.curve_tables import from_table

        dirs, listed = self.curves.places["log_dir"].to_pylist(), disk.replicas
        there = [
            log_dir == disk.log_dir and (listed is None or key in listed)
            for key, log_dir in zip(self.keys, dirs, strict=True)
        ]
        curves = self.curves.curves
        kept = np.repeat(np.array(there, dtype=bool), curves.last - curves.first + 1)
        return from_table(self.knots.filter(pa.array(kept)))

    def topics(self, here: ReplicaCurves, groups: Collection[str]) -> set[str]:
        """Topics with something to free there by the committed target, or held by these groups."""
        import numpy as np

        bounds = {
            TopicPartition(row["topic"], row["partition"]): row
            for row in self.reclaimable.to_pylist()
        }
        places = here.places.select(["topic", "partition"]).to_pylist()
        rows = [bounds.get(TopicPartition(p["topic"], p["partition"]), {}) for p in places]
        starts, targets = (
            np.array([row.get(name) or 0 for row in rows], dtype=np.int64)
            for name in ("log_start_offset", "target_offset")
        )
        curves = here.curves
        some = (curves.freed(starts, targets).once_high > 0) | (
            (targets > starts) & ~curves.bounded(targets)
        )
        free = {p["topic"] for p, frees in zip(places, some.tolist(), strict=True) if frees}
        there = {p["topic"] for p in places}
        held = {row.topic for row in self.blockers if row.group_id in groups} & there
        return {topic for topic in free | held if not is_system_topic(topic)}

    def dead_groups(self, here: ReplicaCurves) -> Sequence[Blocker]:
        """Groups without members that hold most back on these topics, one each, most first."""
        there = set(here.places["topic"].to_pylist())
        found: dict[str, Blocker] = {}
        for row in self.blockers:
            if row.members or not row.bytes_freed_if_waived or row.topic not in there:
                continue
            before = found.get(row.group_id)
            seen = [at for at in (before and before.last_commit_at, row.last_commit_at) if at]
            freed = row.bytes_freed_if_waived + ((before and before.bytes_freed_if_waived) or 0)
            found[row.group_id] = replace(
                row, bytes_freed_if_waived=freed, last_commit_at=max(seen, default=None)
            )
        order = sorted(found.values(), key=lambda g: (-(g.bytes_freed_if_waived or 0), g.group_id))
        return order[:_MOST_OFFERS]


def known(store: ClusterStore, broker_id: int, every: timedelta, now: datetime) -> Known:
    """Read it; `every` as settings have it. Raises StoreError NO_ANALYSIS."""
    import pyarrow.compute as pc

    from dashboard.core.arrow import records

    analysis = store.latest_analysis()
    manifest = store.manifest("findings", analysis)
    age = age_of(store, manifest, now, every)

    def table(name: str, only: pc.Expression, columns: list[str] | None = None) -> pa.Table:
        return store.read("findings", analysis, name, columns, only=only)

    own = pc.field("broker_id") == broker_id
    targets = ["topic", "partition", "target", "target_offset", "log_start_offset"]
    return Known(
        broker_id,
        analysis,
        manifest.taken_at,
        age,
        table("curves", own),
        table("reclaimable", pc.field("target") == "committed", targets),
        () if age.unusable else records(table("growth", own), GrowthRow),
        () if age.unusable else records(table("slow_followers", pc.field("slow")), SlowFollower),
        records(store.read("findings", analysis, "blockers"), Blocker),
    )
