"""The only reader of settings files and environment variables; validated once, at start."""

from __future__ import annotations

import difflib
import getpass
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.core.system import lies_at
from dashboard.settings import client_properties
from dashboard.settings import metric_addresses as addresses
from dashboard.settings.archive import ArchiveSettings, archive_settings
from dashboard.settings.metric_addresses import PrometheusServer
from dashboard.settings.people import PeopleSettings, people_settings
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.section import policy_settings
from dashboard.settings.purge import LIFTABLE_GUARDS, PurgeSettings, purge_settings
from dashboard.settings.sections import (
    AlertSettings,
    PriceSettings,
    SnapshotSettings,
    alert_settings,
    price_settings,
    snapshot_settings,
)
from dashboard.settings.settled_file import read_settled
from dashboard.settings.topics import (
    IdleSettings,
    RetentionSettings,
    TopicDeclaration,
    declaration,
    idle_settings,
    of_topic,
    on_page,
    retention_settings,
    topic_settings,
)
from dashboard.settings.values import (
    MAY_BE_ZERO,
    Section,
    check_keys,
    spark_conf,
    spark_conf_text,
    tables,
)

__all__ = [
    "LIFTABLE_GUARDS",
    "PurgeSettings",
    "Settings",
    "SnapshotSettings",
    "TopicDeclaration",
    "declaration",
    "load",
    "of_topic",
    "on_page",
    "read_client_config",
    "source_of",
]


# Spark's tasks import this module, and have numpy and pyarrow alone.


def user_cache_path(name: str) -> Path:
    """The folder of caches that the platform names for this user."""
    from platformdirs import user_cache_path

    return user_cache_path(name)


