"""The only reader of settings files and environment variables; validated once, at start."""

from __future__ import annotations

import difflib
import fnmatch
import getpass
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path

from dashboard import client_properties
from dashboard.errors import SettingsError
from dashboard.metrics import addresses
from dashboard.metrics.addresses import PrometheusServer
from dashboard.setting_values import (
    check_keys,
    count,
    duration,
    share,
    spark_conf,
    spark_conf_text,
    switch,
    tables,
    text,
)
from dashboard.snapshot_settings import SnapshotSettings, snapshot_settings

# Guards that an override may lift; the design's other guards never are (see purge/guards.py).
LIFTABLE_GUARDS = (
    "unread-by-group",
    "no-committed-offset",
    "readers-undeclared",
    "unseen-reader-suspected",
    "members-without-commits",
    "share-group",
    "changelog-source",
    "remote-storage",
    "under-replicated",
    "reassigning",
    "leader-log-dir-move",
    "unclean-election-enabled",
    "over-limit",
)


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """Who owns the topics that a glob matches, and whether their groups are all their readers."""

    glob: str
    owner: str
    readers: str  # "groups": its groups are all its readers; "unknown": others may read too
    replay_window: timedelta
    declared_by: str
    declared_at: str
    reason: str = ""  # why the one who declared it is sure

    def matches(self, topic: str) -> bool:
        return fnmatch.fnmatchcase(topic, self.glob)


