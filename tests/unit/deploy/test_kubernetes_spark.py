"""The overlay for an analysis on executors: settings that can be read, and ports, volumes, accounts
and rights that agree with them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from dashboard.settings import settings
from dashboard.settings.settings import Settings
from tests.unit.deploy.test_kubernetes import BASE, FOLDER, POD, objects

Object = dict[str, Any]
ADDED = objects("spark/spark.yaml")
PATCHES: dict[str, Object] = {
    found["kind"]: found
    for patch in yaml.safe_load((FOLDER / "spark" / "kustomization.yaml").read_text())["patches"]
    for found in [yaml.safe_load(patch["patch"])]
}
SPEC: Object = PATCHES["Deployment"]["spec"]["template"]["spec"]
WATCH: Object = next(each for each in SPEC["containers"] if each["name"] == "watch")
EXECUTOR: Object = yaml.safe_load(PATCHES["ConfigMap"]["data"]["executor.yaml"])


@pytest.fixture
def read(tmp_path: Path) -> Settings:
    """The overlay's settings, with what the container's variable adds to them."""
    file, properties = tmp_path / "lowwater.toml", tmp_path / "client.properties"
    properties.write_text(BASE["Secret", "lowwater-kafka"]["stringData"]["client.properties"])
    text = PATCHES["ConfigMap"]["data"]["lowwater.toml"]
    file.write_text(text.replace("/etc/kafka/client.properties", str(properties)))
    (own,) = (v["value"] for v in WATCH["env"] if v["name"] == "LOWWATER_SPARK_CONF")
    given = own.replace("$(POD_IP)", "10.1.2.3").replace("$(POD_NAME)", "lowwater-1")
    return settings.load(file, environ={"LOWWATER_SPARK_CONF": given})


def test_it_changes_what_is_in_the_base() -> None:
    for kind, patch in PATCHES.items():
        assert (kind, patch["metadata"]["name"]) in BASE
    named = {each["name"] for each in SPEC["containers"]}
    assert named == {each["name"] for each in POD["containers"]}, "all four read the shared folder"
    assert not {*ADDED} & {*BASE}


def test_its_settings_are_the_bases_but_for_spark_and_the_shared_folder(read: Settings) -> None:
    assert (read.spark_master, read.spark["spark.driver.host"]) == (
        "k8s://https://kubernetes.default.svc", "10.1.2.3",
    )  # fmt: skip
    base = BASE["ConfigMap", "lowwater"]["data"]["lowwater.toml"]
    changed = PATCHES["ConfigMap"]["data"]["lowwater.toml"]
    assert {line for line in base.splitlines() if line} - {*changed.splitlines()} == {
        'data = "/var/lib/lowwater/data"'
    }
    assert str(read.state_dir) == "/var/lib/lowwater/state", "a journal is no file of a network"


def test_each_property_of_kubernetes_is_one_that_spark_has(read: Settings) -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        told = classes.read("org/apache/spark/deploy/k8s/Config$.class")
    account = "spark.kubernetes.authenticate.executor.serviceAccountName"
    names = {key for key in read.spark if key.startswith("spark.kubernetes.")}
    assert account in names and b".serviceAccountName" in told
    unknown = [name for name in names - {account} if name.encode() not in told]
    assert unknown == []


def test_ports_are_opened_to_executors_alone(read: Settings) -> None:
    ports = {port["name"]: port["containerPort"] for port in WATCH["ports"]}
    assert ports == {
        "driver": int(read.spark["spark.driver.port"]),
        "blocks": int(read.spark["spark.blockManager.port"]),
    }
    policy = ADDED["NetworkPolicy", "lowwater-driver"]["spec"]
    (rule,) = policy["ingress"]
    assert policy["podSelector"]["matchLabels"] == {"app": "lowwater"}
    assert {port["port"] for port in rule["ports"]} == {*ports}
    executors = {"podSelector": {"matchLabels": EXECUTOR["metadata"]["labels"]}}
    assert rule["from"] == [executors]
    assert (
        executors["podSelector"]
        == ADDED["NetworkPolicy", "lowwater-executor"]["spec"]["podSelector"]
    )


def test_every_process_and_every_executor_has_the_shared_folder(read: Settings) -> None:
    folder = Path(read.data).parent
    claim = {"persistentVolumeClaim": {"claimName": "lowwater-shared"}}
    assert ADDED["PersistentVolumeClaim", "lowwater-shared"]["spec"]["accessModes"] == [
        "ReadWriteMany"
    ]
    for pod in (SPEC, EXECUTOR["spec"]):
        assert {"name": "shared", **claim} in pod["volumes"]
        for container in pod["containers"]:
            assert {"name": "shared", "mountPath": str(folder)} in container["volumeMounts"]
    assert EXECUTOR["spec"]["securityContext"] == POD["securityContext"], "files of one account"


def test_only_the_driver_may_make_pods_and_nobody_has_more_rights(read: Settings) -> None:
    (subject,) = ADDED["RoleBinding", "lowwater-driver"]["subjects"]
    assert subject["name"] == SPEC["serviceAccountName"] == "lowwater-driver"
    rules = ADDED["Role", "lowwater-driver"]["rules"]
    assert {each for rule in rules for each in rule["resources"]} == {"pods", "configmaps"}
    holds = [
        each["name"]
        for each in SPEC["containers"]
        if any(mount["name"] == "token" for mount in each["volumeMounts"])
    ]
    assert holds == ["watch"]
    account = read.spark["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert ADDED["ServiceAccount", account]["automountServiceAccountToken"] is False
    assert EXECUTOR["spec"]["automountServiceAccountToken"] is False
    assert account != SPEC["serviceAccountName"]


def test_the_pods_template_is_where_the_settings_are(read: Settings) -> None:
    path = Path(read.spark["spark.kubernetes.executor.podTemplateFile"])
    (mount,) = (m for c in POD["containers"] if c["name"] == "watch"
                for m in c["volumeMounts"] if m["name"] == "settings")  # fmt: skip
    assert path.parent == Path(mount["mountPath"])
    assert path.name in PATCHES["ConfigMap"]["data"]
