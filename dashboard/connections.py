"""Picks the client properties that reach a stored cluster again: settings, else connection.json."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.errors import SettingsError
from dashboard.settings import Settings, read_client_config
from dashboard.snapshots import ClusterStore


def client_for(
    settings: Settings, cluster: ClusterStore, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Client properties in librdkafka's words; `overrides` (flags) win over everything.

    The settings' section of the cluster's name or id comes first, then what the last collect
    wrote down: bootstrap servers, and the path of the client config (never its content). Raises
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
    for name in (cluster.name, cluster.cluster_id):
        if name in settings.clusters:
            return dict(settings.clusters[name])
    remembered = cluster.connection()
    client: dict[str, str] = {}
    if remembered.get("client_config"):
        client.update(read_client_config(remembered["client_config"]))
    if remembered.get("bootstrap_servers"):
        client["bootstrap.servers"] = remembered["bootstrap_servers"]
    return client
