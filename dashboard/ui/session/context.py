"""What a page stands on: settings, the chosen cluster, its newest snapshot and analysis."""

from __future__ import annotations

import argparse
import functools
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.settings import settings as settings_files
from dashboard.settings.current import CurrentSettings
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.ui.session.held_tables import Tables, held_tables

_CLUSTER_KEY = "lw-cluster"
_KEPT_KEY = "lw-kept"
_PAGE_KEY = "lw-page"
ADDRESS_KEYS = (
    "topic", "broker", "group", "guard", "who", "run", "kind", "state", "folder", "verdict",
    "cause", "policy", "request",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Screen:
    """One rerun's view: immutable tables of one snapshot and (if there is one) one analysis."""

    settings: Settings
    cluster: ClusterStore
    manifest: Manifest
    snapshot: Tables
    findings: Tables | None
    now: datetime

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """`{broker_id, reachable, error}` of each broker, as the snapshot found it."""
        return list(self.manifest.details.get("brokers", []))

    @property
    def missing_brokers(self) -> list[dict[str, Any]]:
        return [broker for broker in self.brokers if not broker.get("reachable", True)]

    @property
    def groups_incomplete(self) -> list[str]:
        """Why the list of groups may be incomplete; non-empty blocks every purge."""
        return [str(reason) for reason in self.manifest.details.get("groups_incomplete", [])]


def settings() -> Settings:
    """The settings as their file says now. Raises SettingsError: then no page shows anything."""
    return started().get()


@functools.cache
def started() -> CurrentSettings:
    """Those that this server began with: `web` asks before it answers anybody.

    Held by the process, not by Streamlit: any browser may have its caches cleared, also one that
    nobody signed in with, and settings that begin anew know of no sign-in that was there before.
    """
    return CurrentSettings(settings_files.load())


def store() -> Store:
    """The data folder named by the settings (LOWWATER_DATA)."""
    return Store(settings().data)


def named_cluster() -> str | None:
    """The cluster chosen on the page, or the one that `lowwater dashboard` was started with."""
    chosen = st.session_state.get(_CLUSTER_KEY)
    return str(chosen) if chosen else _argument()


def choose_cluster(cluster_id: str) -> None:
    """Show this cluster from now on, in this browser session."""
    st.session_state[_CLUSTER_KEY] = cluster_id


def open_cluster() -> ClusterStore:
    """The chosen cluster's store. Raises StoreError NO_SNAPSHOT, CLUSTER_AMBIGUOUS, …"""
    return store().cluster(named_cluster())


def newest() -> Screen:
    """The newest snapshot and analysis. Raises StoreError NO_SNAPSHOT when nothing is there."""
    cluster = open_cluster()
    snapshot_id, analysis_id = cluster.latest_snapshot(), cluster.latest("findings")
    return Screen(
        settings=settings(),
        cluster=cluster,
        manifest=cluster.manifest("snapshots", snapshot_id),
        snapshot=held_tables(cluster, "snapshots", snapshot_id),
        findings=held_tables(cluster, "findings", analysis_id) if analysis_id else None,
        now=utc_now(),
    )


def load() -> Screen:
    """What this page shows: the newest when it was opened, until the reader asks for newer.

    A click must not change the rows under it, so each rerun of a page keeps what it showed, even
    when those files were pruned: tables that were read stay in memory with the session. Settings
    are never kept: a click must obey those of now.
    Raises StoreError NO_SNAPSHOT when nothing is there.
    """
    kept = st.session_state.get(_KEPT_KEY)
    if isinstance(kept, Screen) and kept.cluster.path == open_cluster().path:
        return replace(kept, settings=settings(), now=utc_now())
    screen = newest()
    st.session_state[_KEPT_KEY] = screen
    return screen


def show_newest() -> None:
    """Forget what was shown: the next `load` takes the newest."""
    st.session_state.pop(_KEPT_KEY, None)


def entered(page: str) -> None:
    """Tell which page runs: another one than before starts with the newest data."""
    if st.session_state.get(_PAGE_KEY) != page:
        st.session_state[_PAGE_KEY] = page
        show_newest()
        # Filters are bound to the address: without this the last visit's would come back.
        for key in ADDRESS_KEYS:
            st.session_state.pop(key, None)


def _argument() -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--cluster")
    found, _ = parser.parse_known_args(sys.argv[1:])
    return str(found.cluster) if found.cluster else None
