"""Topic: what one topic holds, who holds it back, where it lies, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.settings.price import Price
from dashboard.ui import lags, reclaimable, topic
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.purge import runs
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, facts_of, findings_of, rows_of
from dashboard.ui.session.header import analyzed
from dashboard.views import days_to_full, formats
from dashboard.views.colours import HELD, RECLAIMABLE
from dashboard.views.topic_rows import TopicRow

_RUNS = 5
_OWN = "DYNAMIC_TOPIC_CONFIG"
_LOOKED_AT = 200  # runs of the cluster: older ones stand on Audit


def show() -> None:
    """The topic that the address names, by the findings alone."""
    if (opened := analyzed()) is None:
        return
    screen, findings = opened
    name = routes.named()
    row = next((row for row in rows_of(screen) if row.topic == name), None)
    if row is None:
        states.show(
            f"No topic {name}" if name else "Which topic?",
            "The newest analysis knows none of that name.",
            "Find one by the box in the header.",
        )
        return
    st.html(f'<div class="lw lw-sentence">{sentence(row, screen.price)}</div>')
    main, side = st.columns([4, 1.6], gap="medium")
    with main:
        topic.show_line(screen, name)
        st.html(reclaimable.topic_html(facts_of(screen), findings.table("holds"), name))
        st.html(places_html(screen, name) + configs_html(screen, name))
    blockers = blockers_of(screen, name)
    with side:
        topic.show_answers(screen, row, blockers)
        show_groups(blockers)
        show_followers(screen, name)
        show_purges(screen, name)


def sentence(row: TopicRow, price: Price | None = None) -> str:
    """On disk, consumed, held back, by whom; what it costs where a price is set."""
    owner = f"readers declared by {text(row.owner)}" if row.owner else "readers not declared"
    cost = f" It costs about {text(price.a_month(row.size_bytes))}." if price else ""
    return (
        f"<strong>{text(row.topic)}</strong> has {markup.size(row.size_bytes)} on disk in "
        f"{formats.plural(row.partitions, 'partition')}: "
        f"{markup.strong(markup.size(row.reclaimable_bytes), RECLAIMABLE)} consumed by every known "
        f"group, {markup.size(row.at_once_bytes)} of it would leave at once; "
        f"{markup.strong(markup.size(row.held_bytes), HELD)} held back.<br><small>{owner}; all "
        f"replicas together.{cost}</small>"
    )


def blockers_of(screen: Screen, topic: str) -> list[Mapping[str, Any]]:
    """The findings' rows of its groups, those that hold back most first."""
    table = findings_of(screen).table("blockers")
    rows = table.filter(pc.equal(table["topic"], topic)).to_pylist()
    return sorted(rows, key=lambda r: (-(r["bytes_held_alone"] or 0), r["group_id"]))


def show_groups(blockers: Sequence[Mapping[str, Any]]) -> None:
    """Its groups, each a link to its own page."""
    st.html('<div class="lw"><h2>Groups</h2></div>')
    for row in blockers:
        held = f" holds back {formats.size(row['bytes_held_alone'])}"
        label = f"**{markup.plain(row['group_id'])}**{held if row['bytes_held_alone'] else ''}"
        routes.link("group", label, name=row["group_id"])
    if not blockers:
        st.caption("No group has committed an offset here.")


def places_html(screen: Screen, topic: str) -> str:
    """The log dirs that it lies in: its growth there, and when that disk is full."""
    growth = findings_of(screen).table("growth")
    disks = days_to_full.of_disks(growth.filter(growth["topic"].is_null()).to_pylist())
    here = growth.filter(pc.fill_null(pc.equal(growth["topic"], topic), False)).to_pylist()
    rows = [
        (
            f"broker {row['broker_id']} · {text(row['log_dir'])}",
            _rate(row["growth_per_hour"]),
            text(days_to_full.said(disks.get((row["broker_id"], row["log_dir"])))),
        )
        for row in sorted(here, key=lambda r: (r["broker_id"] or 0, r["log_dir"] or ""))
        if row["log_dir"] is not None
    ]
    if not rows:
        return ""
    heads = ("Log dir", "It grows by an hour", "The disk")
    return f'<div class="lw"><h2>Where it lies</h2>{markup.table(heads, rows, (1,))}</div>'


def _rate(size_bytes: int | None) -> str:
    return formats.UNKNOWN if size_bytes is None else formats.signed(size_bytes)


def configs_html(screen: Screen, topic: str) -> str:
    """Its settings as the snapshot has them: its own, and folded those that the brokers give it."""
    table = screen.snapshot.table("configs")
    of = pc.and_(pc.equal(table["scope"], "topic"), pc.equal(table["name"], topic))
    found = table.filter(of).sort_by("key").to_pylist()
    own = [row for row in found if row["source"] == _OWN]
    rest = [row for row in found if row["source"] != _OWN]
    if not found:
        return ""
    shown = _configs(own) if own else "<p>None of its own.</p>"
    if rest:
        count = formats.plural(len(rest), "setting")
        shown += f"<details><summary>{count} of the brokers</summary>{_configs(rest)}</details>"
    return f'<div class="lw"><h2>Settings</h2>{shown}</div>'


def _configs(found: Sequence[Mapping[str, Any]]) -> str:
    rows = ((text(r["key"]), text(r["value"]), text(r["source"] or "")) for r in found)
    return markup.table(("Setting", "Value", "Source"), rows)


def show_followers(screen: Screen, topic: str) -> None:
    """For whom a purge that waits for all would wait."""
    if "slow_followers" not in findings_of(screen).manifest.tables:
        return
    followers: pa.Table = findings_of(screen).table("slow_followers")
    st.html(lags.held_html(lags.held(followers, topic), topic))


def show_purges(screen: Screen, topic: str) -> None:
    """Its newest purges; all of them stand on Audit."""
    st.html('<div class="lw"><h2>Purges</h2></div>')
    newest = runs.past_runs(screen.cluster.cluster_id)[:_LOOKED_AT]
    topics = runs.open_journal().topics_of([run.run_id for run in newest])
    found = [run for run in newest if topic in topics[run.run_id]][:_RUNS]
    runs.links(found, screen.now)
    routes.link("audit", "All purges of it" if found else "No purge of it yet", topic=topic)


show()
