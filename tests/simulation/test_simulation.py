"""Purges through a cluster that fails, and 51 bugs that must not get through.

A seed that fails is printed with its story; `python -m tests.simulation SEED` plays it again.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.simulation.catching import SEEDS, catching, likely, stories
from tests.simulation.checks import problems
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import play
from tests.simulation.telling import told

PLAYED = (0, 10, 25, 50, 75, 100)  # 10 of them in make test, 25 with make test-further
LEAST = 5  # what one lucky seed alone sees, the next change of the model hides
MANY = 10_000
_MANY_AT_ONCE = 1_000


@pytest.mark.further_but("0")
@pytest.mark.parametrize("first", PLAYED[:-1])
def test_no_fault_loses_a_wanted_record_or_makes_a_run_tell_an_untruth(
    first: int, tmp_path: Path
) -> None:
    for story in stories(range(first, PLAYED[PLAYED.index(first) + 1]), tmp_path):
        assert not problems(story), told(story)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MANY, _MANY_AT_ONCE))
def test_ten_thousand_purges(first: int, tmp_path: Path) -> None:
    states: Counter[str] = Counter()
    for story in stories(range(first, first + _MANY_AT_ONCE), tmp_path):
        assert not problems(story), told(story)
        rows = [row for entry in story.entries for row in entry.body.get("partitions", ())]
        states.update(row["state"] for row in rows if isinstance(row, dict))
    print(dict(sorted(states.items())))
    # A simulation in which nothing ever goes wrong proves nothing.
    assert all(states[s] > 10 for s in ("done", "not_done", "leader_done", "reverted", "unknown"))


@pytest.mark.further_but(
    "a_group_born_after_the_plan_is_overlooked",
    "a_lost_answer_counts_as_not_done",
    "a_timeout_counts_as_a_failure",
    "success_is_believed_unread",
    "followers_behind_are_overlooked",
    "the_topic_is_known_by_its_name",
    "a_cancel_can_be_taken_back",
    "reused_offsets_are_the_planned_records",
    "a_pattern_is_no_subscription",
    "the_intent_is_written_afterwards",
    "an_ex_leader_is_believed",
    "a_commit_past_the_end_is_believed",
    "a_canary_is_forgotten_with_its_worker",
    "who_was_waived_stays_dead",
    "an_incomplete_list_of_groups_is_enough",
    "what_was_accepted_has_no_bound",
    "what_is_unknown_is_given_up_as_not_done",
    "who_died_before_a_commit_reads_nothing",
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught(name: str, tmp_path: Path) -> None:
    """Slow here means that the model changed: `python -m tests.simulation --catch` tells anew."""
    assert catching(name, tmp_path) is not None, f"{name} passes {SEEDS} seeds unseen"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_by_several_seeds(name: str, tmp_path: Path) -> None:
    with MUTANTS[name]():
        caught = (s.seed for s in stories(likely(name), tmp_path) if problems(s))
        first = [*islice(caught, LEAST)]
    print(f"{name}: caught by the seeds {first}")

    assert len(first) == LEAST, f"of {SEEDS} seeds, {first} alone see {name}"


@pytest.mark.further
def test_a_seed_tells_the_same_story_twice(tmp_path: Path) -> None:
    first, second = (play(7, _made(tmp_path / name)) for name in ("a", "b"))

    assert first.world.trace == second.world.trace
    assert [(e.at, e.kind) for e in first.entries] == [(e.at, e.kind) for e in second.entries]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
