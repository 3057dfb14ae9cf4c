"""Followers: who is slow, why, and for whom would a purge wait?"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.words import duration, first_letter_up
from dashboard.ui import lags
from dashboard.ui.components import states, style
from dashboard.ui.components.grid import one
from dashboard.ui.components.markup import link, size, table, text
from dashboard.ui.session.context import Screen, Tables
from dashboard.ui.session.header import analyzed
from dashboard.views import followers as follower_rows
from dashboard.views import formats
from dashboard.views.followers import Place, Point, Row, SlowUnit, Wanted, slow_units

_SENTENCES = 6
_PLACES = 12
_BESIDE = 5  # columns of the heat map that leave room for something beside it


def show() -> None:
    """The sentences, the heat map, the slow replicas, and who holds the low watermark."""
    if (opened := analyzed(follows=True)) is None:
        return
    screen, findings = opened
    if states.written_before(screen, findings, "slow_followers"):
        return
    followers = findings.table("slow_followers")
    slow: pa.Table = findings.derived("slow", lambda: follower_rows.slow(followers))
    # Read before anything is drawn: what is read stays, even when the files are pruned.
    trends: pa.Table = findings.derived("trends of slow", lambda: _trends(findings, slow))
    units = findings.derived("slow units", lambda: slow_units(followers))
    show_sentences(findings, followers, slow, units)
    if not followers.num_rows:
        return
    wanted = choose(findings.derived("choices of followers", lambda: _choices(followers, slow)))
    heat = findings.derived("heat", lambda: lags.heat(followers))
    # Many brokers need the whole width.
    narrow = len(heat.brokers) <= _BESIDE
    left, right = st.columns([6, 5], gap="medium") if narrow else (st.container(), st.container())
    with left:
        st.html(lags.heat_html(heat))
    with right:
        st.html(places_html(findings.derived("places", lambda: follower_rows.places(followers))))
        show_low_watermark(findings, followers, wanted.topic)
    if slow.num_rows:
        show_slow(screen, trends, wanted.kept(slow))


def show_sentences(
    findings: Tables, followers: pa.Table, slow: pa.Table, units: Sequence[SlowUnit]
) -> None:
    """One sentence for each thing at fault, as the command line says it; or that nothing is."""
    if not followers.num_rows:
        states.show("There are no followers", "Every partition has one replica: it only leads.")
        return
    count = formats.plural(followers.num_rows, "follower")
    if not units:
        calm = findings.derived("calm followers", lambda: _calm(followers))
        states.show(f"None of {count} is slow", calm)
        return
    said = "".join(f"<p>⚠ {text(unit.text)}.</p>" for unit in units[:_SENTENCES])
    rest = len(units) - _SENTENCES
    more = f"<small>and {formats.plural(rest, 'reason')} more, below</small>" if rest > 0 else ""
    verb = "is" if slow.num_rows == 1 else "are"
    st.html(
        f'<div class="lw lw-slow" role="status"><h2>{formats.number(slow.num_rows)} of {count} '
        f"{verb} slow</h2>{said}{more}</div>"
    )


def _calm(followers: pa.Table) -> str:
    """How far the furthest one is, and what is not known."""
    unknown = pc.sum(pc.is_null(followers["lag_records"])).as_py()
    row = follower_rows.furthest(followers)
    parts = []
    if row is not None:
        parts.append(
            f"The furthest is {duration(row['lag_seconds'])} behind: {follower_rows.name(row)}."
        )
    if unknown:
        parts.append(f"The lag of {formats.number(unknown)} is not known.")
    parts.append("A follower between two fetches is not slow; see docs/followers.md.")
    return " ".join(parts)


def _choices(followers: pa.Table, slow: pa.Table) -> tuple[list[str], list[str], list[str]]:
    """Topics, brokers and causes."""
    topics = sorted(pc.unique(followers["topic"]).to_pylist())
    brokers = [str(b) for b in sorted(pc.unique(followers["broker_id"]).to_pylist())]
    causes = sorted(cause for cause in pc.unique(slow["cause"]).to_pylist() if cause)
    return topics, brokers, causes


def choose(choices: tuple[list[str], list[str], list[str]]) -> Wanted:
    """The filters; they live in the address."""
    columns = st.columns(3)
    topics, brokers, causes = choices
    return Wanted(
        topic=one(columns[0], "Topic", "topic", topics),
        broker=one(columns[1], "Broker", "broker", brokers),
        cause=one(columns[2], "Cause", "cause", causes),
    )


def places_html(found: Sequence[Place]) -> str:
    """A row for each log dir with followers, those with slow ones first."""
    rows = [
        (
            f"{link('broker', str(p.broker_id), f'broker {p.broker_id}')} · "
            f"{text(p.log_dir or '?')}",
            formats.number(p.followers),
            f"⚠ {formats.number(p.slow)}" if p.slow else "0",
            formats.number(p.out_of_sync),
            formats.UNKNOWN if p.lag_seconds is None else duration(p.lag_seconds),
            size(p.lag_bytes),
        )
        for p in found[:_PLACES]
    ]
    rest = len(found) - _PLACES
    more = f"<small>and {formats.plural(rest, 'log dir')} more</small>" if rest > 0 else ""
    heads = ("Log dir", "Followers", "Slow", "Out of sync", "Longest lag", "Bytes behind")
    shown = table(heads, rows, range(1, len(heads)))
    return f'<div class="lw"><h2>By broker and log dir</h2>{shown}{more}</div>'


def show_low_watermark(findings: Tables, followers: pa.Table, topic: str | None) -> None:
    """Of the filtered topic, else of the one that is furthest back."""
    shown = topic or findings.derived("furthest back", lambda: lags.topic_of(followers))
    if shown is None:
        st.html(findings.derived("level log starts", lambda: lags.level_html(followers)))
        return
    st.html(lags.held_html(lags.held(followers, shown), shown))
    if topic is None:
        st.caption("The furthest back of all topics; the filter above shows another one.")


def _trends(findings: Tables, slow: pa.Table) -> pa.Table:
    """Those of topics with a slow replica: mostly few, and all of them are a quarter of a GB."""
    return findings.some("trends", pc.field("topic").isin(slow["topic"].unique()))


def show_slow(screen: Screen, trends: pa.Table, kept: pa.Table) -> None:
    """The table of slow replicas, and how the lag of the chosen one went."""
    if not kept.num_rows:
        states.show("No slow follower passes the filters", "Clear one of them.")
        return
    rows: Sequence[Row] = kept.slice(0, lags.SLOW_SHOWN).to_pylist()
    told = follower_rows.points(trends, map(lags.replica, rows))
    chosen = lags.select_slow(rows, told)
    rest = kept.num_rows - len(rows)
    if rest > 0:
        st.caption(f"The {len(rows)} furthest; {formats.number(rest)} more: filter to see them.")
    show_chosen(screen, chosen, told.get(lags.replica(chosen), ()))


def show_chosen(screen: Screen, row: Row, told: Sequence[Point]) -> None:
    """Why the chosen replica is slow, since when, and its lag as a line."""
    since = row["behind_since"]
    began = f", too far behind for {formats.duration(screen.now - since)}" if since else ""
    trend = f"; {text(follower_rows.trend(row))}" if row["alive"] else ""
    left, right = st.columns([5, 6], gap="medium", vertical_alignment="center")
    left.html(
        f'<div class="lw"><h2>{text(follower_rows.name(row))}</h2>'
        f"<p>{text(first_letter_up(follower_rows.behind(row)))}{began}{trend}.</p>"
        f"<p>{text(row['cause'] or '')}: {text(row['reason'] or '')}.</p>"
        "<p><small>Select another row by the box at its left.</small></p></div>"
    )
    with right:
        if len(told) < 2:
            st.caption("Its lag was measured less than twice: no line can be drawn yet.")
            return
        st.echarts_chart(
            follower_rows.option(told, dark=style.dark()),
            height=180,
            key="lag-line",
            alt=f"Records behind over time of {follower_rows.name(row)}",
        )


show()
