"""Curves from an inventory: exact to the byte, and left alone where it does not fit."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.replicas.curves import COLUMNS, drawn
from dashboard.estimate.curves import NEVER, Curves
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.examples import examples
from tests.unit.analytics.logs import Log, freed, points


def inventory(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {name: [row.get(name) for row in rows] for name in (*COLUMNS, "directory")}
    return build(SNAPSHOT_TABLES["segments"], columns).select(COLUMNS)


def curve(log: Log, rows: list[dict[str, Any]] | None = None) -> Curves | None:
    since = np.full(1, NEVER)
    whose, found = drawn(
        inventory(log.rows() if rows is None else rows), points(log), since, np.array([log.end])
    )
    assert len(whose) in (0, 1)
    return found if len(whose) else None


@examples(60)
@given(
    st.lists(st.integers(60, 900), min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(0, 60),
    st.lists(st.integers(60, 900), max_size=3),
)
def test_what_is_promised_is_what_a_broker_would_delete(
    sizes: list[int], start: int, target: int, later: list[int]
) -> None:
    log = Log()
    log.append(sizes)
    log.truncate(min(start, log.end - 1))
    rows = log.rows()
    segments = len(log.bases)
    log.append(later)  # written after the inventory was made
    target = max(log.start, min(target, log.end))
    found = curve(log, rows)
    assert found is not None
    told = freed(found, log.start, target)
    if len(log.bases) == segments:
        truth = log.once(target) if target > log.start else 0
        assert told.once_low[0] == told.once[0] == told.once_high[0] == truth
    if target > log.start:
        assert told.low[0] <= log.below(target) <= told.high[0]


def test_an_older_inventory_forgets_what_retention_took_since() -> None:
    log = Log()
    log.append([100] * 95)
    rows = log.rows()
    log.truncate(30)
    found = curve(log, rows)
    assert found is not None
    assert found.offset[0] == 30
    assert freed(found, 30, 50).once[0] == 2000


@pytest.mark.parametrize("checked", [False, True])
def test_what_an_earlier_purge_still_leaves_on_the_disk_is_not_promised_again(
    *, checked: bool
) -> None:
    """Until the next retention check the size has segments in it that lie below the log start."""
    for start, target in combinations(range(0, 41, 3), 2):
        log = Log()
        log.append([500, 400, 600, 500, 450] * 8)
        rows = log.rows()
        if checked:
            log.truncate(start)
        else:
            log.start = start
        found = curve(log, rows)
        assert found is not None and found.below[-1] == log.size
        told, truth = freed(found, start, target), log.once(target) - log.once(start)
        assert told.once_low[0] == told.once[0] == told.once_high[0] == truth, (start, target)


def test_segments_that_rolled_since_are_counted_as_full_with_an_interval() -> None:
    log = Log()
    log.append([100] * 15)
    rows = log.rows()
    log.append([100] * 30)
    found = curve(log, rows)
    assert found is not None
    told = freed(found, 0, 45)
    assert told.once_low[0] < told.once[0] == 4000 < told.once_high[0]
    assert freed(found, 0, 10).once_high[0] == 1000


@pytest.mark.parametrize(
    "change",
    [
        {"topic_id": "of-the-topic-before"},
        {"kind": "delete"},
        {"kind": "stray"},
        {"broker_id": 2},
        {"log_dir": "/d2"},
        {"topic": "u"},
        {"log_bytes": 1_000_000},
    ],
    ids=str,
)
def test_what_does_not_fit_is_left_out(change: dict[str, Any]) -> None:
    log = Log()
    log.append([100] * 35)
    assert curve(log, [{**row, **change} for row in log.rows()]) is None


def test_a_log_end_or_start_that_the_inventory_does_not_hold_is_left_out() -> None:
    log = Log()
    log.append([100] * 35)
    past = [*log.rows(), {**log.rows()[0], "base_offset": 36, "log_bytes": 0}]
    assert curve(log, past) is None
    assert curve(log, log.rows()[1:]) is None


def test_a_folder_without_segments_and_an_id_that_is_not_known_do_no_harm() -> None:
    log = Log()
    log.append([100] * 35)
    empty = {**log.rows()[0], "directory": "u-0", "topic": "u", "base_offset": None}
    found = curve(log, [*({**row, "topic_id": None} for row in log.rows()), empty])
    assert found is not None and found.base.tolist() == [True, True, True, True, False]
    assert curve(log, [empty]) is None


def test_an_empty_active_segment_is_the_end() -> None:
    log = Log()
    log.append([100] * 10)
    log.bases.append(10)
    found = curve(log)
    assert found is not None
    assert freed(found, 0, 10).once[0] == 1000
