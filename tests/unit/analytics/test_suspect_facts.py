"""What kind a suspect is, and when the broker's own list explains it after all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analytics.orphans.suspects import Suspect, is_suspect, kind_of
from tests.unit.analytics.test_sightings import SUSPECT


def row(folder: str, **more: Any) -> Suspect:
    return replace(SUSPECT, folder=folder, **{"answered": True, **more})


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (row("stray"), "stray"),
        (row("stray", has_topic=True, assigned=True), "stray"),
        (row("stray", has_topic=True), "moved-away"),
        (row("stray", recreated=True), "recreated-topic"),
        (row("live", recreated=True), "recreated-topic"),
        (row("live"), "deleted-topic"),
        (row("live", has_topic=True), "moved-away"),
        (row("live", has_topic=True, assigned=True), "two-log-dirs"),
        (row("future", recreated=True), "abandoned-future"),
        (row("delete", recreated=True), "late-delete"),
        (row("checkpoint"), "checkpoint-entry"),
    ],
)
def test_each_kind_is_told_by_name_then_by_topic(found: Suspect, kind: str) -> None:
    assert kind_of(found) == kind


@pytest.mark.parametrize(
    ("found", "suspect"),
    [
        (row("live"), True),
        (row("live", listed=True), True),
        (row("live", assigned=True), True),
        (row("live", assigned=True, listed=True), False),
        (row("live", assigned=True, answered=False), True),
        (row("future"), True),
        (row("future", listed=True), True),
        (row("future", assigned=True), True),
        (row("future", assigned=True, listed=True), False),
        (row("future", assigned=True, answered=False), False),
        (row("stray", assigned=True), True),
        (row("delete", assigned=True), True),
        (row("checkpoint"), True),
        (row("checkpoint", listed=True), False),
    ],
)
def test_what_the_broker_lists_for_an_assignment_is_no_suspect(
    found: Suspect, suspect: bool
) -> None:
    assert is_suspect(found) is suspect
