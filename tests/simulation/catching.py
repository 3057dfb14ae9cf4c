"""Plays seeds in turn, and finds the first that catches a planted bug."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.simulation.checks import problems
from tests.simulation.mutants import CAUGHT_BY, MUTANTS
from tests.simulation.scenario import Story, play
from tests.simulation.situations import of_seed

SEEDS = 500  # among which each planted bug is caught


def stories(seeds: Iterable[int], folder: Path) -> Iterator[Story]:
    """Each seed's, played in a folder of its own that is gone afterwards."""
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        yield play(seed, own)
        shutil.rmtree(own)


def catching(name: str, folder: Path) -> int | None:
    """The seed that catches a planted bug; None: of SEEDS none does.

    Any may: the one that did when the model last changed is played first.
    """
    first = CAUGHT_BY.get(name, 0)
    seeds = [*range(first, SEEDS), *range(first)]
    with MUTANTS[name]():
        return next((s.seed for s in stories(seeds, folder) if problems(s)), None)


def likely(name: str) -> list[int]:
    """All of SEEDS; first those with the situation of the one that caught a planted bug last."""
    about = of_seed(CAUGHT_BY.get(name, 0))
    return sorted(range(SEEDS), key=lambda seed: of_seed(seed) != about)
