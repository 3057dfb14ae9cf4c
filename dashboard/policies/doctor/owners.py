"""Whose a repartition topic is: the group that its name begins with, and how that group fares.

Both parts of a name may hold dashes: of `app-eu-x-repartition` the application is `app` or
`app-eu`. Who commits there tells; where two may be it, nobody is called dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.columns import Ints
from dashboard.policies.matching import owner_of
from dashboard.policies.simulate.past_rows import ABSENT
from dashboard.settings.policies.policy import REPARTITION, REPARTITION_SUFFIX, Policy
from dashboard.store.snapshots import ClusterStore

_DEAD = ("Dead", "Empty")
_ANY = Policy("any", preset=REPARTITION, committed_by="owner")


@dataclass(frozen=True, slots=True)
class Owner:
    """A group as the newest snapshot lists it. `state` None: it is not listed any more.

    `assigned` are the repartition topics its members read; None: no member says.
    """

    group_id: str
    state: str | None
    members: int
    assigned: frozenset[str] | None

    @property
    def has_members(self) -> bool:
        return self.members > 0 or self.state not in (None, *_DEAD)


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner of each topic that has one; `strangers` have none, yet some group commits there.
    `contested`: another group commits there too, or is assigned it, or may be its application.

    `incomplete` says why groups may be missing from the newest snapshot; empty: none is.
    """

    by_topic: Mapping[str, Owner]
    strangers: frozenset[str]
    contested: frozenset[str]
    incomplete: tuple[str, ...]


def read_owners(
    store: ClusterStore,
    newest: str,
    topics: Mapping[str, slice],
    commits: Sequence[tuple[pa.Array, Ints, Ints]],
    *,
    rows: int,
    remembered: Collection[str],
) -> tuple[Owners, Ints]:
    """Every topic's owner, and what it committed: a grid of rows by snapshots, -1 unknown.

    `commits` are group, row and offset of each snapshot, the newest last; `remembered` are groups
    that an analysis knows besides. Of groups that the topic's name begins with the longest owns it,
    one that commits there before one that does not; where there is none, the only one that commits.
    """
    columns = ["group_id", "state", "members", "assigned", "coordinator_answered"]
    listed = store.read("snapshots", newest, "groups", columns)
    names = sorted({*listed["group_id"].to_pylist(), *_committing(commits), *remembered})
    code_of = {name: code for code, name in enumerate(names)}
    coded = [(_codes(groups, code_of), row, offset) for groups, row, offset in commits]
    known = frozenset(names)
    readers = _readers(topics, names, coded, rows)
    of_topic = {topic: _owner(topic, readers[topic], known) for topic in topics}
    owner = np.full(rows, ABSENT, dtype=np.int64)
    for topic, named in of_topic.items():
        owner[topics[topic]] = ABSENT if named is None else code_of[named]
    grid = np.full((rows, len(commits)), ABSENT, dtype=np.int64)
    for column, (code, row, offset) in enumerate(coded):
        own = owner[row] == code
        grid[row[own], column] = offset[own]
    groups = _states(listed, {named for named in of_topic.values() if named is not None})
    by_topic = {topic: groups[named] for topic, named in of_topic.items() if named is not None}
    strangers = {t for t, named in of_topic.items() if named is None and readers[t]}
    at_work = {topic: set(groups) for topic, groups in readers.items()}
    for group, its in _assigned(listed).items():
        for topic in its & at_work.keys():
            at_work[topic].add(group)
    contested = {
        topic
        for topic, named in of_topic.items()
        if named is not None
        and (at_work[topic] - {named} or (named not in readers[topic] and _shorter(named, known)))
    }
    gaps = _incomplete(store, newest, listed)
    return Owners(by_topic, frozenset(strangers), frozenset(contested), gaps), grid


def _readers(
    topics: Mapping[str, slice],
    names: Sequence[str],
    coded: Sequence[tuple[Ints, Ints, Ints]],
    rows: int,
) -> dict[str, frozenset[str]]:
    """The groups that commit in each topic, in any of the snapshots."""
    listed = list(topics)
    topic_of = np.full(rows, ABSENT, dtype=np.int64)
    for number, topic in enumerate(listed):
        topic_of[topics[topic]] = number
    width = max(len(names), 1)
    found: dict[str, set[str]] = {topic: set() for topic in listed}
    pairs = [topic_of[row] * width + code for code, row, _ in coded]
    for pair in np.unique(np.concatenate(pairs)).tolist() if pairs else ():
        if pair >= 0:  # rows of topics that are not there any more have no number
            found[listed[pair // width]].add(names[pair % width])
    return {topic: frozenset(groups) for topic, groups in found.items()}


def _owner(topic: str, readers: frozenset[str], known: frozenset[str]) -> str | None:
    named = owner_of(_ANY, topic, readers) or owner_of(_ANY, topic, known)
    return named or (next(iter(readers)) if len(readers) == 1 else None)


def _shorter(named: str, known: frozenset[str]) -> bool:
    """Whether a known group's name is a shorter beginning of this one's topics."""
    return owner_of(_ANY, f"{named}{REPARTITION_SUFFIX}", known) is not None


def _committing(commits: Sequence[tuple[pa.Array, Ints, Ints]]) -> set[str]:
    return {name for groups, _, _ in commits for name in pc.unique(groups).to_pylist()}


def _codes(groups: pa.Array, code_of: Mapping[str, int]) -> Ints:
    named = groups.dictionary_encode()
    codes = np.array([code_of[name] for name in named.dictionary.to_pylist()], dtype=np.int64)
    return codes[named.indices.to_numpy()] if len(codes) else codes


def _states(listed: pa.Table, wanted: Collection[str]) -> dict[str, Owner]:
    own = listed.filter(pc.is_in(listed["group_id"], pa.array(sorted(wanted), pa.string())))
    assigned = _assigned(own)
    columns = (own[name].to_pylist() for name in ("group_id", "state", "members"))
    found = {
        group: Owner(group, state, members or 0, assigned.get(group))
        for group, state, members in zip(*columns, strict=True)
    }
    return {name: found.get(name) or Owner(name, None, 0, None) for name in wanted}


def _assigned(groups: pa.Table) -> dict[str, frozenset[str]]:
    """Group -> topics of its members' assignments, of groups whose members were told any."""
    lists = groups["assigned"].combine_chunks()
    topics = pc.struct_field(pc.list_flatten(lists), "topic")
    group = groups["group_id"].take(pc.list_parent_indices(lists)).combine_chunks()
    pairs = pa.table({"group": group, "topic": topics}).group_by(["group", "topic"])
    found: dict[str, set[str]] = {}
    for row in pairs.aggregate([]).to_pylist():
        found.setdefault(row["group"], set()).add(row["topic"])
    return {name: frozenset(names) for name, names in found.items()}


def _incomplete(store: ClusterStore, newest: str, listed: pa.Table) -> tuple[str, ...]:
    details = store.manifest("snapshots", newest).details
    told = tuple(str(reason) for reason in details.get("groups_incomplete") or ())
    silent = pc.sum(pc.invert(pc.fill_null(listed["coordinator_answered"], False))).as_py() or 0
    if not silent or told:
        return told
    return (f"the coordinator of {silent} groups did not answer",)
