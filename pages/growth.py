"""Growth: when is each disk full, and what would change it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.words import days_ahead
from dashboard.estimate.curves import SWING
from dashboard.settings.sections import Price, beside
from dashboard.store.finding_rows import GrowthRow
from dashboard.ui import over_time
from dashboard.ui.components import grid, markup, states
from dashboard.ui.growth import advice, choice
from dashboard.ui.growth.choice import known_of
from dashboard.ui.growth.scenario import Known, Scenario, effect_of
from dashboard.ui.growth.what_if import Disk, Outcome, Range, outcomes
from dashboard.ui.session.context import Screen, findings_of
from dashboard.ui.session.header import analyzed
from dashboard.views import formats, headline


def show() -> None:
    """Load, choose what might be changed, show every log dir today and then."""
    if (opened := analyzed(follows=True)) is None:
        return
    screen, findings = opened
    findings.read("facts", "holds", "curves", "blockers", "growth", "disks")
    known = known_of(screen)
    if not known.disks:
        states.show(
            "No log dir is known",
            "No broker told its log dirs, so nobody can say when a disk is full.",
            "Give the client DESCRIBE on the cluster, then collect and analyze again.",
        )
        return
    main, side = st.columns([4, 1.3], gap="medium")
    with side:
        asked = choice.choose(screen)
    found = findings.derived("outcomes", lambda: _outcomes(known, Scenario()))
    if asked.asks:
        found = _outcomes(known, asked)
    with main:
        show_disks(known, asked, found, screen.price)
        show_topics(screen, soonest_first(found))
    advice.show_retention(screen)


def _outcomes(known: Known, asked: Scenario) -> list[Outcome]:
    return outcomes(known.disks, known.parts, effect_of(known, asked))


def show_disks(known: Known, asked: Scenario, found: list[Outcome], price: Price | None) -> None:
    """The sentence, the table, and what it assumes."""
    sentence = sentence_html(found, asked, price)
    st.html(f'<div class="lw lw-sentence">{sentence}</div>')
    st.html(table_html(found, asked))
    lines = [f"<p>{markup.text(line)}</p>" for line in assumptions(known, asked)]
    markup.draw(f'<div class="lw quiet">{"".join(lines)}</div>' if lines else "")


# Every log dir today, and beside it as it were: the table, its sentence and what it assumes.

SHOWN = 20
_HEADS = ("Log dir", "Full today", "Growth an hour", "Full in")
_AFTER = ("Leaves now", "Full then", "Growth then", "Full then in")


def soonest_first(found: Sequence[Outcome]) -> list[Outcome]:
    """By the day on which they are full; then those that may fill up, those that do not, and those
    of which it is not known, the fullest first.
    """

    def order(outcome: Outcome) -> tuple[tuple[int, float], float, int, str]:
        disk = outcome.disk
        share = _share(disk.used_bytes, disk.total_bytes)
        return (
            headline.order(disk.growth),
            -(share if share is not None else -1),
            disk.broker_id,
            disk.log_dir,
        )

    return sorted(found, key=order)


def sentence_html(found: Sequence[Outcome], asked: Scenario, price: Price | None = None) -> str:
    """When the first disk is full today, and when it, or another, would be; what leaves for that,
    and what it costs.
    """
    first = soonest_first(found)[0]
    growth = first.disk.growth
    if growth is None or growth.used_bytes_per_hour is None:
        return "When a disk is full is not known yet: it takes 3 snapshots over 10 minutes."
    name = _name(first)
    said = f"<strong>{markup.text(name[0].upper() + name[1:])}</strong> is first: "
    said += f"<b>{markup.text(headline.said(growth))}</b>."
    if growth.days_to_full is None:
        said = "<strong>No disk fills up</strong> at the pace of the last 12 to 24 hours."
    if not asked.asks:
        return said
    gone = [outcome.gone.likely for outcome in found]
    size = None if None in gone else round(sum(g or 0.0 for g in gone))
    leaves = formats.size(size) + beside(price, size)
    when = markup.text(_first_then(found))
    return f"{said}<br>With what is chosen {markup.text(leaves)} leave now; {when}."


def _first_then(found: Sequence[Outcome]) -> str:
    """Which disk would be full first, and when."""
    known = [(o.days.likely, at) for at, o in enumerate(found) if o.days.likely is not None]
    soonest = [o.days.soonest for o in found if o.days.soonest is not None]
    least = min(soonest, default=math.inf)
    sure = "" if math.isinf(least) else f", {headline.between(least, None)}"
    if not known:
        return f"when the first disk is full then is not known{sure}"
    days, at = min(known)
    if math.isinf(days):
        return f"no disk fills up{sure}"
    return f"{_name(found[at])} would be first, {_days(found[at].days)}"


def table_html(found: Sequence[Outcome], asked: Scenario) -> str:
    """A row per log dir, soonest full first; the columns of the what-if only if one is asked."""
    listed = soonest_first(found)
    heads = _HEADS + (_AFTER if asked.asks else ())
    rows = (_row(outcome, asked) for outcome in listed[:SHOWN])
    shown = markup.table(heads, rows, range(1, len(heads)))
    rest = len(listed) - SHOWN
    more = f"<small>and {formats.plural(rest, 'log dir')} more</small>" if rest > 0 else ""
    return (
        f'<div class="lw"><h2>Log dirs, the first to be full first <small>small below: 9 times '
        f"of 10 it lies between these</small></h2>{shown}{more}</div>"
    )


def _row(outcome: Outcome, asked: Scenario) -> list[str]:
    disk, growth = outcome.disk, outcome.disk.growth
    today = _share(disk.used_bytes, disk.total_bytes)
    free = markup.size(disk.usable_bytes)
    cells = [
        f"<b>{_percent(today)}</b><br><small>{free} free</small>",
        _rate(Range(disk.high, disk.likely, disk.low)),
        _two(_likely(growth), _between(growth)),
    ]
    if asked.asks:
        then = _share(outcome.used_bytes, disk.total_bytes)
        gone = outcome.gone
        cells += [
            _two(formats.size(gone.likely), _sizes(gone.soonest, gone.latest)),
            f"<b>{_percent(then)}</b>",
            _rate(outcome.growth),
            _two(_told(outcome.days).removeprefix("full in "), _bounds(outcome.days)),
        ]
    name = markup.hover(_name(outcome), f"broker {disk.broker_id} {disk.log_dir}")
    return [name, *cells]


def _name(outcome: Outcome) -> str:
    log_dir = outcome.disk.log_dir
    short = log_dir if len(log_dir) <= 14 else f"…{log_dir[-13:]}"
    return f"broker {outcome.disk.broker_id} · {short}"


def _two(first: str, second: str) -> str:
    below = f"<br><small>{markup.text(second)}</small>" if second else ""
    return f"<b>{markup.text(first)}</b>{below}"


def _share(used: float | None, total: int | None) -> float | None:
    return None if used is None or not total else used / total


def _percent(share: float | None) -> str:
    return formats.UNKNOWN if share is None else f"{share:.0%}"


def _rate(found: Range) -> str:
    low, high = found.latest, found.soonest
    between = (
        "" if low is None or high is None else f"{formats.signed(low)} to {formats.signed(high)}"
    )
    return _two(formats.UNKNOWN if found.likely is None else formats.signed(found.likely), between)


def _sizes(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return "" if low == high else f"{formats.size(low)} to {formats.size(high)}"


def _likely(growth: GrowthRow | None) -> str:
    if growth is None or growth.used_bytes_per_hour is None:
        return formats.UNKNOWN
    return headline.likely(growth).removeprefix("full in ")


def _between(growth: GrowthRow | None) -> str:
    if growth is None:
        return ""
    return headline.between(growth.days_to_full_low, growth.days_to_full_high)


def _in(days: float | None) -> str:
    if days is None:
        return formats.UNKNOWN
    return headline.NEVER if math.isinf(days) else days_ahead(days)


def _bounds(days: Range) -> str:
    if days.soonest is None or days.latest is None or math.isinf(days.soonest):
        return ""
    latest = None if math.isinf(days.latest) else days.latest
    return headline.between(days.soonest, latest)


def _days(days: Range) -> str:
    between = _bounds(days)
    return f"{_told(days)} ({between})" if between else _told(days)


def _told(days: Range) -> str:
    """As `headline.likely` says it of today: no day where the latest is never."""
    likely = _in(days.likely)
    if likely in (headline.NEVER, formats.UNKNOWN):
        return likely
    if days.latest is not None and math.isinf(days.latest):
        return headline.MAYBE
    return f"full in {likely}"


def assumptions(known: Known, asked: Scenario) -> list[str]:
    """What the numbers stand on, for what is asked."""
    said = []
    if asked.keep and asked.kept:
        how = (
            f"What came before the window of the rates was 1/{SWING:g} to {SWING:g} times as much "
            "an hour"
        )
        if known.segments is not None:
            how = (
                f"The inventory's segments say how old bytes are; where it has none: {how.lower()}"
            )
        said.append(
            f"Retention of {formats.duration(asked.keep)}: {how}. Whole segments leave. Once a log "
            "holds that long, as much leaves as comes."
        )
    if asked.waived:
        said.append(
            "Waived groups: one purge up to the next group's offset; growth stays as it is. "
            f"Waived: {', '.join(asked.waived)}."
        )
    if asked.purged:
        _, hours = known.earlier(())
        lately = (
            f"as it grew over the last {formats.duration(timedelta(hours=hours))}"
            if hours
            else "which is not known yet: it takes a kept analysis, 10 minutes to 24 hours older"
        )
        said.append(
            "A purge policy: everything consumed leaves again and again, so what grows is what "
            f"nobody has consumed yet, {lately}. Active segments stay."
        )
    new = _too_new(known, asked)
    if new:
        said.append(f"{formats.plural(new, 'topic')} too new to tell: its growth stays as it is.")
    return said


def _too_new(known: Known, asked: Scenario) -> int:
    unknown = known.parts.topic[np.isnan(known.parts.growth)].tolist()
    return len({known.parts.names[at] for at in unknown} & (asked.kept | asked.purged))


# Which topics fill a log dir: bytes in and out per hour of each topic there.

_COLUMNS = (
    ("Growth/h", "growth_per_hour", "Bytes written less bytes deleted, in this log dir"),
    ("Written/h", "bytes_in_per_hour", "Bytes that came in an hour, replicated ones too"),
    ("Deleted/h", "bytes_out_per_hour", "Bytes that left: retention, purges, the cleaner"),
)


NOT_KAFKAS = "not Kafka's logs"
WHOLE = "the whole disk"
_REST_WHY = (
    f"{NOT_KAFKAS}: what the disk's used bytes grow by beside these topics, as files of other "
    "programs, indexes and other log dirs on it."
)


def show_topics(screen: Screen, found: Sequence[Outcome]) -> None:
    """Choose one of the log dirs, the first to be full first; its topics, fastest first."""
    st.html('<div class="lw"><h2>What fills it</h2></div>')
    names = {f"broker {o.disk.broker_id} · {o.disk.log_dir}": o.disk for o in found}
    chosen = names[st.selectbox("Log dir", list(names), key="growth-dir")]
    if chosen.log_dir:
        over_time.disk_line(screen, chosen.broker_id, chosen.log_dir)
    growth = findings_of(screen)
    made = growth.lately(("fills", chosen), lambda: _fills(growth.table("growth"), chosen))
    if made is None:
        st.caption("How fast its topics grow is not known yet: it takes 3 snapshots over 10 min.")
        return
    shown, unit = made
    number = st.column_config.NumberColumn
    grid.show(
        shown,
        {
            "Topic": st.column_config.TextColumn(),
            **{
                title: number(f"{title} ({unit})", format="%.2f", help=why)
                for title, _, why in _COLUMNS
            },
        },
        alt="Topics of the chosen log dir with bytes per hour written, deleted, and growth",
        placeholder=formats.MISSING,
    )
    st.caption(_REST_WHY if chosen.likely is not None else "How fast the disk grows is unknown.")


def _fills(growth: pa.Table, disk: Disk) -> tuple[pd.DataFrame, str] | None:
    rows = of_dir(growth, disk.broker_id, disk.log_dir)
    return frame(rows, disk.likely) if rows.num_rows else None


def of_dir(growth: pa.Table, broker_id: int, log_dir: str) -> pa.Table:
    """The rows of topics in one log dir whose growth is known, fastest first."""
    here = pc.and_(pc.equal(growth["broker_id"], broker_id), pc.equal(growth["log_dir"], log_dir))
    known = pc.and_(growth["topic"].is_valid(), growth["growth_per_hour"].is_valid())
    rows = growth.filter(pc.fill_null(pc.and_(here, known), False))
    return rows.sort_by([("growth_per_hour", "descending"), ("topic", "ascending")])


def frame(rows: pa.Table, whole: int | float | None) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the one unit of its bytes; above them what `whole`, the growth of
    the disk's used bytes, has besides, so that all that is shown adds up to it.
    """
    values = {title: rows[name].to_pylist() for title, name, _ in _COLUMNS}
    names = rows["topic"].to_pylist()
    unit, divisor = formats.common_unit(abs(v or 0) for column in values.values() for v in column)
    if whole is not None:
        growth, *others = values.values()
        growth[:0] = [whole, whole - sum(growth)]
        for column in others:
            column[:0] = [None, None]
        names[:0] = [WHOLE, NOT_KAFKAS]
    scaled = {
        title: pd.Series([None if v is None else v / divisor for v in column], dtype="float64")
        for title, column in values.items()
    }
    return pd.DataFrame({"Topic": names, **scaled}), unit


show()
