"""What all unit tests share: fakes are read in the test's own thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import at_once


@pytest.fixture(scope="package", autouse=True)
def reads_at_once() -> Iterator[None]:
    with at_once.reads_at_once():
        yield
