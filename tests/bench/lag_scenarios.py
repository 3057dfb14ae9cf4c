"""The windows of one recording: which fault, on which broker, for how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from tests.bench import lag_faults as faults
from tests.bench.lag_faults import Judge, Scene
from tests.bench.lag_writers import STREAMS


@dataclass(frozen=True)
class Scenario:
    """`act` is entered after the second snapshot of eight or more, `seconds` before the last."""

    name: str
    act: Callable[[Scene], AbstractContextManager[Judge]]
    seconds: float = 8.0
    settled: bool = True  # begin with every replica in sync, and every preferred leader leading


def scenarios(rng: random.Random) -> list[Scenario]:
    """In the order of recording; brokers, topics and rates are drawn."""
    brokers = rng.sample((1, 2, 3), 3)
    found = [
        *(
            Scenario("stopped", partial(faults.stopped, broker=broker), seconds=9.0)
            for broker in brokers
        ),
        *_throttles(rng),
        *_busy(rng),
        *(
            Scenario(
                "slow disk",
                partial(
                    faults.slow_disk,
                    broker=rng.choice(brokers),
                    number=1,
                    rate=rng.choice((120_000, 200_000, 300_000)),
                ),
                seconds=12.0,
            )
            for _ in range(3)
        ),
        *(
            Scenario(
                "halting",
                partial(faults.halting, broker=rng.choice(brokers), still=still, runs=0.3),
                seconds=10.0,
            )
            for still in (0.5, 1.5)
        ),
        *(
            Scenario(
                "log dir move",
                partial(
                    faults.moving,
                    broker=rng.choice(brokers),
                    topic=rng.choice(("fast", "fat", "steady")),
                    rate=rate,
                ),
            )
            for rate in (20_000, None)
        ),
        *(
            Scenario(
                "reassignment",
                partial(faults.reassigned, broker=rng.choice(brokers), rate=rate),
            )
            for rate in (200_000, None)
        ),
    ]
    rng.shuffle(found)
    after = next(s for s in found if s.name == "stopped")
    found.insert(found.index(after) + 1, _back())
    half = len(found) // 2
    down = Scenario("down", partial(faults.down, broker=rng.choice(brokers)))
    found[half:half] = [down, _back()]
    return found


def _back() -> Scenario:
    return Scenario("restarted", faults.back, settled=False)


def _throttles(rng: random.Random) -> list[Scenario]:
    def one(rate: int, *, weak: bool = False) -> Scenario:
        topics = tuple(rng.sample([stream.topic for stream in STREAMS], 3))
        act = partial(faults.throttled, broker=rng.choice((1, 2, 3)), topics=topics)
        return Scenario("throttle", partial(act, rate=rate, weak=weak), seconds=12.0)

    return [one(1000), one(2000), one(4000), one(100_000), one(10**8, weak=True)]


def _busy(rng: random.Random) -> list[Scenario]:
    names = [stream.topic for stream in STREAMS]
    pauses = [
        Scenario("pause", partial(faults.paused, broker=rng.choice((1, 2, 3)), seconds=seconds))
        for seconds in (1.0, 2.0)
    ]
    every = dict.fromkeys(names, 3.0)
    return [
        Scenario("quiet", faults.nothing),
        Scenario("busy", partial(faults.nothing, fast=4.0)),
        Scenario("busy", partial(faults.nothing, fat=8.0, trickle=20.0)),
        Scenario("busy", partial(faults.nothing, **every)),
        Scenario("busy", partial(faults.nothing, bursty=6.0)),
        *pauses,
    ]
