"""A folder of a living partition goes only when nobody could have its records any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.safety.last_copy import Living, Records, kept

NOW = datetime(2026, 3, 8, 4, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK_MS = str(7 * 86_400_000)
OLD = Records(log_bytes=1000, end_offset=100, newest_at=NOW - 9 * DAY)
PAST = Living("t", 3, {"cleanup.policy": "delete", "retention.ms": WEEK_MS}, 100, 250)


def settings(policy: str | None = "delete", retention: str | None = WEEK_MS) -> dict[str, Any]:
    return {"settings": {"cleanup.policy": policy, "retention.ms": retention}}


def test_what_the_living_log_is_past_by_its_own_retention_may_go() -> None:
    assert kept(OLD, PAST, NOW) is None
    empty = replace(OLD, log_bytes=0, end_offset=None)
    assert kept(empty, Living("t", 3, {}, None, None), NOW) is None


@pytest.mark.parametrize(
    ("records", "living", "words"),
    [
        ({}, settings(retention="-1"), "for ever"),
        ({}, settings("compact"), "'compact'"),
        ({}, settings("compact,delete"), "'compact,delete'"),
        ({}, settings(""), "cleanup.policy is ''"),
        ({}, settings(None), "DESCRIBE_CONFIGS"),
        ({}, settings(retention=None), "DESCRIBE_CONFIGS"),
        ({}, {"settings": {}}, "DESCRIBE_CONFIGS"),
        ({"end_offset": None}, {}, "lowwater inventory scan"),
        ({}, {"log_start_offset": None}, "does not tell its offsets"),
        ({}, {"high_watermark": None}, "does not tell its offsets"),
        ({"newest_at": None}, {}, "age"),
        # An unclean election: the log begins empty, in sync with itself.
        ({}, {"log_start_offset": 0, "high_watermark": 5}, "ends at 5, and this folder at 100"),
        ({}, {"log_start_offset": 99, "high_watermark": 99}, "ends at 99"),
        ({"log_bytes": None}, settings(retention="-1"), "for ever"),
    ],
)
def test_what_may_be_missing_or_is_not_known_stays(
    records: dict[str, Any], living: dict[str, Any], words: str
) -> None:
    why = kept(replace(OLD, **records), replace(PAST, **living), NOW)
    assert why is not None and why.until is None
    assert words in why.reason and why.reason.startswith("partition t-3 lives")


def test_what_its_own_retention_has_yet_to_let_go_of_is_looked_at_again() -> None:
    longer = replace(PAST, **settings(retention=str(30 * 86_400_000)))
    why = kept(OLD, longer, NOW)
    assert why is not None and why.until == NOW + 21 * DAY
    # It has grown past the folder's end, and begins where an empty log would begin.
    for start in (0, 99):
        why = kept(OLD, replace(PAST, log_start_offset=start), NOW)
        assert why is not None and why.until == NOW
        assert f"begins at {start}, before the folder's end at 100" in why.reason
    for_ages = kept(OLD, replace(PAST, **settings(retention=str(2**63 - 1))), NOW)
    assert for_ages is not None and for_ages.until is not None and for_ages.until.year == 9999


MAYBE = st.none() | st.integers(0, 300)
POLICIES = st.sampled_from([None, "delete", "compact", "compact,delete", ""])
RETENTIONS = st.sampled_from([None, "-1", "0", "1000", WEEK_MS, str(2**63 - 1)])


@given(
    st.builds(
        Records,
        st.none() | st.integers(0, 9),
        MAYBE,
        st.none() | st.integers(-20, 2).map(lambda days: NOW + days * DAY),
    ),
    st.builds(
        lambda policy, retention, start, end: Living(
            "t", 3, {"cleanup.policy": policy, "retention.ms": retention}, start, end
        ),
        POLICIES, RETENTIONS, MAYBE, MAYBE,
    ),
)  # fmt: skip
def test_nothing_goes_that_the_partition_lacks_and_its_topic_would_keep(
    records: Records, living: Living
) -> None:
    if kept(records, living, NOW) is not None or records.log_bytes == 0:
        return
    assert records.end_offset is not None and records.newest_at is not None
    assert living.log_start_offset is not None and living.high_watermark is not None
    assert records.end_offset <= min(living.log_start_offset, living.high_watermark)
    assert living.settings["cleanup.policy"] == "delete"
    retention = int(living.settings["retention.ms"] or "-1")
    assert 0 <= retention < (NOW - records.newest_at) / timedelta(milliseconds=1)
    unknown = (
        replace(records, end_offset=None), replace(records, newest_at=None),
    )  # fmt: skip
    assert all(kept(less, living, NOW) for less in unknown)
    silent = (replace(living, **part) for part in (
        {"settings": {}}, {"log_start_offset": None}, {"high_watermark": None},
    ))  # fmt: skip
    assert all(kept(records, less, NOW) for less in silent)
