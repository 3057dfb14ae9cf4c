"""Bytes above a target are a group's only where that group alone keeps them from going."""

from __future__ import annotations

from typing import Any

from dashboard.estimate.curve_tables import from_table
from dashboard.views.facts import committed_facts
from dashboard.views.topic_rows import CAPPED, TopicRow, topic_rows
from dashboard.views.what_if import waive
from tests.support.lab import Lab, Snapshot


def cluster(step: int) -> Snapshot:
    """Logs that grow by 10 offsets of 100 bytes a minute; `replayed…` have two of replay window."""
    end = 70 + 10 * step
    made = Snapshot()
    for name, groups, stable in (
        ("at-the-end", {"billing": end}, end),
        ("behind", {"billing": end, "slow": 10}, end),
        ("replayed", {"billing": end}, end),
        ("replayed-at-its-start", {"billing": end - 20}, end),
        ("replayed-behind", {"billing": end, "slow": 10}, end),
        ("open", {"billing": end}, end - 40),
        ("open-at-it", {"billing": end - 40}, end - 40),
    ):
        made.topic(name, end=end, size=100 * end, groups=groups, stable=stable)
    return made.group("billing", *(t["topic"] for t in made.tables["topics"]))


def analyzed(lab: Lab) -> dict[str, dict[str, Any]]:
    for step in range(4):
        lab.write(cluster(step))
    lab.analyze()
    return lab.targets()


def rows(lab: Lab, waived: tuple[str, ...] = ()) -> dict[str, TopicRow]:
    analysis = lab.cluster.latest_analysis()
    holds, curves = (lab.cluster.read("findings", analysis, name) for name in ("holds", "curves"))
    facts = committed_facts(lab.cluster, analysis)
    facts = waive(facts, holds, from_table(curves), waived) if waived else facts
    return {row.topic: row for row in topic_rows(facts)}


def test_a_group_that_read_all_it_may_holds_nothing_back(lab: Lab) -> None:
    found = analyzed(lab)
    assert {topic: (row["target_offset"], row["held_by"]) for topic, row in found.items()} == {
        "at-the-end": (100, None), "behind": (10, "slow"), "replayed": (80, None),
        "replayed-at-its-start": (80, None), "replayed-behind": (10, "slow"), "open": (60, None),
        "open-at-it": (60, None),
    }  # fmt: skip
    assert [found[topic]["held_bytes"] for topic in ("at-the-end", "open")] == [0, 8000]
    (blocker,) = {b["group_id"] for b in lab.rows("blockers") if b["bytes_held_alone"]}
    assert blocker == "slow"


def test_what_the_window_or_a_transaction_keeps_is_told_apart(lab: Lab) -> None:
    analyzed(lab)
    found = rows(lab)
    told = {topic: (row.capped_bytes, row.holder) for topic, row in found.items()}
    assert told["behind"] == told["replayed-behind"] == (0, "slow")
    assert told["at-the-end"] == (0, "")
    for topic in ("replayed", "replayed-at-its-start", "open", "open-at-it"):
        assert told[topic] == (found[topic].held_bytes, CAPPED)
        assert found[topic].capped_bytes > 0


def test_so_it_is_once_a_group_is_waived_that_was_behind(lab: Lab) -> None:
    analyzed(lab)
    row = rows(lab, ("slow",))["replayed-behind"]
    assert (row.held_by, row.holder, row.capped_bytes) == (None, CAPPED, row.held_bytes)
    assert rows(lab, ("slow",))["behind"].held_by is None
