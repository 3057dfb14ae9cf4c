"""Which fault comes when: a pure function of the seed, the length and the pace."""

from __future__ import annotations

import random
from dataclasses import dataclass

# A deck is shuffled and dealt to its end, so that every kind comes up in each few minutes.
DECK = (
    "broker-kill", "broker-term", "broker-stop", "broker-stop", "worker-kill", "worker-kill",
    "watch-kill", "watch-term", "analysis-kill", "spark-kill", "journal-full", "data-full",
)  # fmt: skip
# A process that is killed all the time has no memory to judge: in the last part these live.
UNSETTLING = frozenset(("watch-kill", "watch-term", "analysis-kill", "spark-kill"))
QUIET_FROM = 0.4  # of the whole time; memory is judged from the half on
CALM_SECONDS = 45.0  # before the end nothing new breaks
_HOLDS = {
    "broker-kill": (1.0, 8.0),
    "broker-term": (1.0, 8.0),
    "broker-stop": (3.0, 35.0),  # past the broker's session (9 s) and a request's timeout (30 s)
    "journal-full": (4.0, 14.0),
    "data-full": (6.0, 14.0),
}
BROKERS = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: seconds after the start, what, which broker if any, and for how long."""

    number: int
    at_seconds: float
    kind: str
    broker_id: int | None
    hold_seconds: float


def schedule(seed: int, seconds: float, every: float) -> list[Fault]:
    """The faults of a soak of so many `seconds`, one `every` seconds, in order."""
    dealer = random.Random(seed)
    found: list[Fault] = []
    deck: list[str] = []
    at = every
    while at <= seconds - CALM_SECONDS:
        kinds = [k for k in DECK if k not in UNSETTLING or at < QUIET_FROM * seconds]
        deck = [k for k in deck if k in kinds] or dealer.sample(kinds, len(kinds))
        found.append(_dealt(dealer, len(found) + 1, at, deck.pop()))
        at += every
    return found


def _dealt(dealer: random.Random, number: int, at: float, kind: str) -> Fault:
    broker_id = dealer.randint(1, BROKERS)
    hold = round(dealer.uniform(*_HOLDS.get(kind, (0.0, 0.0))), 1)
    return Fault(number, at, kind, broker_id if kind.startswith("broker-") else None, hold)
