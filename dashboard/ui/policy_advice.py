"""What a policy would have done, what the first one might be, and what repartition topics lack."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.core.clock import format_time, utc_now
from dashboard.core.words import first_letter_up
from dashboard.domain.system_topics import is_system_topic
from dashboard.history.findings_age import told_interval, unusable
from dashboard.policies.apart import diagnosed, past_week
from dashboard.policies.doctor import words
from dashboard.policies.doctor.diagnosis import UNKNOWN, Diagnosis
from dashboard.policies.matching import applications
from dashboard.policies.simulate import Simulation
from dashboard.settings.policies.policy import REPARTITION, Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import in_browser, markup, states, style
from dashboard.ui.components.markup import text
from dashboard.ui.growth.advice import AGAIN
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session.context import Screen
from dashboard.views import colours, formats

# What a policy would have done last week, on the page: a sentence, two lines, what is unknown.

_LOG = logging.getLogger(__name__)
_KEPT_FOR = timedelta(minutes=5)
_WITH, _WITHOUT = "with the policy", "as it was"


def simulation(screen: Screen, policy: Policy) -> Simulation:
    """The simulation up to the snapshot that this page shows, kept for all who look at it.

    A large cluster's takes seconds: it is made anew once in five minutes at most.
    """
    seconds = int(screen.manifest.taken_at.timestamp())
    part = str(seconds // int(_KEPT_FOR.total_seconds()))
    windows = repr((screen.settings.topics, screen.cluster.declarations()))
    key = (screen.cluster.path, policy.definition_sha256, part, windows)
    return _simulated(screen.cluster, screen.settings, policy, screen.manifest.taken_at, key)


@st.cache_resource(max_entries=8, show_spinner="Reading the kept snapshots of a week …")
def _simulated(
    _cluster: ClusterStore,
    _settings: Settings,
    _policy: Policy,
    _now: datetime,
    key: tuple[str, ...],
) -> Simulation:
    del key  # what the others are known by
    return past_week(_cluster, _settings, _policy, _now, _LOG.info)


def show_past(found: Simulation, policy: Policy) -> None:
    """The sentence, both backlogs as lines, and how it is known."""
    st.html(sentence_html(found))
    if not found.points:
        return
    if len(found.points) > 1:
        st.echarts_chart(
            option(found.points, dark=style.dark()),
            height=260,
            key="policy-past",
            alt=f"Bytes below the target of policy {policy.name}, with it and as it was",
        )
    with st.expander("How this is known, and what is not"):
        st.html(notes_html(found))


def sentence_html(found: Simulation) -> str:
    """What it would have purged, and what that had done to the backlog."""
    head = "<h2>What it would have done <small>from kept snapshots; nothing was asked</small></h2>"
    if not found.points:
        return f'<div class="lw">{head}<p>{text(" ".join(found.notes))}</p></div>'
    said = (
        f"{markup.strong(markup.size(found.bytes), colours.RECLAIMABLE)} purged in "
        f"{'at least ' if found.purges else ''}{formats.plural(found.purges, 'run')}, of "
        f"{formats.plural(found.partitions, 'partition')}, between "
        f"{markup.hover(*_times(found.from_))} and {markup.hover(*_times(found.to))}. The largest "
        f"backlog would have been at most <b>{markup.size(found.largest_backlog_bytes)}</b> "
        f"instead of <b>{markup.size(found.largest_backlog_without_bytes)}</b>."
    )
    return f'<div class="lw">{head}<p>{said}</p></div>'


def _times(moment: datetime) -> tuple[str, str]:
    return f"{markup.local(moment):%a %d %b %H:%M}", markup.exact(moment)


def notes_html(found: Simulation) -> str:
    """Each note as a line."""
    lines = "".join(f"<li>{text(note)}</li>" for note in found.notes)
    return f'<div class="lw"><ul>{lines}</ul></div>'


def option(points: Sequence[tuple[datetime, int, int]], *, dark: bool) -> dict[str, Any]:
    """The ECharts option: both backlogs over time, in one unit from zero up."""
    unit, one = formats.common_unit(max(own, without) for _, own, without in points)
    quiet = {"color": "#cbd5e1" if dark else "#475569"}
    reclaimable, slate = colours.RECLAIMABLE, colours.LIVE
    return {
        "animation": False,
        "tooltip": {"show": True},
        "legend": {"data": [_WITHOUT, _WITH], "top": 0, "left": 70, "textStyle": quiet},
        "grid": {"left": 70, "right": 20, "top": 34, "bottom": 26},
        "xAxis": {"type": "time", "axisLabel": {**quiet, "hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "name": f"backlog, {unit}",
            "nameLocation": "middle",
            "nameGap": 54,
            "nameTextStyle": quiet,
            "axisLabel": quiet,
            "splitLine": {"lineStyle": {"color": "#3b4657" if dark else "#d5dbe3"}},
        },
        "series": [
            _line(_WITHOUT, slate.on_dark if dark else slate.fill, "dashed", one,
                  [(at, without) for at, _, without in points]),
            _line(_WITH, reclaimable.on_dark if dark else reclaimable.fill, "solid", one,
                  [(at, own) for at, own, _ in points]),
        ],
    }  # fmt: skip


def _line(
    name: str, colour: str, kind: str, one: int, told: Sequence[tuple[datetime, int]]
) -> Mapping[str, Any]:
    return {
        "name": name,
        "type": "line",
        "symbolSize": 6 if len(told) <= 60 else 0,
        "lineStyle": {"color": colour, "type": kind},
        "itemStyle": {"color": colour},
        "data": [_point(name, at, size, one) for at, size in told],
    }


def _point(name: str, at: datetime, size: int, one: int) -> Mapping[str, Any]:
    said = f"{formats.size(size)} below the target {name}, {markup.exact(at)}"
    return {
        "value": [round(at.timestamp() * 1000), round(size / one, 3)],
        "tooltip": {"formatter": said},
    }


# When there is no policy yet: a settings section to copy, made for the topics of this cluster.

_NAMED = 3


def show_first(screen: Screen) -> None:
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
    in_browser.copyable(sample(screen.key, topics, groups))


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


# Repartition topics that are purged badly, a card each: what is wrong, what to set, why.

SHOWN = 12


@st.fragment(run_every=AGAIN)
@states.guarded
def show_repartition(screen: Screen) -> None:
    """All of it, below each other two cards wide; nothing where no topic is a repartition topic.

    It redraws itself: an open page must not go on advising by snapshots that are too old.
    """
    found = diagnoses(screen)
    if not found:
        return
    st.html(head_html(found))
    cards = cards_html(found)
    for at in range(0, len(cards), 2):
        for place, card in zip(st.columns(2, gap="small"), cards[at : at + 2], strict=False):
            with place, st.container(border=True, height="stretch"):
                st.html(card)
    markup.draw(rest_html(found))


def diagnoses(screen: Screen) -> list[Diagnosis]:
    """The doctor's findings up to now, kept for all who look at this page.

    A large cluster's take seconds: they are made anew once in five minutes at most, and when an
    analysis or a switch of a policy came.
    """
    taken_at = screen.manifest.taken_at
    part = int(taken_at.timestamp()) // int(_KEPT_FOR.total_seconds())
    analysis = screen.findings.manifest.id if screen.findings else ""
    switched = open_journal().policy_states(screen.cluster.cluster_id)
    now = utc_now()
    stale = unusable(taken_at, "", now, screen.settings.every, told_interval(screen.cluster))
    key = (screen.cluster.path, f"{part}", analysis, f"{screen.settings.policies}{switched}{stale}")
    return _diagnosed(screen.cluster, screen.settings, now, key)


@st.cache_resource(max_entries=8, show_spinner="Looking at repartition topics …")
def _diagnosed(
    _cluster: ClusterStore, _settings: Settings, _now: datetime, key: tuple[str, ...]
) -> list[Diagnosis]:
    del key  # what the others are known by
    return diagnosed(_cluster, open_journal(), _settings, _now, _LOG.info)


def head_html(found: Sequence[Diagnosis]) -> str:
    """How many topics there are, and how many of each kind."""
    return (
        '<div class="lw"><h2>Repartition topics <small>of Kafka Streams, from kept snapshots; '
        f"nothing was asked</small></h2><p>{markup.text(words.summary(found))}.</p>"
        f"{_rhythms_html(words.rhythms(found))}</div>"
    )


def _rhythms_html(lines: Sequence[str]) -> str:
    """How applications purge, the first of them; nothing where none shows."""
    if not lines:
        return ""
    listed = "".join(f"<li>{markup.text(line)}</li>" for line in lines[:SHOWN])
    more = len(lines) - SHOWN
    rest = f"<li>and {formats.plural(more, 'application')} more</li>" if more > 0 else ""
    return f'<ul class="lw-list">{listed}{rest}</ul>'


def cards_html(found: Sequence[Diagnosis]) -> list[str]:
    """The first problems, each as a card."""
    return [_card_html(one) for one in _problems(found)[:SHOWN]]


def _card_html(one: Diagnosis) -> str:
    """One problem; every word of it escaped, since topics and groups name themselves."""
    facts = "".join(f"<dt>{term}</dt><dd>{what}</dd>" for term, what in _facts(one))
    return (
        f'<div class="lw lw-card"><h3>{markup.text(one.topic)}</h3>'
        f"<p>{markup.text(first_letter_up(one.sentence))}.</p><dl>{facts}</dl></div>"
    )


def rest_html(found: Sequence[Diagnosis]) -> str:
    """Problems without a card, and the topics of which nothing is known yet, with the reason."""
    left = len(_problems(found)) - SHOWN
    unknown = [one for one in found if one.kind == UNKNOWN]
    lines = "".join(
        f"<li>{markup.text(one.topic)} <small>{markup.text(one.sentence)}</small></li>"
        for one in unknown[:SHOWN]
    )
    if len(unknown) > SHOWN:
        lines += f"<li>and {formats.plural(len(unknown) - SHOWN, 'topic')} more</li>"
    more = f"<p>and {left} more: lowwater policies doctor lists all.</p>" if left > 0 else ""
    listed = f'<ul class="lw-list">{lines}</ul>' if lines else ""
    return f'<div class="lw">{more}{listed}</div>' if more or listed else ""


def _problems(found: Sequence[Diagnosis]) -> list[Diagnosis]:
    return [one for one in found if one.problem]


def _facts(one: Diagnosis) -> list[tuple[str, str]]:
    facts = []
    if one.setting is not None:
        facts.append(("Change", markup.text(words.setting_said(one.setting))))
    saves = words.saves_said(one)
    if saves:
        facts.append(("Saves", markup.text(saves)))
    if one.caution:
        facts.append(("Caution", markup.text(one.caution)))
    facts.append(("Seen", _seen(one)))
    return facts


def _seen(one: Diagnosis) -> str:
    times = (one.evidence.from_at, one.evidence.to_at)
    exact = " to ".join(format_time(moment) for moment in times if moment)
    return markup.hover(words.seen_said(one.evidence), exact)
