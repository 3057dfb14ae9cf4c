"""The manifests run what there is, as nobody, on a root that cannot be written, over one volume."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.cli.machine.dashboard import chosen
from dashboard.settings import settings
from tests.support.command_lines import parsed
from tools import image

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
Object = dict[str, Any]


def objects(file: str) -> dict[tuple[str, str], Object]:
    """Every object of a file, by kind and name."""
    found = list(yaml.safe_load_all((FOLDER / file).read_text("utf-8")))
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(named) == len(found)
    return named


BASE = objects("lowwater.yaml")
POD: Object = BASE["Deployment", "lowwater"]["spec"]["template"]["spec"]
CONTAINERS: list[Object] = POD["containers"]


def overlay() -> Object:
    """The container of the pages as the Ingress' overlay changes it."""
    (patch,) = yaml.safe_load((FOLDER / "ingress" / "kustomization.yaml").read_text("utf-8"))[
        "patches"
    ]
    changed = yaml.safe_load(patch["patch"])
    assert (changed["kind"], changed["metadata"]["name"]) == ("Deployment", "lowwater")
    (container,) = changed["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_every_process_has_a_container_whose_command_is_one() -> None:
    calls = {container["name"]: parsed(container["args"]) for container in CONTAINERS}
    assert {name: args.verb for name, args in calls.items()} == {
        name: name for name in ("watch", "dashboard", "policies", "metrics")
    }
    assert calls["policies"].action == "run"
    assert calls["dashboard"].address == "127.0.0.1"  # without a sign-in no other may reach it
    assert {container["image"] for container in CONTAINERS} == {image.name()}


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda container: container["name"])
def test_a_container_has_no_rights_and_can_write_in_two_places_alone(container: Object) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {
        m["mountPath"]: m["name"] for m in container["volumeMounts"] if not m.get("readOnly")
    }
    assert written == {"/var/lib/lowwater": "lowwater", "/tmp": "tmp"}
    assert "memory" in container["resources"]["limits"]


def test_the_pod_is_nobody_and_alone_on_its_journal() -> None:
    account = 10001
    assert f"USER {account}:{account}" in image.CONTAINERFILE.read_text("utf-8")
    assert POD["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": account, "runAsGroup": account, "fsGroup": account,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert POD["automountServiceAccountToken"] is False
    # Variables that Kubernetes makes of a Service named lowwater-… would be unknown settings.
    assert POD["enableServiceLinks"] is False
    spec = BASE["Deployment", "lowwater"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert {m["name"] for c in CONTAINERS for m in c["volumeMounts"]} == {*volumes}
    assert (
        "PersistentVolumeClaim",
        volumes["lowwater"]["persistentVolumeClaim"]["claimName"],
    ) in BASE
    assert ("ConfigMap", volumes["settings"]["configMap"]["name"]) in BASE
    assert ("Secret", volumes["kafka"]["secret"]["secretName"]) in BASE


def test_the_settings_of_the_sample_can_be_read_and_name_what_is_mounted(tmp_path: Path) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text(BASE["ConfigMap", "lowwater"]["data"]["lowwater.toml"])
    (tmp_path / "client.properties").write_text(
        BASE["Secret", "lowwater-kafka"]["stringData"]["client.properties"]
    )
    path = "/etc/kafka/client.properties"
    assert path in file.read_text()
    file.write_text(file.read_text().replace(path, str(tmp_path / "client.properties")))
    read = settings.load(file, environ={})
    assert [*read.clusters] == ["prod"]
    assert [policy.cluster for policy in read.policies] == ["prod"]
    # Whoever comes with these settings alone meets the folders of the image's variables.
    variables = dict(re.findall(r"(LOWWATER_\w+)=(\S+)", image.CONTAINERFILE.read_text("utf-8")))
    assert variables == {
        "LOWWATER_DATA": read.data,
        "LOWWATER_STATE_DIR": str(read.state_dir),
        "LOWWATER_CACHE_DIR": str(read.cache_dir),
    }
    patience = timedelta(seconds=POD["terminationGracePeriodSeconds"])
    assert patience >= 2 * read.purge.request_timeout + timedelta(seconds=10)
    mounts = {m["mountPath"] for container in CONTAINERS for m in container["volumeMounts"]}
    assert {"/etc/kafka", "/etc/lowwater"} <= mounts
    (at,) = {v["value"] for c in CONTAINERS for v in c["env"] if v["name"] == "LOWWATER_SETTINGS"}
    assert at == "/etc/lowwater/lowwater.toml"


def test_the_pages_are_asked_for_their_health_where_they_listen() -> None:
    (pages,) = (container for container in CONTAINERS if container["name"] == "dashboard")
    args = parsed(pages["args"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        program = pages[probe]["exec"]["command"][-1]
        assert f"http://127.0.0.1:{args.port}/_stcore/health" in program
        compile(program, probe, "exec")


def test_only_a_named_port_is_open_and_only_to_whom_the_policies_name() -> None:
    behind = objects("ingress/ingress.yaml")
    patched = overlay()
    ports = {
        p["name"]: p["containerPort"] for c in [*CONTAINERS, patched] for p in c.get("ports", ())
    }
    assert ports == {"metrics": 9464, "pages": 8501}
    opened = set()
    for kind, name in (*BASE, *behind):
        found = {**BASE, **behind}[kind, name]
        if kind == "Service":
            assert found["spec"]["selector"] == {"app": "lowwater"}
            opened |= {port["targetPort"] for port in found["spec"]["ports"]}
        elif kind == "NetworkPolicy":
            for rule in found["spec"]["ingress"]:
                assert all(source["namespaceSelector"]["matchLabels"] for source in rule["from"])
                opened |= {port["port"] for port in rule["ports"]}
    assert opened == {*ports}


def test_behind_an_ingress_the_pages_know_their_name() -> None:
    args = parsed(overlay()["args"])
    place = chosen(args.address, args.port, args.behind_proxy)
    (rule,) = objects("ingress/ingress.yaml")["Ingress", "lowwater"]["spec"]["rules"]
    assert not place.loopback
    assert rule["host"] in place.names
