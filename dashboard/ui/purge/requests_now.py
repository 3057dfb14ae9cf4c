"""What a run's leaders tell of DeleteRecords while it is open: from their own metrics, live."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard.broker_metrics.sources import Sources, sources_of
from dashboard.domain.model import BrokerMetric
from dashboard.purge.journal.journal_rows import RunView
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.session.context import Screen
from dashboard.views import delete_requests

_TOLD_FOR = timedelta(seconds=5)  # one scrape for all who look
_PATIENCE = timedelta(seconds=2)  # the run's own numbers wait for it
_MOST_BROKERS = 8


def show(screen: Screen, view: RunView) -> None:
    """A line for each leader of the run that tells; nothing where nobody named their metrics."""
    led = (r.sent_leader_id if r.leader_id is None else r.leader_id for r in view.partitions)
    leaders = {broker_id for broker_id in led if broker_id is not None}
    sources = sources_of(screen.settings, screen.cluster.name, _PATIENCE)
    if sources is None or not leaders:
        return
    found = delete_requests.of_samples(_told(sources, screen.cluster.cluster_id), leaders)
    lines = "".join(f"<p>{text(delete_requests.said(row))}</p>" for row in found[:_MOST_BROKERS])
    markup.draw(f'<div class="lw lw-state" role="status">{lines}</div>' if lines else "")


@st.cache_data(ttl=_TOLD_FOR, max_entries=8, show_spinner=False)
def _told(_sources: Sources, cluster_id: str) -> tuple[BrokerMetric, ...]:
    del cluster_id  # part of the key
    return _sources.read().samples
