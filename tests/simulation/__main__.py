"""Plays seeds of the simulation: `python -m tests.simulation SEED` tells one story,
`python -m tests.simulation FIRST LAST` plays a range and tells those that break a promise,
`python -m tests.simulation --catch` prints the table of seeds that `mutants.py` ends with anew.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.simulation.catching import catching
from tests.simulation.checks import problems
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import Story, play
from tests.simulation.telling import told


def _played(seed: int) -> Story:
    with tempfile.TemporaryDirectory() as folder:
        return play(seed, Path(folder))


def main(first: int, last: int | None) -> int:
    """The exit code: 1 when a promise was broken."""
    if last is None:
        story = _played(first)
        print(told(story))
        return int(bool(problems(story)))
    counts: Counter[str] = Counter()
    broken = 0
    for seed in range(first, last):
        story = _played(seed)
        rows = story.run.partitions if story.run else ()
        counts.update(row.state for row in rows)
        counts["crashes"] += story.crashes
        counts["truncations"] += len(story.cluster.applied)
        if problems(story):
            broken += 1
            print(told(story), end="\n\n", flush=True)
    print(f"{last - first} seeds, {broken} broken; {dict(sorted(counts.items()))}")
    return int(broken > 0)


def catch() -> int:
    """Which seed catches each planted bug by now; the exit code: 1 when one is never caught."""
    unseen = False
    print("CAUGHT_BY = {", flush=True)
    for name in sorted(MUTANTS):
        with tempfile.TemporaryDirectory() as folder:
            found = catching(name, Path(folder))
        unseen |= found is None
        print(f'    "{name}": {found},', flush=True)
    print("}")
    return int(unseen)


if __name__ == "__main__":
    if sys.argv[1:] == ["--catch"]:
        sys.exit(catch())
    numbers = [int(word) for word in sys.argv[1:]]
    if len(numbers) not in (1, 2):
        sys.exit(__doc__)
    sys.exit(main(numbers[0], numbers[1] if len(numbers) == 2 else None))
