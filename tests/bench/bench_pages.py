"""How long a rerun of each page takes with 15,000 replica rows: medians, printed as a table.

And what the what-if computes at each redraw with 100,000 partitions x 3 replicas x 16 knots.

`python -m tests.bench.bench_pages [REPETITIONS]`. Streamlit's own test harness runs the script;
the browser's drawing is not in it, nor the first run that reads the tables.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard.views.topic_rows import topic_rows
from dashboard.views.what_if import waive
from tests.bench import large_findings
from tests.support import sample_store

APP = Path(__file__).parent.parent.parent / "dashboard" / "app.py"
PAGES = ("overview", "reclaimable", "orphans", "followers", "audit")
LIMIT_SECONDS = 0.5
LARGE, LARGE_LIMIT_SECONDS = 100_000, 1.0


def median_seconds(rerun: Callable[[], object], repetitions: int) -> float:
    """The median of `repetitions` reruns."""
    taken = []
    for _ in range(repetitions):
        started = time.perf_counter()
        rerun()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def open_page(page: str) -> AppTest:
    """A page after its first run."""
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    if page != "overview":
        app.switch_page(f"../pages/{page}.py").run()
    drawn = "".join(block.value for block in app.html)
    assert not app.exception and "lw-head" in drawn and "INTERNAL" not in drawn, drawn
    return app


def waiving() -> Callable[[], object]:
    """Ticks and unticks the largest blocker: the what-if is computed afresh each time."""
    app = open_page("reclaimable")

    def rerun() -> object:
        box = app.checkbox[0]
        return (box.uncheck() if box.value else box.check()).run()

    return rerun


def redrawing() -> Callable[[], object]:
    """Waives the next group of a large cluster: new facts, and the topics' rows from them."""
    found = large_findings.made(LARGE)
    groups = itertools.cycle(sorted(set(found.holds["group_id"].to_pylist())))

    def redraw() -> object:
        waived = [next(groups), next(groups)]
        facts = waive(found.facts, found.holds, found.curves, waived)
        assert facts["bytes_likely"].to_numpy().any()
        return topic_rows(facts)

    return redraw


def main(repetitions: int = 9) -> int:
    """Print the table; 1 when a median is above the limit."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        sample_store.write(Path(folder) / "data", "large")
        os.environ["LOWWATER_DATA"] = f"{folder}/data"
        os.environ["LOWWATER_STATE_DIR"] = f"{folder}/state"
        cases = {page: open_page(page).run for page in PAGES}
        medians = {name: median_seconds(rerun, repetitions) for name, rerun in cases.items()}
        medians["reclaimable, what-if"] = median_seconds(waiving(), repetitions)
    large = median_seconds(redrawing(), repetitions)
    print(f"{'page rerun, 15,000 replica rows':36}{'median s':>10}{'limit s':>10}")
    for name, seconds in medians.items():
        print(f"{name:36}{seconds:>10.3f}{LIMIT_SECONDS:>10.1f}")
    print(f"{f'what-if, {LARGE:,} partitions x 3':36}{large:>10.3f}{LARGE_LIMIT_SECONDS:>10.1f}")
    return int(max(medians.values()) > LIMIT_SECONDS or large > LARGE_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
