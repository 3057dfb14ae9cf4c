"""No verb prints or writes a secret: marked ones are planted wherever there can be one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dashboard.cli.main import VERBS, main
from dashboard.settings import settings as settings_files
from tests.support import marked, sample_store
from tests.support.marked import MARK, marked_files, marks_in

Said = Callable[..., str]
EVERY = [
    ["collect", "--name", "prod-eu"],
    ["collect", "--bootstrap-server", "127.0.0.1:9", "--client-config", "secret/client.properties"],
    ["findings", "reclaimable"],
    ["followers"],
    ["idle"],
    ["retention"],
    ["metrics", "--once"],
    ["metrics", "--exporter-rules"],
    ["orphans", "--out", "verdicts.json"],
    ["plan", "--topic", "orders", "--to", "committed", "--out", "plan.json"],
    ["triage", "--broker", "1", "--need", "1GiB", "--within", "30m", "--out", "triage.json"],
    ["preview", "plan.json"],
    ["apply", "plan.json", "--mode", "wait-all", "--confirm", "purge"],
    ["policies", "check"],
    ["policies", "run", "--once"],
    ["policies", "on", "orders", "--confirm", "x"],
    ["policies", "on", "orders", "--confirm", "switch on policy orders on prod-eu as 704e119841cf"],
    ["policies", "run", "--once"],
    ["policies", "off", "orders"],
    ["policies", "doctor"],
    ["runs"],
    ["runs", "--verify"],
    ["runs", "--export", "runs.json"],
    ["run", "none"],
    ["doctor"],
    ["doctor", "--bootstrap-server", "127.0.0.1:9"],
    ["report", "--format", "html", "--out", "report.html"],
    ["report", "--format", "csv", "--out", "csv"],
    ["report", "--format", "parquet", "--out", "parquet"],
    ["inventory", "read", "secret/client.properties", "--broker", "1", "--out", "i.json"],
    ["dashboard", "--port", "0"],
    ["delete-records", "--offset-json-file", "o.json", "--bootstrap-server", "127.0.0.1:9",
     "--command-config", "secret/client.properties", "--yes"],
]  # fmt: skip


@pytest.fixture
def said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Said:
    """What a verb prints, in a folder whose settings hold every secret there can be."""
    sample_store.write(tmp_path / "data", "rich")
    (tmp_path / "o.json").write_text(
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}'
    )
    file = marked.settings_file(tmp_path, "prod-eu", "127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "dashboard.settings.settings.user_config_path", lambda _name: tmp_path / "etc"
    )
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    for name, value in marked.TOKEN_VARIABLE.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> str:
        with suppress(SystemExit):  # --help
            main(list(words))
        out, err = capfd.readouterr()
        return str(out + err)

    return run


def test_the_search_finds_what_it_is_meant_to(tmp_path: Path) -> None:
    for shift in range(3):
        hidden = base64.b64encode(b"y" * shift + f"{MARK}-sasl".encode())
        assert marks_in(hidden)
    assert marks_in(f"a {MARK}-x b")
    assert not marks_in("nothing here")
    (tmp_path / "found.txt").write_text(MARK)
    assert list(marked_files(tmp_path)) == ["found.txt"]


def test_the_settings_with_all_secrets_are_read(said: Said) -> None:
    found = settings_files.load()

    assert MARK in found.clusters["prod-eu"]["sasl.password"]
    assert MARK in found.clusters["other"]["ssl.key.password"]
    assert MARK in (found.alerts.webhook or "")
    assert not marks_in(repr(found))


def test_no_verb_prints_or_writes_a_secret(said: Said, tmp_path: Path) -> None:
    for words in EVERY:
        for more in ([], ["--json"]):
            printed = said(*words, *more)
            assert printed, words
            assert not marks_in(printed), (words, marks_in(printed))

    assert marked_files(tmp_path) == {}


def test_no_help_prints_a_secret(said: Said) -> None:
    for verb in VERBS:
        assert not marks_in(said(verb, "--help")), verb


BROKEN = {
    "a line without =": ("client", f"sasl.jaas.config=x \n  password \"{MARK}\"\n"),
    "a JAAS line without a module": ("client", f'sasl.jaas.config=password="{MARK}"\n'),
    "a JAAS module nobody knows": ("client", f'sasl.jaas.config=a.B password="{MARK}";\n'),
    "an unknown key": ("client", f"sasl.pasword={MARK}\n"),
    "a key with its value": ("client", f"sasl.password:{MARK}=\n"),
    "a store type": ("client", f"ssl.keystore.type={MARK}\n"),
    "a broken string": ("settings", f'[clusters.a]\n"sasl.password" = "{MARK}\n'),
    "no quotes": ("settings", f'[clusters.a]\n"sasl.password" = {MARK}\n'),
    "a list": ("settings", f'[clusters.a]\n"sasl.password" = ["{MARK}"]\n'),
    "a key nobody knows": ("settings", f'[clusters.a]\n"sasl.pass" = "{MARK}"\n'),
    "a webhook that is none": ("settings", f'[alerts]\nwebhook = "{MARK}"\n'),
    "a webhook in clear": ("settings", f'[alerts]\nwebhook = "http://a.example/{MARK}"\n'),
    "a secret of Spark": ("settings", f'[spark]\n"spark.hadoop.fs.s3a.secret.key" = "{MARK}"\n'),
    "a metrics address": (
        "settings",
        f'[clusters.a]\n"bootstrap.servers" = "a:1"\n"metrics.urls" = "http://a:{MARK}@b"\n',
    ),
    "a Prometheus address": (
        "settings",
        f'[clusters.a]\n"bootstrap.servers" = "a:1"\n"metrics.prometheus.url" = "a:{MARK}@b"\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_secret_is_said_without_it(
    said: Said, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, text = BROKEN[case]
    Path("secret/broken").write_text(text)
    words = ["collect", "--bootstrap-server", "127.0.0.1:9", "--client-config", "secret/broken"]
    if kind == "settings":
        monkeypatch.setenv("LOWWATER_SETTINGS", "secret/broken")
        words = ["doctor"]
    for more in ([], ["--json"]):
        printed = said(*words, *more)
        assert "next" in printed and not marks_in(printed), printed
