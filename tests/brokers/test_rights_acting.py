"""Policies, triage and the pasted kafka-acls lines, each as a principal with just its rights."""

from __future__ import annotations

import json
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain import rights
from dashboard.domain.rights import Right
from dashboard.store.tables import FINDING_TABLES, build
from tests.brokers import principals
from tests.brokers.policy_bench import PolicyBench
from tests.brokers.purge_bench import Bench
from tests.brokers.rights_probes import WORKS
from tests.brokers.secured import SecuredCluster
from tests.support import class_data

pytestmark = pytest.mark.slow
BY_NAME = {feature.name: feature for feature in rights.FEATURES}
MIB = 1 << 20
_TOPIC_RECORDS = 3000


def bench_as(cluster: SecuredCluster, held: tuple[Right, ...], folder: Path) -> Iterator[Bench]:
    user = f"acting-{uuid.uuid4().hex[:8]}"
    principals.make(cluster, {user: held})
    local, client = cluster.local, principals.client(cluster, user)
    made = Bench(local.bootstrap, local.cluster_id, folder, as_user=client, replicas=1)
    yield made
    made.close()


@pytest.fixture(params=[None, *rights.RIGHTS], ids=lambda r: f"without {r.name}" if r else "all")
def missing(request: pytest.FixtureRequest) -> Right | None:
    found: Right | None = request.param
    return found


