"""What a verb works with: settings, the data folder, and the cluster that flags name."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from dashboard.cli import output
from dashboard.core.clock import utc_now
from dashboard.core.errors import (
    JournalError,
    LowwaterError,
    SettingsError,
    StoreError,
    UsageError,
)
from dashboard.core.system import leads_to_nothing, lies_at
from dashboard.people.people import Actor, actor_of
from dashboard.purge.journal.head import all_rest, journal_in
from dashboard.settings.settings import Settings, load, read_client_config

if TYPE_CHECKING:  # pyarrow is slow to import; a verb that needs no store stays quick
    from dashboard.purge.journal.journal import Journal
    from dashboard.store.snapshots import ClusterStore, Store


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to reach: client properties (librdkafka's words), name, path of its config."""

    client: Mapping[str, str]
    name: str | None
    client_config: str | None

    @property
    def bootstrap_servers(self) -> str:
        return self.client["bootstrap.servers"]

    def is_of(self, cluster: ClusterStore) -> bool:
        """Whether a stored cluster is the one to reach, as far as that is known before it answers.

        Raises StoreError.
        """
        if self.name is not None:
            return self.name in (cluster.name, cluster.cluster_id)
        return bool(cluster.connection().bootstrap_servers == self.bootstrap_servers)


def read_settings(args: argparse.Namespace) -> Settings:
    """The settings, with --data above their own `data`. Raises SettingsError."""
    settings = load()
    return replace(settings, data=args.data or settings.data)


def actor(settings: Settings) -> Actor:
    """Who types this: the operator that the settings name, with the role of that name."""
    return actor_of(settings, None)


def journal_exists(settings: Settings) -> bool:
    """Whether anything was ever journalled here; who only looks makes no journal.

    Raises JournalError where that cannot be told: there may be one, with a stop in it.
    """
    return journal_lies_at(journal_in(settings.state_dir))


def journal_lies_at(path: Path) -> bool:
    """Whether there is a journal. Raises JournalError where that cannot be told."""
    try:
        found = lies_at(path)
    except OSError as error:
        raise JournalError(
            f"whether there is a purge journal {path} cannot be told: {error.strerror or error}",
            "Run it as root or as the folder's owner, or let this user into the folder. If it is "
            "not the state_dir of Lowwater on this host, name that one with LOWWATER_STATE_DIR.",
        ) from error
    if found is None and (link := leads_to_nothing(path)):
        raise JournalError(
            f"whether there is a purge journal {path} cannot be told: {link} is a link to nothing",
            "Mount or make what it leads to, or name another folder with LOWWATER_STATE_DIR.",
        )
    return found is not None and S_ISREG(found.st_mode)


def respawn(settings: Settings) -> None:
    """Start the workers again of runs that lost theirs, and say so; what fails stops nobody."""
    try:
        if not journal_exists(settings) or all_rest(journal_in(settings.state_dir), utc_now()):
            return
    except JournalError:  # another user's, whose calls look after it; a verb that needs it says so
        return
    try:
        from dashboard.purge.jobs.queue import respawn_stale

        with open_journal(settings) as journal:
            for run_id in respawn_stale(settings, journal):
                output.progress(f"run {run_id} had no worker: started one")
    except (LowwaterError, OSError) as error:
        output.progress(f"runs without a worker could not be looked for: {error}")


def open_store(data: str) -> Store:
    """The store at `data`. Raises UsageError when no file system speaks that URL."""
    from dashboard.store.snapshots import Store

    try:
        return Store(data)
    except (ValueError, ImportError) as error:
        raise UsageError(
            f"--data {data} cannot be opened: {error}",
            "Name a local folder, or a URL whose fsspec package is installed.",
            code="DATA_INVALID",
        ) from error


def open_cluster(args: argparse.Namespace) -> tuple[Settings, ClusterStore]:
    """The settings and the cluster of the store that the flags name. Raises StoreError."""
    settings = read_settings(args)
    return settings, open_store(settings.data).cluster(args.cluster)


def target(args: argparse.Namespace, settings: Settings) -> Target:
    """The cluster that --bootstrap-server, or else a settings section, describes.

    Raises UsageError or SettingsError when none is there or it is not clear which.
    """
    config = read_client_config(args.client_config) if args.client_config else {}
    path = str(Path(args.client_config).resolve()) if args.client_config else None
    if args.bootstrap_server:
        client = {**config, "bootstrap.servers": args.bootstrap_server}
        return Target(client, args.name or args.cluster, path)
    if "bootstrap.servers" in config:
        return Target(config, args.name or args.cluster, path)
    name = _section(args.cluster, settings)
    return Target({**settings.clusters[name], **config}, args.name or name, path)


