"""Analysis, plan, re-check, what-if and the simulation of policies judge a cluster alike."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analytics.readers import groups, holds, partitions, topics
from analytics.readers.partitions import described
from dashboard.domain.model import Group, GroupOffset, TopicPartition
from dashboard.estimate.curve_tables import from_table
from dashboard.history.week.moments import earlier, moments
from dashboard.history.week.rows import memory as remembered
from dashboard.history.week.rows import rows, unanalyzed
from dashboard.history.week.rows import topics as named
from dashboard.history.week.targets import Ends, wanted
from dashboard.history.week.targets import windows as window_of
from dashboard.purge.evidence import memory
from dashboard.purge.evidence.revived import in_force
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.facts import PlanFacts, read_facts
from dashboard.purge.plan.guards import Override, Waive, Waiver, findings
from dashboard.purge.plan.plan import Plan, build
from dashboard.purge.plan.resolve import ResolvedTarget, resolve
from dashboard.purge.plan.targets import parse_target
from dashboard.safety.guards import findings as judged
from dashboard.safety.standing import Standing, standing
from dashboard.settings.settings import LIFTABLE_GUARDS, PurgeSettings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, conform
from dashboard.views.what_if import waive
from tests.support.cluster import FakePartition
from tests.support.examples import examples
from tests.support.one_bucket import who_reads
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.safety.drawn import DAY, Drawn, clusters, pasts, taken, times

# A plan's own: its size, days of metrics; and what it is judged by beside the partition.
_PLANS_OWN = {"over-limit", "unseen-reader-suspected"}


@dataclass(frozen=True)
class Case:
    """A cluster of now, its past, and what was declared of the topic."""

    now: Drawn
    past: Drawn
    declaration: TopicDeclaration | None
    waived: frozenset[str]

    @property
    def declarations(self) -> dict[str, TopicDeclaration]:
        return {} if self.declaration is None else {TOPIC: self.declaration}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    now = draw(clusters())
    declaration = TopicDeclaration(
        TOPIC, "team", draw(st.sampled_from(("groups", "unknown"))),
        draw(st.sampled_from((timedelta(0), timedelta(hours=2), 2 * DAY))), "ann", "2026-01-01",
        state_restore=draw(st.sampled_from(("none", "unknown"))),
    )  # fmt: skip
    return Case(
        now, draw(pasts(now)), draw(st.sampled_from((None, declaration, declaration))),
        draw(st.frozensets(st.sampled_from(("app", "b", "gone")), max_size=2)),
    )  # fmt: skip


class Analysis:
    """What the analysis says of a case, without the bytes, for which curves are needed."""

    def __init__(self, store: ClusterStore, case: Case) -> None:
        snapshot = store.manifest("snapshots", store.latest_snapshot())
        read = {
            name: store.read("snapshots", snapshot.id, name)
            for name in ("topics", "configs", "partitions", "replicas", "groups", "group_offsets",
                         "reassignments")
        }  # fmt: skip
        declared = [case.declaration] if case.declaration else []
        named = topics.with_settings(
            topics.describe(read["topics"], (declared, ())), read["configs"]
        )
        named = topics.with_new(named, store, snapshot, PURGE.pattern_refresh)
        offsets = holds.fold(store, snapshot, named, None, kept_for=timedelta(days=90))
        self.held, _ = holds.split(offsets, named)
        of = partitions.of_topics(read["partitions"], named)
        commits = groups.commits(offsets, named, snapshot)
        applications = topics.streams_remembered(store, snapshot, None, (), offsets)
        who = who_reads(store, snapshot, named, streams=applications, held=offsets, by_name=("c",))
        self.groups: Standing = standing(of, commits, named, who)
        found = partitions.partitions(
            of, read["replicas"], topics=named, groups=self.groups,
            windows=partitions.window_starts(store, snapshot, named),
        )  # fmt: skip
        self.rows = described(found, named, read["reassignments"])
        self.incomplete = list(snapshot.details["groups_incomplete"])

    def targets(self, name: str) -> dict[TopicPartition, int | None]:
        offsets = self.rows[f"{name}_target"].to_pylist()
        return {TopicPartition(TOPIC, n): at for n, at in enumerate(offsets)}

    def guards(self, name: str) -> dict[TopicPartition, list[str]]:
        called = {f"{name}_target": "target_offset", f"{name}_problem": "target_problem"}
        table = self.rows.rename_columns([called.get(c, c) for c in self.rows.column_names])
        found: dict[TopicPartition, list[str]] = {
            TopicPartition(TOPIC, n): [] for n in range(table.num_rows)
        }
        for row in judged(table, self.groups, self.incomplete).to_pylist():
            found[TopicPartition(TOPIC, row["row"])].append(f"{row['name']}: {row['reason']}")
        return found

    def facts(self) -> pa.Table:
        """The committed target's rows as the what-if reads them."""
        called = {"committed_target": "target_offset"}
        table = self.rows.rename_columns([called.get(c, c) for c in self.rows.column_names])
        spec = FINDING_TABLES["reclaimable"].only(
            ["topic", "partition", "target_offset", "log_start_offset", "high_watermark",
             "limit_offset", "size_bytes", *_BYTES, "held_bytes", "held_by", "method", "records"]
        )  # fmt: skip
        return conform(spec, table)


