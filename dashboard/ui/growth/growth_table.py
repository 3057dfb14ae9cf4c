"""Every log dir today, and beside it as it were: the table, its sentence and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from dashboard.estimate.expiring import SWING
from dashboard.ui.components import markup
from dashboard.ui.growth.growth_scenario import Known, Scenario
from dashboard.ui.growth.growth_what_if import Outcome, Range
from dashboard.views import days_to_full, formats

SHOWN = 20
_HEADS = ("Log dir", "Full today", "Growth an hour", "Full in")
_AFTER = ("Leaves now", "Full then", "Growth then", "Full then in")


def soonest_first(found: Sequence[Outcome]) -> list[Outcome]:
    """By today's days to full; those that do not fill up by fullness, those not known last."""

    def order(outcome: Outcome) -> tuple[float, float, int, str]:
        disk = outcome.disk
        days = disk.growth["days_to_full"] if disk.growth else None
        share = _share(disk.used_bytes, disk.total_bytes)
        return (
            math.inf if days is None else days,
            -(share if share is not None else -1),
            disk.broker_id,
            disk.log_dir,
        )

    return sorted(found, key=order)


def sentence_html(found: Sequence[Outcome], asked: Scenario) -> str:
    """When the first disk is full today, and when it, or another, would be."""
    first = soonest_first(found)[0]
    growth = first.disk.growth
    if growth is None or growth["used_bytes_per_hour"] is None:
        return "When a disk is full is not known yet: it takes 3 snapshots over 10 minutes."
    name = _name(first)
    said = f"<strong>{markup.text(name[0].upper() + name[1:])}</strong> is first: "
    said += f"<b>{markup.text(days_to_full.said(growth))}</b>."
    if growth["days_to_full"] is None:
        said = "<strong>No disk fills up</strong> at the pace of the last 12 to 24 hours."
    if not asked.asks:
        return said
    gone = [outcome.gone.likely for outcome in found]
    leaves = formats.UNKNOWN if None in gone else formats.size(sum(g or 0.0 for g in gone))
    when = markup.text(_first_then(found))
    return f"{said}<br>With what is chosen {markup.text(leaves)} leave now; {when}."


def _first_then(found: Sequence[Outcome]) -> str:
    """Which disk would be full first, and when."""
    known = [(o.days.likely, at) for at, o in enumerate(found) if o.days.likely is not None]
    soonest = [o.days.soonest for o in found if o.days.soonest is not None]
    least = min(soonest, default=math.inf)
    sure = "" if math.isinf(least) else f", {days_to_full.between(least, None)}"
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
    cells = "".join(f'<th scope="col"{_right(at)}>{head}</th>' for at, head in enumerate(heads))
    rows = "".join(_row(outcome, asked) for outcome in listed[:SHOWN])
    rest = len(listed) - SHOWN
    more = f"<small>and {formats.plural(rest, 'log dir')} more</small>" if rest > 0 else ""
    return (
        f'<div class="lw"><h2>Log dirs, the first to be full first <small>small below: 9 times '
        f'of 10 it lies between these</small></h2><table class="lw-table"><thead><tr>{cells}</tr>'
        f"</thead><tbody>{rows}</tbody></table>{more}</div>"
    )


def _right(at: int) -> str:
    return ' class="n"' if at else ""


def _row(outcome: Outcome, asked: Scenario) -> str:
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
            _two(_in(outcome.days.likely), _bounds(outcome.days)),
        ]
    name = markup.hover(_name(outcome), f"broker {disk.broker_id} {disk.log_dir}")
    return f"<tr><td>{name}</td>" + "".join(f'<td class="n">{c}</td>' for c in cells) + "</tr>"


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


def _likely(growth: Mapping[str, Any] | None) -> str:
    if growth is None or growth["used_bytes_per_hour"] is None:
        return formats.UNKNOWN
    days = growth["days_to_full"]
    return days_to_full.NEVER if days is None else days_to_full.length(days)


def _between(growth: Mapping[str, Any] | None) -> str:
    if growth is None:
        return ""
    return days_to_full.between(growth["days_to_full_low"], growth["days_to_full_high"])


def _in(days: float | None) -> str:
    if days is None:
        return formats.UNKNOWN
    return days_to_full.NEVER if math.isinf(days) else days_to_full.length(days)


def _bounds(days: Range) -> str:
    if days.soonest is None or days.latest is None or math.isinf(days.soonest):
        return ""
    latest = None if math.isinf(days.latest) else days.latest
    return days_to_full.between(days.soonest, latest)


def _days(days: Range) -> str:
    likely, between = _in(days.likely), _bounds(days)
    said = likely if likely in (days_to_full.NEVER, formats.UNKNOWN) else f"full in {likely}"
    return f"{said} ({between})" if between else said


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
