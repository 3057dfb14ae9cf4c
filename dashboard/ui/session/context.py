"""What a page stands on: settings, cluster, its newest snapshot and analysis, and their tables."""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core import words
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, StoreError
from dashboard.estimate import curve_tables
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.settings import settings as settings_files
from dashboard.settings.current import CurrentSettings
from dashboard.settings.sections import Price
from dashboard.settings.settings import Settings
from dashboard.store.attempts import Seen
from dashboard.store.snapshot_files import Kind, Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.ui.session import routes
from dashboard.views.facts import committed_facts
from dashboard.views.headline import Headline, headline
from dashboard.views.topic_rows import TopicRow, groups_of, topic_rows

# A snapshot's and findings' tables, and what is derived from them: read once, for all sessions.
#
# `cache_data` would copy a table at each rerun; Arrow is immutable, so sharing it is safe. Two of
# each kind are kept: the newest, and the one that sessions are still looking at.

_T = TypeVar("_T")
KEPT = 2
_LATELY = 16  # views that readers chose: filters of a page, say
# What pages show of long tables: the rest is three quarters of what they would hold.
_SHOWN = {
    "holds": ["topic", "partition", "group_id", "committed_offset", "epoch_end"],
    "slow_followers": [
        "topic", "partition", "broker_id", "log_dir", "lag_records", "lag_bytes", "lag_seconds",
        "log_start_lag", "trend", "catch_up_seconds", "in_sync", "alive", "slow", "cause", "reason",
        "holds_low_watermark", "append_per_second", "lag_per_second", "observed_at",
        "behind_since",
    ],
    "partitions": ["topic_no"],
    "replicas": ["broker_id", "topic_no", "size_bytes", "is_leader"],
    "segments": ["broker_id", "log_dir", "directory", "base_offset", "topic", "kind", "log_bytes",
                 "newest_at"],
}  # fmt: skip
_LISTED_FOR = timedelta(seconds=5)  # so long a list of clusters stands: links of a page need it


