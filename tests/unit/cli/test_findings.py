"""`lowwater findings`: rows of the newest analysis, by key, whole numbers, nothing guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.store.tables import FINDING_TABLES
from tests.support import odd_store, sample_store
from tests.unit.cli.printed import answer


def _findings(data: str, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return answer(capsys, "findings", *words, "--data", data)


@pytest.mark.parametrize("name", sorted(FINDING_TABLES))
def test_rows_of_each_table_come_sorted_by_key(
    data: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    value = _findings(data, capsys, name)
    columns = FINDING_TABLES[name].key
    # A key that is null stands last, as in the growth of a log dir, which has no topic.
    keys = [tuple((row[c] is None, row[c]) for c in columns) for row in value["rows"]]
    assert value["table"] == name
    assert value["analysis_id"]
    assert keys == sorted(keys)
    assert keys


def test_a_reclaimable_row_has_the_keys_of_the_contract(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _findings(data, capsys, "reclaimable", "--topic", "orders", "--limit", "1")["rows"][0]
    contract = (
        "topic partition target target_offset records bytes_low bytes_likely bytes_high "
        "bytes_at_once method replicas guards"
    )
    assert set(contract.split()) <= set(row)
    assert (row["topic"], row["partition"], row["target"]) == ("orders", 0, "committed")
    assert row["taken_at"].endswith("Z")


def test_limit_and_topic_cut_the_rows_and_say_how_many_match(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    some = _findings(data, capsys, "reclaimable", "--topic", "orders", "--limit", "3")
    both = _findings(data, capsys, "reclaimable", "--topic", "orders", "--topic", "clickstream")
    none = _findings(data, capsys, "reclaimable", "--topic", "no-such-topic")
    assert len(some["rows"]) == 3
    assert some["matching_rows"] > 3
    assert {row["topic"] for row in both["rows"]} == {"orders", "clickstream"}
    assert none["rows"] == []


def test_people_see_a_table_with_units(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", "disks", "--data", data]) == 0
    out = capsys.readouterr().out
    assert "broker_id" in out.splitlines()[0]
    assert "40.0 GiB" in out


def test_growth_says_where_there_is_not_enough_history(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["findings", "growth", "--data", data]) == 0
    lines = capsys.readouterr().out.splitlines()
    (disk,) = (line.split() for line in lines if line.startswith("-  ") and " 1  /d1" in line)
    assert disk[-5:] == ["1.3", "1.7", "2.2", "3600", "60"]
    assert "not enough history yet" in lines[-1]
    assert main(["findings", "growth", "--data", data, "--topic", "orders"]) == 0
    assert "not enough" not in capsys.readouterr().out


def test_a_group_of_255_odd_characters_is_shown_safely_and_kept_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd_store.write(tmp_path, monkeypatch)
    for table in ("holds", "blockers", "reclaimable"):
        assert main(["findings", table, "--data", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert not {"\x1b", "\r", "\u202e"} & set(out)
        rows = _findings(str(tmp_path), capsys, table)["rows"]
        assert len(out.splitlines()) == len(rows) + 1, "one line a row"
        assert any(odd_store.ODD in (row.get("group_id"), row.get("held_by")) for row in rows)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["findings", "hold"], "TABLE_UNKNOWN"),
        (["findings", "holds", "--limit", "0"], "USAGE"),
        (["findings", "disks", "--topic", "orders"], "USAGE"),
        (["findings", "holds", "--cluster", "else"], "CLUSTER_NOT_FOUND"),
        (["findings", "holds", "--data", "gopher://x"], "DATA_INVALID"),
        (["findings", "holds", "--data", "empty"], "NO_SNAPSHOT"),
    ],
)
def test_bad_input_is_named(
    data: str, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    known = [] if "--data" in words else ["--data", data]
    assert main([*words, *known, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_before_any_analysis_the_next_step_is_analyze(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, "no-analysis")
    assert main(["findings", "holds", "--data", str(tmp_path), "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "NO_ANALYSIS"
    assert "lowwater analyze" in error["next"]
