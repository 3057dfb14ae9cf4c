"""`lowwater orphans run`: off until its sentence, the events, and the samples of the docs."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import signal
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml

from dashboard.cli.findings import orphans, orphans_run
from dashboard.cli.main import main
from dashboard.cli.parser import new_parser, parse
from dashboard.core.clock import utc_now
from dashboard.core.errors import LogDirError
from dashboard.inventory.loading import load
from dashboard.orphans.removal import FAILED, Lead, Removal, Round
from dashboard.orphans.verdicts import Verdict
from dashboard.purge.journal.journal import Journal
from dashboard.settings import settings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES
from tests.unit.orphans.sweep_host import Host


def test_a_password_that_changes_counts_from_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "dashboard.cluster.live.connect", lambda client, *_, **__: asked.append(client[PASSWORD])
    )
    source = tmp_path / "lowwater.toml"
    monkeypatch.setenv("LOWWATER_SETTINGS", str(source))
    text = f'[clusters.prod]\n"bootstrap.servers" = "k:1"\n"{PASSWORD}" = "{{}}"\n'
    source.write_text(text.format("old"))
    cluster = ClusterStore(Store(str(tmp_path / "data")), "C")
    cluster.write_connection("k:1", None, "prod")
    parser, verbs = new_parser()
    orphans.add_parser(verbs)
    args = parse(parser, verbs, ["orphans", "run", "--log-dirs", "/kafka"])
    reach = orphans_run._reach(args, settings.load(), cluster)
    reach()
    source.write_text(text.format("new"))
    reach()
    assert asked == ["old", "new"]


PASSWORD = "sasl.password"
SENTENCE = (
    "remove orphans of prod, at most 20 folders and 100.0 GiB a day of each broker, 5 % of it at "
    "once, deleted after 24 h"
)
DOCS = Path(__file__).parents[3] / "docs" / "orphans-service.md"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path / "host")
    made.start_broker()
    monkeypatch.setattr("dashboard.cluster.live.connect", lambda *_, **__: nullcontext(made.live))
    monkeypatch.setattr(orphans_run, "utc_now", lambda: made.now)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    analyzed(tmp_path / "data", made, made.row())
    yield made
    made.stop_broker()


def analyzed(data: Path, host: Host, *rows: Verdict) -> None:
    """A store whose newest analysis has these orphans, of what was seen a minute ago."""
    cluster = ClusterStore(Store(str(data)), "C")
    cluster.write_connection("k:1", None, "prod")
    seen = host.now - timedelta(minutes=1)
    known = {"snapshot_id": "s1", "taken_at": seen, "first_seen_at": seen, "last_seen_at": seen}
    schema = FINDING_TABLES["orphans"].schema
    table = pa.Table.from_pylist([asdict(row) | known for row in rows], schema=schema)
    writer = cluster.begin("findings", seen)
    writer.write("orphans", table)
    writer.commit(1.0, {"snapshot_id": "s1"})
    cluster.set_latest(writer.id)


def call(
    host: Host, capsys: pytest.CaptureFixture[str], *flags: str
) -> tuple[int, dict[str, Any], str]:
    line = ["orphans", "run", "--log-dirs", str(host.log_dir), "--once", "--json"]
    code = main([*line, "--data", str(host.folder.parent / "data"), *flags])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_it_is_off_until_its_sentence_and_tells_both(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, off, err = call(host, capsys)
    assert (code, off["state"], off["rows"][0]["state"]) == (0, "off", "would_move")
    assert f'--confirm "{SENTENCE}"' in err
    assert not (tmp_path / "state").exists(), "who only tells makes no journal"
    code, wrong, _ = call(host, capsys, "--confirm", SENTENCE.replace("20", "21"))
    assert (code, wrong["error"]["code"]) == (3, "CONFIRMATION_MISMATCH")
    assert SENTENCE in wrong["error"]["next"]
    assert host.stray.exists()
    code, done, err = call(host, capsys, "--confirm", SENTENCE)
    assert (code, done["state"], done["rows"][0]["state"]) == (0, "on", "moved")
    assert done["totals"]["moved"]["folders"] == 1 and done["broker_id"] == 1
    assert "an approver who stops every purge" in err, "no approver looks at this journal"
    code, again, err = call(host, capsys, "--confirm", SENTENCE)
    assert again["rows"][0]["state"] == "quarantined"
    assert "an approver who stops every purge" in err, "it made that journal itself"

    journal = Journal(tmp_path / "state" / "journal.sqlite")
    on, moved = journal.entries()
    assert (on.kind, on.body["typed"], on.body["broker_id"]) == ("orphans-on", SENTENCE, 1)
    assert (moved.kind, moved.body["acts"][0][0]) == ("orphans", "moved")
    journal.set_read_only(True, "ann", utc_now())
    journal.close()
    code, stopped, _ = call(host, capsys, "--confirm", SENTENCE)
    assert (code, stopped["error"]["code"]) == (3, "READ_ONLY")


def test_its_limits_stand_in_its_sentence(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = host.folder / "lowwater.toml"
    settings.write_text("orphan_most_share = 0.1\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    flags = ("--most-folders", "3", "--most-bytes", "500MiB", "--quarantine", "7d")
    _, _, err = call(host, capsys, *flags)
    limits = "at most 3 folders and 500.0 MiB a day of each broker, 10 % of it at once, deleted"
    assert limits in err
    for bad in (("--most-folders", "0"), ("--most-bytes", "lots"), ("--every", "0s"),
                ("--quarantine", "1m"), ("--verdicts", "v.json"), ("--apply",)):  # fmt: skip
        code, answer, _ = call(host, capsys, *bad)
        assert (code, "error" in answer) == (1, True), bad


def test_another_service_of_the_host_is_named(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Lead((str(host.log_dir),))
    assert other.take()
    code, answer, _ = call(host, capsys, "--confirm", SENTENCE)
    assert (code, answer["error"]["code"]) == (3, "NOT_LEADING")
    other.release()


def test_without_an_analysis_it_waits_and_its_inventory_makes_the_next_one(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", str(tmp_path / "empty"))
    cluster = ClusterStore(Store(data[1]), "C")
    cluster.write_connection("k:1", None, "prod")
    cluster.begin("snapshots", host.now).commit(1.0, {})
    out = tmp_path / "1.inventory"
    code, waits, _ = call(host, capsys, *data, "--inventory-out", str(out))
    assert (code, "has no analysis yet" in waits["waiting"]) == (0, True)
    assert load(str(out)).broker_id == 1
    inside = str(host.log_dir / "x.inventory")
    code, answer, _ = call(host, capsys, *data, "--inventory-out", inside)
    assert (code, answer["error"]["code"]) == (1, "OUT_IN_LOG_DIR")


def test_it_loops_shows_its_metrics_and_ends_at_a_signal(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 600
        url = capsys.readouterr().err.split("metrics: ")[1].split()[0]
        with urllib.request.urlopen(url) as answer:
            texts.append(answer.read().decode())
        signal.raise_signal(signal.SIGTERM)

    # Of this module alone: threads of others sleep, too.
    monkeypatch.setattr(orphans_run, "time", SimpleNamespace(sleep=sleep))
    code = main(["orphans", "run", "--log-dirs", str(host.log_dir), "--data",
                 str(tmp_path / "data"), "--confirm", SENTENCE, "--port", "0"])  # fmt: skip
    assert code == 130
    assert "goes on from what the logs say" in capsys.readouterr().err
    assert 'lowwater_orphan_acts_folders_total{act="moved",broker_id="1"} 1.0' in texts[0]
    assert Lead((str(host.log_dir),)).take(), "it let go of its lock"


def test_settings_that_change_while_it_runs_are_no_longer_what_was_confirmed(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "lowwater.toml"
    settings.write_text("orphan_most_share = 0.05\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    analyzed(tmp_path / "data", host)
    rounds = iter(("stricter", "end"))

    def sleep(_seconds: float) -> None:
        if next(rounds) == "end":
            raise KeyboardInterrupt
        settings.write_text("orphan_most_share = 0.01\n")
        analyzed(tmp_path / "data", host, host.row())

    monkeypatch.setattr(orphans_run, "time", SimpleNamespace(sleep=sleep))
    line = ["orphans", "run", "--log-dirs", str(host.log_dir), "--json", "--confirm", SENTENCE]
    assert main([*line, "--data", str(tmp_path / "data")]) == 130
    before, after = map(json.loads, capsys.readouterr().out.splitlines())
    assert (before["state"], after["state"]) == ("on", "failed")
    assert after["error"]["code"] == "CONFIRMATION_MISMATCH"
    assert host.stray.exists()


def test_a_clock_that_is_set_back_amid_a_round_is_not_waited_for(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = host.now + timedelta(days=365)
    failed = Round(ahead, FAILED, ahead + timedelta(minutes=1), error=LogDirError("away", "Look."))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(Removal, "turn", lambda _self: failed)
    monkeypatch.setattr(orphans_run, "time", SimpleNamespace(sleep=sleep))
    line = ["orphans", "run", "--log-dirs", str(host.log_dir), "--data", str(tmp_path / "data")]
    assert main([*line, "--every", "5m"]) == 130
    assert slept == [300]


# The samples.


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)


def flags_of(line: Sequence[str]) -> Any:
    """The arguments that a sample starts; UsageError for a flag that there is none of."""
    program, *rest = line
    assert program.rsplit("/", 1)[-1] == "lowwater"
    parser, verbs = new_parser()
    orphans.add_parser(verbs)
    args = parse(parser, verbs, rest)
    orphans_run.refuse_flags(args, run=True)
    assert args.action == "run" and args.log_dirs and not args.once
    return args


def of_sample(args: Any) -> str:
    """The sentence that its flags ask for."""
    from dashboard.orphans.removal import confirmation
    from dashboard.settings.settings import Settings

    return confirmation("prod-eu", orphans_run._options(args, Settings()))


def test_the_unit_of_systemd_names_real_flags_and_the_sentence_of_them() -> None:
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    start = unit["Service"]["ExecStart"].replace("\\\n", " ").replace("%%", "%")
    args = flags_of(shlex.split(start))
    assert args.confirm == of_sample(args)
    assert unit["Service"]["SuccessExitStatus"] == "130"


def test_the_daemon_set_names_real_flags_and_sees_the_brokers_processes() -> None:
    (text,) = blocks("yaml")
    found = yaml.safe_load(text)
    assert (found["kind"], found["apiVersion"]) == ("DaemonSet", "apps/v1")
    spec = found["spec"]["template"]["spec"]
    assert (
        found["spec"]["selector"]["matchLabels"] == found["spec"]["template"]["metadata"]["labels"]
    )
    assert spec["hostPID"] is True, "the broker's lock and open files are seen by /proc"
    (container,) = spec["containers"]
    args = flags_of([*container["command"], *container["args"]])
    assert args.confirm == of_sample(args)
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert mounts.keys() == {v["name"] for v in spec["volumes"]}
    assert any(args.log_dirs.startswith(f"{path}/") for path in mounts.values()), "not the mount"
    env = {e["name"]: e.get("value", "") for e in container["env"]}
    folders = [m["mountPath"] for m in container["volumeMounts"] if "subPath" not in m]
    seen = str(Path(env["LOWWATER_SETTINGS"]).parent) in folders
    assert seen, "read_only is switched on there, and seen while it runs"
    assert container["ports"][0]["containerPort"] == args.port
