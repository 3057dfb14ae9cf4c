"""How a stored cluster is reached again: flags, then settings, then connection.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings.settings import Settings
from dashboard.store.connections import client_for
from dashboard.store.snapshots import ClusterStore, Store


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\nssl.truststore.location=/ca.pem\n")
    store = ClusterStore(Store(str(tmp_path / "data")), "abc")
    store.write_connection("stored:9092", str(config), "prod")
    return store


def test_the_stored_connection_is_used(cluster: ClusterStore) -> None:
    assert client_for(Settings(), cluster) == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "bootstrap.servers": "stored:9092",
    }


@pytest.mark.parametrize("named", ["prod", "abc"])
def test_settings_of_its_name_or_id_win(cluster: ClusterStore, named: str) -> None:
    settings = Settings(clusters={named: {"bootstrap.servers": "set:1"}})
    assert client_for(settings, cluster) == {"bootstrap.servers": "set:1"}


def test_a_section_of_a_name_that_two_clusters_have_is_none_of_who_was_reached_otherwise(
    cluster: ClusterStore,
) -> None:
    """It named the one cluster, and the other could not be reached by its own address."""
    ClusterStore(cluster.store, "other").write_connection("other:9092", None, "prod")
    settings = Settings(clusters={"prod": {"bootstrap.servers": "set:1"}})
    assert client_for(settings, cluster)["bootstrap.servers"] == "stored:9092"
    its = {"prod": {"bootstrap.servers": "b:2, stored:9092", "client.id": "x"}}
    cluster.write_connection("stored:9092,b:2", None, "prod")
    assert client_for(Settings(clusters=its), cluster)["client.id"] == "x"
    by_id = {"abc": {"bootstrap.servers": "its:1"}, **settings.clusters}
    assert client_for(Settings(clusters=by_id), cluster) == {"bootstrap.servers": "its:1"}


def test_flags_win_over_all(cluster: ClusterStore) -> None:
    settings = Settings(clusters={"prod": {"bootstrap.servers": "set:1", "client.id": "x"}})
    client = client_for(settings, cluster, {"bootstrap.servers": "flag:2"})
    assert client == {"bootstrap.servers": "flag:2", "client.id": "x"}


def test_a_cluster_that_nothing_leads_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="xyz") as unknown:
        client_for(Settings(), ClusterStore(Store(str(tmp_path)), "xyz"))
    assert unknown.value.code == "CONNECTION_UNKNOWN"


def test_a_client_config_that_is_gone_is_named(cluster: ClusterStore, tmp_path: Path) -> None:
    (tmp_path / "client.properties").unlink()
    with pytest.raises(SettingsError, match=r"client\.properties"):
        client_for(Settings(), cluster)