def known_target(args: argparse.Namespace, settings: Settings) -> Target | None:
    """The cluster of the data folder that --cluster names or that is alone there; None where a
    section of the settings has that name, or the folder holds none.

    Raises StoreError when it is not clear which, or not readable; SettingsError when it is not
    known how to reach that one: no other is taken in its place.
    """
    from dashboard.store.connections import client_for

    if args.cluster in settings.clusters:
        return None
    store = open_store(settings.data)
    try:
        cluster = store.cluster(args.cluster)
    except StoreError as error:
        if error.code != "NO_SNAPSHOT":
            raise
        if args.cluster is None and store.several():
            step = "Name the cluster with --cluster, or give --bootstrap-server HOST:PORT."
            raise StoreError(error.message, step, code="CLUSTER_AMBIGUOUS") from error
        return None
    return Target(client_for(settings, cluster, overrides_of(args)), cluster.cluster_id, None)


def _section(named: str | None, settings: Settings) -> str:
    known = sorted(settings.clusters)
    if named is None and len(known) == 1:
        return known[0]
    if not known:
        raise UsageError(
            "no cluster is named",
            "Give --bootstrap-server HOST:PORT, or write [clusters.NAME] in lowwater.toml.",
            code="CLUSTER_NOT_NAMED",
        )
    if named is None:
        raise UsageError(
            f"the settings hold several clusters: {', '.join(known)}",
            "Name one with --cluster.",
            code="CLUSTER_AMBIGUOUS",
        )
    if named not in known:
        raise SettingsError(
            f"the settings have no [clusters.{named}]",
            f"Known: {', '.join(known)}. Or give --bootstrap-server HOST:PORT.",
            code="CLUSTER_NOT_FOUND",
        )
    return named


def remember(store: Store, cluster_id: str, reached: Target) -> ClusterStore:
    """The cluster's folder, with how it was reached written down: pages, plans and policies go on
    reaching it so. For who collects alone: a purge by other rights leaves no trace of them here.

    Raises UsageError CLUSTER_MISMATCH when its name belongs to another cluster of the folder.
    """
    cluster = known_as(store, cluster_id, reached)
    name = name_of(cluster, reached)
    cluster.write_connection(reached.bootstrap_servers, reached.client_config, name)
    return cluster


def reached_cluster(store: Store, cluster_id: str, reached: Target) -> ClusterStore:
    """The folder of the cluster that answered; nothing is written.

    Raises UsageError CLUSTER_MISMATCH when the folder knows it, or another one, by another name.
    """
    cluster = known_as(store, cluster_id, reached)
    if cluster.name not in (cluster_id, name_of(cluster, reached)):
        raise UsageError(
            f"{reached.bootstrap_servers} is cluster {cluster.name} ({cluster_id}), "
            f"not {reached.name}",
            "Correct the address, or the name given with --cluster.",
            code="CLUSTER_MISMATCH",
        )
    return cluster


def known_as(store: Store, cluster_id: str, reached: Target) -> ClusterStore:
    """The folder of the cluster that answered, by whatever name it has; nothing is written.

    Raises UsageError CLUSTER_MISMATCH when the name that was meant belongs to another one.
    """
    from dashboard.store.snapshots import ClusterStore

    cluster = ClusterStore(store, cluster_id)
    name = reached.name
    if name in (None, cluster_id):  # others may have its name, too
        return cluster
    for other in (ClusterStore(store, other) for other in store.clusters()):
        if other.cluster_id != cluster_id and name in (other.name, other.cluster_id):
            raise UsageError(
                f"'{name}' is cluster {other.cluster_id} in {store.root}, "
                f"but {reached.bootstrap_servers} is cluster {cluster_id}",
                "Correct the address, or give this cluster another --name.",
                code="CLUSTER_MISMATCH",
            )
    return cluster


def name_of(cluster: ClusterStore, reached: Target) -> str:
    """The name that was given, else the one it has."""
    return cluster.name if reached.name in (None, cluster.cluster_id) else str(reached.name)


@contextmanager
def open_journal(settings: Settings) -> Iterator[Journal]:
    """The purge journal of this state folder, closed afterwards. Raises JournalError."""
    from dashboard.purge.journal.journal import open_default

    journal = open_default(settings)
    try:
        yield journal
    finally:
        journal.close()


def overrides_of(args: argparse.Namespace) -> dict[str, str]:
    """Client properties that the flags put above the known ones. Raises SettingsError."""
    overrides = read_client_config(args.client_config) if args.client_config else {}
    if args.bootstrap_server:
        overrides["bootstrap.servers"] = args.bootstrap_server
    return overrides


def connection_of(args: argparse.Namespace) -> dict[str, str | None]:
    """What the flags say about reaching the cluster: an address and a path, never a secret."""
    found: dict[str, str | None] = {}
    if args.bootstrap_server:
        found["bootstrap_servers"] = args.bootstrap_server
    if args.client_config:
        read_client_config(args.client_config)
        found["client_config"] = str(Path(args.client_config).resolve())
    return found
