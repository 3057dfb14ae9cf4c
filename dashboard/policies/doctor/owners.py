"""Whose a repartition topic is: the group that its name begins with, and how that group fares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.columns import Flags, Ints
from dashboard.policies.matching import owner_of
from dashboard.policies.past_rows import ABSENT
from dashboard.policy import REPARTITION, Policy
from dashboard.snapshots import ClusterStore

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

    `incomplete` says why groups may be missing from the newest snapshot; empty: none is.
    """

    by_topic: Mapping[str, Owner]
    strangers: frozenset[str]
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
    that an analysis knows besides. Where no group has the topic's name, the only one that commits
    in it owns it.
    """
    columns = ["group_id", "state", "members", "assigned", "coordinator_answered"]
    listed = store.read("snapshots", newest, "groups", columns)
    names = sorted({*listed["group_id"].to_pylist(), *_committing(commits), *remembered})
    code_of = {name: code for code, name in enumerate(names)}
    coded = [(_codes(groups, code_of), row, offset) for groups, row, offset in commits]
    owner, read = _by_row(topics, code_of, coded, rows)
    grid = np.full((rows, len(commits)), ABSENT, dtype=np.int64)
    for column, (code, row, offset) in enumerate(coded):
        own = owner[row] == code
        grid[row[own], column] = offset[own]
    of_topic = {topic: int(owner[place.start]) for topic, place in topics.items()}
    groups = _states(listed, {names[c] for c in of_topic.values() if c != ABSENT})
    by_topic = {topic: groups[names[c]] for topic, c in of_topic.items() if c != ABSENT}
    strangers = {t for t, at in topics.items() if of_topic[t] == ABSENT and read[at].any()}
    return Owners(by_topic, frozenset(strangers), _incomplete(store, newest, listed)), grid


def _by_row(
    topics: Mapping[str, slice],
    code_of: Mapping[str, int],
    coded: Sequence[tuple[Ints, Ints, Ints]],
    rows: int,
) -> tuple[Ints, Flags]:
    """Per row the code of its topic's owner (-1: none), and whether any group commits there."""
    low = np.full(rows, np.iinfo(np.int64).max, dtype=np.int64)
    high = np.full(rows, ABSENT, dtype=np.int64)
    for code, row, _ in coded:
        np.minimum.at(low, row, code)
        np.maximum.at(high, row, code)
    owner = np.full(rows, ABSENT, dtype=np.int64)
    for topic, place in topics.items():
        named = owner_of(_ANY, topic, code_of)
        owner[place] = code_of[named] if named is not None else _only(low[place], high[place])
    return owner, high != ABSENT


def _only(low: Ints, high: Ints) -> int:
    """The one group that commits in the rows of a topic; -1 where none or several do."""
    read = high != ABSENT
    same = read.any() and low[read].min() == high[read].max()
    return int(high.max()) if same else ABSENT


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
