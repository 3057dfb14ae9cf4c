"""Reads that the product sends side by side, one after the other in the test's own thread: fakes
answer at once, and a fifth of such a test's processor time went into starting threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import pytest

from dashboard.purge.execute import execute, readback, recheck
from dashboard.purge.plan import facts

# Of those that only read; a test that really connects gives them their threads back. Who waits for
# answers while others are under way (send.py, the brokers' connections) always has threads.
READERS = (execute, facts, readback, recheck)

P = ParamSpec("P")
R = TypeVar("R")


class AtOnce(Executor):
    """A pool without threads: a call is over, with its answer or error, when it was submitted."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        found: Future[R] = Future()
        try:
            found.set_result(call(*args, **kwargs))
        except BaseException as error:  # as threads do: a test's Killed is one
            found.set_exception(error)
        return found


@contextmanager
def reads_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in READERS:
            patched.setattr(module, "ThreadPoolExecutor", AtOnce)
        yield
