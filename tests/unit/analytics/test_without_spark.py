"""What the analysis decides without a Spark session."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from analytics.topics import all_declarations, describe
from dashboard.settings import Settings, TopicDeclaration


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