@pytest.fixture
def bench(
    secured_cluster: SecuredCluster, missing: Right | None, tmp_path: Path
) -> Iterator[Bench]:
    held = rights.RIGHTS if missing is None else principals.without(missing)
    yield from bench_as(secured_cluster, held, tmp_path)


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = main([*words, "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_policy_purges_or_says_which_right_it_lacks(
    bench: Bench, missing: Right | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = tmp_path / "policy"
    folder.mkdir()
    policy = PolicyBench(bench, folder, timedelta(seconds=1))
    bench.topic(20, name=policy.topic)
    bench.commit(policy.app, policy.topic, {0: 12})
    policy.switch_on()
    monkeypatch.setenv("LOWWATER_SETTINGS", str(policy.source))
    code, events = call(capsys, "policies", "run", "--once")
    said = json.dumps(events)
    lost = missing is not None and missing in BY_NAME["policies"].needs
    assert (bench.log_start(policy.topic) == 12) is not lost, (code, said)
    # A topic that is hidden is not there, as far as anybody can tell: that is said, and no error.
    assert (code == 0) is (not lost or missing is rights.DESCRIBE_TOPIC), (code, said)
    wanted = {
        rights.DESCRIBE_TOPIC: "no topic matches that we may describe",
        rights.CONFIGS_TOPIC: "CONFIGS_UNREADABLE",
        rights.DESCRIBE_CLUSTER: "DESCRIBE",
        rights.DESCRIBE_GROUP: "GROUP_AUTHORIZATION_FAILED",
        rights.DELETE_TOPIC: "TOPIC_AUTHORIZATION_FAILED",
    }
    assert missing is None or wanted.get(missing, WORKS) in said, (code, said)


@pytest.fixture
def found_topic(bench: Bench, secured_cluster: SecuredCluster) -> str:
    """Read to its end, and known to the newest findings."""
    topic = bench.topic(_TOPIC_RECORDS)
    bench.commit(f"read-{topic}", topic, {0: _TOPIC_RECORDS})
    findings(bench, topic, str(secured_cluster.local.log_dir(1)))
    return topic


@pytest.mark.usefixtures("found_topic")
def test_triage_plans_or_says_why_it_cannot(
    bench: Bench, missing: Right | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    out = str(tmp_path / "plan.json")
    code, (found,) = call(
        capsys, "triage", "--data", bench.settings.data, "--broker", "1", "--need", "1MiB",
        "--within", "1h", "--accept-undeclared", "test data", "--out", out,
    )  # fmt: skip
    lost = missing is not None and missing in BY_NAME["triage"].needs
    assert (code == 0) is not lost, found
    assert Path(out).exists() is not lost
    if lost:
        assert code == 3
        assert found.get("bytes_low") in (None, 0)
        assert missing_named(missing, json.dumps(found)), found


def missing_named(missing: Right | None, said: str) -> bool:
    words = {
        rights.DESCRIBE_TOPIC: "Not read, so not weighed",
        rights.CONFIGS_TOPIC: "Not read, so not weighed",
        rights.DESCRIBE_CLUSTER: "no DESCRIBE right on the cluster",
        rights.DESCRIBE_GROUP: "GROUP_AUTHORIZATION_FAILED",
    }
    return missing is not None and words[missing] in said


def findings(bench: Bench, topic: str, log_dir: str) -> None:
    """What an analysis would say of one replica: its segments by offset, and a target."""
    rows = []
    below = 0
    for file in sorted((Path(log_dir) / f"{topic}-0").glob("*.log")):
        rows.append({
            "topic": topic, "partition": 0, "broker_id": 1, "is_base": True, "log_dir": log_dir,
            "offset": int(file.stem), "bytes_below": below, "method": "segments",
            "segment_bytes": MIB,
        })  # fmt: skip
        below += file.stat().st_size
    target = {"topic": topic, "partition": 0, "target": "committed", "log_start_offset": 0,
              "target_offset": _TOPIC_RECORDS}  # fmt: skip
    writer = bench.store.begin("findings", utc_now())
    for name, found in (("curves", rows), ("reclaimable", [target])):
        columns = {column: [row[column] for row in found] for column in found[0]}
        writer.write(name, build(FINDING_TABLES[name], columns))
    writer.commit(0.1, {"snapshot_id": ""})
    bench.store.set_latest(writer.id)


@pytest.mark.parametrize("role", [rights.DASHBOARD, rights.OPERATOR])
def test_the_pasted_lines_give_a_principal_what_doctor_then_finds(
    secured_cluster: SecuredCluster, kafka_jars: KafkaJars, role: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if not kafka_jars.has_tools:
        pytest.skip("this Kafka's kafka-acls is in no registry")
    user = f"pasted-{uuid.uuid4().hex[:8]}"
    principals.make(secured_cluster, {user: ()})
    local = secured_cluster.local
    admin = Bench(local.bootstrap, local.cluster_id, tmp_path, replicas=1)
    topic = admin.topic(1, name=f"orders.{user}")
    admin.commit("dead-group", topic, {0: 1})
    lines = rights.commands(rights.DASHBOARD, f"User:{user}")
    if role == rights.OPERATOR:
        lines += rights.commands(role, f"User:{user}")
    for line in lines:
        kafka_acls(kafka_jars, shlex.split(line.replace("HOST:PORT", local.bootstrap))[1:])
    client = principals.client(secured_cluster, user)
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in client.items()))
    words = ("doctor", "--data", str(tmp_path), "--client-config", str(config))
    code, (told,) = call(capsys, *words)
    admin.close()
    granted = {(r["operation"], r["resource"]) for r in told["rights"] if r["granted"]}
    roles = {role, rights.DASHBOARD}
    assert granted == {(r.operation, r.resource) for r in rights.RIGHTS if r.role in roles}
    assert told["principal"] == f"User:{user}"
    assert {c["name"] for c in told["checks"] if c["ok"] is False} <= {"java"}, code
    lost = {f["feature"] for f in told["features"] if f["lacks"]}
    changing = {"purge", "policies", "sampling", "records", "move-waived"}
    assert lost == (set() if role == rights.OPERATOR else changing)


def kafka_acls(jars: KafkaJars, words: list[str]) -> None:
    """Kafka's own tool, with its words."""
    tool = [*class_data.java(jars), "org.apache.kafka.tools.AclCommand"]
    done = subprocess.run([*tool, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
