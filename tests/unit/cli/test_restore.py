"""`lowwater restore` writes into the cluster that is meant, and into no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.store.snapshots import ClusterStore, Store
from tests.support import archives
from tests.unit.archive.test_restore import Memory
from tests.unit.cli.printed import answer

STAGING = '[clusters.staging]\n"bootstrap.servers" = "staging:1"\n'
RESTORE = ("restore", "kept/cluster-id/r", "--to-topic", "new")


@pytest.fixture
def reached(alone: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The client properties by which a cluster was reached; settings know staging alone."""
    found: list[Mapping[str, str]] = []
    clusters: dict[str, Memory] = defaultdict(Memory)

    def connect(client: Mapping[str, str], _: object) -> AbstractContextManager[Memory]:
        found.append(client)
        host = client["bootstrap.servers"].partition(":")[0]
        told = "cluster-1" if host == "staging" else host
        monkeypatch.setattr(clusters[told], "cluster_id", lambda: told)
        return nullcontext(clusters[told])

    monkeypatch.setattr("dashboard.cluster.live.connect", connect)
    monkeypatch.setattr(
        "dashboard.cluster.produce.RecordClient",
        lambda _, of, *__, **___: nullcontext(clusters[of]),
    )
    (alone / "lowwater.toml").write_text(f'data = "data"\n{STAGING}')
    (alone / "creds").write_text("sasl.username=ann\n")
    archives.write(alone / "kept", {"orders": {0: archives.records(9)}}, run_id="r")
    return found


def known(cluster_id: str, name: str | None, config: str | None = None) -> Path:
    """A cluster that was collected by its address."""
    cluster = ClusterStore(Store("data"), cluster_id)
    cluster.write_connection(f"{cluster_id}:1", config, name)
    return Path("data") / cluster_id


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    return str(answer(capsys, *RESTORE, *words, exit_code=1)["error"]["code"])


@pytest.mark.parametrize("words", [(), ("--client-config", "creds")])
def test_which_of_several_is_asked_though_the_settings_know_one(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    known("eu", "prod-eu")
    known("us", "prod-us")
    assert refused(capsys, *words) == "CLUSTER_AMBIGUOUS"
    assert refused(capsys, *words, "--cluster", "prod") == "CLUSTER_NOT_FOUND"
    assert reached == []
    for named, address in (("prod-us", "us:1"), ("eu", "eu:1"), ("staging", "staging:1")):
        answer(capsys, *RESTORE, *words, "--existing", "--cluster", named)
        assert reached[-1]["bootstrap.servers"] == address
        assert reached[-1].get("sasl.username") == ("ann" if words else None)


@pytest.mark.parametrize("seen", [("eu",), ()])
def test_it_is_while_a_closed_folder_may_be_another(
    reached: list[Mapping[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seen: tuple[str, ...],
) -> None:
    for cluster_id in seen:
        known(cluster_id, None)
    monkeypatch.setattr(Store, "closed", lambda _: ["us"])
    assert (refused(capsys), reached) == ("CLUSTER_AMBIGUOUS", [])
    answer(capsys, *RESTORE, "--cluster", "staging")
    assert reached[-1]["bootstrap.servers"] == "staging:1"


def test_another_is_not_taken_for_one_that_nobody_can_reach(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = known("eu", "prod-eu", str(Path("gone").resolve()))
    assert refused(capsys) == "CLIENT_CONFIG_UNREADABLE"
    (folder / "connection.json").write_text("{")
    assert refused(capsys) == "STORE_UNREADABLE"
    assert reached == []


def test_the_only_one_of_the_settings_is_taken_where_no_other_is_known(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(RESTORE)) == 0
    out = capsys.readouterr().out
    assert "9 records in topic new of cluster staging (cluster-1), every one as it was" in out
    assert reached[-1]["bootstrap.servers"] == "staging:1"
    known("eu", "prod-eu")
    answer(capsys, *RESTORE, "--existing")
    assert reached[-1]["bootstrap.servers"] == "eu:1"


def test_an_address_that_leads_to_another_cluster_by_now_is_refused(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A forward that leads elsewhere today, or a cluster that was made anew at the old address."""
    ClusterStore(Store("data"), "eu").write_connection("another:1", None, "prod-eu")
    assert refused(capsys, "--cluster", "prod-eu") == "CLUSTER_MISMATCH"
    assert not Path("state/restores").exists()
    answer(capsys, *RESTORE, "--cluster", "prod-eu", "--name", "prod-new")


def test_a_cluster_that_the_data_folder_knows_by_another_name_is_asked_about(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings whose section has production's address by a slip, or a cluster that was renamed."""
    known("cluster-1", "prod-eu")
    assert refused(capsys, "--cluster", "staging") == "CLUSTER_MISMATCH"
    assert not Path("state/restores").exists()
    answer(capsys, *RESTORE, "--cluster", "staging", "--name", "staging")
    answer(capsys, *RESTORE, "--cluster", "prod-eu", "--existing")


def test_of_two_with_the_same_name_the_one_is_taken_whose_id_is_given(
    reached: list[Mapping[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    known("eu", "prod")
    known("us", "prod")
    assert refused(capsys, "--cluster", "prod") == "CLUSTER_AMBIGUOUS"
    assert main([*RESTORE, "--cluster", "eu"]) == 0
    assert "of cluster prod (eu)" in capsys.readouterr().out
    assert reached[-1]["bootstrap.servers"] == "eu:1"
