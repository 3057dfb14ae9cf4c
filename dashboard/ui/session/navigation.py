"""The row above each page: links to all pages, and to the same page of another cluster."""

from __future__ import annotations

import streamlit as st

from dashboard.ui.components import markup
from dashboard.ui.session import context, routes
from dashboard.ui.session.context import Choice


def show(page: str) -> None:
    """Draw the row, and name the browser's tab. Of one cluster alone there is nothing to switch."""
    among = context.choices()
    st.set_page_config(page_title=title(page, context.chosen(among)))
    with st.container(horizontal=True, vertical_alignment="center", key="lw-nav"):
        for name in routes.LISTED:
            if name == page:
                st.html(here_html(page), width="content")
            else:
                routes.link(name, routes.TITLES[name])
        if len(among) > 1:
            st.html(switcher_html(page, among, context.chosen(among)), width="content")


def here_html(page: str) -> str:
    """The page that is shown: a link like the others, marked for eyes and, as Streamlit's own links
    never are, for screen readers. It loads the page anew, without what its address asked for.
    """
    address = markup.text(routes.address(page))
    return (
        f'<div class="lw lw-here"><a href="{address}" target="_self" aria-current="page">'
        f"{markup.text(routes.TITLES[page])}</a></div>"
    )


def switcher_html(page: str, among: tuple[Choice, ...], shown: Choice | None) -> str:
    """The cluster that is shown, unfolding to links that load the page anew for another one: what
    was chosen, typed or drafted for this one must not go on in that.
    """
    kept = {"name": routes.param("name") or ""} if page in routes.NAMED else {}
    to = "overview" if page == "fleet" else page
    links = "".join(
        f"<li>{markup.to(routes.address(to, cluster=each.key, **kept), each.label)}</li>"
        for each in among
        if each != shown
    )
    every = markup.to(routes.address("fleet"), "All clusters")
    return (
        '<details class="lw lw-switch"><summary><small>Cluster</small> '
        f"<b>{markup.text(shown.label if shown and page != 'fleet' else 'choose')}</b></summary>"
        f"<ul>{links}<li>{every}</li></ul></details>"
    )


def title(page: str, choice: Choice | None) -> str:
    """`Growth · prod-eu · Lowwater`, as the browser's tab has it; of a topic its name."""
    what = routes.param("name") if page in routes.NAMED else None
    parts = (what or routes.TITLES[page], None if page == "fleet" or not choice else choice.label)
    return " · ".join([*filter(None, parts), "Lowwater"])
