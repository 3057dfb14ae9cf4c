"""How many examples a property tries: a tenth of them in `make test`, all in `make test-all`."""

from __future__ import annotations

from hypothesis import settings

SHARE = 10  # one in so many where the examples are the same each time


def examples(count: int) -> settings:
    """Settings for `count` examples: new ones each time, or a tenth of them, always the same.

    An example of these properties costs a tenth of a second or more: a whole cluster is judged.
    """
    steady = settings.default is not None and settings.default.derandomize
    return settings(max_examples=count // SHARE if steady else count)
