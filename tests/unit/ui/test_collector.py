"""How collecting stands: the newest attempt counts; a watch that is gone is not one that fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.store.attempts import Attempt, Failure, Seen
from dashboard.ui.session.collector import failure_html, judge

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
EVERY = timedelta(seconds=60)
ALL = (Seen(1, True), Seen(2, True), Seen(3, True))
ONE_AWAY = (Seen(1, True), Seen(2, True), Seen(3, False, "it stopped answering"))
DOWN = Failure("CLUSTER_UNREACHABLE", "h:1 could not be reached: refused", "Start it.")
LOGIN = Failure("AUTHENTICATION_FAILED", "h:1 refused the login", "Correct it.")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("made", "brokers", "warnings"),
    [
        (Attempt(ago(9), None, ALL, None, EVERY), "3 of 3 brokers", ()),
        (Attempt(ago(9), None, ONE_AWAY, None, EVERY), "2 of 3 brokers",
         ("broker 3 did not answer",)),
        (Attempt(ago(9), DOWN, (), None, EVERY), "0 of 3 brokers",
         ("no broker answered", "the newest attempt to collect failed 9 s ago")),
        (Attempt(ago(9), LOGIN, (), None, EVERY), "brokers not known",
         ("the newest attempt to collect failed 9 s ago",)),
        (Attempt(ago(9), Failure("STORE_UNWRITABLE", "full", "Free."), ONE_AWAY, None, EVERY),
         "2 of 3 brokers",
         ("broker 3 did not answer", "the newest attempt to collect failed 9 s ago")),
        (Attempt(ago(170), None, ALL, ago(100), EVERY), "3 of 3 brokers", ()),
        (Attempt(ago(900), DOWN, (), ago(5), EVERY), "0 of 3 brokers",
         ("no broker answered", "the newest attempt to collect failed 15 min ago")),
    ],
)  # fmt: skip
def test_the_newest_attempt_counts(made: Attempt, brokers: str, warnings: tuple[str, ...]) -> None:
    found = judge(made, ALL, ago(1000), EVERY, NOW)
    assert (found.brokers, found.warnings) == (brokers, warnings)
    assert found.failure == made.failure


@pytest.mark.parametrize(
    ("made", "warning"),
    [
        (Attempt(ago(181), None, ALL, None, EVERY), "is watch running?"),
        (Attempt(ago(181), DOWN, (), None, EVERY), "is watch running?"),
        (Attempt(ago(900), None, ALL, ago(800), EVERY), "it hangs, or was killed"),
        (Attempt(ago(5), None, ALL, None, EVERY, ago(2)), "watch ended 2 s ago"),
    ],
)
def test_a_collector_that_is_gone_is_told_apart(made: Attempt, warning: str) -> None:
    found = judge(made, ALL, ago(1000), EVERY, NOW)
    assert found.warnings[-1].endswith(warning)
    assert found.brokers.endswith("of 3 brokers when last asked")


def test_the_watchs_own_interval_decides_not_that_of_the_settings() -> None:
    slow = Attempt(ago(500), None, ALL, None, timedelta(minutes=10))
    assert judge(slow, ALL, ago(500), EVERY, NOW).warnings == ()
    quick = Attempt(ago(30), None, ALL, None, timedelta(seconds=5))
    assert "is watch running?" in judge(quick, ALL, ago(30), EVERY, NOW).warnings[0]


@pytest.mark.parametrize("made", [None, Attempt(), Attempt(ago(900), DOWN, (), None, EVERY)])
def test_where_an_older_release_collects_the_snapshot_counts(made: Attempt | None) -> None:
    assert judge(made, ONE_AWAY, ago(38), EVERY, NOW).warnings == ("broker 3 did not answer",)
    (warning,) = judge(made, ALL, ago(200), EVERY, NOW).warnings
    assert warning.startswith("stale: no snapshot for over three intervals of 60 s") or (
        warning.startswith("stale: no snapshot for over three intervals of 1 min")
    )
    assert judge(made, ALL, ago(200), EVERY, NOW).failure is None


def test_the_error_is_shown_with_its_next_step_and_as_text() -> None:
    failure = Failure("CLUSTER_UNREACHABLE", "<b>h:1</b> is away", "Start it.")
    found = judge(Attempt(ago(9), failure, (), None, EVERY), ALL, ago(60), EVERY, NOW)
    html = failure_html(found, ago(60), NOW)
    assert "&lt;b&gt;h:1&lt;/b&gt; is away" in html
    assert "(CLUSTER_UNREACHABLE)" in html
    assert "<b>Next:</b> Start it." in html


AHEAD = NOW + timedelta(hours=20)


def test_a_failing_collector_shows_after_a_snapshot_of_a_clock_that_was_ahead() -> None:
    """Its attempts were taken for those of before an older release's snapshot: all looked well."""
    made = Attempt(ago(5), DOWN, (), None, EVERY)
    found = judge(made, ALL, AHEAD, EVERY, NOW)
    assert (found.failure, found.failed_at) == (DOWN, ago(5))
    assert found.brokers == "0 of 3 brokers"
    assert "the newest attempt to collect failed 5 s ago" in found.warnings
    assert any(w.startswith("the newest snapshot bears a time to come") for w in found.warnings)


@pytest.mark.parametrize(
    ("made", "warned"),
    [
        (Attempt(AHEAD, None, ALL, None, EVERY), ["snapshot", "attempt to collect"]),
        (Attempt(ago(600), None, ALL, AHEAD, EVERY), ["snapshot", "attempt to collect"]),
        (Attempt(ago(600), None, ALL, None, EVERY), ["snapshot"]),
        (Attempt(ago(9), None, ALL, None, EVERY), ["snapshot"]),
        (None, ["snapshot"]),
    ],
)
def test_a_time_to_come_is_never_fresh(made: Attempt | None, warned: list[str]) -> None:
    found = judge(made, ALL, AHEAD, EVERY, NOW)
    told = [w for w in found.warnings if "bears a time to come" in w]
    assert [w.partition(" bears")[0] for w in told] == [f"the newest {what}" for what in warned]
    assert all("in 20 h (clock?)" in warning for warning in told)


def test_a_collector_that_died_after_its_clock_was_set_right_is_missed() -> None:
    found = judge(Attempt(ago(600), None, ALL, None, EVERY), ALL, AHEAD, EVERY, NOW)
    assert "is watch running?" in found.warnings[-1]


def test_clocks_that_agree_within_ten_seconds_are_no_warning() -> None:
    soon = NOW + timedelta(seconds=9)
    assert judge(Attempt(soon, None, ALL, None, EVERY), ALL, soon, EVERY, NOW).warnings == ()
