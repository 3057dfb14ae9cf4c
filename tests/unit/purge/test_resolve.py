"""Which offset a target means, and when it means none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.clock import parse_duration
from dashboard.core.errors import PlanError
from dashboard.domain.model import EpochEnd, OffsetAtTime, TopicPartition
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.resolve import History, Keeping, LogEnd, ResolvedTarget, resolve
from dashboard.purge.plan.targets import Target, parse_target, read_offsets_json
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared, facts, partition

CLAIMS = {0: {"fast": 80, "slow": 30}}


class Times:
    """Answers look-ups by time, and remembers what was asked."""

    def __init__(self, offset: int | None = None, error: str | None = None) -> None:
        self.answer = OffsetAtTime(TOPIC, 0, offset, error)
        self.asked: list[datetime] = []

    def offsets_at(self, partitions: Any, at: datetime) -> dict[TopicPartition, OffsetAtTime]:
        self.asked.append(at)
        return dict.fromkeys(partitions, self.answer)


def one(found: PlanFacts, target: str | Target, times: Times | None = None, **given: Any) -> Any:
    wanted = parse_target(target) if isinstance(target, str) else target
    keeping, end = given.pop("keeping", None), given.pop("end", None)
    history = History(
        keeping or (lambda _: {}),
        lambda times: {} if end is None else dict.fromkeys(times, LogEnd(end)),
    )
    choices = {"chosen_groups": (), "waived": (), "declarations": {}, "now": NOW, **given}
    choices["history"] = history
    return resolve(times or Times(), found, wanted, **choices)[KEY]  # type: ignore[arg-type]


def test_committed_is_the_lowest_offset_of_all_groups() -> None:
    assert one(facts(claims=CLAIMS), "committed") == ResolvedTarget(30)


def test_a_waived_group_does_not_count() -> None:
    assert one(facts(claims=CLAIMS), "committed", waived={"slow"}).offset == 80


def test_chosen_groups_alone_count() -> None:
    assert one(facts(claims=CLAIMS), "committed", chosen_groups=("fast",)).offset == 80


def test_a_topic_without_commits_has_no_target_unless_it_is_empty() -> None:
    assert one(facts(), "committed") == ResolvedTarget(None)
    assert one(facts(partition(7, 7, 7)), "committed").offset == 7


def test_a_commit_past_an_open_transaction_is_capped_at_the_last_stable_offset() -> None:
    found = one(facts(partition(0, 20, 100), claims=CLAIMS), "committed")
    assert found == ResolvedTarget(20, "last-stable-offset")


def test_a_commit_below_the_log_start_leaves_nothing_to_delete() -> None:
    assert one(facts(partition(50), claims=CLAIMS), "committed").offset == 50


@pytest.mark.parametrize("kind", ["committed", "offset:90", "high-watermark"])
def test_the_replay_window_caps_every_kind_of_target(kind: str) -> None:
    window = {"declarations": {TOPIC: declared(timedelta(hours=6))}}
    times = Times(12)
    found = one(facts(claims=CLAIMS), kind, times, end=100, **window)
    assert found == ResolvedTarget(12, "replay-window")
    assert times.asked == [NOW - timedelta(hours=6)]
    older = one(facts(claims=CLAIMS), kind, Times(90), end=12, **window)
    assert older == ResolvedTarget(12, "replay-window"), "the lower of the two"


WINDOW = {"declarations": {TOPIC: declared(timedelta(hours=6))}}


@pytest.mark.parametrize("times", [Times(None), Times(-1)])
def test_records_that_all_bear_old_times_are_kept_by_when_they_were_written(times: Times) -> None:
    """CreateTime: a look-up by time finds nothing, though all was written a minute ago."""
    found = one(facts(claims=CLAIMS), "committed", times, end=20, **WINDOW)
    assert found == ResolvedTarget(20, "replay-window")
    assert one(facts(claims=CLAIMS), "keep:6h", times, end=20) == ResolvedTarget(20)


def test_without_a_snapshot_as_old_as_the_window_its_start_is_not_known() -> None:
    for kind in ("committed", "offset:90", "high-watermark"):
        found = one(facts(claims=CLAIMS), kind, Times(90), **WINDOW)
        assert found == ResolvedTarget(
            None, problem="no kept snapshot is as old as the replay window"
        )
    assert one(facts(claims=CLAIMS), "keep:6h", Times(90)).problem == "no kept snapshot is 6h old"
    assert one(facts(partition(7, 7, 7)), "committed", **WINDOW).offset == 7, "nothing to keep"


def test_by_a_wrong_clock_there_is_no_target_of_any_kind() -> None:
    known = facts(claims=CLAIMS, configs=RETENTION)
    for target in ("committed", "keep:6h", "retention", "offset:20", "high-watermark"):
        times = Times(20)
        found = one(replace(known, wrong_clock="it is 11 s ahead"), target, times, end=20)
        assert found == ResolvedTarget(None, problem="it is 11 s ahead")
        assert times.asked == []


def test_a_log_that_was_begun_anew_tells_nothing_of_its_window() -> None:
    """A lost disk: its old end lies past the new one, and all its records are young."""
    problem = "its log ends below where it ended when the replay window began: it was begun anew"
    found = one(facts(claims=CLAIMS), "committed", Times(90), end=101, **WINDOW)
    assert found == ResolvedTarget(None, problem=problem)
    assert one(facts(claims=CLAIMS), "keep:6h", Times(90), end=101).problem == problem


def test_a_window_that_cannot_be_read_gives_no_target() -> None:
    found = one(facts(claims=CLAIMS), "committed", Times(None, "NOT_LEADER"), end=90, **WINDOW)
    assert found.offset is None
    assert "NOT_LEADER" in found.problem


@pytest.mark.parametrize("times", [Times(None), Times(-1), Times(None, "REQUEST_TIMED_OUT")])
def test_a_failed_or_empty_look_up_by_time_is_never_an_offset(times: Times) -> None:
    found = one(facts(claims=CLAIMS), "timestamp:2026-03-01T04:00:00Z", times)
    assert found.offset is None
    assert found.problem


def test_a_time_is_frozen_as_the_offset_found() -> None:
    assert one(facts(), "timestamp:2026-03-01T04:00:00Z", Times(44)).offset == 44


def test_minus_one_in_a_file_is_the_high_watermark_seen() -> None:
    text = f'{{"partitions":[{{"topic":"{TOPIC}","partition":0,"offset":-1}}]}}'
    assert one(facts(), read_offsets_json(text, "f")).offset == 100


def test_a_file_that_names_an_unknown_partition_is_refused() -> None:
    text = f'{{"partitions":[{{"topic":"{TOPIC}","partition":9,"offset":1}}]}}'
    with pytest.raises(PlanError, match="no partition 9"):
        one(facts(), read_offsets_json(text, "f"))


def test_unreadable_offsets_give_no_target() -> None:
    seen = partition(
        log_start_offset=None, high_watermark=None, last_stable_offset=None, error="NOT_LEADER"
    )
    for kind in ("committed", "offset:5", "high-watermark"):
        found = one(facts(seen, claims=CLAIMS), kind)
        assert found.offset is None
        assert "NOT_LEADER" in found.problem


@pytest.mark.parametrize("age", ["24h", "500ms"])
def test_the_last_hours_are_kept_by_a_look_up_by_time(age: str) -> None:
    times = Times(70)
    assert one(facts(claims=CLAIMS), f"keep:{age}", times, end=90) == ResolvedTarget(70)
    assert times.asked == [NOW - parse_duration(age)]


@pytest.mark.parametrize(
    "answer", [Times(None), Times(-1), Times(None, "NOT_LEADER"), Times(5, "X")]
)
@pytest.mark.parametrize("target", ["keep:24h", "retention"])
def test_a_look_up_that_finds_nothing_gives_no_target(answer: Times, target: str) -> None:
    found = one(facts(claims=CLAIMS, configs=RETENTION), target, answer)
    assert found.offset is None and found.problem


def test_an_age_before_the_first_timestamp_keeps_all() -> None:
    times = Times(70)
    assert one(facts(partition(7), claims=CLAIMS), "keep:36500d", times) == ResolvedTarget(7)
    assert times.asked == []


class Measured:
    """Knows the offset that keeps the bytes, in a log that ended at 100, and what was asked."""

    def __init__(self, offset: int | None, end: LogEnd | None = LogEnd(100, 3)) -> None:  # noqa: B008
        self.offset, self.end = offset, end
        self.asked: dict[TopicPartition, int] = {}

    def __call__(self, sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, Keeping]:
        self.asked = dict(sizes)
        return {} if self.offset is None else dict.fromkeys(sizes, Keeping(self.offset, self.end))


def test_the_last_bytes_are_kept_where_the_curves_say() -> None:
    keeping = Measured(40)
    assert one(facts(claims=CLAIMS), "keep:10GiB", keeping=keeping) == ResolvedTarget(40)
    assert keeping.asked == {KEY: 10 << 30}


def test_bytes_that_nobody_measured_give_no_target_unless_the_log_is_empty() -> None:
    found = one(facts(claims=CLAIMS), "keep:1KiB", keeping=Measured(None))
    assert found.offset is None and "bytes" in found.problem
    assert one(facts(claims=CLAIMS), "keep:1KiB").offset is None
    assert one(facts(partition(7, 7, 7)), "keep:1KiB", keeping=Measured(None)).offset == 7


@pytest.mark.parametrize("wanted", ["keep:10GiB", "retention"])
def test_a_log_that_holds_less_than_is_kept_loses_nothing_though_it_begins_earlier_by_now(
    wanted: str,
) -> None:
    """An election brought records back that the newest analysis did not see."""

    def keeping(sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, Keeping]:
        return dict.fromkeys(sizes, Keeping(None, LogEnd(100, 3)))

    by_size = {"retention.ms": "-1", "retention.bytes": "2048"}
    read = facts(partition(7), claims=CLAIMS, configs=by_size)
    assert one(read, wanted, keeping=keeping) == ResolvedTarget(7)


def test_an_old_curve_never_lowers_the_log_start() -> None:
    assert one(facts(partition(50)), "keep:1KiB", keeping=Measured(20)) == ResolvedTarget(50)


@pytest.mark.parametrize(
    ("end", "epoch_ends", "why"),
    [
        (
            LogEnd(100, 2),
            {2: 60},
            "is the same, and committed, up to 60 alone",
        ),  # it has grown past 60 again
        (LogEnd(101, 3), {}, "and committed, up to 100 alone"),  # followers lag
        (LogEnd(101, 2), {2: 100}, "and committed, up to 100 alone"),
        (LogEnd(100, 2), {}, None),
        (None, {}, "nobody can tell whether its log is the one that was measured"),
    ],
)
def test_bytes_that_were_lost_since_they_were_measured_do_not_stay(
    end: LogEnd | None, epoch_ends: dict[int, int], why: str | None
) -> None:
    times = Times()
    times.epoch_ends = lambda asked: {  # type: ignore[attr-defined]
        key: EpochEnd(*key, epoch, epoch_ends.get(epoch, 100)) for key, epoch in asked.items()
    }
    found = one(facts(claims=CLAIMS), "keep:1KiB", times, keeping=Measured(40, end))
    assert found.offset == (None if why else 40)
    assert (why or "") in (found.problem or "")


RETENTION = {"retention.ms": "3600000", "retention.bytes": "2048"}


@pytest.mark.parametrize(("by_time", "by_size", "target"), [(70, 40, 70), (30, 40, 40)])
def test_retention_takes_the_higher_of_time_and_size(
    by_time: int, by_size: int, target: int
) -> None:
    times, keeping = Times(by_time), Measured(by_size)
    found = one(facts(claims=CLAIMS, configs=RETENTION), "retention", times, keeping=keeping)
    assert found == ResolvedTarget(target)
    assert times.asked == [NOW - timedelta(hours=1)]
    assert keeping.asked == {KEY: 2048}


def test_unlimited_retention_deletes_nothing() -> None:
    times = Times(70)
    for_ever = {"retention.ms": "-1", "retention.bytes": "-1"}
    assert one(facts(partition(7), configs=for_ever), "retention", times) == ResolvedTarget(7)
    huge = {**for_ever, "retention.ms": str(2**63 - 1)}
    assert one(facts(partition(7), configs=huge), "retention", times) == ResolvedTarget(7)
    assert times.asked == []


@pytest.mark.parametrize("missing", ["retention.ms", "retention.bytes"])
def test_retention_that_cannot_be_read_gives_no_target(missing: str) -> None:
    configs = {k: v for k, v in RETENTION.items() if k != missing}
    found = one(facts(configs=configs), "retention", Times(70), keeping=Measured(40))
    assert found.offset is None and missing in found.problem


def test_retention_needs_both_answers_where_both_limit() -> None:
    found = one(facts(configs=RETENTION), "retention", Times(70), keeping=Measured(None))
    assert found.offset is None and "bytes" in found.problem


@given(
    st.sampled_from(["committed", "keep:24h", "keep:1KiB", "retention", "high-watermark"]),
    st.integers(-1, 120), st.one_of(st.none(), st.integers(0, 120)), st.integers(0, 100),
    st.one_of(st.none(), st.integers(0, 120)),
)  # fmt: skip
def test_a_target_is_an_offset_at_or_past_the_log_start_or_a_reason(
    target: str, by_time: int, by_size: int | None, start: int, end: int | None
) -> None:
    """-1 never leaks, whatever a look-up answers."""
    found = one(
        facts(partition(start), claims=CLAIMS, configs=RETENTION), target, Times(by_time),
        keeping=Measured(by_size), end=end,
    )  # fmt: skip
    assert (found.offset is None) == bool(found.problem)
    assert found.offset is None or found.offset >= start
