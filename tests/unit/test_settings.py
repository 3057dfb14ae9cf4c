"""Settings from a file and the environment: read once, every mistake named with the next step."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings import settings as settings_module
from dashboard.settings.client_properties import known_keys
from dashboard.settings.purge import PurgeSettings
from dashboard.settings.sections import SnapshotSettings
from dashboard.settings.settings import LIFTABLE_GUARDS, declaration, load, read_client_config
from dashboard.settings.topics import TOPIC_KEYS


def _file(folder: Path, text: str) -> Path:
    path = folder / "lowwater.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and an empty configuration folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "dashboard.settings.settings.user_config_path", lambda _name: tmp_path / "etc"
    )
    return tmp_path


def test_without_a_file_the_defaults_hold(alone: Path) -> None:
    settings = load(environ={})
    assert settings.source is None
    assert settings.every == timedelta(seconds=60)
    assert settings.purge.liftable_guards == LIFTABLE_GUARDS
    assert not settings.read_only


def test_a_file_in_the_working_directory_is_found(alone: Path) -> None:
    _file(alone, 'data = "here"\nread_only = true\n')
    settings = load(environ={})
    assert (settings.data, settings.read_only) == ("here", True)


def test_the_environment_stands_above_the_file(alone: Path) -> None:
    path = _file(alone, 'data = "here"\nevery = "5m"\n')
    environ = {
        "LOWWATER_SETTINGS": str(path),
        "LOWWATER_DATA": "there",
        "LOWWATER_STATE_DIR": "~/state",
        "LOWWATER_READ_ONLY": "yes",
        "SPARK_REMOTE": "sc://h:15002",
    }
    settings = load(environ=environ)
    assert (settings.data, settings.every) == ("there", timedelta(minutes=5))
    assert settings.state_dir == Path("~/state").expanduser()
    assert settings.read_only
    assert settings.spark_remote == "sc://h:15002"


@pytest.mark.parametrize(
    ("above", "below", "is_dead"),
    [
        ("*", "payments", True), ("pay*", "payments-*", True), ("a*c", "a?c", True),
        ("payments", "*", False), ("payments-*", "pay*", False), ("a?c", "a*c", False),
        ("*-dlq", "payments-*", False), ("*-*", "orders[0-9]*", False),
        ("*_*", "pay[-_]in", False), ("pay*", "pay[-_]in", True), ("pay?*", "payments", True),
        ("[a-z]*", "orders-eu", True), ("[a-z]*", "orders-*", False), ("*", "[", True),
    ],
)  # fmt: skip
def test_a_topics_section_that_never_counts_is_refused(
    alone: Path, above: str, below: str, is_dead: bool
) -> None:
    file = alone / "lowwater.toml"
    file.write_text(f'[topics."{above}"]\n[topics."{below}"]\nreplay_window = "7d"\n')
    said = f'[topics."{below}"]: it never counts, because [topics."{above}"] above it'
    if is_dead:
        with pytest.raises(SettingsError, match=re.escape(said)):
            load(file)
    else:
        assert [d.glob for d in load(file).topics] == [above, below]


def test_clusters_topics_and_purge_are_read(alone: Path) -> None:
    (alone / "client.properties").write_text("security.protocol=SSL\nclient.id=a\n")
    path = _file(
        alone,
        """
        [clusters.prod]
        "bootstrap.servers" = "h:9092"
        "client.config" = "client.properties"
        "client.id" = "b"
        [topics."orders.*"]
        owner = "shop"
        readers = "groups"
        replay_window = "24h"
        declared_at = 2026-03-01
        reason = "asked every team"
        [topics."*"]
        [purge]
        request_timeout = "15s"
        most_partitions = 7
        stop_at_error_share = 0
        stop_on_isr_loss = false
        liftable_guards = ["over-limit"]
        subscribe_by_name = ["flink-*", "etl"]
        """,
    )
    settings = load(path, environ={})
    assert settings.clusters["prod"] == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SSL",
        "client.id": "b",  # the section stands above the file it names
    }
    first = settings.declaration("orders.eu")
    assert first is not None
    assert (first.owner, first.readers, first.replay_window) == (
        "shop",
        "groups",
        timedelta(days=1),
    )
    assert (first.declared_at, first.reason) == ("2026-03-01", "asked every team")
    other = settings.declaration("else")
    assert other is not None
    assert (other.glob, other.readers, other.reason) == ("*", "unknown", "")
    assert settings.purge.request_timeout == timedelta(seconds=15)
    assert settings.purge.most_partitions == 7
    purge = settings.purge
    assert (purge.stop_at_error_share, purge.stop_on_isr_loss) == (0.0, False)
    assert settings.purge.liftable_guards == ("over-limit",)
    assert purge.by_name(["etl", "flink-a", "etl-2", "Flink-b"]) == {"etl", "flink-a"}


@pytest.mark.parametrize(
    ("text", "named", "step"),
    [
        ('dta = "x"', "unknown key 'dta'", "Did you mean 'data'?"),
        ("[purge]\nrequest_timout = '5s'", "request_timout", "'request_timeout'"),
        ("[topics.'a']\nreader = 'groups'", "reader", "'readers'"),
        (
            "[clusters.c]\n'bootstrap.server' = 'h:1'",
            "bootstrap.server",
            "'bootstrap.servers'",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest(
    alone: Path, text: str, named: str, step: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(_file(alone, text), environ={})
    assert caught.value.code == "SETTINGS_KEY_UNKNOWN"
    assert named in caught.value.message
    assert str(alone) in caught.value.message
    assert step in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("data = [1]", "'data'"),
        ("data =", "cannot be read"),
        ("every = '5 parsecs'", "every"),
        ("every = '999999999999d'", "every"),
        ("read_only = 'maybe'", "read_only"),
        ("clusters = 5", "[clusters]"),
        ("[clusters]\nc = 5", "[clusters]"),
        ("[clusters.c]\n'client.id' = 'a'", "bootstrap.servers"),
        ("[clusters.c]\n'client.config' = 'nowhere.properties'", "nowhere.properties"),
        ("[topics.'a']\nreaders = 'all'", "readers"),
        ("[topics.'a']\nreplay_window = 5", "replay_window"),
        ("purge = 5", "[purge]"),
        ("[purge]\nmost_partitions = 0", "most_partitions"),
        ("[purge]\nmost_partitions = true", "most_partitions"),
        ("[purge]\nstop_at_error_share = 1.5", "stop_at_error_share"),
        ("[purge]\nstop_at_error_share = true", "stop_at_error_share"),
        ("[purge]\nstop_at_least_answered = 0", "stop_at_least_answered"),
        ("[purge]\nstop_on_isr_loss = 3", "stop_on_isr_loss"),
        ("[purge]\nliftable_guards = ['cluster-mismatch']", "cluster-mismatch"),
        ("[purge]\nliftable_guards = 'over-limit'", "liftable_guards"),
        ("[purge]\nsubscribe_by_name = 'flink-*'", "subscribe_by_name"),
        ("[purge]\nsubscribe_by_name = ['flink-*', ' ']", "subscribe_by_name"),
        ("broker_timeout = '31s'", "'broker_timeout' is 31s"),
        ("[purge]\nrequest_timeout = '5s'", "'request_timeout' of [purge], 5s"),
        ("snapshots = 5", "[snapshots]"),
        ("[snapshots]\nkeep_all_for = 'ever'", "keep_all_for"),
        ("[snapshots]\nkeep_daily_for = -1", "keep_daily_for"),
        ("[snapshots]\nkeep_hourly_for = '60m'", "'keep_hourly_for' = 1h"),
        ("[snapshots]\nkeep_hourly_for = '0s'\nkeep_daily_for = '30m'", "'keep_daily_for' = 30m"),
    ],
)
def test_a_bad_value_is_refused_by_name(alone: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(_file(alone, text), environ={})
    assert named in caught.value.message
    assert caught.value.next_step


def test_how_long_snapshots_stay_is_read(alone: Path) -> None:
    text = "[snapshots]\nkeep_all_for = '0s'\nkeep_hourly_for = '0s'\nkeep_daily_for = '400d'"
    keep = load(_file(alone, text), environ={}).snapshots
    assert (keep.keep_all_for, keep.keep_hourly_for) == (timedelta(0), timedelta(0))
    assert keep.keep_daily_for == timedelta(days=400)


def test_a_named_file_must_exist(alone: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={"LOWWATER_SETTINGS": "none.toml"})
    assert caught.value.code == "SETTINGS_NOT_FOUND"


def test_a_file_that_is_no_utf_8_is_refused(alone: Path) -> None:
    path = alone / "lowwater.toml"
    path.write_bytes(b'data = "\xff"')
    with pytest.raises(SettingsError, match="cannot be read"):
        load(path, environ={})


def test_an_unknown_variable_is_named_with_the_nearest(alone: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={"LOWWATER_STATEDIR": "x"})
    assert caught.value.code == "SETTINGS_KEY_UNKNOWN"
    assert "LOWWATER_STATE_DIR" in caught.value.next_step


def test_a_token_of_the_environment_may_end_its_line(alone: Path) -> None:
    """As in a Kubernetes secret that somebody made by `echo`."""
    names = '"metrics.prometheus.url" = "http://p"\n"metrics.prometheus.brokers" = "1=a"\n'
    file = _file(alone, f'[clusters.a]\n"bootstrap.servers" = "h:1"\n{names}')
    for text, token in (("t0p-secret\n", "t0p-secret"), (" \n", None), ("", None)):
        assert load(file, {"LOWWATER_METRICS_TOKEN": text}).prometheus["a"].token == token


def test_a_declaration_of_the_page_is_checked_like_one_of_the_file() -> None:
    with pytest.raises(SettingsError, match="here: unknown key"):
        declaration("a*", {"own": "x"}, "here")


def test_globs_match_case_and_whole_names_only() -> None:
    found = declaration("Orders-?", {}, "here")
    assert found.matches("Orders-1")
    assert not found.matches("orders-1")
    assert not found.matches("Orders-12")


def test_a_client_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read_client_config(tmp_path)
    assert caught.value.code == "CLIENT_CONFIG_UNREADABLE"
    assert str(tmp_path) in caught.value.message


def test_the_sample_of_the_docs_loads_and_has_every_key(alone: Path) -> None:
    page = (Path(settings_module.__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    sample = page.split("```toml\n")[1].split("```")[0]
    (alone / "client.properties").write_text("client.id=x\n")
    sample = sample.replace("/etc/kafka/client.properties", "client.properties")
    settings = load(_file(alone, sample), environ={})
    assert settings.clusters["prod-eu"]["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert set(tomllib.loads(sample)) == set(settings_module._TOP_KEYS)
    assert set(tomllib.loads(sample)["purge"]) == set(PurgeSettings.__dataclass_fields__)
    assert set(tomllib.loads(sample)["snapshots"]) == set(SnapshotSettings.__dataclass_fields__)
    assert settings.snapshots == SnapshotSettings()
    assert set(tomllib.loads(sample)["topics"]["orders.*"]) == set(TOPIC_KEYS)


def test_the_docs_name_every_client_key_guard_and_variable() -> None:
    page = (Path(settings_module.__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    for name in (*known_keys(), *LIFTABLE_GUARDS, *settings_module._ENV_KEYS):
        assert f"`{name}`" in page


def test_properties_of_spark_come_from_the_file_and_from_the_environment(alone: Path) -> None:
    _file(alone, '[spark]\n"spark.executor.memory" = "2g"\n"spark.executor.cores" = 2\n')
    more = '{"spark.executor.cores": "4", "spark.hadoop.fs.s3a.path.style.access": true}'
    settings = load(environ={"LOWWATER_SPARK_CONF": more, "LOWWATER_SPARK_WAIT": "9s"})
    assert settings.spark == {
        "spark.executor.memory": "2g",
        "spark.executor.cores": "4",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert settings.spark_wait == timedelta(seconds=9)


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ("spark.executor.memory=2g", "SETTINGS_INVALID"),
        ("[1]", "SETTINGS_INVALID"),
        ('{"spark.executor.memory": [1]}', "SETTINGS_INVALID"),
        ('{"executor.memory": "2g"}', "SETTINGS_KEY_UNKNOWN"),
        ('{"spark.hadoop.fs.s3a.secret.key": "hidden"}', "SPARK_SECRET"),
        ('{"spark.hadoop.fs.s3a.access.key": "hidden"}', "SPARK_SECRET"),
        ('{"spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "hidden"}', "SPARK_SECRET"),
        ('{"spark.ssl.keyStorePassword": "hidden"}', "SPARK_SECRET"),
    ],
)
def test_a_property_that_spark_cannot_have_is_named_without_its_value(
    alone: Path, conf: str, code: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={"LOWWATER_SPARK_CONF": conf})
    assert caught.value.code == code
    assert "LOWWATER_SPARK_CONF" in caught.value.message
    assert "hidden" not in str(caught.value.to_json())


def test_where_credentials_come_from_is_no_secret(alone: Path) -> None:
    names = "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.authenticate.secret.file"
    settings = load(environ={"LOWWATER_SPARK_CONF": json.dumps(dict.fromkeys(names, "x"))})
    assert set(settings.spark) == set(names)
