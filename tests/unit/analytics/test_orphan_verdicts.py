"""The verdict on an orphan: each rule by itself, at its border, and which one speaks first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from analytics.orphans.orphans import Facts, in_words, later, verdict
from dashboard.domain.acts import CHECKPOINT_ENTRY, KINDS, NEVER, REMOVABLE, SCHEDULED

NOW = datetime(2026, 3, 8, 4, tzinfo=UTC)
DELAY = timedelta(hours=2)
DAY = timedelta(days=1)
TINY = timedelta(microseconds=1)
# Exactly what is asked for, and not a microsecond more.
JUST = Facts(
    kind="stray", directory="t-0.9a-stray", topic_id="id", assigned=False, answered=True,
    seen_now=True, same_name=None, share=0.05, first_seen_at=NOW - DELAY, last_seen_at=NOW,
    snapshots_seen=2, newest_at=NOW - 7 * DAY - TINY, retention=7 * DAY,
)  # fmt: skip
NEVERS: dict[str, Any] = {
    "topic_id": None,
    "directory": None,
    "answered": False,
    "assigned": True,
    "hosted": True,
    "same_name": "offline",
    "share": 0.0501,
    "retention": timedelta(milliseconds=-1),
}
WAITS: dict[str, Any] = {
    "seen_now": False,
    "first_seen_at": NOW - DELAY + TINY,
    "snapshots_seen": 1,
    "newest_at": NOW - 7 * DAY,
}


def judged(facts: Facts, **rules: Any) -> Any:
    return verdict(facts, **{"now": NOW, "delay": DELAY, "most_share": 0.05} | rules)


def test_what_fulfils_every_condition_to_the_microsecond_may_go() -> None:
    found = judged(JUST)
    assert (found.verdict, found.check_at) == (REMOVABLE, None)
    assert found.reason == (
        "every snapshot of 2 h that could look there shows it, 2 of them; no assignment names "
        "it; its newest record is 7 d old, past the broker's 7 d of retention"
    )


@pytest.mark.parametrize("kind", [k for k in KINDS if k != CHECKPOINT_ENTRY])
@pytest.mark.parametrize("same_name", [None, "healthy"])
def test_every_kind_of_folder_may_go(kind: str, same_name: str | None) -> None:
    assert judged(replace(JUST, kind=kind, same_name=same_name)).verdict == REMOVABLE


@pytest.mark.parametrize("name", NEVERS)
def test_each_of_these_alone_forbids_it_for_good(name: str) -> None:
    found = judged(replace(JUST, **{name: NEVERS[name]}))
    assert (found.verdict, found.check_at) == (NEVER, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": CHECKPOINT_ENTRY}, "no folder to remove"),
        ({"topic_id": None}, "no topic id"),
        ({"directory": None}, "no inventory"),
        ({"answered": False}, "did not answer"),
        ({"assigned": True}, "assigns this topic id"),
        ({"same_name": "offline"}, "is offline"),
        ({"same_name": "under-replicated"}, "is under-replicated"),
        ({"share": None}, "is not known"),
        ({"share": 0.5}, "50 % of the broker's folders or bytes are orphans, more than 5 %"),
        ({"retention": timedelta(milliseconds=-1)}, "unlimited"),
    ],
)
def test_a_never_says_why(change: dict[str, Any], words: str) -> None:
    found = judged(replace(JUST, **change))
    assert found.verdict == NEVER
    assert words in found.reason


@pytest.mark.parametrize("name", WAITS)
def test_each_of_these_alone_puts_it_off(name: str) -> None:
    found = judged(replace(JUST, **{name: WAITS[name]}))
    assert found.verdict == SCHEDULED
    assert found.check_at >= NOW


@pytest.mark.parametrize("name", ["newest_at", "retention"])
def test_what_is_unknown_is_looked_at_again_after_the_delay(name: str) -> None:
    found = judged(replace(JUST, **{name: None}))
    assert (found.verdict, found.check_at) == (SCHEDULED, NOW + DELAY)
    assert "not known" in found.reason


@pytest.mark.parametrize(("forbidden", "waiting"), list(product(NEVERS, WAITS)))
def test_a_never_speaks_before_a_wait(forbidden: str, waiting: str) -> None:
    both = {forbidden: NEVERS[forbidden], waiting: WAITS[waiting]}
    assert judged(replace(JUST, **both)).verdict == NEVER


def test_check_at_is_when_the_last_condition_can_be_met() -> None:
    young = replace(JUST, first_seen_at=NOW, newest_at=NOW - DAY, snapshots_seen=1)
    assert judged(young).check_at == NOW + 6 * DAY
    assert "1 snapshot over 2 h" not in judged(young).reason
    fresh = replace(JUST, first_seen_at=NOW - timedelta(minutes=30))
    assert judged(fresh).check_at == NOW + timedelta(minutes=90)
    assert "seen by 2 snapshots over 30 min; 2 h are asked for" in judged(fresh).reason
    # Another scan of it is all that is missing: that can be made now.
    stale = replace(JUST, first_seen_at=NOW - DAY, last_seen_at=NOW - DAY)
    assert judged(stale).check_at == NOW


def test_a_longer_delay_and_a_smaller_share_are_asked_for_by_settings() -> None:
    assert judged(JUST, delay=DELAY + TINY).verdict == SCHEDULED
    assert judged(JUST, most_share=0.04).verdict == NEVER
    assert judged(replace(JUST, share=1.0), most_share=1.0).verdict == REMOVABLE
    assert judged(replace(JUST, first_seen_at=NOW), delay=timedelta(0)).verdict == REMOVABLE


def test_timestamps_of_producers_do_not_break_the_calendar() -> None:
    end = datetime(9999, 12, 31, tzinfo=UTC)
    found = judged(replace(JUST, newest_at=end, retention=timedelta.max))
    assert found.verdict == SCHEDULED
    assert found.check_at == datetime.max.replace(tzinfo=UTC)
    assert later(NOW, DAY) == NOW + DAY


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (3601, "1 h"),
     (93_600, "1 d 2 h"), (-90, "-1 min 30 s")],
)  # fmt: skip
def test_durations_are_told_by_their_two_largest_units(seconds: int, words: str) -> None:
    assert in_words(timedelta(seconds=seconds)) == words


def test_by_a_clock_that_may_have_been_ahead_nothing_is_old_enough() -> None:
    """A record of seconds ago was 7 days old by a snapshot whose clock ran ahead as much."""
    found = judged(JUST, clock="by a clock that was 691200 s ahead of the cluster's controller")
    assert (found.verdict, found.check_at) == (SCHEDULED, NOW + DELAY)
    assert "691200 s ahead of the cluster's controller: nobody knows how old" in found.reason
    for name, value in NEVERS.items():
        assert judged(replace(JUST, **{name: value}), clock="by a clock").verdict == NEVER


def test_what_an_earlier_snapshot_saw_at_a_time_still_to_come_was_seen_till_now() -> None:
    """Its clock was 8 days ahead: two looks within minutes are no delay."""
    ahead = replace(JUST, first_seen_at=NOW - timedelta(minutes=20), last_seen_at=NOW + 8 * DAY)
    found = judged(ahead)
    assert (found.verdict, "over 20 min" in found.reason) == (SCHEDULED, True)
    assert judged(replace(ahead, first_seen_at=NOW - DELAY)).verdict == REMOVABLE