class Tables:
    """The tables of one committed folder, each read when first asked for."""

    def __init__(self, cluster: ClusterStore, kind: Kind, item_id: str) -> None:
        self.id = item_id
        self.manifest = cluster.manifest(kind, item_id)
        self._cluster = cluster
        self._kind: Kind = kind
        self._held: dict[Hashable, Any] = {}
        self._lately: OrderedDict[Hashable, Any] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def table(self, name: str) -> pa.Table:
        """One table, of a long one the columns that pages show. Raises StoreError."""
        return self.derived(
            name, lambda: self._cluster.read(self._kind, self.id, name, _SHOWN.get(name))
        )

    def whole(self, name: str) -> pa.Table:
        """One table in its declared schema; read each time. Raises StoreError."""
        return self._cluster.read(self._kind, self.id, name)

    def some(self, name: str, only: pc.Expression) -> pa.Table:
        """The rows of a table for which `only` holds; read each time. Raises StoreError."""
        return self._cluster.read(self._kind, self.id, name, only=only)

    def curves(self) -> ReplicaCurves:
        """The replicas' curves of an analysis, as numbers. Raises StoreError."""
        return self.derived("curves", lambda: curve_tables.drawn(self._cluster, self.id))

    def facts(self) -> pa.Table:
        """One row per partition for the committed target, with the flags consumed and free.

        `reclaimable` has a row for each other target, too, and is several times as large.
        """
        return self.derived("facts", lambda: committed_facts(self._cluster, self.id))

    def read(self, *names: str) -> None:
        """Read these now: what is read stays, even when the files are pruned."""
        made = {"curves": self.curves, "facts": self.facts}
        for name in names:
            made.get(name, functools.partial(self.table, name))()

    def derived(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` computes from these tables, kept beside them. It must be immutable."""
        return self._once(self._held, name, make)

    def lately(self, chosen: Hashable, make: Callable[[], _T]) -> _T:
        """The same for what readers choose: the newest few stay."""
        return self._once(self._lately, chosen, make)

    def _once(
        self, held: MutableMapping[Hashable, Any], key: Hashable, make: Callable[[], _T]
    ) -> _T:
        """Whoever asks while it is made waits for that: of a large table two would be too much."""
        with self._lock:
            if key in held:
                if held is self._lately:
                    self._lately.move_to_end(key)
                found: _T = held[key]
                return found
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                if key in held:
                    return held[key]  # type: ignore[no-any-return]
            made = make()
            with self._lock:
                held[key] = made
                self._making.pop(key, None)
                while len(self._lately) > _LATELY:
                    self._lately.popitem(last=False)
        return made


def held_tables(cluster: ClusterStore, kind: Kind, item_id: str) -> Tables:
    """The shared tables of this folder, keyed by the cluster's path, kind and id."""
    return (_snapshots if kind == "snapshots" else _findings)(cluster, cluster.path, item_id)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _snapshots(_cluster: ClusterStore, path: str, item_id: str) -> Tables:
    del path  # part of the key: two clusters may hold the same id
    return Tables(_cluster, "snapshots", item_id)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _findings(_cluster: ClusterStore, path: str, item_id: str) -> Tables:
    del path
    return Tables(_cluster, "findings", item_id)


# Tables derived from the findings, computed once per analysis and shared by all sessions.


def findings_of(screen: Screen) -> Tables:
    """The analysis' tables. Raises StoreError NO_ANALYSIS when there is none yet."""
    if screen.findings is None:
        raise StoreError(
            f"cluster {screen.cluster.name} has no analysis yet",
            f"Run: lowwater analyze --data {shlex.quote(screen.settings.data)}",
            code="NO_ANALYSIS",
        )
    return screen.findings


def facts_of(screen: Screen) -> pa.Table:
    """`Tables.facts` of the analysis that is shown."""
    return findings_of(screen).facts()


def headline_of(screen: Screen) -> Headline:
    """The cluster's numbers, as Overview tells them first."""
    found = findings_of(screen)
    blockers, disks = found.table("blockers"), found.table("disks")
    return found.derived("headline", lambda: headline(facts_of(screen), blockers, disks))


def rows_of(screen: Screen) -> list[TopicRow]:
    """One row per topic of the committed target."""
    found = findings_of(screen)
    return found.derived("rows", lambda: topic_rows(facts_of(screen)))


def known_groups(screen: Screen) -> list[str]:
    """Every group that holds something."""
    found = findings_of(screen)
    return found.derived("groups", lambda: groups_of(found.table("holds")))


# The chosen cluster, and what it has that is newest.

_KEPT_KEY = "lw-kept"
CHOOSING = "lw-room"  # whether a panel is open whose reader chooses: nothing is redrawn under it
_PAGE_KEY = "lw-page"
_CLUSTER_KEY = "lw-shown-cluster"  # by its id, and what the session holds is of it
ADDRESS_KEYS = (
    "topic", "broker", "group", "guard", "who", "run", "kind", "state", "folder", "verdict",
    "cause", "policy", "request", "every",
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
    def brokers(self) -> list[Seen]:
        """Each broker, as the snapshot found it."""
        return [
            Seen(int(b["broker_id"]), bool(b.get("reachable", True)), b.get("error"))
            for b in self.manifest.details.get("brokers", [])
        ]

    @property
    def missing_brokers(self) -> list[Seen]:
        """Those that did not answer."""
        return [broker for broker in self.brokers if not broker.reachable]

    @property
    def called(self) -> str:
        """The cluster's name; with its id where another one of the data folder has the same."""
        return called(self.cluster.cluster_id, self.cluster.name)

    @property
    def key(self) -> str:
        """The one word that names the cluster: its name, or its id where others have that name."""
        name = self.cluster.name
        return name if self.called == name else self.cluster.cluster_id

    @property
    def price(self) -> Price | None:
        """What storage costs on this cluster, where the settings tell it."""
        return self.settings.price.of(self.cluster.name, self.cluster.cluster_id)

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
    """The cluster that the address names, or the one that `lowwater dashboard` was started with."""
    return routes.cluster() or argument()


def open_cluster() -> ClusterStore:
    """The chosen cluster's store. Raises StoreError NO_SNAPSHOT, CLUSTER_AMBIGUOUS, …"""
    return store().cluster(named_cluster())


class Choice(NamedTuple):
    """A cluster of the data folder: `key` names it in addresses, its name where no other has it."""

    cluster_id: str
    name: str
    key: str

    @property
    def label(self) -> str:
        """Its name; with its id where another cluster has the same."""
        return words.called(self.name, self.cluster_id, shared=self.key != self.name)


@st.cache_resource(ttl=_LISTED_FOR, max_entries=2, show_spinner=False)
def _several(root: str) -> bool:
    return Store(root).several()


def several() -> bool:
    """Whether the address has to name the cluster: the data folder holds more than one, or one that
    nobody here may look into beside the one that is seen.
    """
    try:
        return _several(settings().data)
    except LowwaterError:
        return True


@st.cache_resource(ttl=_LISTED_FOR, max_entries=2, show_spinner=False)
def _choices(root: str) -> tuple[Choice, ...]:
    held = Store(root)
    named = [(i, _name(ClusterStore(held, i))) for i in held.clusters()]
    names = Counter(name for _, name in named)
    return tuple(
        Choice(cluster_id, name, name if names[name] == 1 else cluster_id)
        for cluster_id, name in sorted(named, key=lambda each: (each[1], each[0]))
    )


def _name(cluster: ClusterStore) -> str:
    """Its name; the id where the file that tells it is damaged: its own pages say so."""
    with suppress(StoreError):
        return cluster.name
    return cluster.cluster_id


def choices() -> tuple[Choice, ...]:
    """The clusters of the data folder by name; none where it cannot be read: its page says so."""
    try:
        return _choices(settings().data)
    except LowwaterError:
        return ()


def called(cluster_id: str, name: str) -> str:
    """A cluster's name, also one that is not in the data folder; with its id where another cluster
    of the data folder has the same.
    """
    shared = any(each.name == name and each.cluster_id != cluster_id for each in choices())
    return words.called(name, cluster_id, shared=shared)


def chosen(among: Sequence[Choice]) -> Choice | None:
    """That of them which pages show; None: none of them is named."""
    named = named_cluster()
    return next((each for each in among if named in (each.cluster_id, each.key)), None)


def newest(cluster: ClusterStore | None = None) -> Screen:
    """The newest snapshot and analysis, of the chosen cluster unless another is given. Raises
    StoreError NO_SNAPSHOT when nothing is there.
    """
    cluster = cluster or open_cluster()
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


def this_page() -> str:
    """The name of the page that runs."""
    return str(st.session_state.get(_PAGE_KEY) or "overview")


def entered(page: str) -> None:
    """Tell which page runs: another one than before starts with the newest data. Where the data
    folder holds several clusters, the address names the one that is shown.
    """
    among = choices()
    alone = len(among) == 1 and not several()
    its = among[0] if alone and not named_cluster() else chosen(among)
    if its is not None:
        _forget_others(its.cluster_id)
    key = its.key if its and not alone else None
    routes.keep_cluster(its.cluster_id if its else named_cluster(), key)
    if st.session_state.get(_PAGE_KEY) != page:
        st.session_state[_PAGE_KEY] = page
        show_newest()
        # Filters are bound to the address: without this the last visit's would come back.
        for key in ADDRESS_KEYS:
            st.session_state.pop(key, None)


def _forget_others(cluster_id: str) -> None:
    """Links to another cluster load the page anew. Where a session comes to one all the same, what
    was chosen, typed, drafted or answered for the one before does not go on in it.
    """
    if st.session_state.get(_CLUSTER_KEY, cluster_id) != cluster_id:
        for key in list(st.session_state):
            del st.session_state[key]
    st.session_state[_CLUSTER_KEY] = cluster_id


def argument() -> str | None:
    """The cluster that `lowwater dashboard` was started with."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--cluster")
    found, _ = parser.parse_known_args(sys.argv[1:])
    return str(found.cluster) if found.cluster else None
