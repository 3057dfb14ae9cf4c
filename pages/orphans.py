"""Orphans: what is this folder on my disk, and may it go?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.clock import utc_now
from dashboard.domain.acts import KINDS, VERDICTS, seen_once
from dashboard.orphans import verdicts
from dashboard.orphans.verdicts import VERDICTS_FILE, missing_inventories, sweep_line
from dashboard.store.finding_rows import DiskRow, OrphanRow
from dashboard.ui import orphan_bars, orphan_rows
from dashboard.ui.components import states
from dashboard.ui.components.grid import one
from dashboard.ui.orphan_rows import Wanted
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen, Tables
from dashboard.ui.session.header import analyzed
from dashboard.views import formats

_UNCHOSEN = 4  # cards that show before a row is selected


def show() -> None:
    """The sentence, the disks, what nobody listed; then each folder with its evidence."""
    if (opened := analyzed(follows=True)) is None:
        return
    screen, found = opened
    if states.written_before(screen, found, "orphans"):
        return
    found.read("orphans", "disks", "sightings")
    rows: Sequence[OrphanRow] = found.derived(
        "orphan rows", lambda: orphan_rows.ordered(found.table("orphans"))
    )
    disks = found.derived("disk rows", lambda: records(found.table("disks"), DiskRow))
    once = found.derived("seen once", lambda: seen_once(found.table("sightings").to_pylist()))
    if rows:
        show_sentence(screen, found, rows, once)
    else:
        show_none(screen, disks, once)
    missing = missing_inventories(found.table("disks").to_pylist())
    left, right = st.columns([6, 5], gap="medium") if missing else (st.container(), st.container())
    with left:
        st.html(orphan_bars.bars_html(orphan_bars.bars(disks, rows), screen.now))
    with right:
        orphan_bars.show_missing(missing, hosts(screen))
    if rows:
        show_rows(screen, rows, disks)


def show_sentence(screen: Screen, found: Tables, rows: Sequence[OrphanRow], once: int) -> None:
    """How much lies there and may go, and all of it as files."""
    left, right = st.columns([7, 3], vertical_alignment="center")
    waiting = f"<br><small>{once_said(once)}</small>" if once else ""
    said = orphan_rows.sentence(rows, screen.now, screen.price)
    left.html(f'<div class="lw lw-sentence">{said}{waiting}</div>')
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            "Verdicts for a sweep",
            access.at_click(partial(verdicts_text, screen, found)),
            file_name=VERDICTS_FILE,
            mime="application/json",
            key="verdicts",
            type="primary",
            on_click="ignore",
            help="What lowwater orphans --out writes: sealed, valid for a day from its snapshot. "
            "It permits nothing by itself; a sweep on the broker's host checks each folder again.",
        )
        st.download_button(
            "CSV",
            access.at_click(lambda: orphan_rows.as_csv(rows)),
            file_name=f"orphans-{screen.now:%Y%m%dT%H%M%SZ}.csv",
            mime="text/csv",
            key="orphans-csv",
            on_click="ignore",
            help="One line per orphan with verdict, times and evidence.",
        )


def verdicts_text(screen: Screen, found: Tables) -> str:
    """The verdicts of the analysis that is shown, as the command line writes them."""
    made = verdicts.of_table(screen.cluster, found.manifest, found.table("orphans"), now=utc_now())
    return verdicts.write(made)


def show_none(screen: Screen, disks: Sequence[DiskRow], once: int) -> None:
    """No orphan: where was looked, and where not."""
    answered = len(screen.brokers) - len(screen.missing_brokers)
    bare = {row.broker_id for row in disks if not row.inventory_at}
    listed = sorted({row.broker_id for row in disks} - bare)
    inventories = f"inventories of brokers {', '.join(map(str, listed))}" if listed else ""
    looked = f"metadata, and DescribeLogDirs of {answered} of {len(screen.brokers)} brokers"
    said = f"Looked at: {looked}; {inventories or 'no inventory of any disk'}."
    if not listed:
        said += " Without one, folders that Kafka does not list, -stray ones too, are not seen."
    states.show("No orphan is known", f"{said} {once_said(once)}".rstrip())


def once_said(once: int) -> str:
    """Suspects that wait for their second look."""
    if not once:
        return ""
    return (
        f"{formats.plural(once, 'folder')} seen once only: no orphan yet. Take another inventory, "
        "then collect and analyze again."
    )


def hosts(screen: Screen) -> Mapping[int, str]:
    """Where each broker is, by what it announces."""
    brokers = screen.snapshot.table("brokers").select(["broker_id", "host"]).to_pylist()
    return {row["broker_id"]: row["host"] for row in brokers}


def show_rows(screen: Screen, rows: Sequence[OrphanRow], disks: Sequence[DiskRow]) -> None:
    """Filters, the table, and cards of what is selected."""
    columns = st.columns(4)
    folder = columns[0].text_input(
        "Folder", key="folder", bind="query-params", placeholder="part of its path"
    )
    wanted = Wanted(
        folder=(folder or "").strip(),
        kind=one(columns[1], "Kind", "kind", [k for k in KINDS if any(r.kind == k for r in rows)]),
        verdict=one(columns[2], "Verdict", "verdict", list(VERDICTS)),
        broker=one(columns[3], "Broker", "broker", sorted({str(r.broker_id) for r in rows})),
    )
    kept = [row for row in rows if wanted.keep(row)]
    if not kept:
        states.show("No orphan passes the filters", "Widen them, or clear the folder's name.")
        return
    chosen = orphan_rows.show_table(kept)
    if not chosen and len(kept) > _UNCHOSEN:
        st.caption("Select rows by the box at their left: their evidence shows below.")
    lines = orphan_rows.lines_of(disks, partial(sweep_line, connection=screen.cluster.connection()))
    orphan_rows.show_cards(chosen or kept[:_UNCHOSEN], lines, screen.now)


show()