@dataclass(frozen=True, slots=True)
class PurgeSettings:
    """How purges are sent and watched; times as timedelta, counts as numbers."""

    request_timeout: timedelta = timedelta(seconds=30)
    watch_for: timedelta = timedelta(hours=1)
    plan_expires_after: timedelta = timedelta(hours=1)
    partitions_per_request: int = 500
    requests_in_flight: int = 2
    most_partitions: int = 10_000
    stop_at_error_share: float = 0.5
    stop_at_least_answered: int = 20
    stop_on_isr_loss: bool = True
    liftable_guards: tuple[str, ...] = LIFTABLE_GUARDS


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. `clusters` maps a name to client properties (librdkafka's).

    `metrics` maps a cluster's name to the source of each broker's metrics: an address or a file;
    `prometheus` to the server that knows the others'.
    `spark` are Spark's own properties; `spark_wait` is how long it may be without an executor.
    """

    data: str = "data"
    state_dir: Path = field(default_factory=lambda: Path("~/.local/state/lowwater").expanduser())
    cache_dir: Path = field(default_factory=lambda: user_cache_path("lowwater"))
    operator: str = "unknown"
    every: timedelta = timedelta(seconds=60)
    broker_timeout: timedelta = timedelta(seconds=10)
    read_only: bool = False
    spark_master: str = "local[2]"
    spark_remote: str | None = None
    spark_wait: timedelta = timedelta(minutes=2)
    spark: Mapping[str, str] = field(default_factory=dict)
    kafka_version: str = "4.3.1"
    orphan_delay: timedelta = timedelta(hours=2)  # every snapshot must show an orphan for so long
    orphan_most_share: float = 0.05  # more of a broker at once: nothing of it is removable
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    prometheus: Mapping[str, PrometheusServer] = field(default_factory=dict)
    metrics_top: int = 50  # topics and groups with series of their own in our own metrics
    topics: tuple[TopicDeclaration, ...] = ()
    purge: PurgeSettings = PurgeSettings()
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    source: Path | None = None

    def declaration(self, topic: str) -> TopicDeclaration | None:
        """The first declaration whose glob matches, in the order of the file."""
        return next((d for d in self.topics if d.matches(topic)), None)


_TOP_KEYS = (
    "data", "state_dir", "cache_dir", "operator", "every", "broker_timeout", "read_only",
    "spark_master", "spark_wait", "spark",
    "kafka_version", "metrics_top", "clusters", "topics", "purge", "snapshots",
    "orphan_delay", "orphan_most_share",
)  # fmt: skip
_TOPIC_KEYS = ("owner", "readers", "replay_window", "declared_by", "declared_at", "reason")
_METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"
_PURGE_KEYS = tuple(PurgeSettings.__dataclass_fields__)


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from a file, then `LOWWATER_*` variables on top.

    The file is `path`, else LOWWATER_SETTINGS, else ./lowwater.toml, else lowwater.toml in the
    user's configuration folder; none of the last two need exist. Raises SettingsError naming the
    file and key.
    """
    source = _find(path, environ)
    table = _read_toml(source) if source else {}
    where = str(source) if source else "environment"
    check_keys(table, _TOP_KEYS, where)
    values: dict[str, Any] = {k: v for k, v in table.items() if k in _TOP_KEYS}
    values.update(_from_environment(environ))
    return _build(values, where, source, environ)


def read_client_config(path: str | Path) -> dict[str, str]:
    """A Kafka client.properties file in librdkafka's words. Raises SettingsError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the client config {path} cannot be read: {error}",
            "Check the path given with --client-config and its rights.",
            code="CLIENT_CONFIG_UNREADABLE",
        ) from error
    return client_properties.parse(text, str(path))


def _find(path: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get("LOWWATER_SETTINGS")
    if named:
        if not Path(named).is_file():
            raise SettingsError(
                f"the settings file {named} does not exist",
                "Correct the path, or leave it out to use the defaults.",
                code="SETTINGS_NOT_FOUND",
            )
        return Path(named)
    candidates = (Path("lowwater.toml"), user_config_path("lowwater") / "lowwater.toml")
    return next((c for c in candidates if c.is_file()), None)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"the settings file {path} cannot be read: {error}",
            "Correct it; docs/settings.md has a sample with every key.",
        ) from error


_ENV_KEYS = {
    "LOWWATER_DATA": "data",
    "LOWWATER_STATE_DIR": "state_dir",
    "LOWWATER_CACHE_DIR": "cache_dir",
    "LOWWATER_OPERATOR": "operator",
    "LOWWATER_EVERY": "every",
    "LOWWATER_BROKER_TIMEOUT": "broker_timeout",
    "LOWWATER_READ_ONLY": "read_only",
    "LOWWATER_ORPHAN_DELAY": "orphan_delay",
    "LOWWATER_SPARK_MASTER": "spark_master",
    "LOWWATER_SPARK_WAIT": "spark_wait",
    "LOWWATER_KAFKA_VERSION": "kafka_version",
}
_SPARK_CONF = "LOWWATER_SPARK_CONF"  # joins the file's [spark] key by key


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {*_ENV_KEYS, "LOWWATER_SETTINGS", _SPARK_CONF, _METRICS_TOKEN}
    for name in environ:
        # Test and bench switches are read where they act; they change no setting.
        if name.startswith("LOWWATER_") and name not in known and "_TEST_" not in name:
            near = difflib.get_close_matches(name, known, n=1)
            raise SettingsError(
                f"unknown environment variable {name}",
                f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}.",
                code="SETTINGS_KEY_UNKNOWN",
            )
    return {key: environ[name] for name, key in _ENV_KEYS.items() if environ.get(name)}


def _build(
    values: dict[str, Any], where: str, source: Path | None, environ: Mapping[str, str]
) -> Settings:
    changes: dict[str, Any] = {}
    for key in ("data", "operator", "spark_master", "kafka_version"):
        if key in values:
            changes[key] = text(values[key], key, where)
    for key in ("state_dir", "cache_dir"):
        if key in values:
            changes[key] = Path(text(values[key], key, where)).expanduser()
    for key in ("every", "broker_timeout", "spark_wait", "orphan_delay"):
        if key in values:
            changes[key] = duration(values[key], key, where)
    if (key := "orphan_most_share") in values:
        changes[key] = share(values[key], key, where)
    if "read_only" in values:
        changes["read_only"] = switch(values["read_only"], "read_only", where)
    if "metrics_top" in values:
        changes["metrics_top"] = count(values["metrics_top"], "metrics_top", where)
    changes.setdefault("operator", _login_name())
    return Settings(
        **changes,
        spark_remote=environ.get("SPARK_REMOTE") or None,
        spark={
            **spark_conf(values.get("spark", {}), f"{where}, [spark]"),
            **spark_conf_text(environ.get(_SPARK_CONF) or "{}", _SPARK_CONF),
        },
        clusters=_clusters(values.get("clusters", {}), where),
        metrics=_metrics(values.get("clusters", {}), where),
        prometheus=_prometheus(values.get("clusters", {}), environ.get(_METRICS_TOKEN), where),
        topics=_topics(values.get("topics", {}), where),
        purge=_purge(values.get("purge", {}), where),
        snapshots=snapshot_settings(values.get("snapshots", {}), where),
        source=source,
    )


def _clusters(table: Any, where: str) -> dict[str, dict[str, str]]:
    known = (*sorted(client_properties.known_keys()), "client.config", *addresses.KEYS)
    clusters: dict[str, dict[str, str]] = {}
    for name, properties in tables(table, "clusters", where):
        place = f"{where}, [clusters.{name}]"
        check_keys(properties, known, place)
        texts = {key: text(value, key, place) for key, value in properties.items()}
        for key in addresses.KEYS:
            texts.pop(key, None)
        config = texts.pop("client.config", None)
        clusters[name] = {**(read_client_config(config) if config else {}), **texts}
        if "bootstrap.servers" not in clusters[name]:
            raise SettingsError(
                f"{place}: no 'bootstrap.servers'",
                'Add "bootstrap.servers" = "HOST:PORT".',
            )
    return clusters


def _metrics(table: Any, where: str) -> dict[str, dict[int, str]]:
    return {
        name: addresses.parse_sources(
            str(properties[addresses.URLS]).split(","),
            f"{where}, [clusters.{name}] {addresses.URLS}",
        )
        for name, properties in tables(table, "clusters", where)
        if addresses.URLS in properties
    }


def _prometheus(table: Any, token: str | None, where: str) -> dict[str, PrometheusServer]:
    found = {
        name: addresses.parse_server(
            {key: str(properties[key]) for key in addresses.KEYS if key in properties},
            token or None,
            f"{where}, [clusters.{name}]",
        )
        for name, properties in tables(table, "clusters", where)
    }
    return {name: server for name, server in found.items() if server is not None}


def _topics(table: Any, where: str) -> tuple[TopicDeclaration, ...]:
    return tuple(
        declaration(glob, entry, f'{where}, [topics."{glob}"]')
        for glob, entry in tables(table, "topics", where)
    )


def declaration(glob: str, entry: Mapping[str, Any], where: str) -> TopicDeclaration:
    """One declaration out of a settings table or the store's declarations. SettingsError."""
    check_keys(entry, _TOPIC_KEYS, where)
    readers = text(entry.get("readers", "unknown"), "readers", where)
    if readers not in ("groups", "unknown"):
        raise SettingsError(
            f"{where}: readers = '{readers}'",
            "Write 'groups' when its groups are all its readers, else 'unknown'.",
        )
    at = entry.get("declared_at", "")
    return TopicDeclaration(
        glob=glob,
        owner=text(entry.get("owner", ""), "owner", where),
        readers=readers,
        replay_window=duration(entry.get("replay_window", "0s"), "replay_window", where),
        declared_by=text(entry.get("declared_by", ""), "declared_by", where),
        declared_at=at.isoformat() if isinstance(at, date | datetime) else str(at),
        reason=text(entry.get("reason", ""), "reason", where),
    )


def _purge(table: Any, where: str) -> PurgeSettings:
    place = f"{where}, [purge]"
    if not isinstance(table, dict):
        raise SettingsError(f"{place} is no table", "Write it as [purge] with keys below it.")
    check_keys(table, _PURGE_KEYS, place)
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key == "liftable_guards":
            changes[key] = _guards(value, place)
        elif isinstance(PurgeSettings.__dataclass_fields__[key].default, timedelta):
            changes[key] = duration(value, key, place)
        elif key == "stop_at_error_share":
            changes[key] = share(value, key, place)
        elif key == "stop_on_isr_loss":
            changes[key] = switch(value, key, place)
        else:
            changes[key] = count(value, key, place)
    return PurgeSettings(**changes)


def _guards(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise SettingsError(
            f"{where}: liftable_guards is no list",
            f'Write liftable_guards = ["NAME", …] with names of: {", ".join(LIFTABLE_GUARDS)}.',
        )
    for name in value:
        if name not in LIFTABLE_GUARDS:
            raise SettingsError(
                f"{where}: liftable_guards names '{name}'",
                f"Liftable guards are: {', '.join(LIFTABLE_GUARDS)}.",
            )
    return tuple(value)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a passwd entry, as in some containers
        return "unknown"
