"""Recorded lags of real brokers: does the analysis call slow who was, and for the right reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import lag_windows

FOLDER = Path(__file__).parents[2] / "data" / "lags"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
LEAST = 0.95
Counts = Counter[str]


def judged(name: str) -> dict[str, Counts]:
    """By scenario: its windows, followers that were slow and told so, and right causes of those."""
    found: dict[str, Counts] = {}
    for window in lag_windows.load(FOLDER, name):
        counts = found.setdefault(window.scenario, Counter())
        counts["windows"] += 1
        rows = {(r["topic"], r["partition"], r["broker_id"]): r for r in window.followers()}
        for place, (slow, cause) in window.verdicts().items():
            row = rows[place]
            counts["followers"] += 1
            if slow is None:
                counts["not judged"] += 1
                continue
            counts["slow"] += slow
            counts["told"] += row["slow"]
            counts["both"] += slow and row["slow"]
            if slow and row["slow"] and cause is not None:
                counts["causes"] += 1
                counts["right"] += right(row, cause)
    return found


def right(row: lag_windows.Row, cause: str) -> bool:
    """A slow disk shows as its broker where both log dirs wait for it, and where it does not answer
    at all: the broker that is named is the right one.
    """
    shows = {cause}
    if cause == "log dir":
        shows.add("broker")
    if cause in {"log dir", "broker"} and not row["alive"]:
        shows.add("broker down")
    return row["cause"] in shows


def share(part: int, of: int) -> str:
    return f"{part / of:.3f}" if of else "-"


def line(name: str, counts: Counts) -> str:
    return (
        f"{name:<24}{counts['windows']:>8}{counts['followers'] - counts['not judged']:>8}"
        f"{counts['not judged']:>8}{counts['slow']:>6}"
        f"{share(counts['both'], counts['told']):>11}{share(counts['both'], counts['slow']):>8}"
        f"{share(counts['right'], counts['causes']):>8}"
    )


@pytest.mark.further
def test_precision_and_recall_on_recorded_lags(capsys: pytest.CaptureFixture[str]) -> None:
    recordings = {name: judged(name) for name in NAMES}
    every, running = Counts(), Counts()
    lines = [f"{'':<24} windows  judged unclear  slow  precision  recall  causes"]
    for name, scenarios in recordings.items():
        for scenario, counts in sorted(scenarios.items()):
            lines.append(line(f"{name}: {scenario}", counts))
            every += counts
            running += Counts() if scenario in {"stopped", "down"} else counts
        lines.append(line(f"{name}: all", sum(scenarios.values(), Counts())))
    with capsys.disabled():
        print("", *lines, line("all", every), line("without stopped brokers", running), sep="\n")
    assert every["windows"] >= 50
    assert every["both"] / every["told"] >= LEAST
    assert every["both"] / every["slow"] >= LEAST
    assert every["right"] / every["causes"] >= LEAST
    assert every["not judged"] / every["followers"] < 0.1
