"""What the analysis decides without a Spark session."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from analytics.readers.topics import all_declarations, describe
from dashboard.settings.settings import Settings, TopicDeclaration


def test_settings_declare_before_the_page_and_the_first_glob_wins() -> None:
    own = TopicDeclaration("orders*", "shop", "groups", timedelta(hours=1), "ann", "")
    stored = [{"glob": "*", "owner": "page", "readers": "unknown", "replay_window": "0s"}]
    declarations = all_declarations(Settings(topics=(own,)), stored)
    topics = pa.table(
        {
            "topic_no": [0, 1, 2],
            "topic": ["orders-eu", "other", "__consumer_offsets"],
            "topic_id": ["a", "b", "c"],
            "is_internal": [False, False, True],
        }
    )
    orders, other, internal = describe(topics, declarations).to_pylist()
    assert (orders["readers_declared"], orders["owner"]) == (True, "shop")
    assert orders["replay_window_ms"] == 3_600_000
    assert (other["readers_declared"], other["owner"]) == (False, "page")
    assert (internal["is_system"], other["is_system"]) == (True, False)


def test_what_was_said_of_a_topic_lets_nothing_go_of_one_made_anew_under_its_name() -> None:
    stored = [
        {"glob": topic, "owner": "a", "readers": "groups", "replay_window": "1h",
         "state_restore": "none", "topic_id": "id-1"}
        for topic in ("same", "anew", "untold")
    ]  # fmt: skip
    rows = [
        {"topic_no": at, "topic": name, "topic_id": topic_id, "is_internal": False}
        for at, (name, topic_id) in enumerate(
            (("same", "id-1"), ("anew", "id-2"), ("untold", None))
        )
    ]
    table = pa.Table.from_pylist(rows)
    found = {
        r["topic"]: r for r in describe(table, all_declarations(Settings(), stored)).to_pylist()
    }
    told = {t: (r["readers_declared"], r["restore_declared"]) for t, r in found.items()}
    assert told == {"same": (True, True), "anew": (False, False), "untold": (False, False)}
    assert {r["replay_window_ms"] for r in found.values()} == {3_600_000}
