"""The checks of a soak, each with what was found: from its diary, samples, journal and logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dashboard.cli.output import INTERRUPTED
from tests.soak import judge
from tests.soak.evidence import Receipts
from tests.soak.place import Place

LONG_LIVED = (
    "supervisor", "guardian", "watch", "analysis", "spark", "dashboard", "page server",
    "inventory", "workload", "policies",
)  # fmt: skip
MISSED_SNAPSHOT_SECONDS = 90.0  # nine intervals of the demo's watch
MISSED_ANALYSIS_SECONDS = 180.0
# Whoever is killed begins anew: the time counts from there. They are killed at first only.
_BEGIN_ANEW = {
    "snapshot": ("watch-kill", "watch-term"),
    "analysis": ("watch-kill", "watch-term", "analysis-kill", "spark-kill"),
}
# Exit 70 is right while a disk is full, and only then.
_DISK_CODES = ("JOURNAL_FAILED", "WORKER_NOT_STARTED", "STORE_FAILED")
_AFTER_FULL_SECONDS = 20.0
_ALLOWED = (0, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that had to hold, whether it did, and the lines that show it."""

    name: str
    held: bool
    found: list[str] = field(default_factory=list)


def samples(place: Place) -> list[dict[str, Any]]:
    """All lines of samples.jsonl."""
    return [json.loads(line) for line in (place.folder / "samples.jsonl").read_text().splitlines()]


def memory(place: Place, seconds: float) -> tuple[Check, list[judge.Trend]]:
    """RSS and handles of the long-lived are flat over the second half; brokers are only told."""
    every = samples(place)
    found = judge.trends(every, seconds / 2, LONG_LIVED)
    brokers = judge.trends(every, seconds / 2, ("broker",))
    name = "memory and file handles are flat"
    if seconds / 2 < judge.SHORTEST_SECONDS + 60:
        return Check(name, True, ["not judged: too short"]), []
    judged = {t.role for t in found}
    wrong = [f"{t.role} {t.measure} grew {t.growth:+,.0f}" for t in found if not t.flat]
    wrong += [f"{role} had no life long enough" for role in LONG_LIVED if role not in judged]
    return Check(name, not wrong, wrong), [*found, *brokers]


def of_files(place: Place, seconds: float) -> tuple[list[Check], list[judge.Trend]]:
    """What the diary, the samples and the logs tell."""
    flat, trends = memory(place, seconds)
    checks = [flat, zombies(place), *progress(place, seconds)]
    return [*checks, commands(place), services(place), pages(place), logs(place)], trends


def services(place: Place) -> Check:
    """The service of policies purged, and never ended by itself, not even with a full disk."""
    lives = place.diary("service")
    told = place.folder / "logs" / "policies.jsonl"
    events = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    ran = sum(event["event"] == "cycle" and event["state"] == "ran" for event in events)
    wrong = [
        f"it ended with exit {life['code']} at {life['at']} s"
        for life in lives
        if life["code"] != INTERRUPTED
    ]
    wrong += [] if ran else ["it purged nothing"]
    known = f"lives {len(lives)}, purges {ran}"
    return Check("the service of policies purges and goes on", not wrong, [known, *wrong])


def zombies(place: Place) -> Check:
    """No child stays unburied."""
    found = judge.lasting_zombies(samples(place))
    return Check("no zombie", not found, found)


def progress(place: Place, seconds: float) -> Iterator[Check]:
    """Snapshots and analyses went on; what was missed, and which faults stood before it."""
    faults = [f for f in place.diary("fault") if "left out" not in f["what"]]
    longest = {"snapshot": MISSED_SNAPSHOT_SECONDS, "analysis": MISSED_ANALYSIS_SECONDS}
    for what, limit in longest.items():
        moments = [line["at"] for line in place.diary(what)]
        count = len(moments)
        anew = [f["at"] for f in faults if f["fault"] in _BEGIN_ANEW[what]]
        missed = [
            f"none from {a:.0f} to {b:.0f} s: {', '.join(judge.during(faults, a, b)) or 'no fault'}"
            for a, b in judge.gaps(sorted([*moments, *anew]), seconds, limit)
        ]
        widest = max((b - a for a, b in pairwise(moments)), default=0.0)
        told = [f"{count} in {seconds:.0f} s, the longest pause {widest:.0f} s"]
        name = f"{what} after {what}, none missed for {limit:.0f} s after one or a kill of its own"
        yield Check(name, not missed, told + missed)


def commands(place: Place) -> Check:
    """Every command answered in JSON with an exit code of the contract, and no traceback."""
    full = [
        (f["began"], f["at"] + _AFTER_FULL_SECONDS)
        for f in place.diary("fault")
        if f["fault"].endswith("-full") and "left out" not in f["what"]
    ]
    calls = place.diary("plan", "apply")
    wrong = [
        f"{c['kind']} of {c['topic']} at {c['began']} s: exit {c['code']} {c['error']} "
        f"{c['message']} {c['told'][-700:]}"
        for c in calls
        if not _right(c, full)
    ]
    counted = Counter(f"{c['kind']} exit {c['code']} {c['error'] or ''}".strip() for c in calls)
    told = [f"{times} x {name}" for name, times in sorted(counted.items())]
    return Check("every command kept its contract", not wrong, told + wrong)


def _right(call: dict[str, Any], full: Iterable[tuple[float, float]]) -> bool:
    if not call["json"] or "Traceback" in call["told"] or call["error"] == "INTERNAL":
        return False
    hit = any(begin <= call["at"] and call["began"] <= end for begin, end in full)
    return call["code"] in _ALLOWED or (hit and call["code"] in (1, 70))


def pages(place: Place) -> Check:
    """Every visit found every page answering and without an error."""
    visits = place.diary("visit")
    wrong = [f"at {v['at']} s: {w}" for v in visits for w in v["wrong"]]
    return Check(
        "every page answers and shows no error", not wrong, [f"{len(visits)} visits", *wrong]
    )


def logs(place: Place) -> Check:
    """No process of ours printed a traceback."""
    found = []
    for file in sorted((place.folder / "logs").glob("**/*.log")):
        text = file.read_text(errors="replace")
        if "Traceback (most recent call last)" in text:
            at = text.index("Traceback (most recent call last)")
            found.append(f"{file.name}: {text[at : at + 1500]}")
    return Check("no traceback in any log", not found, found)


def runs(found: Receipts) -> Iterator[Check]:
    """Every run closed, every receipt final and explained."""
    yield Check("every run closed", not found.open_runs, found.open_runs)
    told = [
        f"{found.runs} runs: {found.states}; partitions {found.partitions}",
        f"receipts {found.outcomes}: freed {found.freed_bytes:,} bytes, "
        f"predicted {found.predicted_bytes:,}",
    ]
    yield Check("every receipt is explained", not found.unexplained, told + found.unexplained)
