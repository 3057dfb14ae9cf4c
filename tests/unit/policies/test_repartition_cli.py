"""`lowwater policies doctor` prints what the doctor finds, and nothing that it does not know."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.policies.doctor import words
from dashboard.policies.doctor.diagnosis import KINDS
from dashboard.policies.doctor.repartition import diagnose
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from dashboard.ui import policy_advice
from tests.unit.policies import kept_history
from tests.unit.policies.streams_topics import END, TOPIC, Group, Log, analysis, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    """One topic that nobody purges, one whose application stopped an hour ago."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("dashboard.cli.policies.policies.utc_now", lambda: END)
    monkeypatch.setenv("LOWWATER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    found = kept_history.store(tmp_path / "data")
    grows, stopped = Log(), Log(topic="<b>-x-repartition", topic_id="stopped")

    def step(number: int) -> None:
        for log, group in ((grows, "app"), (stopped, "<b>")):
            if number < 6 or group == "app":
                log.write(1300)
                log.commits[group] = log.end
                stopped.purge(stopped.end)

    run(found, [grows, stopped], step, snapshots=8,
        groups=[Group(), Group("<b>", "Empty", 0)])  # fmt: skip
    analysis(found, committed_bytes={(TOPIC, 0): 2_000_000})
    return found


def test_json_has_every_kind_and_row(
    store: ClusterStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policies", "doctor", "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (value["cluster"], value["topics"]) == ("prod-eu", 2)
    assert set(value["kinds"]) == set(KINDS)
    first, second = value["rows"]
    assert (first["topic"], first["kind"], first["saves_bytes"]) == (TOPIC, "not-purged", 2_000_000)
    assert set(first) == {
        "topic", "kind", "sentence", "evidence", "setting", "saves_bytes",
        "saves_requests_per_hour", "caution", "rhythm",
    }  # fmt: skip
    assert set(first["evidence"]) == {
        "confidence", "from_at", "to_at", "snapshots", "purges_at_least", "others_at_least",
        "segments_freed", "seen_at",
    }  # fmt: skip
    assert first["evidence"]["to_at"] == "2026-03-04T12:00:00.000Z"
    assert first["evidence"]["seen_at"][0] == "2026-03-04T06:00:00.000Z"
    assert set(first["setting"]) == {"where", "name", "now", "to", "why"}
    assert (second["kind"], second["setting"], second["saves_bytes"]) == ("not-known", None, None)


def test_text_tells_what_to_set(store: ClusterStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "doctor"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 repartition topics: 1 that nobody purges, 1 not known yet\n")
    assert "set repartition.purge.interval.ms=30000 in the application: " in text
    assert "saves: 1.9 MiB over all replicas" in text
    assert "8 snapshots, 2026-03-04 05:00 UTC to 2026-03-04 12:00 UTC; confidence medium" in text


def test_a_window_leaves_older_snapshots_out(
    store: ClusterStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policies", "doctor", "--json", "--window", "2h"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["evidence"]["snapshots"] for row in rows} == {3}
    assert {row["kind"] for row in rows} == {"not-known"}


@pytest.mark.parametrize("words", [["check", "--window", "2h"], ["doctor", "NAME"],
                                   ["doctor", "--once"], ["doctor", "--window", "2"]])  # fmt: skip
def test_flags_of_others_are_refused(
    store: ClusterStore, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policies", *words]) == 1


def test_nothing_collected_lately_is_said(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = datetime(2026, 6, 1, tzinfo=UTC)
    monkeypatch.setattr("dashboard.cli.policies.policies.utc_now", lambda: later)
    assert main(["policies", "doctor"]) == 0
    assert capsys.readouterr().out == words.NO_TOPIC + "\n"


def test_cards_show_problems_and_escape_names(store: ClusterStore) -> None:
    found = diagnose(store, None, Settings(), END)
    cards = "".join(policy_advice.cards_html(found))
    html = policy_advice.head_html(found) + cards + policy_advice.rest_html(found)
    assert TOPIC in html and "Nobody purges it" in html
    assert "repartition.purge.interval.ms" in html
    assert "1.9 MiB" in html
    assert "1 not known yet" in html
    assert "<b>-x" not in html


def test_the_first_problems_have_a_card_each(store: ClusterStore) -> None:
    (known,) = diagnose(store, None, Settings(), END)[:1]
    many = [known] * 30
    assert len(policy_advice.cards_html(many)) == policy_advice.SHOWN
    assert "18 more" in policy_advice.rest_html(many)
