"""Which retention fits, when that is not known, and the change as text."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings.topics import retention_settings
from dashboard.topics.retention_fit import (
    FORMS,
    RetentionFit,
    as_csv,
    change,
    changes,
    fitting_ms,
    headline,
    in_order,
    span,
)

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
HOUR, DAY = 3_600_000, 86_400_000
ROW: dict[str, Any] = {
    "taken_at": NOW,
    "topic": "team.orders", "partitions": 3, "unknown_partitions": 0, "guards": [],
    "gone_groups": [],
    "lag_since": NOW - timedelta(days=20), "groups_since": NOW - timedelta(days=20),
    "lag_low_ms": HOUR, "lag_high_ms": 2 * HOUR,
    "margin": 2.0, "replay_window_ms": 0, "retention_ms": 7 * DAY, "freed_low_bytes": 1 << 20,
    "freed_likely_bytes": 2 << 20, "freed_high_bytes": 3 << 20,
}  # fmt: skip


def found(**facts: Any) -> RetentionFit:
    return RetentionFit(**{**ROW, **facts}).judged()


@pytest.mark.parametrize(
    ("lag", "margin", "window", "fits"),
    [
        (0, 2.0, 0, 3 * DAY), (2 * DAY, 2.0, 0, 5 * DAY), (2 * DAY, 1.5, 0, 3 * DAY),
        (HOUR, 2.0, 10 * DAY, 10 * DAY), (40 * DAY + 1, 1.0, 0, 41 * DAY),
    ],
)  # fmt: skip
def test_it_is_the_lag_with_its_margin_rounded_up(
    lag: int, margin: float, window: int, fits: int
) -> None:
    assert fitting_ms(lag, margin, window) == fits


def test_a_shorter_one_is_proposed_only_where_it_is_shorter() -> None:
    assert (found().verdict, found().fits_ms) == ("shorter", 3 * DAY)
    assert "at most 2 h behind" in found().reason
    assert found(retention_ms=-1).verdict == "shorter"
    assert found(retention_ms=3 * DAY).verdict == "keep"
    gone = found(gone_groups=["monthly", "other"])
    assert gone.verdict == "unknown", "a purge would stop where it stands"
    assert "group monthly and 1 more read it and is gone" in gone.reason
    late = found(retention_ms=HOUR)
    assert late.verdict == "too-short" and "may go unread" in late.reason


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"guards": ["no-committed-offset"]}, "no-committed-offset"),
        ({"unknown_partitions": 1}, "on 1 of 3 partitions"),
        ({"lag_since": NOW - timedelta(days=6)}, "7 days are needed"),
        ({"groups_since": NOW - timedelta(hours=26)}, "a group reads it since 2026-02-28T02:00"),
        ({"groups_since": None}, "how far its readers are behind is not known"),
        ({"retention_ms": None}, "retention.ms could not be read"),
    ],
)
def test_unknown_proposes_nothing(facts: dict[str, Any], said: str) -> None:
    row = found(**facts)
    assert (row.verdict, row.fits_ms) == ("unknown", None) and said in row.reason
    assert change(row, "kafka-configs", "b:1", "") is None


def test_the_change_is_text_for_each_tool() -> None:
    line = change(found(), "kafka-configs", "b1:9092", "")
    assert line is not None and shlex.split(line)[1:] == [
        "--bootstrap-server", "b1:9092", "--alter", "--entity-type", "topics", "--entity-name",
        "team.orders", "--add-config", f"retention.ms={3 * DAY}",
    ]  # fmt: skip
    terraform = change(found(), "terraform", None, "")
    assert terraform is not None and '"kafka_topic" "team_orders"' in terraform
    assert f'"retention.ms" = "{3 * DAY}"' in terraform and 'name = "team.orders"' in terraform
    strimzi = change(found(topic="Team_Orders"), "strimzi", None, "")
    assert strimzi is not None and 'name: "team-orders"' in strimzi
    assert change(found(), "strimzi", None, "they are old") is None
    assert json.dumps("Team_Orders") in strimzi and f"retention.ms: {3 * DAY}" in strimzi


def test_the_sum_has_its_bounds_and_leaves_out_what_is_not_known() -> None:
    blank = dict.fromkeys(("freed_low_bytes", "freed_likely_bytes", "freed_high_bytes"))
    rows = [found(guards=["share-group"], topic="a"), replace(found(topic="b"), **blank), found()]
    assert [row.topic for row in in_order(rows)] == ["team.orders", "b", "a"]
    assert headline(rows) == (
        "2 of 3 topics with declared readers may keep records for less; that frees 2.0 MiB on all "
        "replicas (1.0 MiB to 3.0 MiB); of 1 the bytes are not known; of 1 it is not known."
    )


@pytest.mark.parametrize(
    ("length", "said"),
    [(None, "unknown"), (-1, "for ever"), (HOUR, "1 h"), (90 * 60_000, "90 min"),
     (36 * HOUR, "36 h"), (7 * DAY, "7 d"), (12, "12 ms"), (2500, "2.5 s")],
)  # fmt: skip
def test_spans_are_short(length: int | None, said: str) -> None:
    assert span(length) == said


@pytest.mark.parametrize("margin", [0.5, "2", True, float("nan"), 10_000])
def test_a_margin_is_a_number_from_one_on(margin: object) -> None:
    with pytest.raises(SettingsError, match="margin"):
        retention_settings({"margin": margin}, "here")
    assert retention_settings({}, "here").margin == 2.0


@pytest.mark.parametrize("form", FORMS)
def test_all_changes_are_one_text_and_what_is_not_given_says_why(form: str) -> None:
    rows = [found(), found(topic="kept", retention_ms=3 * DAY), found(topic="asked"),
            found(topic="logs")]  # fmt: skip
    text = changes(rows, form, "b:1", "", {"asked": "somebody may read it\nunseen"})
    for row in (rows[0], rows[3]):
        assert (change(row, form, "b:1", "") or "none") in text
    assert "# asked: no change is given: somebody may read it\n# unseen" in text
    assert "kept" not in text and text.startswith("# Lowwater changes no topic.")
    given = [line for line in text.splitlines() if "259200000" in line]
    assert len(given) == 2
    old = changes(rows, form, "b:1", "too old", {})
    assert "259200000" not in old and old.count("too old") == 3


def test_a_line_of_the_csv_has_plain_numbers_and_runs_no_formula() -> None:
    head, line = as_csv([found(owner="=cmd()")]).splitlines()
    cells = dict(zip(head.replace('"', "").split(","), line.split(","), strict=False))
    assert (cells["topic"], cells["fits_ms"]) == ('"team.orders"', str(3 * DAY))
    assert '"\'=cmd()"' in line
