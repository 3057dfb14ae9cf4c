"""The pages by name and address: where their files are, and of which cluster a link is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st
from streamlit.navigation.page import Page

_PACKAGE = Path(__file__).parents[2]
# In a clone the pages stand beside the package; the wheel carries them as dashboard/screens.
FOLDER = next(
    f for f in (_PACKAGE / "screens", _PACKAGE.parent / "pages") if (f / "overview.py").is_file()
)
# Browsers and proxies cut long addresses; `*` is no topic name.
_LONGEST = 1500
_IN_SESSION = "*"
_HANDED = "lw-handed-topics"
REPLANNED = "lw-replanned"
SENT = "lw-sent-to-plan"
_CLUSTER = "cluster"  # in each address, where a data folder holds several
_CHOSEN = "lw-cluster"
TITLES = {
    "overview": "Overview",
    "reclaimable": "Reclaimable",
    "growth": "Growth",
    "purge": "Purge",
    "orphans": "Orphans",
    "followers": "Followers",
    "policies": "Policies",
    "audit": "Audit",
    "quality": "Quality",
    "fleet": "Fleet",
    "topic": "Topic",
    "group": "Group",
    "broker": "Broker",
}
# Pages of one thing, reached by links and by search: the navigation does not list them, and another
# cluster may have a thing of that name.
NAMED = ("topic", "group", "broker")
LISTED = tuple(name for name in TITLES if name not in NAMED)


def page(name: str) -> Page:
    """The page called `name`; equal for streamlit wherever it is made."""
    first = name == "overview"
    return st.Page(
        FOLDER / f"{name}.py",
        title=TITLES[name],
        url_path="" if first else name,
        default=first,
    )


def cluster() -> str | None:
    """The cluster that this browser session looks at, by name or id: its address says it, or what
    it looked at before.
    """
    chosen = param(_CLUSTER) or st.session_state.get(_CHOSEN)
    return str(chosen) if chosen else None


def keep_cluster(cluster_id: str | None, in_address: str | None) -> None:
    """Stay with a cluster, also when a second one comes; and name it in the address, as links do,
    where it names none.
    """
    st.session_state[_CHOSEN] = cluster_id
    if in_address and not param(_CLUSTER):
        st.query_params[_CLUSTER] = in_address


def address(name: str, /, **params: str | list[str]) -> str:
    """A page's address, for links in HTML and in tables; the cluster first, then `params`."""
    query = urlencode(_kept(params), doseq=True)
    return ("./" if name == "overview" else name) + (f"?{query}" if query else "")


def here(page_name: str, named: str) -> str:
    """The address of this very place in another cluster."""
    kept: dict[str, str | list[str]] = {
        key: st.query_params.get_all(key) for key in st.query_params
    }
    return address(page_name, **{**kept, _CLUSTER: named})


def stay(**params: str | list[str]) -> None:
    """A callback: the same page with these parameters, and no others but the cluster."""
    st.query_params.from_dict(_kept(params))


def go(name: str, /, **params: str | list[str]) -> None:
    """Leave for another page; `params` become its query (empty ones are dropped)."""
    st.switch_page(page(name), query_params=_kept(params))


def link(name: str, label: str, /, **params: str) -> None:
    """A link to another page."""
    st.page_link(page(name), label=label, query_params=_kept(params))


def param(name: str) -> str | None:
    """One value of the address's query."""
    value = st.query_params.get(name)
    return str(value) if value else None


def named() -> str:
    """What the page of a topic, or of a group, is about; kept in the browser's address line."""
    name = param("name") or ""
    if name:
        st.query_params["name"] = name  # a link from the page to itself leaves the line as it was
    return name


def plan_purge(topics: Sequence[str], waived: Sequence[str] = ()) -> None:
    """Leave for the purge page, or from it to itself, with these topics chosen; many of them travel
    in the session.
    """
    st.session_state[SENT] = True
    go("purge", topics=_listed(topics), waive=list(waived))


def replan(topics: Sequence[str]) -> None:
    """A callback of the purge page: leave its run for a new plan of these topics."""
    stay(topics=_listed(topics))
    st.session_state[REPLANNED] = True


def asked_topics() -> list[str]:
    """The topics that the address, or the page before, asked to plan."""
    if param("topics") == _IN_SESSION:
        return list(st.session_state.get(_HANDED, ()))
    # Kafka's topic names hold no comma.
    return [part for part in (param("topics") or "").split(",") if part]


def asked_waivers() -> list[str]:
    """The groups that the address asks to waive, each a parameter of its own: any text is one."""
    return [str(group) for group in st.query_params.get_all("waive") if group]


def _listed(topics: Sequence[str]) -> str:
    listed = ",".join(topics)
    if len(listed) <= _LONGEST:
        return listed
    st.session_state[_HANDED] = tuple(topics)
    return _IN_SESSION


def _kept(params: Mapping[str, str | list[str]]) -> dict[str, str | list[str]]:
    """What is told, behind the cluster: that of the address, unless `params` names another."""
    whole = {_CLUSTER: param(_CLUSTER) or "", **params}
    return {key: value for key, value in whole.items() if value}
