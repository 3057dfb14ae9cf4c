"""The parsers that chance is let loose on: each with a sound input, and what is read from it.

Each reads as the command line does, and goes on with what it read as far as anything is shown:
a value that is accepted and cannot be shown is found here, not by an operator.
"""

from __future__ import annotations

import io
import json
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.broker_metrics import sources
from dashboard.cli.purge.lift_flags import parse_lift, parse_waive
from dashboard.cli.purge.preview import describe
from dashboard.cluster.connection.security import read_security
from dashboard.core.canonical import digest
from dashboard.core.clock import parse_duration, parse_time, utc_now
from dashboard.core.words import parse_size
from dashboard.inventory import listing, loading
from dashboard.inventory.names import parse_log_dirs
from dashboard.inventory.recorder import Recorder
from dashboard.orphans import verdicts
from dashboard.orphans.sweep import log
from dashboard.purge.journal.archive import as_csv, as_json
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.targets import parse_keep, parse_target, read_offsets_json
from dashboard.settings import client_properties
from dashboard.settings import metric_addresses as addresses
from dashboard.settings.policies.policy import check_target, parse_trigger, parse_window, time_zone
from dashboard.settings.settings import load
from dashboard.store.snapshot_files import parse_manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES
from tests.bad_inputs.cases.store import CLUSTER

ROOT = Path(__file__).parents[2]
Read = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """A parser by name; `sound` is the file of the sound world that it reads, or its bytes."""

    name: str
    sound: str | bytes
    read: Read

    def body(self) -> bytes:
        """The sound input."""
        if isinstance(self.sound, bytes):
            return self.sound
        return next(iter(sorted(Path().glob(self.sound)))).read_bytes()