# Of group c somebody said that it subscribes to no pattern.
PURGE = PurgeSettings(most_partitions=100, subscribe_by_name=("c",))
_BYTES = ("bytes_low", "bytes_likely", "bytes_high", "bytes_at_once", "bytes_at_once_low",
          "bytes_at_once_high")  # fmt: skip


def planned(
    store: ClusterStore, case: Case, to: str, waived: Collection[str]
) -> tuple[PlanFacts, dict[TopicPartition, ResolvedTarget]]:
    facts = read_facts(
        case.now, [TOPIC], cluster_name="prod", remembered=memory.remembered(store, [TOPIC]),
        now=NOW,
    )  # fmt: skip
    facts = replace(facts, streams=memory.streams(store), met=memory.met(store, [TOPIC]))
    facts = memory.with_holes(store, facts, ())
    facts = memory.with_new_topics(store, facts, NOW, PURGE)
    resolved = resolve(
        case.now, facts, parse_target(to), chosen_groups=(), waived=waived,
        declarations=case.declarations, now=NOW, history=memory.history(store, facts),
    )  # fmt: skip
    return facts, resolved


def plan_of(
    case: Case,
    facts: PlanFacts,
    resolved: dict[TopicPartition, ResolvedTarget],
    lifted: Collection[str],
    waived: Collection[str] = (),
) -> Plan:
    return build(
        facts, resolved, target="committed", declarations=case.declarations, estimates={},
        overrides=[Override(name, None, "known", "ann", NOW) for name in lifted],
        waivers=[Waiver(g, "gone", "ann", NOW) for g in waived],
        analysis_id=None, most_partitions=100, created_by="ann", now=NOW, expires_after=DAY,
    )  # fmt: skip


def kept(folder: str, case: Case) -> ClusterStore:
    store = ClusterStore(Store(folder), "cluster-1")
    store.write_connection("127.0.0.1:9", None, "prod")
    for name, at in times().items():
        taken(store, case.now if name == "now" else case.past, at)
    return store


def _past_the_end_of_then() -> Case:
    """A group that is gone had committed past the end of a log, which grew in another epoch."""
    key = TopicPartition(TOPIC, 0)
    replicas = dict.fromkeys((1, 2, 3), 0)
    then = FakePartition(replicas, epoch=0, high_watermark=0, last_stable_offset=0)
    now = FakePartition(replicas, high_watermark=100, epoch_ends={0: 0, 1: 0, 2: 0})
    committed = (GroupOffset("b", TOPIC, 0, 60, None, 0),)
    past = Drawn({key: then}, (Group("b", "classic", "Empty", 0),), committed)
    return Case(Drawn({key: now}, (), ()), past, None, frozenset())


