"""What a soak is judged by: slopes, lasting zombies, pauses, and receipts that must explain."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from dashboard.purge.receipt.model import Receipt, ReplicaReceipt
from tests.soak import judge

MIB = 1 << 20


def life(
    role: str, pid: int, rss: list[int], fds: int = 10, start: float = 0.0
) -> list[dict[str, Any]]:
    """A sample every 30 seconds."""
    return [
        {"role": role, "pid": pid, "started": 1, "at": start + 30.0 * i, "rss_kb": kb, "fds": fds}
        for i, kb in enumerate(rss)
    ]


def swings(dice: random.Random, samples: int, alike: float) -> list[float]:
    """Values around 0 with standard deviation 1 whose neighbours correlate by `alike`."""
    values = [dice.gauss(0, 1)]
    for _ in range(samples - 1):
        values.append(alike * values[-1] + dice.gauss(0, (1 - alike**2) ** 0.5))
    return values


def test_a_slope_is_that_of_least_squares() -> None:
    assert judge.slope([(0, 1), (10, 21), (20, 41)]) == pytest.approx((2.0, 0.0), abs=1e-9)
    assert judge.slope([(0, 5), (1, 0), (2, 5)])[0] == pytest.approx(0.0)
    assert judge.slope([(3, 7)]) == (0.0, 0.0)


def test_its_error_is_that_of_repeated_measurements() -> None:
    """A thousand lives of one kind scatter as each of them says, alike neighbours or not."""
    dice = random.Random(7)
    for alike in (0.0, 0.65):
        found = [
            judge.slope([(float(i), y) for i, y in enumerate(swings(dice, 61, alike))])
            for _ in range(1_000)
        ]
        scatter = statistics.pstdev(s for s, _ in found)
        assert statistics.median(e for _, e in found) == pytest.approx(scatter, rel=0.25), alike


def test_memory_that_creeps_is_not_flat_and_memory_that_swings_is() -> None:
    creeping = life("watch", 1, [200_000 + 500 * i for i in range(60)])
    swinging = life("analysis", 2, [200_000 + 30_000 * (i % 2) for i in range(60)])
    both = judge.trends(creeping + swinging, 0, ("watch", "analysis"))
    found = {(t.role, t.measure): t for t in both}
    assert not found["watch", "rss_kb"].flat
    assert found["watch", "rss_kb"].growth == pytest.approx(500 * 59)
    assert found["analysis", "rss_kb"].flat
    assert found["watch", "fds"].flat


def test_handles_that_leak_are_not_flat() -> None:
    leaking = [{**s, "fds": 20 + i // 4} for i, s in enumerate(life("dashboard", 1, [9_000] * 60))]
    (trend,) = [t for t in judge.trends(leaking, 0, ("dashboard",)) if t.measure == "fds"]
    assert (trend.flat, trend.growth > 10) == (False, True)


def test_handles_that_swing_with_the_brokers_may_rise_by_chance_and_a_leak_among_them_shows() -> (
    None
):
    """As of a client of three brokers that fail in turn: 15 more or less, for some samples each."""
    told = []
    for leak in (0, 1):
        for seed in range(200):
            swing = swings(random.Random(seed), 61, 0.65)
            fds = [170 + round(15 * y) + leak * i for i, y in enumerate(swing)]
            lives = [
                {**s, "fds": n} for s, n in zip(life("workload", 1, [9_000] * 61), fds, strict=True)
            ]
            (trend,) = [t for t in judge.trends(lives, 0, ("workload",)) if t.measure == "fds"]
            told.append((leak, trend.flat, trend.growth <= trend.allowed))
    by_chance = sum(not flat for leak, flat, _ in told if not leak)
    by_slope_alone = sum(not small for leak, _, small in told if not leak)
    assert by_chance < 10 < by_slope_alone
    assert sum(not flat for leak, flat, _ in told if leak) > 190


def test_handles_that_come_back_to_their_ceiling_are_flat_and_those_that_pass_it_are_not() -> None:
    """As of the hour that began with brokers away and ended with every client connected."""
    first = [196] * 4 + [160, 158, 180, 164, 192, 166, 181, 182, 146, 172, 200, 168, 156, 174] * 4
    away = [180, 166, 179, 169, 162, 184, 178, 160, 166, 162, 158, 189, 164] * 3
    for top, flat in ((204, True), (230, False)):
        fds = [*first, *away, *[top] * 22]
        lives = [
            {**s, "fds": n}
            for s, n in zip(life("workload", 1, [9_000] * len(fds)), fds, strict=True)
        ]
        since = lives[len(first)]["at"]
        (trend,) = [t for t in judge.trends(lives, since, ("workload",)) if t.measure == "fds"]
        assert trend.growth > max(trend.allowed, 2 * trend.error)
        assert trend.flat is flat
    young = [s for s in lives if s["at"] >= since - 60]  # has not shown what it holds at most
    (trend,) = [t for t in judge.trends(young, since, ("workload",)) if t.measure == "fds"]
    assert not trend.flat


def test_a_step_that_is_never_taken_back_is_not_flat() -> None:
    steps = life("watch", 1, [200_000] * 30 + [250_000] * 31)
    (trend,) = [t for t in judge.trends(steps, 0, ("watch",)) if t.measure == "rss_kb"]
    assert not trend.flat


def test_only_the_judged_time_counts_and_only_lives_long_enough() -> None:
    warming = life("spark", 1, [100_000 + 10_000 * i for i in range(30)])
    settled = life("spark", 1, [400_000] * 30, start=900.0)
    short = life("spark", 2, [100_000 + 10_000 * i for i in range(5)], start=900.0)
    found = judge.trends(warming + settled + short, 900.0, ("spark",))
    assert {(t.pid, t.flat) for t in found} == {(1, True)}


def looked(*zombies: int) -> dict[str, Any]:
    return {"role": "all", "zombies": [[pid, 5, 1, "watch --every 10s"] for pid in zombies]}


def test_a_zombie_that_is_buried_soon_is_none_and_one_that_stays_is_named() -> None:
    assert judge.lasting_zombies([looked(7), looked(7), looked(), looked(7)]) == []
    (found,) = judge.lasting_zombies([looked(7), looked(7, 8), looked(7, 8), looked(9)])
    assert "process 7 " in found
    assert "watch" in found


def test_sparks_own_subshell_is_borne_and_a_second_zombie_below_it_is_not() -> None:
    spark = [[pid, 5, 70, "-cp x pyspark-shell"] for pid in (71, 72)]
    alone = {"role": "all", "zombies": spark[:1]}
    both = {"role": "all", "zombies": spark}
    assert judge.lasting_zombies([alone] * 5) == []
    (found,) = judge.lasting_zombies([both] * 5)
    assert "process 72 " in found


def test_a_pause_is_found_between_the_last_moment_and_the_end_too() -> None:
    assert judge.gaps([0.0, 10.0, 80.0, 90.0], 100.0, 30.0) == [(10.0, 80.0)]
    assert judge.gaps([0.0, 10.0], 100.0, 30.0) == [(10.0, 100.0)]


def test_the_faults_that_stand_before_a_pause_are_named() -> None:
    faults = [{"fault": "broker-kill", "began": 8.0}, {"fault": "data-full", "began": 200.0}]
    assert judge.during(faults, 10.0, 80.0) == ["broker-kill at 8 s"]


def receipt(predicted: int | None, freed: int | None, **change: Any) -> Receipt:
    part = ReplicaReceipt("t", 0, 1, 0, 9, 9, before_bytes=9, start_before=0, unsure_bytes=100)
    parts = tuple(replace(part, broker_id=broker_id) for broker_id in (1, 2, 3))
    found = Receipt(final=True, predicted_bytes=predicted, freed_bytes=freed, replicas=parts)
    return replace(found, **change)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (None, "nothing"),
        (receipt(0, 0, replicas=()), "nothing"),
        (receipt(3 * MIB, 3 * MIB + 300), "exact"),
        (receipt(3 * MIB, 4 * MIB), "inside"),
        (receipt(3 * MIB, 6 * MIB, gap="segments were rolled"), "named"),
        (receipt(3 * MIB, 60 * MIB, gap="records came back on 1 partitions"), "named"),
        (receipt(0, 60 * MIB, gap="the log start moved on past the target"), "named"),
        (receipt(None, 5), "named"),
        (receipt(0, 0, final=False, gap="records came back on 1 partitions"), "named"),
    ],
)
def test_a_receipt_is_explained(body: Receipt | None, verdict: str) -> None:
    found = judge.outcome(body, (2 * MIB, 4 * MIB), MIB, written=False)
    assert (found.verdict, found.explained) == (verdict, True)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (receipt(3 * MIB, 3 * MIB, final=False), "not final"),
        (receipt(3 * MIB, 6 * MIB), "unnamed"),
        (receipt(3 * MIB, None), "unnamed"),
        (receipt(3 * MIB, 7 * MIB, gap="segments were rolled"), "too far"),
        (
            receipt(
                0,
                60 * MIB,
                replicas=(
                    ReplicaReceipt(
                        "t",
                        0,
                        1,
                        0,
                        9,
                        9,
                        before_bytes=9,
                        start_before=0,
                        freed_bytes=60 * MIB,
                        unsure_bytes=61 * MIB,
                    ),
                ),
            ),
            "too much",
        ),
    ],
)
def test_a_receipt_is_not_explained(body: Receipt, verdict: str) -> None:
    found = judge.outcome(body, (2 * MIB, 4 * MIB), MIB, written=False)
    assert (found.verdict, found.explained) == (verdict, False)


def test_more_than_predicted_is_explained_by_what_was_written_just_before_and_less_is_not() -> None:
    more, less = receipt(0, 60 * MIB, gap="written"), receipt(60 * MIB, 0, gap="written")
    assert judge.outcome(more, (0, 0), MIB, written=True).verdict == "named"
    assert judge.outcome(less, (60 * MIB, 60 * MIB), MIB, written=True).verdict == "too far"
