"""The header of every page: cluster, age of the data, brokers, counting on; search and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.purge.jobs import queue_refusals
from dashboard.purge.receipt.alerts import reverted
from dashboard.ui.components import glossary, markup, states
from dashboard.ui.components.in_browser import FIND
from dashboard.ui.components.markup import plain
from dashboard.ui.components.states import guarded
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, collector, context, routes
from dashboard.ui.session.collector import Standing
from dashboard.ui.session.context import Screen, Tables
from dashboard.views import formats

# The search of every page: a topic or a group by a part of its name.

_ASKED = "lw-find-asked"
_SHOWN = 8


def search_box(screen: Screen) -> None:
    """Enter leads to the topic or group that is meant; of several, links below the box."""
    typed = st.text_input(
        "Find a topic, group or broker",
        key=FIND,
        type="search",
        placeholder="A name ( / )",
        label_visibility="collapsed",
        on_change=_find_asked,
    )
    asked = st.session_state.pop(_ASKED, False)
    if not typed or screen.findings is None:
        return
    found = _matches(screen, typed)
    match = meant(typed, found)
    if match and asked:
        routes.go(match.kind, name=match.name)
    if not found:
        st.caption("No topic, group or broker of that name.")
    for kind, name in found[:_SHOWN]:
        routes.link(kind, f"{kind} {plain(name)}", name=name)
    if len(found) > _SHOWN:
        st.caption(f"and {len(found) - _SHOWN} more")


def _find_asked() -> None:
    st.session_state[_ASKED] = True


def _matches(screen: Screen, typed: str) -> list[Match]:
    groups = context.known_groups(screen)
    brokers = [broker.broker_id for broker in screen.brokers]
    return matches(typed, screen.snapshot.table("topics")["topic"].to_pylist(), groups, brokers)


# The header itself.

_EVERY = timedelta(seconds=5)
_MOST_ALERTS = 2
_DIALOG = "lw-report-open"
_CLICKED = "lw-clicked"  # by a click whose run has not come to its button yet


def analyzed(*, follows: bool = False) -> tuple[Screen, Tables] | None:
    """How a page that shows findings begins: the header, what the reader must know first, and what
    it stands on. None where there is no analysis yet, and the page has said so.
    """
    screen = context.load()
    header(screen, follows=follows)
    states.notes(screen)
    if screen.findings is None:
        states.no_analysis(screen)
        return None
    return screen, screen.findings


def header(screen: Screen, *, follows: bool = False) -> None:
    """The header for what this page shows; it redraws itself, and offers what is newer.

    A page that `follows` shows each new analysis by itself, as long as its reader wants that, and
    chooses nothing: a click, or an error that it led to, would be lost in the redrawing.
    Beside it, once there are findings, the button that hands them out as files; and the way out.
    """
    try:
        _draw(screen, follows)
    finally:
        st.session_state.pop(_CLICKED, None)  # also where what is drawn before its button fails


def _draw(screen: Screen, follows: bool) -> None:
    leaves = access.signs_in()
    st.session_state.pop(_DIALOG, None)  # whatever draws a page anew closes it
    live = follows and bool(st.session_state.get("live", True))
    live = live and not st.session_state.get(context.CHOOSING)
    if screen.findings is None and not leaves:
        _header(screen, live)
        return
    # The place of what comes and goes is kept free: it would move the page under the mouse.
    with st.container(key="lw-top"):
        left, find, middle, *right = st.columns(
            [7, 2, 2, *([1] * (2 + leaves))], vertical_alignment="top"
        )
    with left:
        _header(screen, live)
    with find:
        search_box(screen)
    with middle:
        live_toggle() if follows else _newer(screen)
    with right[0]:
        report_button(screen)
    with right[1]:
        _help_button()
    if leaves:
        with right[2]:
            access.sign_out()


@st.fragment(run_every=_EVERY)
@guarded
def _header(shown: Screen, live: bool) -> None:
    newest, now = context.newest(), utc_now()
    found = collector.standing(newest, now)
    st.html(header_html(shown, found, stopped(), now, alerts_of(shown.cluster.cluster_id)))
    if found.failure is not None:
        st.html(collector.failure_html(found, shown.manifest.taken_at, now))
    if live and _id(newest) != _id(shown) and not {_DIALOG, _CLICKED} & st.session_state.keys():
        context.show_newest()
        st.rerun(scope="app")


@st.fragment(run_every=_EVERY)
@guarded
def _newer(shown: Screen) -> None:
    if st.button(
        "Show newer data",
        key="lw-newer",
        width="stretch",
        disabled=_id(context.newest()) == _id(shown),
        help="A page where you choose keeps its numbers until you ask.",
    ):
        context.show_newest()
        st.rerun(scope="app")


def live_toggle() -> None:
    """The switch, on at first."""
    st.toggle(
        "Live",
        value=True,
        key="live",
        help="Show each new analysis as soon as it is there. Off: the numbers stay.",
    )


def _id(screen: Screen) -> str:
    """What a reader would see change: the analysis, or the snapshot while there is none."""
    return screen.findings.id if screen.findings else screen.snapshot.id


def stopped() -> str | None:
    """Why no purge can be sent now: the switch, in the settings or the journal; None: it can."""
    try:
        return queue_refusals.stopped(context.settings(), open_journal())
    except JournalError as error:  # nothing is queued without it
        return f"the purge journal cannot be used: {error.message}"


def alerts_of(cluster_id: str, **of: str) -> list[str]:
    """What somebody must act on, wherever they are: purges that were undone, alerts nobody got; as
    HTML, with links. `of` names the cluster in these, where the address does not.
    """
    try:
        journal = open_journal()
        undone = reverted(journal, cluster_id)
        unsent = [alert for alert in journal.untold_alerts(cluster_id) if alert.error]
    except JournalError:  # `stopped` says so
        return []
    found = [
        markup.to(
            routes.address("purge", **of, run=run.run_id),
            f"records came back in {', '.join(sorted(run.topics))}",
        )
        for run in undone[:_MOST_ALERTS]
    ]
    if len(undone) > _MOST_ALERTS:
        found.append(f"and in {formats.plural(len(undone) - _MOST_ALERTS, 'more run')}")
    if unsent:
        count = formats.plural(len(unsent), "alert")
        address = routes.address("policies", **of)
        found.append(markup.to(address, f"{count} not told to the webhook"))
    return found


def header_html(
    screen: Screen,
    found: Standing,
    stop: str | None,
    now: datetime,
    alerts: Sequence[str],
) -> str:
    """`prod-eu · snapshot 38 s ago · 3 of 3 brokers`, amber when something is wrong.

    The age is that of what is shown; brokers are those of the newest attempt to collect.
    """
    parts = [
        f"<h1>{markup.text(screen.called)}</h1>",
        f"snapshot {markup.ago(screen.manifest.taken_at, now)}",
        markup.hover(found.brokers, found.each_broker),
        *(f"⚠ {markup.text(warning)}" for warning in found.warnings),
    ]
    if screen.findings is None:
        parts.append("no analysis yet")
    elif _behind(screen):
        parts.append(f"findings {markup.ago(screen.findings.manifest.taken_at, now)}")
    if screen.settings.people is not None:
        who = access.actor()
        parts.append(markup.hover(f"{who.name} ({who.role})", "what you do is kept in this name"))
    if stop is not None:
        parts.append(f"<b>⏸ every purge is stopped</b>: {markup.text(stop)}")
    parts += map(alert_html, alerts)
    kind = " warn" if found.warnings or alerts or stop is not None else ""
    return f'<div class="lw lw-head{kind}" role="status">{" · ".join(parts)}</div>'


def alert_html(alert: str) -> str:
    """One of `alerts_of`, with its mark."""
    return f"<b>↺ {alert}</b>" if "came back" in alert else f"✖ {alert}"


def _behind(screen: Screen) -> bool:
    """Whether the newest findings are of an older snapshot: the analysis runs right now."""
    if screen.findings is None:
        return False
    of = screen.findings.manifest.details.get("snapshot_id")
    return of is not None and of != screen.snapshot.id


# The button of every page that hands the storage report out, and the tables behind it.


def report_button(screen: Screen) -> None:
    """A button that opens the choice of files; nothing before the first analysis."""
    if screen.findings is not None and _opens(
        "Report", key="report", help="These findings as files to forward."
    ):
        _choose(screen)


def _closed() -> None:
    st.session_state.pop(_DIALOG, None)


def _help_button() -> None:
    if _opens("Help", key="lw-help", help="How to read this, and the words."):
        _help()


def _opens(label: str, key: str, help: str) -> bool:
    """A button that opens a dialog; whether it was clicked: newer data, which the header shows
    before the run comes to it, loses no click.
    """
    st.button(label, key=key, width="stretch", help=help, on_click=_note_click, args=(key,))
    if st.session_state.get(_CLICKED) != key:
        return False
    del st.session_state[_CLICKED]
    st.session_state[_DIALOG] = True
    return True


def _note_click(key: str) -> None:
    st.session_state[_CLICKED] = key


@st.dialog("How to read this", width="large", on_dismiss=_closed)
def _help() -> None:
    glossary.panel()


@st.dialog("Storage report", on_dismiss=_closed)
@guarded
def _choose(screen: Screen) -> None:
    """One download a format. Files are made when they are asked for."""
    from dashboard.reports import page
    from dashboard.reports import source as findings_files
    from dashboard.reports.page import html_page
    from dashboard.reports.source import open_source
    from dashboard.reports.storage import storage_report
    from dashboard.ui.growth.advice import asking

    found = screen.findings
    assert found is not None
    journal = open_journal()
    runs = journal.runs(screen.cluster.cluster_id)
    source = open_source(
        screen.cluster, runs, screen.now, screen.settings.every,
        analysis_id=found.id, read=found.whole, begins=journal.begins(),
        ask=asking(screen), price=screen.price,
    )  # fmt: skip
    st.caption(
        f"{markup.plain(screen.called)}: what can be given back, who holds the rest, disks, "
        f"orphans, slow followers, {formats.plural(len(runs), 'purge')}, data quality. "
        f"Of the analysis that this page shows, {found.id}."
    )
    missing = page.problem()

    def tables(kind: str) -> Callable[[], bytes]:
        return lambda: findings_files.as_zip(findings_files.files(kind, source.read, source.about))

    name = f"lowwater-{screen.key}-{screen.manifest.taken_at:%Y%m%dT%H%M%SZ}"
    _offer("Page (HTML)", lambda: html_page(storage_report(source)), f"{name}.html", "text/html",
           "One file with plots; opens without network.", main=True)  # fmt: skip
    _offer("Paper (PDF)", lambda: page.pdf(storage_report(source)), f"{name}.pdf",
           "application/pdf", missing.next_step if missing else "The same, A4.",
           disabled=missing is not None)  # fmt: skip
    _offer("Every table (CSV)", tables("csv"), f"{name}-csv.zip", "application/zip",
           "A zip of all findings tables, for a spreadsheet.")  # fmt: skip
    _offer("Every table (Parquet)", tables("parquet"), f"{name}-parquet.zip", "application/zip",
           "A zip of all findings tables, for programs.")  # fmt: skip
    if missing:
        st.caption(markup.plain(f"{missing.message}. {missing.next_step}"))


def _offer(
    label: str,
    make: Callable[[], str | bytes],
    file_name: str,
    mime: str,
    said: str,
    *,
    main: bool = False,
    disabled: bool = False,
) -> None:
    st.download_button(
        label,
        access.at_click(make),
        file_name=file_name,
        mime=mime,
        help=said,
        key=f"report-{file_name.rpartition('.')[2]}-{label}",
        type="primary" if main else "secondary",
        disabled=disabled,
        on_click="ignore",
        width="stretch",
    )


Kind = Literal["topic", "group", "broker"]


class Match(NamedTuple):
    """A topic, a group or a broker whose name holds what was typed; a broker's is its id."""

    kind: Kind
    name: str


def matches(
    typed: str, topics: Iterable[str], groups: Iterable[str], brokers: Iterable[int] = ()
) -> list[Match]:
    """Whose names hold the text, in any case: the name itself first, then the shortest. A broker is
    meant by `3`, or by `broker 3`.
    """
    wanted = typed.strip().lower()
    if not wanted:
        return []
    found = [Match("topic", name) for name in topics if wanted in name.lower()]
    found += [Match("group", name) for name in groups if wanted in name.lower()]
    asked = wanted.removeprefix("broker").strip()
    found += [Match("broker", str(number)) for number in brokers if asked == str(number)]
    return sorted(found, key=lambda m: (m.name != typed.strip(), len(m.name), m.name, m.kind))


def meant(typed: str, found: list[Match]) -> Match | None:
    """The one that was meant for sure: named in full by the text alone, or the only match."""
    exact = [match for match in found if match.name == typed.strip()]
    if not exact and typed.strip().lower().startswith("broker"):
        exact = [match for match in found if match.kind == "broker"]
    certain = exact or found
    return certain[0] if len(certain) == 1 else None