def _gone_for_good(*listed: str) -> Case:
    """Two groups that a policy waives held a partition each, and read none besides; `listed` now
    are those of them that are not gone, at their old offsets.
    """
    keys = [TopicPartition(TOPIC, number) for number in range(3)]
    parts = {k: FakePartition(dict.fromkeys((1, 2, 3), 0), epoch_ends={}) for k in keys}
    groups = {name: Group(name, "classic", "Empty", 0) for name in ("app", "b", "gone")}
    held = {"b": (GroupOffset("b", TOPIC, 0, 20, None, 3),),
            "gone": (GroupOffset("gone", TOPIC, 1, 40, None, 3),)}  # fmt: skip
    read = tuple(GroupOffset("app", TOPIC, key.partition, 90, None, 3) for key in keys)
    here = [groups[name] for name in ("app", *listed)]
    now = Drawn(parts, tuple(here), (*read, *(o for name in listed for o in held[name])))
    past = Drawn(dict(parts), tuple(groups.values()), (*read, *held["b"], *held["gone"]))
    return Case(now, past, None, frozenset(held))


def _its_only_group_waived() -> Case:
    """One group reads the topic, and somebody waives it."""
    key = TopicPartition(TOPIC, 0)
    replicas = dict.fromkeys((1, 2, 3), 0)
    committed = (GroupOffset("app", TOPIC, 0, 60),)
    now = Drawn({key: FakePartition(replicas)}, (Group("app", "classic", "Empty", 0),), committed)
    past = Drawn({key: FakePartition(replicas)}, (), ())
    return Case(now, past, None, frozenset({"app"}))


@examples(10)
@given(cases())
@example(_past_the_end_of_then())
@example(_gone_for_good())
@example(_gone_for_good("b"))
@example(_its_only_group_waived())
def test_everybody_judges_a_cluster_alike(case: Case) -> None:
    _alike(case)


@pytest.mark.further
@examples(120)
@given(cases())
def test_so_they_do_of_many_clusters(case: Case) -> None:
    _alike(case)


