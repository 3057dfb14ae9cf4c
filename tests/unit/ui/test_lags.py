"""Lags by topic and broker: what a cell says, and what is put together beyond the limits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dashboard.store.tables import FINDING_TABLES
from dashboard.ui import lags
from dashboard.ui.lags import BROKERS, TOPICS, cell_text, heat, heat_html, look

_SCHEMA = FINDING_TABLES["slow_followers"].schema


def follower(topic: str, broker: int, seconds: float | None, **columns: Any) -> dict[str, Any]:
    records = None if seconds is None else round(100 * seconds)
    return {"topic": topic, "partition": 0, "broker_id": broker, "lag_seconds": seconds,
            "lag_records": records, "slow": False, **columns}  # fmt: skip


def made(*rows: dict[str, Any]) -> lags.Heat:
    return heat(pa.Table.from_pylist(list(rows), schema=_SCHEMA))


def test_a_cell_is_about_its_slow_followers_where_it_has_any() -> None:
    found = made(
        follower("a", 1, 0.4), follower("a", 1, None, lag_records=1200, slow=True),
        follower("b", 1, 70.0), follower("b", 1, 9.0, slow=True),
    )  # fmt: skip
    assert found.topics == ["b", "a"]
    assert cell_text(found.cells[0, 0]) == "⚠ 9 s"
    assert (cell_text(found.cells[1, 0]), look(found.cells[1, 0])) == (
        "⚠ 1\u202f200 rec.", "lw-lag-unknown",
    )  # fmt: skip


def test_unknown_is_a_question_mark_and_no_follower_is_empty() -> None:
    found = made(follower("a", 1, None), follower("b", 2, 0.0))
    html = heat_html(found)

    assert ">?</td>" in html
    assert html.count('<td class="none"') == 2
    assert "seconds of 1 unknown" in html


def test_shades_go_from_under_a_second_to_over_ten_minutes() -> None:
    lags = (0.0, 0.9, 1.0, 59.0, 60.0, 599.0, 600.0)
    found = made(*(follower("t", broker, lag) for broker, lag in enumerate(lags)))

    assert [look(found.cells[0, at])[-1] for at in range(len(lags))] == list("0012334")


def test_beyond_the_limits_the_others_share_a_row_and_a_column() -> None:
    rows = [
        follower(f"t{topic:02d}", broker, float(topic + broker), slow=(topic, broker) == (1, 2))
        for topic in range(TOPICS + 5) for broker in range(BROKERS + 3)
    ]  # fmt: skip
    found = made(*rows, follower("others", 99, 7000.0))

    assert found.topics[:2] == ["t01", "others"]  # the second one is a topic of that name
    assert (len(found.topics), len(found.brokers)) == (TOPICS + 1, BROKERS + 1)
    assert found.brokers[-1] == "others"
    assert sum(cell.replicas for cell in found.cells.values()) == len(rows) + 1
    assert (found.left_topics, found.left_brokers) == (6, 4)
    assert {found.cells[TOPICS, at].replicas for at in range(BROKERS - 1)} == {6}
    assert found.cells[0, 0].replicas == 1
    html = heat_html(found)
    assert html.count("<tr>") == TOPICS + 2
    assert ">6 others</th>" in html


def test_names_are_text() -> None:
    assert "<b>" not in heat_html(made(follower("<b>", 1, 1.0)))
