"""`lowwater metrics`: once or served, on loopback, ended by Ctrl-C; it makes no journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboard.cli.main import main
from tests.support import sample_store


@pytest.fixture
def data(alone: Path) -> str:
    folder = alone / "data"
    sample_store.write(folder)
    return str(folder)


def test_once_prints_the_text_and_its_samples_as_json(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "--once", "--data", data]) == 0
    text = capsys.readouterr().out
    families = list(text_string_to_metric_families(text))
    assert main(["metrics", "--once", "--data", data, "--json", "--top", "1"]) == 0
    value = json.loads(capsys.readouterr().out)

    names = {sample.name for family in families for sample in family.samples}
    assert names == {sample["name"] for sample in value["samples"]}
    assert value["cluster_id"] == sample_store.CLUSTER_ID
    topics = [s for s in value["samples"] if s["name"] == "lowwater_reclaimable_bytes"]
    shown = {s["labels"]["topic"] for s in topics if s["labels"]["topic"] != "(other)"}
    assert len(shown) == 1
    assert not (alone / "state" / "journal.sqlite").exists()


def test_it_serves_until_ctrl_c(data: str) -> None:
    command = [sys.executable, "-m", "dashboard.cli.main", "metrics", "--port", "0", "--json"]
    serving = subprocess.Popen(
        [*command, "--data", data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        url = json.loads(serving.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=240) as answer:
            assert b"lowwater_reclaimable_bytes{" in answer.read()
        serving.send_signal(signal.SIGINT)
        assert serving.wait(240) == 130
        assert "Traceback" not in serving.communicate()[1]
    finally:
        serving.kill()
        serving.communicate()


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--top", "0"], "USAGE"), (["--port", "70000"], "PORT_INVALID")],
)
def test_wrong_flags_are_named(
    data: str, words: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", *words, "--data", data, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_a_folder_without_a_cluster_is_named(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "--once", "--data", str(alone / "none"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_SNAPSHOT"
