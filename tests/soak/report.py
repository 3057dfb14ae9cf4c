"""The report of a soak: what held, what did not, and the figures, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.soak.judge import Trend
from tests.soak.place import Place
from tests.soak.verdict import Check


def write(
    place: Place, told: Mapping[str, Any], checks: Sequence[Check], trends: Sequence[Trend]
) -> str:
    """The report as text; it stands in `report.md` and `report.json` too."""
    faults = place.diary("fault")
    body = {
        **told,
        "held": all(check.held for check in checks),
        "checks": [asdict(check) for check in checks],
        "trends": [{**asdict(trend), "flat": trend.flat} for trend in trends],
    }
    (place.folder / "report.json").write_text(as_json(body))
    done = Counter(f["fault"] for f in faults if "left out" not in f["what"])
    left_out = Counter(f"{f['fault']} {f['what']}" for f in faults if "left out" in f["what"])
    text = "\n".join(
        (
            f"# Soak: seed {told['seed']}, {told['seconds'] / 60:g} minutes, a fault every "
            f"{told['every']:g} s",
            "",
            f"{sum(done.values())} faults: "
            + ", ".join(f"{name} {times}" for name, times in sorted(done.items())),
            *(f"- {times} x {name}" for name, times in sorted(left_out.items())),
            "",
            *table(checks, trends),
            "",
        )
    )
    (place.folder / "report.md").write_text(text)
    return text


def table(checks: Sequence[Check], trends: Sequence[Trend]) -> list[str]:
    """The checks as a list, the slopes as a table."""
    return [
        *(line for check in checks for line in _lines(check)),
        "",
        "| process | measure | samples | median | growth | its error | allowed | flat |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, trends),
    ]


def as_json(body: Mapping[str, Any]) -> str:
    """Indented, sorted, without NaN."""
    return json.dumps(body, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _lines(check: Check) -> list[str]:
    return [f"- {'ok ' if check.held else 'NOT'} {check.name}", *(f"  - {f}" for f in check.found)]


def _row(trend: Trend) -> str:
    unit = 1024 if trend.measure == "rss_kb" else 1
    name = "RSS, MiB" if trend.measure == "rss_kb" else "file handles"
    figures = (trend.median, trend.growth, trend.error, trend.allowed)
    median, growth, error, allowed = (x / unit for x in figures)
    role = f"{trend.role} ({trend.pid})"
    flat = "listed only" if trend.role == "broker" else ("yes" if trend.flat else "NO")
    return (
        f"| {role} | {name} | {trend.samples} | {median:.1f} | {growth:+.1f} | {error:.1f} "
        f"| {allowed:.1f} | {flat} |"
    )
