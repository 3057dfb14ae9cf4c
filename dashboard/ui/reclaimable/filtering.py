"""The filters above the table; they live in the address, so that a view can be sent to others."""

from __future__ import annotations

import pyarrow.compute as pc
import streamlit as st

from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of, rows_of
from dashboard.views.topic_rows import Filters, groups_of, topics_of_broker, topics_of_group

_LEAST = {"any": 0, "1 MiB": 2**20, "100 MiB": 100 * 2**20, "1 GiB": 2**30, "10 GiB": 10 * 2**30}


def choose_filters(screen: Screen) -> Filters:
    """Draw topic, broker, group, guard and least bytes; what they keep."""
    columns = st.columns(5)
    holds = findings_of(screen).table("holds")
    replicas, topics = screen.snapshot.table("replicas"), screen.snapshot.table("topics")
    brokers = [str(b) for b in sorted(pc.unique(replicas["broker_id"]).to_pylist())]
    guards = sorted({guard for row in rows_of(screen) for guard in row.guards})
    topic = columns[0].text_input(
        "Topic", key="topic", bind="query-params", placeholder="part of its name"
    )
    broker = one(columns[1], "Broker", "broker", brokers)
    group = one(columns[2], "Group", "group", groups_of(holds))
    guard = one(columns[3], "Guard", "guard", ["none", *guards])
    least = columns[4].selectbox("At least reclaimable", list(_LEAST), key="least")
    return Filters(
        topic=(topic or "").strip(),
        broker_topics=topics_of_broker(replicas, topics, int(broker)) if broker else None,
        group_topics=topics_of_group(holds, group) if group else None,
        guard=guard,
        least_bytes=_LEAST[least],
    )


def one(
    place: st.delta_generator.DeltaGenerator, label: str, key: str, options: list[str]
) -> str | None:
    """A filter that the address keeps; None: everything."""
    found = place.selectbox(
        label, options, index=None, key=key, bind="query-params", placeholder="all"
    )
    return str(found) if found else None
