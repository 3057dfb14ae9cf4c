"""What might be changed, chosen at the side of the page Growth, and the facts it is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.ui.components.grid import pick
from dashboard.ui.growth.scenario import Known, Scenario, earlier
from dashboard.ui.growth.what_if import disks_of, parts_of
from dashboard.ui.session.context import Screen, Tables, findings_of, rows_of
from dashboard.views.headline import blockers_by_group
from dashboard.views.what_if import waive

# What the page Growth reads of an analysis, its snapshot, and an analysis of hours ago.

_HOUR = timedelta(hours=1)
_NO_DELETE = "compact"


def known_of(screen: Screen) -> Known:
    """Everything a what-if of this screen stands on. Raises StoreError NO_ANALYSIS."""
    found = findings_of(screen)
    curves = found.curves()
    growth = found.table("growth")
    disks = found.derived("growth disks", lambda: disks_of(found.table("disks"), growth))
    before = found.derived("earlier analysis", lambda: _earlier(screen))
    hours = (found.manifest.taken_at - before.manifest.taken_at) / _HOUR if before else 0.0
    return Known(
        disks=disks,
        parts=found.derived("growth parts", lambda: parts_of(curves, growth, disks)),
        curves=curves,
        facts=lambda waived: _facts(found, waived),
        earlier=lambda waived: (_facts(before, waived) if before else None, hours),
        retention_ms=screen.snapshot.derived(
            "retention of topics", lambda: _numbers(screen.snapshot, "retention.ms")
        ),
        segments=_segments(screen.snapshot),
        taken_at=screen.manifest.taken_at,
    )


def deletable(screen: Screen, topics: list[str]) -> list[str]:
    """Those from which retention deletes: their cleanup.policy is not `compact` alone."""
    kept = screen.snapshot.derived("compacted topics", lambda: _compacted(screen.snapshot))
    return [topic for topic in topics if topic not in kept]


def _compacted(snapshot: Tables) -> frozenset[str]:
    policies = _configs(snapshot, "cleanup.policy")
    return frozenset(name for name, value in policies.items() if value == _NO_DELETE)


def _facts(found: Tables, waived: tuple[str, ...]) -> pa.Table:
    """The committed target's partitions without these groups."""
    facts = found.facts()
    if not waived:
        return facts
    curves = found.curves()
    return waive(facts, found.table("holds"), curves, waived)


def _earlier(screen: Screen) -> Tables | None:
    """An analysis of hours ago, if one is kept whole."""
    now, taken = findings_of(screen).manifest.taken_at, []
    for item_id in screen.cluster.ids("findings"):
        with suppress(StoreError):  # pruned meanwhile, or damaged: another one serves
            taken.append((item_id, screen.cluster.manifest("findings", item_id).taken_at))
    found = earlier(taken, now)
    if found is None:
        return None
    with suppress(StoreError):
        tables = Tables(screen.cluster, "findings", found[0])
        tables.read("facts", "holds", "curves")
        return tables
    return None


def _segments(snapshot: Tables) -> pa.Table | None:
    if "segments" not in snapshot.manifest.tables:
        return None
    found = snapshot.table("segments")
    return found if found.num_rows else None


def _configs(snapshot: Tables, key: str) -> dict[str, str]:
    configs = snapshot.table("configs")
    of_topics = pc.and_(pc.equal(configs["scope"], "topic"), pc.equal(configs["key"], key))
    rows = configs.filter(of_topics)
    return dict(zip(rows["name"].to_pylist(), rows["value"].to_pylist(), strict=True))


def _numbers(snapshot: Tables, key: str) -> dict[str, int]:
    return {name: int(value) for name, value in _configs(snapshot, key).items() if value}


# What might be changed, chosen at the side of the page Growth: every number redraws.

KEEPS = {
    "6 hours": timedelta(hours=6),
    "12 hours": timedelta(hours=12),
    "1 day": timedelta(days=1),
    "2 days": timedelta(days=2),
    "3 days": timedelta(days=3),
    "5 days": timedelta(days=5),
    "7 days": timedelta(days=7),
    "14 days": timedelta(days=14),
}
_NONE = "none"


def choose(screen: Screen) -> Scenario:
    """Draw the choices; what is asked."""
    found = findings_of(screen)
    by_size, can, groups = found.derived("growth choices", lambda: _choices(screen, found))
    st.html(
        '<div class="lw"><h2>What if …</h2><small>Nothing changes on the cluster; the numbers '
        "here redraw.</small></div>"
    )
    deletes = deletable(screen, by_size)
    kept = _many("Shorter retention in", deletes, "topic", "kept")
    keep = st.selectbox(
        "Keep records for", list(KEEPS), index=list(KEEPS).index("3 days"), key="growth-keep",
        disabled=not kept,
    )  # fmt: skip
    waived = _many("Waive groups, then purge once", groups, "group", "waived")
    purged = _many("A purge policy on", can, "topic", "purged")
    if st.toggle("on all that can be purged", key="growth-purge-all"):
        purged = can
    return Scenario(
        keep=KEEPS[keep] if kept else None,
        kept=frozenset(kept),
        waived=tuple(sorted(waived)),
        purged=frozenset(purged),
    )


def _choices(screen: Screen, found: Tables) -> tuple[list[str], list[str], list[str]]:
    """Topics, the largest first; those of them that can be purged; groups that can be waived."""
    rows = sorted(rows_of(screen), key=lambda row: (-(row.size_bytes or 0), row.topic))
    can = [row.topic for row in rows if row.consumed_bytes or row.at_once_bytes]
    blockers = found.table("blockers")
    groups = [group for group, freed in blockers_by_group(blockers, blockers.num_rows) if freed > 0]
    return [row.topic for row in rows], can, groups


def _many(label: str, options: Sequence[str], noun: str, key: str) -> list[str]:
    """What has most to give comes first."""
    return pick(label, options, noun, f"growth-{key}", placeholder=_NONE, in_order=True)
