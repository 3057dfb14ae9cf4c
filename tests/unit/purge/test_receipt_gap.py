"""A receipt's gap names all that is not as predicted, and not the first thing alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.purge.journal.rows import Follower, PartitionRow
from dashboard.purge.receipt.gap import cause
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt
from tests.unit.purge.facts_of import NOW

DEAD = PartitionRow(
    "orders", 0, 40, "done", sent_at=NOW,
    followers=(Follower(2, 40, True, True), Follower(3, None, False, False)),
)  # fmt: skip
OTHER = PartitionRow("old", 0, 40, "done", sent_at=NOW)
FINAL = Receipt(final=True, predicted_bytes=0, freed_bytes=0)
MISSING = "replicas on broker 3 have not arrived and are not counted"


@pytest.mark.parametrize(
    ("other", "gone", "said"),
    [
        ("done", (), None),
        ("done", ("old",), "old was deleted, or made anew, before its receipt was final"),
        ("reverted", (), "records came back on 1 partitions after an election"),
    ],
)
def test_a_broker_that_is_behind_is_named_whatever_else_happened(
    other: str, gone: tuple[str, ...], said: str | None
) -> None:
    told = cause(replace(FINAL, gone_topics=gone), [DEAD, replace(OTHER, state=other)])
    assert told is not None and told.endswith(MISSING)
    assert (told == MISSING) is (said is None)
    assert said is None or said in told


def test_replicas_of_a_topic_that_is_gone_are_not_waited_for() -> None:
    told = cause(replace(FINAL, gone_topics=("orders",)), [DEAD])
    assert told is not None and "broker 3" not in told


def test_errors_of_two_topics_that_cancel_out_have_a_cause_each() -> None:
    def part(topic: str, predicted: int, freed: int) -> ReplicaReceipt:
        return ReplicaReceipt(
            topic, 0, 1, 0, 40, 100, 1000, 0, predicted_bytes=predicted, freed_bytes=freed
        )

    body = Receipt(
        final=True, predicted_bytes=100, freed_bytes=100, methods=("sampled",),
        replicas=(part("a", 100, 0), part("b", 0, 100)),
    )  # fmt: skip
    told = cause(body, [])
    assert told is not None
    assert told.startswith(
        "of a 0 bytes left where 100 were predicted; of b 100 bytes left where 0 were predicted: "
    )
    exact = replace(body, replicas=(part("a", 100, 100),))
    assert cause(exact, []) is None
