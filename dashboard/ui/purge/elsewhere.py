"""Of which cluster a run or a request is: the journal has those of all, and pages show one."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.purge.jobs.requests import PurgeRequest
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import context, routes
from dashboard.ui.session.context import Screen

_WITHOUT_ONE = ("CLUSTER_AMBIGUOUS", "CLUSTER_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class Named:
    """What an address names by id; `acts` says what is done with it, `verb` what else does so."""

    what: str
    id: str
    cluster_id: str
    cluster_name: str
    acts: str
    verb: str

    @property
    def where(self) -> str:
        """Its cluster as HTML: a link to it there; its name where the data folder lacks that."""
        called = context.called(self.cluster_id, self.cluster_name)
        key = key_of(self.cluster_id)
        return text(called) if key is None else markup.to(routes.here("purge", key), called)


def run(row: RunRow) -> Named:
    """A run as the address names it."""
    return Named(
        "run", row.run_id, row.cluster_id, row.cluster_name,
        "paused, resumed, cancelled or planned again", f"lowwater run {row.run_id}",
    )  # fmt: skip


def request(row: PurgeRequest) -> Named:
    """A request as the address names it."""
    return Named(
        "request", row.request_id, row.cluster_id, row.cluster_name,
        "approved or rejected", f"lowwater approvals --show {row.request_id}",
    )  # fmt: skip


def key_of(cluster_id: str | None) -> str | None:
    """What names this cluster in addresses; None where the data folder has nothing of it."""
    return next((each.key for each in context.choices() if each.cluster_id == cluster_id), None)


def is_here(screen: Screen, named: Named) -> bool:
    """Whether it is of the cluster that is shown; says of which it is where not. Then nothing that
    acts on it may be drawn: a header stands above that speaks of another cluster.
    """
    if named.cluster_id == screen.cluster.cluster_id:
        return True
    st.html(told_html(named))
    return False


def told_html(named: Named) -> str:
    """That it is of another cluster than the header, and where it is acted on."""
    by_hand = f"<code>{text(named.verb)}</code>"
    follow = f"It is {named.acts} there, or from the command line: {by_hand}."
    where = f"<b>{named.where}</b>"
    if key_of(named.cluster_id) is None:
        where += ", of which this data folder has nothing"
        follow = f"See {by_hand}."
    return (
        f'<div class="lw lw-state warn" role="status"><p>This {named.what} is of another cluster: '
        f"{where}. The header tells of the one that the pages show. {follow}</p></div>"
    )


def load() -> Screen | None:
    """What the page stands on. None where the address names no cluster that is here, but a run or
    a request of one that is: the page leads there, and to no other cluster.

    Raises StoreError; UsageError RUN_NOT_FOUND, REQUEST_NOT_FOUND.
    """
    try:
        return context.load()
    except StoreError as error:
        named = _of_address() if error.code in _WITHOUT_ONE else None
        if named is None or key_of(named.cluster_id) is None:
            raise
        st.html(
            '<div class="lw lw-state warn" role="status"><h2>Which cluster?</h2><p>The address '
            f"names none that is here. The {named.what} {text(named.id)} is of "
            f"<b>{named.where}</b>.</p></div>"
        )
        return None


def _of_address() -> Named | None:
    journal = open_journal()
    if run_id := routes.param("run"):
        return run(journal.head(run_id))
    request_id = routes.param("request")
    return request(journal.request(request_id)) if request_id else None
