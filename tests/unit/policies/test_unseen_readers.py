"""A policy refuses a topic whose reader no group shows, also once its metrics are away."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.collect.tables import table_of, to_arrow
from dashboard.domain.metric_names import BYTES_OUT
from dashboard.settings.settings import declaration
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "orders"
MIB = 1 << 20


class Mirrored:
    """A room with a topic of 1000 records that group `shop` has read, and a mirror reads too."""

    def __init__(self, folder: Path) -> None:
        of = policy(f'topics = ["{TOPIC}"]\nmin_purge_interval_ms = 5000', TOPIC)
        self.room = ServiceRoom(folder, of)
        said = declaration(TOPIC, {"readers": "groups", "owner": "shop"}, "here")
        self.room.settings = replace(self.room.settings, topics=(said,))
        self.room.live.topic(TOPIC)
        self.room.live.produce(TOPIC, 1000)
        self.room.live.commit("shop", TOPIC)
        self.sent = 0.0

    def collect(self, *, metrics: bool, mirrored: bool = True) -> None:
        """An hour later, a snapshot."""
        self.room.clock.now += timedelta(hours=1)
        self.sent += 50 * MIB if mirrored else 0
        tables: dict[str, dict[str, list[Any]]] = {
            "topics": {"topic_no": [0], "topic": [TOPIC], "topic_id": [f"id-{TOPIC}"]},
            "replicas": {
                "broker_id": [1, 2], "topic_no": [0, 0], "partition": [0, 0],
                "is_leader": [True, False], "size_bytes": [100_000] * 2,
                "log_start_offset": [0] * 2, "log_end_offset": [1000] * 2,
            },
            "group_offsets": {
                "group_id": ["shop"], "topic_no": [0], "partition": [0], "committed_offset": [1000],
            },
        }  # fmt: skip
        if metrics:
            labels = json.dumps({"topic": TOPIC}, separators=(",", ":"))
            tables["broker_metrics"] = {
                "broker_id": [1, 2], "name": [BYTES_OUT] * 2, "value": [self.sent, 0.0],
                "labels": [labels] * 2,
            }  # fmt: skip
        at = self.room.clock()
        writer = self.room.store.begin("snapshots", at)
        for name, columns in tables.items():
            writer.write(name, to_arrow(name, table_of(name, **columns), writer.id, at))
        writer.commit(0.1, {})

    def refusal(self) -> str:
        """Why the service refuses the topic; "" where it was purged."""
        service = self.room.service()
        self.room.pass_time(service, 8)
        service.close()
        blocked = self.room.status(TOPIC)["blocked"]
        told = [f"{g['name']}: {g['reason']}" for b in blocked for g in b["guards"]]
        assert bool(told) == (self.room.live.log_start(TOPIC) == 0)
        return "".join(told)


@pytest.mark.further
@pytest.mark.parametrize("watched", [True, False], ids=["exporter away", "watch away"])
def test_a_suspicion_outlives_the_metrics_that_it_came_from(
    tmp_path: Path, *, watched: bool
) -> None:
    mirrored = Mirrored(tmp_path)
    for _ in range(3):
        mirrored.collect(metrics=True)
    assert "unseen-reader-suspected: orders sends out 50.0 MiB an hour" in mirrored.refusal()
    for _ in range(30):
        if watched:
            mirrored.collect(metrics=False)
        else:
            mirrored.room.clock.now += timedelta(hours=1)
    assert "cannot be told since" in mirrored.refusal()

    for _ in range(27):  # the mirror is gone, and its last day with it
        mirrored.collect(metrics=True, mirrored=False)
    assert mirrored.refusal() == ""
