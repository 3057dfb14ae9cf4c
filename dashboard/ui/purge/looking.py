"""Look before you purge, on a page: some records below the targets, drawn once, kept nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.core.visible import visible_cell
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import MOST_SAMPLED, Form, LookedAt
from dashboard.purge.evidence import look
from dashboard.purge.evidence.look import LookRequest
from dashboard.purge.plan.plan import Plan
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen, facts_of
from dashboard.views import formats, records

_MOST_LISTED = 500  # partitions in the box: those with the most records
_SAMPLED = 10
_MOST_OLDEST = 8  # topics whose oldest record is told at once
_FORMS: Mapping[str, Form | None] = {"Hidden": None, "Text": "text", "JSON": "json", "Hex": "hex"}
_SAID = (
    "Reads live as the pages' own principal, which needs READ on the topic, without a group. Shown "
    "until the page is drawn again and kept nowhere. Brokers count what is fetched, a batch for "
    "each record, as read by somebody: more than 1 MiB of a partition may look like an unseen "
    "reader."
)


def offer_plan(screen: Screen, plan: Plan) -> None:
    """Of a plan's partitions, those with the most records below their targets first."""
    rows = look.worth(plan)[:_MOST_LISTED]
    targets = {p.key: p.target_offset for p in rows if p.target_offset is not None}
    _offer(screen, plan.cluster_id, "Look at the records before you purge", targets, plan.topic_ids)


def offer_topic(screen: Screen, topic: str) -> None:
    """Of a topic, below the committed targets of the newest analysis."""
    facts = facts_of(screen)
    rows = facts.filter(pc.and_(pc.equal(facts["topic"], topic), pc.greater(facts["records"], 0)))
    columns = (rows[name].to_pylist() for name in ("partition", "target_offset", "records"))
    listed = sorted(zip(*columns, strict=True), key=lambda row: (-row[2], row[0]))[:_MOST_LISTED]
    targets = {TopicPartition(topic, number): target for number, target, _ in listed}
    ids = screen.snapshot.table("topics").filter(
        pc.equal(screen.snapshot.table("topics")["topic"], topic)
    )["topic_id"]
    _offer(
        screen, screen.cluster.cluster_id, "Look at records below the committed targets", targets,
        {topic: ids[0].as_py() if len(ids) else None},
    )  # fmt: skip


def _offer(
    screen: Screen,
    cluster_id: str,
    label: str,
    targets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
) -> None:
    if not targets:
        return
    with st.expander(label):
        if access.only("operator", "Looking at records"):
            st.fragment(states.guarded(_choose))(screen, cluster_id, targets, topic_ids)


def _choose(
    screen: Screen,
    cluster_id: str,
    targets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
) -> None:
    left, middle, right = st.columns([3, 2, 3], vertical_alignment="bottom")
    key = left.selectbox(
        "Partition", list(targets), key="look-partition",
        format_func=lambda key: visible_cell(f"{key.topic}-{key.partition}"),
    )  # fmt: skip
    sampled = middle.number_input(
        "Between first and last", 0, MOST_SAMPLED, _SAMPLED, key="look-sampled"
    )
    form = right.radio("Values", list(_FORMS), horizontal=True, key="look-values")
    st.caption(markup.plain(_SAID))
    if not st.button("Look", key="look"):
        return
    shown = _FORMS[form or "Hidden"]
    ids = {key.topic: topic_ids.get(key.topic)}
    asked = LookRequest({key: targets[key]}, ids, int(sampled), shown is not None)
    try:
        with st.spinner("Reading records …"):
            (found,) = look.look(
                screen.settings, screen.settings.data, cluster_id, asked, access.actor()
            )
    except LowwaterError as error:
        states.show_error(error)
        return
    st.html(found_html(found, shown))


def found_html(found: LookedAt, form: Form | None) -> str:
    """The records as a table; every character of them escaped, what steers text made visible."""
    rows = [
        (
            text(place),
            formats.number(record.offset),
            text(records.time_line(record)),
            markup.size(record.size_bytes),
            text(records.line(record.key)),
            text(records.headers_line(record.headers)),
            text(records.line(record.value, form or "text", records.MOST_CHARACTERS)),
        )
        for place, record in records.places(found)
    ]
    heads = ("Record", "Offset", "Time", "Size", "Key", "Headers", "Value")
    table = markup.table(heads, rows, (1, 3)) if rows else ""
    kind = "lw-state warn" if found.error else "lw-records"
    heading = f'<div class="lw {kind}" role="status"><p>{text(records.heading(found))}</p></div>'
    return f'{heading}<div class="lw lw-records">{table}</div>' if table else heading


def offer_oldest(screen: Screen, topics: Sequence[str]) -> None:
    """How far back records go, read from the cluster when it is asked for."""
    few = tuple(topics[:_MOST_OLDEST])
    if not st.button(
        "Show the oldest record", key="time-oldest", type="tertiary",
        help="Asks the leaders for the first record's time; reads no record.",
    ):  # fmt: skip
        return
    try:
        with st.spinner("Asking the leaders …"):
            found = look.oldest(
                screen.settings, screen.settings.data, screen.cluster.cluster_id, few
            )
    except LowwaterError as error:
        states.show_error(error)
        return
    more = f" Of the first {len(few)} of {len(topics)} topics." if len(topics) > len(few) else ""
    st.caption(markup.plain(" ".join(map(_oldest_said, found)) + more))


def _oldest_said(found: look.Oldest) -> str:
    """One sentence, with the reader's clock and UTC."""
    unknown = f" Not all of it could be read ({found.error})." if found.error else ""
    if found.at is None:
        none = "unknown" if found.error else "none: it has no record that bears a time"
        return f"The oldest record of {found.topic} is {none}.{unknown}"
    when = f"{formats.ago(found.at, utc_now())}: {markup.exact(found.at)}"
    where = f"in partition {found.partition}"
    return f"The oldest record of {found.topic} is of {when}, {where}.{unknown}"
