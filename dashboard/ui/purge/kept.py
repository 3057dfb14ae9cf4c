"""Archives of purged records on the page Audit: what lies where, and the line that restores it.

Apart from the page: reading what lies at a URL is done on demand, and kept for a minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.archive.summary import Summary, summaries
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.settings.sections import Price
from dashboard.settings.settings import Settings
from dashboard.ui.components import grid, in_browser, states
from dashboard.ui.components.markup import plain
from dashboard.views import formats

_KEPT_SECONDS = 60


def show_archives(settings: Settings, cluster_id: str | None) -> None:
    """A switch that lists the archives at the settings' URL, of one cluster; nothing without one.

    Deleting and restoring are the command line's: both take minutes, and no page waits for them.
    """
    url = settings.archive.url
    if url is None:
        return
    if not st.toggle(plain(f"Archives at {url}"), key="archives", bind="query-params"):
        return
    try:
        found = _summaries(url, cluster_id)
    except LowwaterError as error:
        states.show_error(error)
        return
    readable = [one for one in found if isinstance(one, Summary)]
    for unreadable in (one for one in found if isinstance(one, LowwaterError)):
        states.show_error(unreadable)
    if not readable:
        st.caption("No archive lies there.")
        return
    _table(readable, settings)
    _restoring(readable)


@st.cache_resource(max_entries=4, ttl=_KEPT_SECONDS, show_spinner="Reading what is archived …")
def _summaries(url: str, cluster_id: str | None) -> list[Summary | LowwaterError]:
    """Newest first; shared and never changed."""
    return sorted(
        summaries(url, cluster_id),
        key=lambda one: one.archive.run.run_id if isinstance(one, Summary) else "",
        reverse=True,
    )


def _table(found: Sequence[Summary], settings: Settings) -> None:
    now, kept = utc_now(), settings.archive
    price = kept.per_gib_month
    costs = None if price is None else Price(price, settings.price.currency)
    expires = [one.expires_at(kept.keep_for) for one in found]
    shown = pd.DataFrame(
        {
            "Run": [one.archive.run.run_id for one in found],
            "State": [one.state for one in found],
            "Made": [formats.age(one.archive.run.created_at, now) for one in found],
            "Topics": [", ".join(t.topic for t in one.archive.run.topics) for one in found],
            "Offsets": [_ranges(one) for one in found],
            "Records": [formats.number(one.records) for one in found],
            "Stored": [formats.size(one.size_bytes) for one in found],
            "Costs": [costs.a_month(one.size_bytes) if costs else "" for one in found],
            "Expires": [f"{at:%Y-%m-%d}" if at else "" for at in expires],
        }
    )
    text = st.column_config.TextColumn
    grid.show(
        shown,
        {
            "Run": text(width=185), "State": text(width=90), "Made": text(width=60),
            "Topics": text(width=180), "Offsets": text(width=200), "Records": text(width=90),
            "Stored": text(width=90), "Costs": text(width=130), "Expires": text(width=95),
        },
        most=8,
        alt="Archives with run, state, age, topics, offsets, records, bytes and costs",
        key="audit-archives",
    )  # fmt: skip


def _ranges(one: Summary) -> str:
    ranges = one.archive.run.partitions
    if len(ranges) == 1:
        return f"{formats.number(ranges[0].start)} to {formats.number(ranges[0].target)}"
    return formats.plural(len(ranges), "partition")


def _restoring(found: Sequence[Summary]) -> None:
    by_run = {one.archive.run.run_id: one for one in found}
    chosen = st.selectbox("Restore", list(by_run), key="archived-run")
    one = by_run[chosen] if chosen in by_run else found[0]
    if one.state in ("open", "damaged"):
        st.caption(f"This archive is {one.state}: see it with lowwater archives verify first.")
    lines = [one.restore_line(topic.topic) for topic in one.archive.run.topics]
    in_browser.copyable("\n".join(lines))
