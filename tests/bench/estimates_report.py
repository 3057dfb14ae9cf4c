"""The tables of `bench_estimates`: predicted beside freed bytes, and which goals were reached."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dashboard.domain.model import METHODS

SEGMENTS_OFF, MEDIAN_OFF, WORST_OFF = 0.001, 0.05, 0.15
COVERED = 0.9
Rows = Mapping[tuple[str, str], Mapping[str, "Told"]]


@dataclass(frozen=True)
class Told:
    """One topic of one purge as one estimator saw it, bytes over all replicas."""

    topic: str
    stage: str
    method: str
    low: int
    once: int
    high: int
    freed: int
    total: int
    total_freed: int

    @property
    def off(self) -> float:
        """Predicted against freed: 0 is exact, 0.1 a tenth too much."""
        return self.once / self.freed - 1

    @property
    def total_off(self) -> float:
        return self.total / self.total_freed - 1

    @property
    def inside(self) -> bool:
        return self.low <= self.freed <= self.high


def report(found: Sequence[Told]) -> int:
    """Print all of it; 1 when a goal was missed."""
    rows: dict[tuple[str, str], dict[str, Told]] = defaultdict(dict)
    for told in found:
        rows[told.topic, told.stage][told.method] = told
    _table("at once", rows, lambda t: t.off, lambda t: t.freed)
    _table("all below the target", rows, lambda t: t.total_off, lambda t: t.total_freed)
    _summary(found)
    goals = _goals(found)
    print(f"\nload average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, reached in goals.items():
        print(f"goal: {name}: {'reached' if reached else 'MISSED'}")
    return 0 if all(goals.values()) else 1


def _table(
    label: str, rows: Rows, off: Callable[[Told], float], real: Callable[[Told], int]
) -> None:
    names = "".join(f"{method:>14}" for method in METHODS)
    print(f"\n{'predicted / freed, ' + label:<40}{'freed MiB':>10}{names}")
    for (topic, stage), by in rows.items():
        size = real(next(iter(by.values()))) / 2**20
        cells = "".join(f"{off(by[method]) + 1:>14.3f}" for method in METHODS)
        print(f"{f'{topic}, {stage}':<40}{size:>10.1f}{cells}")


def _summary(found: Sequence[Told]) -> None:
    columns = ("median", "worst", "all: median", "all: worst", "inside low..high")
    print(f"\n{'off, per topic':<16}" + "".join(f"{name:>18}" for name in columns))
    for method in METHODS:
        of = [told for told in found if told.method == method]
        whole = [abs(told.total_off) for told in of]
        figures = (*_errors(of), median(whole), max(whole))
        inside = f"{sum(told.inside for told in of)} of {len(of)}"
        print(f"{method:<16}" + "".join(f"{x:>18.2%}" for x in figures) + f"{inside:>18}")


def _errors(of: Sequence[Told]) -> tuple[float, float]:
    """Median and worst of predicted against freed at once."""
    off = [abs(told.off) for told in of]
    return median(off), max(off)


def _goals(found: Sequence[Told]) -> dict[str, bool]:
    by = {method: [told for told in found if told.method == method] for method in METHODS}
    goals = {f"segments 1.000 within {SEGMENTS_OFF}": _errors(by["segments"])[1] <= SEGMENTS_OFF}
    for method in ("history", "sampled"):
        middle, worst = _errors(by[method])
        goals[f"{method} within {MEDIAN_OFF:.0%} median"] = middle <= MEDIAN_OFF
        goals[f"{method} within {WORST_OFF:.0%} worst"] = worst <= WORST_OFF
    goals["proportional's interval covers"] = all(told.inside for told in by["proportional"])
    for method in ("history", "sampled"):
        share = sum(told.inside for told in by[method]) / len(by[method])
        goals[f"{method}'s interval covers 90 %"] = share >= COVERED
    return goals
