"""When there is no policy yet: a settings section to copy, made for the topics of this cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from dashboard.domain.system_topics import is_system_topic
from dashboard.policies.matching import applications
from dashboard.settings.policies.policy import REPARTITION, Policy
from dashboard.ui.components import states
from dashboard.ui.session.context import Screen
from dashboard.views import formats

_NAMED = 3


def show(screen: Screen) -> None:
    """Why there is none, a sample for this cluster, and what to do with it."""
    snapshot = screen.snapshot
    topics = snapshot.table("topics")["topic"].to_pylist()
    groups = snapshot.table("groups")["group_id"].to_pylist()
    states.show(
        "No policy is set up",
        "A policy purges the same topics again and again, within limits that you set: how often, "
        "how much, when, and by whose commits. It is off until somebody switches it on here.",
        next_step(screen.settings.source),
    )
    st.html(f'<div class="lw"><p>{why(topics, groups)}</p></div>')
    st.code(sample(screen.cluster.name, topics, groups), language="toml")


def next_step(source: Path | None) -> str:
    """Settings are read again at each click, also those that were not there when it started."""
    if source is not None:
        return f"Copy the section below into {source}: it counts from the next click here."
    return (
        "Copy the section below into lowwater.toml, in the folder where the dashboard was started "
        "or in ~/.config/lowwater: it counts from the next click here."
    )


def why(topics: Sequence[str], groups: Sequence[str]) -> str:
    """What the sample is for; HTML without any name from the cluster."""
    found = applications(_PRESET, topics, groups)
    count = sum(map(len, found.values()))
    if not count:
        return (
            "No repartition topic of Kafka Streams is here, so the sample names one topic; put the "
            "topics there whose groups are all their readers."
        )
    owners = len([owner for owner in found if owner is not None])
    return (
        f"This cluster has {formats.plural(count, 'repartition topic')} of "
        f"{formats.plural(owners, 'application')}. Their records are only ever read by the "
        "application that owns them, and may go once it has committed them."
    )


def sample(cluster: str, topics: Sequence[str], groups: Sequence[str]) -> str:
    """The section, as it may stand in lowwater.toml."""
    found = applications(_PRESET, topics, groups)
    if found:
        owned = [(owner, name) for owner, names in found.items() for name in names]
        lines = [
            f"# {_comment(name)}: " + (f"owned by {_comment(owner)}" if owner else "owner unknown")
            for owner, name in owned[:_NAMED]
        ]
        if len(owned) > _NAMED:
            lines.append(f"# and {len(owned) - _NAMED} more")
        return "\n".join(
            ["[policies.repartition]", *lines, 'preset = "repartition"', *_rest(cluster)]
        )
    plain = sorted(t for t in topics if not is_system_topic(t) and not t.endswith("-changelog"))
    first = plain[0] if plain else "orders"
    named = ["[policies.first]", f"topics = [{json.dumps(first)}]", 'target = "committed"']
    return "\n".join([*named, *_rest(cluster)])


def _rest(cluster: str) -> list[str]:
    return [
        "min_purge_interval_ms = 30000      # between two purges of a partition",
        'most_bytes_per_hour = "10GiB"      # over all replicas',
        f"cluster = {json.dumps(cluster)}",
        "",
    ]


def _comment(name: str) -> str:
    return name.encode("unicode_escape").decode()


_PRESET = Policy(REPARTITION, preset=REPARTITION, committed_by="owner")
