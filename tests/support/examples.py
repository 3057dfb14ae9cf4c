"""How many examples a property tries: a third of them in `make test`, all in `make test-all`."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """Settings for `count` examples: new ones each time, or a third of them, always the same.

    An example of these properties costs a tenth of a second or more: a whole cluster is judged.
    """
    steady = settings.default is not None and settings.default.derandomize
    return settings(max_examples=count // 3 if steady else count)
