"""Policies: what purges by itself, what would it have done, and who switched it on?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.policies.service.serving import Serving, serving
from dashboard.purge.jobs import queue_refusals
from dashboard.purge.journal.journal import Journal
from dashboard.settings.policies.policy import Policy
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.policies import (
    policy_first,
    policy_past,
    policy_switch,
    policy_table,
    policy_undefined,
    policy_views,
    repartition_cards,
)
from dashboard.ui.policies.policy_views import PolicyView
from dashboard.ui.purge import runs
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import context
from dashboard.ui.session.context import Screen
from dashboard.ui.session.header import header
from dashboard.views import formats, policy_texts

_LIVE = timedelta(seconds=5)


def show() -> None:
    """The service, all policies, the chosen one in full, and what the repartition doctor sees."""
    screen = context.load()
    header(screen)
    states.notes(screen)
    own, others = policy_views.for_cluster(screen.settings, screen.cluster)
    if own:
        screen.snapshot.read("topics")
        st.fragment(states.guarded(show_all), run_every=_LIVE)(screen, own)
        show_one(screen, chosen(own))
    else:
        policy_first.show(screen)
    policy_undefined.show(screen)
    if others:
        st.caption(markup.plain(policy_texts.elsewhere(others)))
    states.guarded(repartition_cards.show)(screen)


def show_all(screen: Screen, policies: Sequence[Policy]) -> None:
    """Whether a service runs, and a line per policy; redrawn by itself, and the whole page once the
    settings define others: what it drew is not what a service goes by.
    """
    if policy_views.for_cluster(screen.settings, screen.cluster)[0] != tuple(policies):
        st.rerun(scope="app")
    journal, now = open_journal(), utc_now()
    service = served(screen, journal)
    read_only = queue_refusals.stopped(screen.settings, journal) is not None
    st.html(policy_table.service_html(service, now, read_only))
    markup.draw(policy_table.alerts_html(journal.untold_alerts(screen.cluster.cluster_id), now))
    found = policy_views.views(journal, screen.cluster, policies, now)
    st.html(policy_table.table_html(found, service, now))


def served(screen: Screen, journal: Journal) -> Serving:
    """What is known of the cluster's service."""
    most = screen.settings.purge.most_service_silence
    return serving(journal, screen.cluster.cluster_id, most)


def chosen(policies: Sequence[Policy]) -> Policy:
    """The policy that the address names, or the reader chose; the first one else."""
    if len(policies) == 1:
        return policies[0]
    names = [policy.name for policy in policies]
    name = st.selectbox("Policy", names, key="policy", bind="query-params")
    return policies[names.index(name)]


def show_one(screen: Screen, policy: Policy) -> None:
    """One policy; its past week comes last, since it may take seconds to read."""
    with st.container(border=True):
        st.fragment(states.guarded(show_now), run_every=_LIVE)(screen, policy)
        policy_switch.switch(screen, policy)
    if screen.findings is None:
        st.caption("No analysis yet: bytes of the past week are spread evenly over offsets.")
    policy_past.show(policy_past.simulation(screen, policy), policy)


def show_now(screen: Screen, policy: Policy) -> None:
    """What it does, how it stands, what is held back, and its last runs."""
    journal, now = open_journal(), utc_now()
    (view,) = policy_views.views(journal, screen.cluster, [policy], now)
    st.html(f'<div class="lw"><h2>{text(policy.name)}</h2></div>')
    left, right = st.columns(2, gap="medium")
    left.html(policy_table.definition_html(view))
    with right:
        use = policy_views.used(journal, screen.cluster, view, now)
        st.html(policy_table.now_html(view, served(screen, journal), use, now))
        show_runs(view, now)
    markup.draw(policy_table.blocked_html(view))


def show_runs(view: PolicyView, now: datetime) -> None:
    """The newest runs, each a link to itself."""
    st.html('<div class="lw"><h3>Last runs <small>of this week</small></h3></div>')
    runs.links(policy_views.last_runs(open_journal(), view), now)
    rest = len(view.runs) - policy_views.LAST_RUNS
    if not view.runs:
        st.caption("None.")
    elif rest > 0:
        st.caption(f"and {formats.number(rest)} more: the page Audit lists them.")


show()
