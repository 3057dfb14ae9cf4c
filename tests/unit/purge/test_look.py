"""A look at records below targets: who may, where nothing is read, and which error says why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import RefusedError, UsageError
from dashboard.domain.model import (
    OffsetAtTime,
    TopicPartition,
)
from dashboard.domain.records import LookedAt, Record, Span
from dashboard.people.people import Actor
from dashboard.purge.evidence import look as looking
from dashboard.purge.evidence.look import LookRequest, Oldest, look, oldest, planned
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings
from tests.support.cluster import FakeCluster, FakePartition
from tests.unit.cli.plans import CLUSTER_ID, a_plan, known_cluster

ORDERS = TopicPartition("orders", 0)
ASKED = LookRequest({ORDERS: 600}, {"orders": "id"}, sampled=3)
READ = frozenset({"Read", "Describe"})


class Live(FakeCluster):
    """What is asked of a cluster before a consumer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.id, self.topic_id, self.rights = CLUSTER_ID, "id", READ
        self.parts[ORDERS] = FakePartition({1: 100}, 1, 0, 1000, 900)

    def finds(self, *found: OffsetAtTime) -> None:
        """These are the oldest records of the only partitions."""
        self.first_at = {TopicPartition(one.topic, one.partition): one for one in found}
        self.parts = dict.fromkeys(self.first_at, self.parts[min(self.parts)])

    def principal(self) -> str:
        return "User:eve"

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        assert at.timestamp() == 0
        return super().offsets_at(partitions, at)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    made = Live()
    monkeypatch.setattr(looking, "connect", lambda *_args, **_more: made)
    return made


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[dict[TopicPartition, Span]]:
    """What a consumer was asked for; it finds one record."""
    asked: list[dict[TopicPartition, Span]] = []

    def read(_client: object, _id: str, spans: Any, **_: object) -> dict[TopicPartition, LookedAt]:
        asked.append(dict(spans))
        found = Record(100, None, None, None, None, ())
        return {key: LookedAt(*key, *span, found, found) for key, span in spans.items()}

    monkeypatch.setattr(looking, "read_records", read)
    return asked


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=known_cluster(tmp_path), broker_timeout=timedelta(seconds=1))


def rows(settings: Settings, asked: LookRequest = ASKED) -> tuple[LookedAt, ...]:
    return look(settings, settings.data, None, asked, "ann")


Spans = list[dict[TopicPartition, Span]]


def test_it_reads_from_the_log_start_of_now_to_the_target(
    live: Live, spans: Spans, settings: Settings
) -> None:
    (row,) = rows(settings)
    assert (row.error, row.first is not None) == (None, True)
    assert spans == [{ORDERS: Span(100, 600)}]


def test_nothing_above_the_high_watermark_is_asked_for(
    live: Live, spans: Spans, settings: Settings
) -> None:
    rows(settings, replace(ASKED, targets={ORDERS: 5000}))
    assert spans == [{ORDERS: Span(100, 1000)}]


def test_where_nothing_lies_below_the_target_no_consumer_is_made(
    live: Live, spans: Spans, settings: Settings
) -> None:
    live.parts[ORDERS].starts = {1: 600}
    (row,) = rows(settings)
    assert (row.error, row.first, spans) == (None, None, [])


def test_a_missing_read_is_named_with_the_line_that_gives_it(
    live: Live, spans: Spans, settings: Settings
) -> None:
    live.rights = frozenset({"Describe", "Delete"})
    (row,) = rows(settings)
    assert row.error == "TOPIC_AUTHORIZATION_FAILED"
    assert row.why.startswith(
        "User:eve has no READ on topic orders: kafka-acls --bootstrap-server HOST:PORT --add "
    )
    assert "--operation Read --topic 'orders'" in row.why
    assert spans == []


def test_where_brokers_do_not_tell_rights_it_is_tried(
    live: Live, spans: Spans, settings: Settings
) -> None:
    live.rights = None
    (row,) = rows(settings)
    assert (row.error, len(spans)) == (None, 1)


def test_another_topic_of_that_name_is_not_read(
    live: Live, spans: Spans, settings: Settings
) -> None:
    live.topic_id = "another"
    (row,) = rows(settings)
    assert (row.error, row.why, spans) == (
        "UNKNOWN_TOPIC_ID", "another topic has this name by now; plan again", [],
    )  # fmt: skip
    (row,) = rows(settings, replace(ASKED, topic_ids={}))
    assert row.error is None, "whose id nobody knows is taken by its name"


def test_a_consumer_that_would_make_a_topic_is_not_made(
    live: Live, spans: Spans, settings: Settings
) -> None:
    live.topic_errors = {"__consumer_offsets": "UNKNOWN_TOPIC_OR_PARTITION"}
    with pytest.raises(RefusedError) as refused:
        rows(settings)
    assert (refused.value.code, spans) == ("OFFSETS_TOPIC_UNSEEN", [])


def test_another_cluster_is_not_read(live: Live, spans: Spans, settings: Settings) -> None:
    live.id = "another"
    with pytest.raises(RefusedError) as refused:
        rows(settings)
    assert (refused.value.code, spans) == ("CLUSTER_MISMATCH", [])


def test_who_may_only_look_at_pages_sees_no_record(
    live: Live, spans: Spans, settings: Settings
) -> None:
    people = PeopleSettings(viewers=("*",), operators=("ann",))
    guarded = replace(settings, people=people)
    with pytest.raises(RefusedError) as refused:
        look(guarded, guarded.data, None, ASKED, Actor("eve", "viewer", "local"))
    assert (refused.value.code, spans) == ("ROLE_TOO_LOW", [])


def test_of_a_plan_the_free_partitions_come_first_and_one_may_be_named() -> None:
    plan = a_plan()
    assert list(planned(plan)) == [TopicPartition("orders", n) for n in (0, 1, 2)]
    guarded = TopicPartition("orders", 2)
    assert planned(plan, [guarded]) == {guarded: 600}
    with pytest.raises(UsageError, match="orders-7"):
        planned(plan, [TopicPartition("orders", 7)])


EARLY, LATE = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)


def test_the_oldest_record_is_the_earliest_first_one_of_a_partition(
    live: Live, settings: Settings
) -> None:
    live.finds(
        OffsetAtTime("orders", 0, 100, at=LATE),
        OffsetAtTime("orders", 1, 7, at=EARLY),
        OffsetAtTime("orders", 2, None),
        OffsetAtTime("orders", 3, 4),  # written before records bore times
    )
    assert oldest(settings, settings.data, None, ["orders"]) == (Oldest("orders", EARLY, 1),)
    live.finds(OffsetAtTime("orders", 2, None))
    assert oldest(settings, settings.data, None, ["orders"]) == (Oldest("orders", None),)


def test_a_partition_that_does_not_tell_its_oldest_record_is_named(
    live: Live, settings: Settings
) -> None:
    live.finds(
        OffsetAtTime("orders", 0, 100, at=LATE),
        OffsetAtTime("orders", 1, None, "LEADER_NOT_AVAILABLE"),
    )
    (found,) = oldest(settings, settings.data, None, ["orders"])
    assert found == Oldest("orders", LATE, 0, "orders-1: LEADER_NOT_AVAILABLE")
    live.id = "another"
    with pytest.raises(RefusedError) as refused:
        oldest(settings, settings.data, None, ["orders"])
    assert refused.value.code == "CLUSTER_MISMATCH"