def user_config_path(name: str) -> Path:
    """The folder of settings, likewise."""
    from platformdirs import user_config_path

    return user_config_path(name)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. `clusters` maps a name to client properties (librdkafka's).

    `metrics` maps a cluster's name to the source of each broker's metrics: an address or a file;
    `prometheus` to the server that knows the others'.
    `spark` are Spark's own properties; `spark_wait` is how long it may be without an executor.
    """

    data: str = "data"
    state_dir: Path = field(default_factory=lambda: Path("~/.local/state/lowwater").expanduser())
    state_dir_on_network: bool = False  # true: the operator answers for a network file system
    cache_dir: Path = field(default_factory=lambda: user_cache_path("lowwater"))
    operator: str = "unknown"
    every: timedelta = timedelta(seconds=60)
    broker_timeout: timedelta = timedelta(seconds=10)
    read_only: bool = False
    spark_master: str = "local[2]"
    spark_remote: str | None = None
    spark_wait: timedelta = field(default=timedelta(minutes=2), metadata=MAY_BE_ZERO)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    kafka_version: str = "4.3.1"
    # every snapshot must show an orphan for so long
    orphan_delay: timedelta = field(default=timedelta(hours=2), metadata=MAY_BE_ZERO)
    orphan_most_share: float = 0.05  # more of a broker at once: nothing of it is removable
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    metrics: Mapping[str, Mapping[int, str]] = field(default_factory=dict, repr=False)
    prometheus: Mapping[str, PrometheusServer] = field(default_factory=dict, repr=False)
    metrics_top: int = 50  # topics and groups with series of their own in our own metrics
    topics: tuple[TopicDeclaration, ...] = ()
    purge: PurgeSettings = field(default_factory=PurgeSettings)
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    idle: IdleSettings = field(default_factory=IdleSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    price: PriceSettings = field(default_factory=PriceSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    policies: tuple[Policy, ...] = ()
    alerts: AlertSettings = field(default_factory=AlertSettings)
    people: PeopleSettings | None = None  # None: one local operator, who may do everything
    source: Path | None = None
    client_configs: tuple[Path, ...] = ()  # the files whose content is in `clusters`
    looked_for: bool = False  # there was no file in any place where one is looked for

    def declaration(self, topic: str) -> TopicDeclaration | None:
        """The first declaration whose glob matches, in the order of the file."""
        return next((d for d in self.topics if d.matches(topic)), None)

    def metrics_of(
        self, cluster_name: str | None
    ) -> tuple[Mapping[int, str], PrometheusServer | None]:
        """Where a cluster's metrics are: the source of each broker's, and the server if any."""
        name = cluster_name or ""
        return self.metrics.get(name, {}), self.prometheus.get(name)


_NO_KEYS = ("spark_remote", "metrics", "prometheus", "source", "client_configs", "looked_for")
_TOP_KEYS = tuple(f.name for f in fields(Settings) if f.name not in _NO_KEYS)
_METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"


def load(named: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from a file, then `LOWWATER_*` variables on top.

    The file is `named`, else LOWWATER_SETTINGS, else ./lowwater.toml, else lowwater.toml in the
    user's configuration folder; none of the last two need exist, where that can be told. Raises
    SettingsError naming the file and key.
    """
    source = _find(named, environ)
    table = _read_toml(source) if source else {}
    where = str(source) if source else "environment"
    check_keys(table, _TOP_KEYS, where)
    found = _build({**table, **_from_environment(environ)}, where, source, environ)
    return found if source else replace(found, looked_for=True)


def source_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that counts now; of settings that began without one, the one that is there by now.

    Those of no file by choice, as of a run that was queued without one, have none for good.
    Raises SettingsError where that cannot be told.
    """
    return _find(None, environ) if settings.looked_for else settings.source


PINNED = ("LOWWATER_READ_ONLY", "LOWWATER_BROKER_TIMEOUT")


def pinned() -> dict[str, str | None]:
    """Of the variables that stand above a settings file, those that a worker goes by."""
    return {name: os.environ.get(name) or None for name in PINNED}


def load_pinned(named: str | None, environ: Mapping[str, str | None]) -> Settings:
    """The settings of who queued a run: that file or none, and the variables that were pinned.

    No file of the working directory and no variable of who calls counts. Raises SettingsError.
    """
    own = {name: str(environ[name]) for name in PINNED if environ.get(name)}
    return load(named, own) if named else _build(_from_environment(own), "environment", None, own)


def read_client_config(file: str | Path, flag: str = "--client-config") -> dict[str, str]:
    """A Kafka client.properties file in librdkafka's words. Raises SettingsError, naming `flag`."""
    try:
        lines = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # no text, or a name that no file can have
        raise SettingsError(
            f"the client config {file} cannot be read: {error}",
            f"Check the path given with {flag} and its rights.",
            code="CLIENT_CONFIG_UNREADABLE",
        ) from error
    return client_properties.parse(lines, str(file))


def _find(given: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = given or environ.get("LOWWATER_SETTINGS")
    if named:
        if not _is_file(Path(named)):
            raise SettingsError(
                f"the settings file {named} does not exist",
                "Correct the path, or leave it out to use the defaults.",
                code="SETTINGS_NOT_FOUND",
            )
        return Path(named)
    candidates = (Path("lowwater.toml"), user_config_path("lowwater") / "lowwater.toml")
    return next((c for c in candidates if _is_there(c)), None)


def _is_there(file: Path) -> bool:
    """A link to nothing counts, and one that cannot be seen is an error: what it should have said
    (read_only!) must not be lost in silence.
    """
    try:
        return lies_at(file, follow=False) is not None
    except OSError as error:
        with suppress(OSError):
            file = file.absolute()
        raise SettingsError(
            f"whether there is a settings file {file} cannot be told: {error.strerror or error}",
            "Go to a folder that this user may enter, correct the rights (HOME may be another "
            "user's), or name a settings file with LOWWATER_SETTINGS.",
        ) from error


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that no file can have
        return False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_settled(file))
    except (OSError, ValueError, RecursionError) as error:  # too many digits, or brackets, too
        raise SettingsError(
            f"the settings file {file} cannot be read: {error}",
            "Correct it; docs/settings.md has a sample with every key.",
        ) from error


_ENV_KEYS = {
    "LOWWATER_DATA": "data",
    "LOWWATER_STATE_DIR": "state_dir",
    "LOWWATER_STATE_DIR_ON_NETWORK": "state_dir_on_network",
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
    changes = {"operator": _login_name(), **Section(where, values).values(Settings)}
    purge = purge_settings(values.get("purge", {}), where)
    found = Settings(
        **changes,
        spark_remote=environ.get("SPARK_REMOTE") or None,
        spark={
            **spark_conf(values.get("spark", {}), f"{where}, [spark]"),
            **spark_conf_text(environ.get(_SPARK_CONF) or "{}", _SPARK_CONF),
        },
        clusters=_clusters(values.get("clusters", {}), where),
        metrics=_metrics(values.get("clusters", {}), where),
        prometheus=_prometheus(values.get("clusters", {}), environ.get(_METRICS_TOKEN, ""), where),
        topics=topic_settings(values.get("topics", {}), where),
        purge=purge,
        snapshots=snapshot_settings(values.get("snapshots", {}), where),
        idle=idle_settings(values.get("idle", {}), where),
        retention=retention_settings(values.get("retention", {}), where),
        price=price_settings(values.get("price", {}), where),
        archive=archive_settings(values.get("archive", {}), where),
        policies=policy_settings(values.get("policies", {}), where, purge.liftable_guards),
        alerts=alert_settings(values.get("alerts", {}), where),
        people=people_settings(values["people"], where) if "people" in values else None,
        source=source,
        client_configs=_client_configs(values.get("clusters", {}), where),
    )
    _check_timeouts(found, where)
    return found


def _check_timeouts(found: Settings, where: str) -> None:
    """A run looks at the leaders before it sends: beside a broker that hangs it must not take
    longer than the request may.
    """
    answer, request = found.broker_timeout, found.purge.request_timeout
    if answer > request:
        raise SettingsError(
            f"{where}: 'broker_timeout' is {answer.total_seconds():g}s, longer than "
            f"'request_timeout' of [purge], {request.total_seconds():g}s",
            "Set broker_timeout to that or less, or request_timeout to more: a broker that hangs "
            "would else have purges of others refused.",
        )


def _clusters(table: Any, where: str) -> dict[str, dict[str, str]]:
    known = (*sorted(client_properties.known_keys()), "client.config", *addresses.KEYS)
    clusters: dict[str, dict[str, str]] = {}
    for name, own in tables(table, "clusters", where):
        check_keys(own.entries, known, own.where)
        texts = {key: own.text(key) for key in own.entries}
        for key in addresses.KEYS:
            texts.pop(key, None)
        config = texts.pop("client.config", None)
        clusters[name] = {**(read_client_config(config) if config else {}), **texts}
        if "bootstrap.servers" not in clusters[name]:
            raise SettingsError(
                f"{own.where}: no 'bootstrap.servers'",
                'Add "bootstrap.servers" = "HOST:PORT".',
            )
    return clusters


def _client_configs(table: Any, where: str) -> tuple[Path, ...]:
    named = (own.get("client.config") for _, own in tables(table, "clusters", where))
    return tuple(Path(str(file)) for file in named if file)


def _metrics(table: Any, where: str) -> dict[str, dict[int, str]]:
    return {
        name: addresses.parse_sources(
            str(own.get(addresses.URLS)).split(","), f"{own.where} {addresses.URLS}"
        )
        for name, own in tables(table, "clusters", where)
        if addresses.URLS in own
    }


def _prometheus(table: Any, token: str, where: str) -> dict[str, PrometheusServer]:
    found = {
        name: addresses.parse_server(
            {key: str(own.get(key)) for key in addresses.KEYS if key in own},
            token.strip() or None,  # `echo` ends what it writes into a secret with a line's end
            own.where,
        )
        for name, own in tables(table, "clusters", where)
    }
    return {name: server for name, server in found.items() if server is not None}


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a passwd entry, as in some containers
        return "unknown"
