"""Broker: how full its disks are, what lies on them, and what is slow or forgotten there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.arrow import records
from dashboard.settings.sections import Price, beside
from dashboard.store.finding_rows import OrphanRow
from dashboard.ui import making_room, orphan_rows, over_time, overview
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import plain, text
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, Tables, rows_of
from dashboard.ui.session.header import analyzed
from dashboard.views import followers, formats
from dashboard.views.colours import RECLAIMABLE
from dashboard.views.facts import known_total

_TOPICS = 15
_SLOW = 5


def show() -> None:
    """The broker that the address names, by the newest snapshot and its findings."""
    if (opened := analyzed()) is None:
        return
    screen, findings = opened
    name = routes.named()
    brokers = screen.snapshot.table("brokers").to_pylist()
    broker = next((b for b in brokers if str(b["broker_id"]) == name), None)
    if broker is None:
        known = ", ".join(str(b["broker_id"]) for b in brokers)
        states.show(
            f"No broker {name}" if name else "Which broker?",
            f"The newest snapshot knows these: {known}.",
            "Find one by the box in the header, such as: broker 1.",
        )
        return
    mine, growth = (_of(findings.table(table), int(name)) for table in ("disks", "growth"))
    rooms = making_room.rooms(mine, growth)
    if rooms and rooms[0].urgent:
        making_room.alarm(rooms)
        making_room.offer(screen, rooms, findings.table("blockers"))
    replicas = _of(screen.snapshot.table("replicas"), int(name))
    said = sentence(broker, replicas, mine, screen.price)
    st.html(f'<div class="lw lw-sentence">{said}</div>')
    if rooms and not rooms[0].urgent:
        making_room.offer(screen, rooms, findings.table("blockers"))
    main, side = st.columns([4, 2.4], gap="medium")
    with main:
        away = {} if broker["reachable"] else {int(name): broker["error"] or "no answer"}
        st.html(overview.disks_html(mine, growth, away))
        if rooms and rooms[0].log_dir:
            over_time.disk_line(screen, int(name), rooms[0].log_dir)
        markup.draw(topics_html(screen, replicas, growth))
    with side:
        show_slow(findings, int(name))
        show_orphans(findings, int(name))
        markup.draw(configs_html(screen, name))


def _of(table: pa.Table, broker_id: int) -> pa.Table:
    return table.filter(pc.equal(table["broker_id"], broker_id))


def sentence(
    broker: Mapping[str, Any], replicas: pa.Table, disks: pa.Table, price: Price | None
) -> str:
    """Where it is, what it leads, and what can leave there."""
    said = f"<strong>Broker {broker['broker_id']}</strong>"
    if not broker["reachable"]:
        why = text(broker["error"] or "no reason given")
        return f"{said} did not answer: {why}. What it has is not known."
    leads = pc.sum(replicas["is_leader"]).as_py() or 0
    size, at_once = pc.sum(replicas["size_bytes"]).as_py(), known_total(disks, "reclaimable_bytes")
    rack = f", rack {text(broker['rack'])}" if broker["rack"] else ""
    return (
        f"{said} has {markup.size(size)} in {formats.plural(replicas.num_rows, 'replica')} and "
        f"leads {formats.number(leads)} of them; "
        f"{markup.strong(markup.size(at_once), RECLAIMABLE)}{text(beside(price, at_once))} can "
        "leave there at once, read by every known group.<br><small>"
        f"{text(broker['host'])}:{broker['port']}{rack}</small>"
    )


def topics_html(screen: Screen, replicas: pa.Table, growth: pa.Table) -> str:
    """What fills it: topics by their bytes here, how they grow here, and what they can give back
    on all brokers together.
    """
    topics = screen.snapshot.table("topics")
    names = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    sums = replicas.group_by("topic_no").aggregate([("size_bytes", "sum")])
    largest = sums.sort_by([("size_bytes_sum", "descending"), ("topic_no", "ascending")])
    rates: dict[str, int | None] = {}
    for row in growth.filter(growth["topic"].is_valid()).to_pylist():
        rates[row["topic"]] = row["growth_per_hour"]
    back = {row.topic: row.reclaimable_bytes for row in rows_of(screen)}
    rows = [
        (markup.link("topic", name), markup.size(row["size_bytes_sum"]),
         formats.signed(rates.get(name)), markup.size(back.get(name)))
        for row in largest.slice(0, _TOPICS).to_pylist()
        for name in [names[row["topic_no"]]]
    ]  # fmt: skip
    if not rows:
        return ""
    rest = largest.num_rows - _TOPICS
    more = f"<small>and {formats.plural(rest, 'smaller topic')}</small>" if rest > 0 else ""
    heads = ("Topic", "On this broker", "It grows by an hour", "Reclaimable, all brokers")
    return (
        f'<div class="lw"><h2>What fills it</h2>{markup.table(heads, rows, (1, 2, 3))}{more}</div>'
    )


def show_slow(findings: Tables, broker_id: int) -> None:
    """Its replicas that are behind their leaders, furthest first."""
    st.html('<div class="lw"><h2>Slow replicas here</h2></div>')
    if "slow_followers" not in findings.manifest.tables:
        st.caption("Not known: an older release wrote the findings. Analyze again.")
        return
    rows = followers.slow(_of(findings.table("slow_followers"), broker_id))
    for row in rows.slice(0, _SLOW).to_pylist():
        said = f"**{plain(row['topic'])}-{row['partition']}** {plain(followers.behind(row))}"
        routes.link("followers", said, topic=row["topic"], broker=str(broker_id))
    if not rows.num_rows:
        st.caption("None.")
    elif rows.num_rows > _SLOW:
        label = f"All {formats.plural(rows.num_rows, 'slow replica')} here"
        routes.link("followers", label, broker=str(broker_id))


def show_orphans(findings: Tables, broker_id: int) -> None:
    """Folders there that the cluster no longer knows."""
    rows = records(_of(findings.table("orphans"), broker_id), OrphanRow)
    st.html('<div class="lw"><h2>Orphans here</h2></div>')
    if not rows:
        st.caption("None is known; without an inventory of its log dirs most would not be.")
        return
    size = formats.size(orphan_rows.total(rows))
    label = f"{formats.plural(len(rows), 'folder')}, {size}"
    routes.link("orphans", label, broker=str(broker_id))


def configs_html(screen: Screen, name: str) -> str:
    """Its settings as the snapshot has them."""
    table = screen.snapshot.table("configs")
    of = pc.and_(pc.equal(table["scope"], "broker"), pc.equal(table["name"], name))
    rows = [
        (text(row["key"]), markup.setting(row["value"]))
        for row in table.filter(of).sort_by("key").to_pylist()
    ]
    if not rows:
        return ""
    return f'<div class="lw"><h2>Settings</h2>{markup.table(("Setting", "Value"), rows)}</div>'


show()
