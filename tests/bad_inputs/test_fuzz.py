"""Inputs by chance: a parser gives a valid result or a named error with its next step, in time.

The default run is small and always the same. The slow one goes on with other chances, for
LOWWATER_TEST_FUZZ_SECONDS for each subject (20 without it).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.core.errors import LowwaterError
from tests.bad_inputs.calling import differing, digests
from tests.bad_inputs.mutations import TEXTS, mutated, replaced
from tests.bad_inputs.subjects import (
    SUBJECTS,
    WORDS,
    Subject,
    read_plan,
    read_settings,
    read_verdicts,
    resealed,
    settings_document,
    toml_of,
)
from tests.bad_inputs.world import World

pytestmark = pytest.mark.further

FEW = 12
SCRATCH = ("fuzz*", "metrics.txt", "sweep.log")  # what subjects write to be read
QUIET = settings(
    database=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.large_base_example],
)  # fmt: skip
SECONDS = float(os.environ.get("LOWWATER_TEST_FUZZ_SECONDS", "20"))
STRUCTURED: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "plan": (read_plan, resealed),
    "verdicts": (read_verdicts, resealed),
    "settings": (read_settings, toml_of),
}
Check = Callable[[Any], None]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_the_sound_input_is_read(subject: Subject, world: World) -> None:
    if subject.name != "sweep log":  # its entry has no right hash
        subject.read(subject.body())


@pytest.mark.further_but("plan", "verdicts", "journal", "manifest", "client.properties")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_changed_bytes_are_read_or_named(subject: Subject, world: World) -> None:
    few(mutated(subject.body()), lambda body: read_or_named(subject.read, body))


@pytest.mark.parametrize("name", STRUCTURED)
def test_replaced_values_are_read_or_named(name: str, world: World) -> None:
    read, written = STRUCTURED[name]
    few(replaced(document_of(name)), lambda found: read_or_named(read, written(found)))


def test_any_word_is_read_or_named(world: World) -> None:
    few(TEXTS, words_are_read_or_named)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_changed_bytes_are_read_or_named_for_long(subject: Subject, world: World) -> None:
    for_long(mutated(subject.body()), lambda body: read_or_named(subject.read, body))


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", STRUCTURED)
def test_replaced_values_are_read_or_named_for_long(name: str, world: World) -> None:
    read, written = STRUCTURED[name]
    for_long(replaced(document_of(name)), lambda found: read_or_named(read, written(found)))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_word_is_read_or_named_for_long(world: World) -> None:
    for_long(st.one_of(TEXTS, st.text()), words_are_read_or_named)


def read_or_named(read: Callable[[bytes], Any], body: bytes) -> None:
    """Whatever the bytes are: a result, or an error with code and next step; the world stays."""
    before = digests()
    try:
        read(body)
    except LowwaterError as error:
        assert error.code != LowwaterError.default_code
        assert error.message.strip()
        assert error.next_step.strip()
    assert differing(before, digests(), SCRATCH) == ()


def words_are_read_or_named(text: str) -> None:
    for parse in WORDS:
        try:
            parse(text)
        except LowwaterError as error:
            assert error.next_step.strip()


def few(chances: st.SearchStrategy[Any], check: Check) -> None:
    """The same few chances each time."""

    @settings(QUIET, max_examples=FEW, derandomize=True)
    @given(chances)
    def run(found: Any) -> None:
        check(found)

    run()


def for_long(chances: st.SearchStrategy[Any], check: Check) -> None:
    """Chances that nobody has seen, for SECONDS; making them takes longer than reading them."""
    until = time.monotonic() + SECONDS

    @settings(QUIET, max_examples=50, derandomize=False)
    @given(chances)
    def run(found: Any) -> None:
        if time.monotonic() < until:
            check(found)

    while time.monotonic() < until:
        run()


def document_of(name: str) -> Any:
    """The sound document of a structured subject."""
    if name == "settings":
        return settings_document()
    return json.loads(next(s for s in SUBJECTS if s.name == name).body())
