"""Repartition topics that are purged badly, a card each: what is wrong, what to set, why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import streamlit as st

from dashboard.core.clock import format_time, utc_now
from dashboard.core.words import first_letter_up
from dashboard.history.findings_age import unusable
from dashboard.policies.doctor import said
from dashboard.policies.doctor.diagnosis import UNKNOWN, Diagnosis
from dashboard.policies.doctor.repartition import diagnose
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import markup, states
from dashboard.ui.growth.idle_table import AGAIN
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session.context import Screen
from dashboard.views import formats

SHOWN = 12
_KEPT_FOR = timedelta(minutes=5)


@st.fragment(run_every=AGAIN)
@states.guarded
def show(screen: Screen) -> None:
    """All of it, below each other two cards wide; nothing where no topic is a repartition topic.

    It redraws itself: an open page must not go on advising by snapshots that are too old.
    """
    found = diagnoses(screen)
    if not found:
        return
    st.html(head_html(found))
    cards = [card_html(one) for one in _problems(found)[:SHOWN]]
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
    stale = unusable(taken_at, "", now, screen.settings.every)
    key = (screen.cluster.path, f"{part}", analysis, f"{screen.settings.policies}{switched}{stale}")
    return _diagnosed(screen.cluster, screen.settings, now, key)


@st.cache_resource(max_entries=8, show_spinner="Looking at repartition topics …")
def _diagnosed(
    _cluster: ClusterStore, _settings: Settings, _now: datetime, key: tuple[str, ...]
) -> list[Diagnosis]:
    del key  # what the others are known by
    return diagnose(_cluster, open_journal(), _settings, _now)


def html(found: Sequence[Diagnosis]) -> str:
    """All of it as one piece, without Streamlit's columns."""
    if not found:
        return f'<div class="lw"><p>{markup.text(said.NO_TOPIC)}</p></div>'
    cards = "".join(card_html(one) for one in _problems(found)[:SHOWN])
    return head_html(found) + cards + rest_html(found)


def head_html(found: Sequence[Diagnosis]) -> str:
    """How many topics there are, and how many of each kind."""
    return (
        '<div class="lw"><h2>Repartition topics <small>of Kafka Streams, from kept snapshots; '
        f"nothing was asked</small></h2><p>{markup.text(said.summary(found))}.</p></div>"
    )


def card_html(one: Diagnosis) -> str:
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
        facts.append(("Change", markup.text(said.setting_said(one.setting))))
    saves = said.saves_said(one)
    if saves:
        facts.append(("Saves", markup.text(saves)))
    if one.caution:
        facts.append(("Caution", markup.text(one.caution)))
    facts.append(("Seen", _seen(one)))
    return facts


def _seen(one: Diagnosis) -> str:
    times = (one.evidence.from_at, one.evidence.to_at)
    exact = " to ".join(format_time(moment) for moment in times if moment)
    return markup.hover(said.seen_said(one.evidence), exact)
