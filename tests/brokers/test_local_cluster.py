"""The local cluster is a real one: brokers serve, stop, come back and refuse strangers."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dashboard.demo.kafka.brokers import LocalCluster, alive_brokers
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers.secured import SecuredCluster
from tests.brokers.workload import until


def broker_ids(properties: dict[str, str], timeout: float = 60) -> set[int]:
    return set(AdminClient(properties | {"log_level": "0"}).list_topics(timeout=timeout).brokers)


def first_answer(address: str) -> set[int]:
    """The brokers that this one held for alive when it first answered."""
    answers: list[set[int]] = []

    def answered() -> bool:
        answers.append(alive_brokers(address))
        return bool(answers[-1])

    until(answered, 60)
    return answers[-1]


def test_every_broker_is_alive_once_the_start_returns(cluster: LocalCluster) -> None:
    for address in cluster.bootstrap.split(","):
        assert first_answer(address) == {1, 2, 3}


def test_brokers_map_the_class_data_that_the_run_made(
    cluster: LocalCluster, kafka_jars: KafkaJars
) -> None:
    if kafka_jars.class_data is None:
        pytest.skip("another process was making it when these brokers started")
    for pid in cluster.pids().values():
        assert str(kafka_jars.class_data) in Path(f"/proc/{pid}/maps").read_text()


def test_class_data_that_java_cannot_read_or_find_stops_nothing(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    torn = tmp_path / "torn.jsa"
    torn.write_bytes(b"torn" * 1000)
    for archive in (torn, tmp_path / "gone.jsa"):
        java = LocalCluster(tmp_path, replace(kafka_jars, class_data=archive))._java
        tool = java("kafka.tools.StorageTool", "random-uuid")
        done = subprocess.run(tool, check=False, capture_output=True)
        assert (done.returncode, len(done.stdout.split()[-1])) == (0, 22), done.stdout


def test_the_cluster_has_the_id_that_it_was_formatted_with(cluster: LocalCluster) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assert client.list_topics(timeout=60).cluster_id == cluster.cluster_id


def test_a_stopped_broker_leaves_and_comes_back_on_its_port(cluster: LocalCluster) -> None:
    before = cluster.bootstrap
    cluster.stop_broker(2)
    try:
        assert set(cluster.pids()) == {1, 3}
        first = cluster.bootstrap.split(",")[0]
        until(lambda: alive_brokers(first) == {1, 3}, 60)
    finally:
        cluster.start_broker(2)
    assert set(cluster.pids()) == {1, 2, 3}
    assert cluster.bootstrap == before


def test_a_suspended_broker_does_not_answer_until_it_is_resumed(cluster: LocalCluster) -> None:
    third = cluster.bootstrap.split(",")[2]
    cluster.suspend(3)
    try:
        assert alive_brokers(third) == set()
    finally:
        cluster.resume(3)
    cluster.start_broker(3)
    assert 3 in first_answer(third)


def test_a_wrong_secret_is_refused_and_the_right_one_is_not(
    secured_cluster: SecuredCluster,
) -> None:
    assert broker_ids(secured_cluster.sasl_plain()) == {1}
    with pytest.raises(KafkaException):
        broker_ids(secured_cluster.sasl_plain(secret="wrong"), timeout=2)


def test_scram_users_are_made_after_the_start(secured_cluster: SecuredCluster) -> None:
    secured_cluster.add_scram_user("scram-user", "scram-secret")
    assert broker_ids(secured_cluster.sasl_scram("scram-user", "scram-secret")) == {1}
    with pytest.raises(KafkaException):
        broker_ids(secured_cluster.sasl_scram("scram-user", "wrong"), timeout=2)


def test_tls_wants_the_authority_that_signed_the_broker(secured_cluster: SecuredCluster) -> None:
    assert broker_ids(secured_cluster.tls()) == {1}
    assert broker_ids(secured_cluster.sasl_tls()) == {1}
    with pytest.raises(KafkaException):
        broker_ids(secured_cluster.tls(secured_cluster.certificates.stranger), timeout=2)