def sample_settings() -> str:
    """The documentation's sample with every key, but for files that are not here."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    elsewhere = ('"client.config"', '"ssl.ca.location"')
    kept = (line for line in blocks[0].splitlines() if not line.startswith(elsewhere))
    return "\n".join(kept) + "\n"


def read_settings(body: bytes) -> Any:
    Path("fuzz.toml").write_bytes(body)
    found = load("fuzz.toml", environ={})
    for client in found.clusters.values():
        read_security(client)
    return [policy.definition_sha256 for policy in found.policies]


def read_client(body: bytes) -> Any:
    return read_security(client_properties.parse(_text(body), "client.properties"))


def read_plan(body: bytes) -> Any:
    plan = Plan.from_json_text(_text(body), "plan.json")
    assert Plan.from_json_text(plan.to_json_text(), "again") == plan
    return describe(preview(plan, utc_now())), plan.offsets_json()


def read_verdicts(body: bytes) -> Any:
    found = verdicts.parse(_text(body), "verdicts.json", now=utc_now())
    assert verdicts.parse(verdicts.write(found), "again", now=utc_now()) == found
    return found.rows


def read_offsets(body: bytes) -> Any:
    return read_offsets_json(_text(body), "offsets.json")


def read_listing(body: bytes) -> Any:
    lines = listing.Lines(io.BytesIO(body))
    log_dirs = listing.read_header(lines)
    with Recorder("fuzzed", 1, log_dirs, newest_from=listing.NEWEST_FROM) as recorder:
        listing.read(lines, log_dirs, recorder)
        recorder.finish()
    return read_inventory(Path("fuzzed").read_bytes())


def read_inventory(body: bytes) -> Any:
    Path("fuzz.inventory").write_bytes(body)
    found = loading.load("fuzz.inventory")
    list(loading.shortfalls((found,), ()))
    return loading.tables_of((found,), "s", utc_now()), json.dumps(found.to_json(utc_now()))


def read_manifest(body: bytes) -> Any:
    return parse_manifest(body, "manifest.json")


def read_beside(name: str) -> Read:
    """A JSON file beside the snapshots."""

    def read(body: bytes) -> Any:
        cluster = _store()
        path = Path(cluster.path, name)
        before = path.read_bytes() if path.exists() else None
        try:
            path.write_bytes(body)
            return cluster.name, cluster.connection(), cluster.declarations(), _latest(cluster)
        finally:
            path.unlink() if before is None else path.write_bytes(before)

    return read


def read_table(body: bytes) -> Any:
    cluster = _store()
    analysis = cluster.latest_analysis()
    path = Path(cluster.path, "findings", analysis, "disks.parquet")
    before = path.read_bytes()
    try:
        path.write_bytes(body)
        found = cluster.read("findings", analysis, "disks")
        assert found.schema.equals(FINDING_TABLES["disks"].schema)
        return found.to_pylist()
    finally:
        path.write_bytes(before)


def read_journal(body: bytes) -> Any:
    """All that the journal tells. What a reader changes of a torn file must be nothing."""
    for end in ("", "-wal", "-shm"):
        Path(f"fuzz.sqlite{end}").unlink(missing_ok=True)
    path = Path("fuzz.sqlite")
    path.write_bytes(body)
    with closing(Journal(path)) as journal:
        told = [journal.run(run.run_id).to_json() for run in journal.runs()]
        text, lines, checked = as_json(journal), as_csv(journal), journal.verify()
    return json.dumps(told), text, lines, checked.ok


def read_sweep_log(body: bytes) -> Any:
    Path(log.NAME).write_bytes(body)
    folder = os.open(".", os.O_RDONLY)
    try:
        state = log.read(folder, "here")
    finally:
        os.close(folder)
    if state.problems:
        raise log.broken("here", state.problems)
    return state


def read_metrics(body: bytes) -> Any:
    Path("metrics.txt").write_bytes(body)
    return sources.read(1, "metrics.txt", timedelta(seconds=20))


def resealed(document: Any) -> bytes:
    """A plan or file of verdicts sealed again, as far as it still can be."""
    if isinstance(document, dict):
        document.pop("sha256", None)
        try:
            document = {**document, "sha256": digest(document)}
        except ValueError:  # a number that JSON has not
            document["sha256"] = ""
    return json.dumps(document).encode()


def toml_of(document: Any) -> bytes:
    """A settings document as TOML, one line a key; what TOML has not stands there all the same."""
    lines = (f"{json.dumps(key)} = {_toml(value)}" for key, value in dict(document or {}).items())
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def settings_document() -> dict[str, Any]:
    return tomllib.loads(sample_settings())


WORDS: tuple[Callable[[str], Any], ...] = (
    parse_duration,
    parse_time,
    parse_size,
    parse_target,
    parse_keep,
    parse_log_dirs,
    lambda text: parse_window(text, "here"),
    lambda text: parse_trigger(text, "here"),
    lambda text: time_zone(text, "here"),
    lambda text: check_target(text, "here"),
    lambda text: parse_waive(text, frozenset),
    lambda text: parse_lift(text, frozenset),
    lambda text: addresses.parse_sources([text], "here"),
    lambda text: read_security({"bootstrap.servers": text}),
    lambda text: read_security({"bootstrap.servers": "h:1", "security.protocol": text}),
)
METRICS = (
    b"# TYPE kafka_server_brokertopicmetrics_bytesinpersec_total counter\n"
    b'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="orders",} 5.0E9\n'
    b'kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-1",'
    b'partition="0",topic="orders",} 3.0\n'
    b'kafka_network_requestmetrics_totaltimems{request="DeleteRecords",quantile="0.99",} 7.5\n'
)
ENTRY = {"at": "2026-03-01T04:00:00.000Z", "body": {}, "hash": "", "kind": "moved",
         "previous_hash": "0" * 64, "seq": 1}  # fmt: skip

SUBJECTS = (
    Subject("settings", sample_settings().encode(), read_settings),
    Subject("client.properties", (
        b"bootstrap.servers=h:9092,i:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        b"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram."
        b'ScramLoginModule required username="a" \\\n  password="b\\"c";\nrequest.timeout.ms=5000\n'
    ), read_client),
    Subject("plan", "plan.json", read_plan),
    Subject("verdicts", "verdicts.json", read_verdicts),
    Subject("offsets", "offsets.json", read_offsets),
    Subject("listing", "listing", read_listing),
    Subject("inventory", "1.inventory", read_inventory),
    Subject("manifest", f"{CLUSTER}/findings/*/manifest.json", read_manifest),
    Subject("connection", f"{CLUSTER}/connection.json", read_beside("connection.json")),
    Subject("declarations", b'{"topics":[{"glob":"*","owner":"me","readers":"groups"}]}',
            read_beside("declarations.json")),
    Subject("LATEST", f"{CLUSTER}/findings/LATEST", read_beside("findings/LATEST")),
    Subject("table", f"{CLUSTER}/findings/*/disks.parquet", read_table),
    Subject("journal", "state/journal.sqlite", read_journal),
    Subject("sweep log", json.dumps(ENTRY).encode() + b"\n", read_sweep_log),
    Subject("metrics", METRICS, read_metrics),
)  # fmt: skip


def _text(body: bytes) -> str:
    """As the command line reads a file; what is no text is told there."""
    return body.decode("utf-8", "replace")


def _store() -> ClusterStore:
    return Store("data").cluster()


def _latest(cluster: ClusterStore) -> Any:
    found = cluster.latest("findings")
    return cluster.manifest("findings", found) if found else None