def _alike(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = kept(folder, case)
        analysis = Analysis(store, case)
        for to, name in (("committed", "committed"), ("high-watermark", "end")):
            facts, resolved = planned(store, case, to, ())
            assert analysis.targets(name) == {k: t.offset for k, t in resolved.items()}
            found = findings(
                facts, resolved, waived=(), declarations=case.declarations,
                most_partitions=100, planned_partitions=1,
            )  # fmt: skip
            said = {
                key: [f"{f.guard.name}: {f.guard.reason}" for f in each
                      if f.guard.name not in _PLANS_OWN]
                for key, each in found.items()
            }  # fmt: skip
            assert analysis.guards(name) == said
            _sent_as_planned(store, case, facts, resolved)
        _what_if_as_planned(store, case, analysis)
        _simulated_as_planned(store, case, analysis)
        _waived_by_a_policy_as_planned(store, case)


def _sent_as_planned(
    store: ClusterStore,
    case: Case,
    facts: PlanFacts,
    resolved: dict[TopicPartition, ResolvedTarget],
) -> None:
    """What a plan frees is sent, and nothing else; what it lifted is lifted there alone."""
    standards = Standards(
        case.declarations, PURGE, store, remembered=memory.remembered(store, [TOPIC]),
        streams=memory.streams(store), met=memory.met(store, [TOPIC]),
    )  # fmt: skip
    for lifted in ((), LIFTABLE_GUARDS):
        plan = plan_of(case, facts, resolved, lifted)
        asked = [
            PartitionRow(*p.key, p.target_offset, "pending")
            for p in plan.partitions
            if p.target_offset is not None
        ]
        found = recheck(case.now, plan, asked, NOW, standards)
        assert {*found.allowed, *found.arrived} >= {p.key for p in plan.free_partitions}
        assert not {*found.allowed} - {p.key for p in plan.free_partitions}


def _what_if_as_planned(store: ClusterStore, case: Case, analysis: Analysis) -> None:
    """The target under a waiver is that of a plan with the same waiver; but where no other group
    tells one, that plan is guarded (`no-committed-offset`), and nothing more would go.
    """
    curves = from_table(FINDING_TABLES["curves"].schema.empty_table())
    redrawn = waive(analysis.facts(), analysis.held, curves, case.waived)
    facts, resolved = planned(store, case, "committed", case.waived)
    _, before = planned(store, case, "committed", ())
    plan = plan_of(case, facts, resolved, (), case.waived)
    told = analysis.groups.positions.to_pylist()
    for partition, groups_of, target in zip(
        plan.partitions, told, redrawn["target_offset"].to_pylist(), strict=True
    ):
        of_all, rest = {g["group_id"] for g in groups_of}, resolved[partition.key]
        if of_all and of_all <= case.waived:
            rest = before[partition.key]
            deletes = (resolved[partition.key].offset or 0) > (partition.log_start_offset or 0)
            assert not (deletes and partition.free)
        assert target == rest.offset


def _simulated_as_planned(store: ClusterStore, case: Case, analysis: Analysis) -> None:
    """A policy would have purged up to the plan's target, or not at all: whether older snapshots
    are looked at one by one, or only what they tell of groups is remembered.
    """
    names = {
        key: {line.partition(":")[0] for line in lines}
        for key, lines in analysis.guards("committed").items()
    }
    for read in (store.ids("snapshots"), [store.latest_snapshot()]):
        _simulated(store, case, analysis.targets("committed"), names, read=read)


def _waived_by_a_policy_as_planned(store: ClusterStore, case: Case) -> None:
    """Nor where the policy waives groups: those that nobody lists now, as its plan does."""
    facts, _ = planned(store, case, "committed", ())
    asked = [Waive(name, "gone", gone=True) for name in sorted(case.waived)]
    waived = {each.group_id for each in in_force(asked, facts)}
    assert not waived & facts.groups.keys()
    _, resolved = planned(store, case, "committed", waived)
    found = findings(
        facts, resolved, waived=waived, declarations=case.declarations, most_partitions=100,
        planned_partitions=1,
    )  # fmt: skip
    targets = {key: target.offset for key, target in resolved.items()}
    names = {key: {f.guard.name for f in each} for key, each in found.items()}
    for read in (store.ids("snapshots"), [store.latest_snapshot()]):
        _simulated(store, case, targets, names, read=read, waive=case.waived)


def _simulated(
    store: ClusterStore,
    case: Case,
    targets: Mapping[TopicPartition, int | None],
    guards: Mapping[TopicPartition, Collection[str]],
    *,
    read: list[str],
    waive: Collection[str] = (),
) -> None:
    every, latest = store.ids("snapshots"), store.latest_snapshot()
    found = rows(store, named(store, every, lambda _: True))
    ends, window = Ends(), window_of(found, case.declarations)
    for ended in earlier(store, [name for name in every if name not in read], found):
        ends.add(*ended)
    others = unanalyzed(store, every, read)
    for moment in moments(store, read, found, remembered(store, found, NOW), others, waive=waive):
        ends.add(moment.at, moment.high_watermark, moment.leader_epoch)
        last, of = wanted(moment, None, ends, None, window), moment
    assert latest in found.topic_of
    own = np.array([found.names[at][1] == case.now.topic_id for at in found.topic], bool)
    places = [TopicPartition(TOPIC, number) for number in found.partition[own].tolist()]
    starts = dict(zip(places, of.log_start[own].tolist(), strict=True))
    planned = {key: starts[key] if at is None else at for key, at in targets.items()}
    assert dict(zip(sorted(planned), last.target[own].tolist(), strict=True)) == planned
    guarded = {"unread-by-group", "no-committed-offset"}
    for key, forbidden in zip(sorted(planned), last.forbidden[own].tolist(), strict=True):
        if planned[key] > starts[key] and "unread-by-group" in guards[key]:
            assert forbidden
        if forbidden and planned[key] > starts[key]:
            assert {*guards[key]} & {*guarded, "share-group", "members-without-commits"}
