"""Picks the client properties that reach a stored cluster again: settings, else connection.json."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.core.errors import SettingsError
from dashboard.settings.settings import Settings, read_client_config
from dashboard.store.snapshots import ClusterStore

# A run's connection with this key is whole: neither settings nor the store add to it.
NOTHING_STORED = "nothing_stored"


def client_for(
    settings: Settings, cluster: ClusterStore, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Client properties in librdkafka's words; `overrides` (flags) win over everything.

    The settings' section of the cluster's id or name comes first, then what the last collect
    wrote down: bootstrap servers, and the path of the client config (never its content). Where
    another cluster has the name, too, a section of it with other servers is the other's. Raises
    SettingsError when nothing is known, or when that file cannot be read any more.
    """
    client = {**_known(settings, cluster), **(overrides or {})}
    if not client.get("bootstrap.servers"):
        raise SettingsError(
            f"it is not known how to reach cluster {cluster.name}",
            "Collect it again, write [clusters.NAME] in the settings, or give --bootstrap-server.",
            code="CONNECTION_UNKNOWN",
        )
    return client


def _known(settings: Settings, cluster: ClusterStore) -> dict[str, str]:
    sections, remembered = settings.clusters, cluster.connection()
    if cluster.cluster_id in sections:
        return dict(sections[cluster.cluster_id])
    if (name := cluster.name) in sections:
        there, was = sections[name].get("bootstrap.servers"), remembered.bootstrap_servers
        if not was or _servers(there) == _servers(was) or not cluster.others_called(name):
            return dict(sections[name])
    client: dict[str, str] = {}
    if remembered.client_config:
        client.update(read_client_config(remembered.client_config))
    if remembered.bootstrap_servers:
        client["bootstrap.servers"] = remembered.bootstrap_servers
    return client


def _servers(listed: str | None) -> set[str]:
    return {one.strip() for one in (listed or "").split(",") if one.strip()}


def client_of_run(
    settings: Settings, cluster: ClusterStore, asked: Mapping[str, str | None]
) -> dict[str, str]:
    """The client properties of a queued run: what its flags said over what is stored, if anything.

    Raises SettingsError as `client_for` does.
    """
    flags: dict[str, str] = {}
    if config := asked.get("client_config"):
        flags.update(read_client_config(config))
    if servers := asked.get("bootstrap_servers"):
        flags["bootstrap.servers"] = servers
    return flags if asked.get(NOTHING_STORED) else client_for(settings, cluster, flags)
