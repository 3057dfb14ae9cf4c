"""Every bench in turn, each in its own process: `make bench`. Exit 1 when a goal was missed."""

from __future__ import annotations

import subprocess
import sys

BENCHES = (
    "bench_collect",
    "bench_collect_scale",
    "bench_analyze",
    "bench_engine",
    "bench_inventory",
    "bench_pages",
    "bench_first_visit",
    "bench_busy_pages",
    "bench_purge",
    "bench_estimates",
    "bench_orphans",
    "bench_followers",
    "bench_policies",
    "bench_journal",
    "bench_archive",
    "bench_restore",
)


def main() -> int:
    """Run all; a bench that misses its goal does not keep the next from running."""
    missed = []
    for name in BENCHES:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"tests.bench.{name}"]
        if subprocess.run(command, check=False).returncode:
            missed.append(name)
    print(f"\nmissed its goal: {', '.join(missed)}" if missed else "\nevery goal was reached")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
