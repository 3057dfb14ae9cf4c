"""Which of a test's variants `make test` leaves to `make test-further`.

`make test` is run many times a day, so it holds each rule of the product once, by the cheapest
honest test; tests marked `further` hold what one of those holds too. Continuous integration runs
both. What `tests/thorough.py` names, and what is marked `slow`, is left to `make test-all`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest

BUT = "further_but"
UNBORNE = pytest.StashKey[list[str]]()  # of a run of all tests


def is_further(item: pytest.Item) -> bool:
    """Whether `further_but` stands at a test and does not name this variant of it."""
    marker = item.get_closest_marker(BUT)
    return marker is not None and _variant(item) not in marker.args


def unborne(items: Iterable[pytest.Item]) -> list[str]:
    """Variants that `further_but` names and no test bears: nothing of that test would be left."""
    lost = []
    for test, variants in groupby(items, key=lambda item: item.nodeid.split("[", 1)[0]):
        those = [*variants]
        marker = those[0].get_closest_marker(BUT)
        named = {*marker.args} if marker is not None else set()
        lost += [f"{test}[{name}]" for name in sorted(named - {*map(_variant, those)})]
    return lost


def _variant(item: pytest.Item) -> str:
    return item.name.partition("[")[2].removesuffix("]")
