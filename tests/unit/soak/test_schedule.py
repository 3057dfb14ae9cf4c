"""The faults of a soak: the same for a seed, all kinds, and some only in its first part."""

from __future__ import annotations

import pytest

from tests.soak.schedule import CALM_SECONDS, DECK, QUIET_FROM, UNSETTLING, schedule


def test_a_seed_tells_the_faults_and_another_seed_tells_others() -> None:
    assert schedule(5, 3600, 20) == schedule(5, 3600, 20)
    assert schedule(5, 3600, 20) != schedule(6, 3600, 20)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_comes_up_and_the_end_is_calm(seed: int) -> None:
    found = schedule(seed, 3600, 20)
    assert {fault.kind for fault in found} == set(DECK)
    assert [fault.at_seconds for fault in found] == [20.0 * n for n in range(1, len(found) + 1)]
    assert 3600 - 20 - CALM_SECONDS < found[-1].at_seconds <= 3600 - CALM_SECONDS


@pytest.mark.parametrize("seed", range(20))
def test_what_is_judged_for_memory_is_not_killed_in_the_last_part(seed: int) -> None:
    late = [
        fault.kind for fault in schedule(seed, 3600, 20) if fault.at_seconds >= 3600 * QUIET_FROM
    ]
    assert late
    assert not UNSETTLING & set(late)
