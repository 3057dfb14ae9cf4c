"""Both kinds of sealed files say in their own words, with their own codes, what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import LowwaterError
from dashboard.orphans import verdicts
from dashboard.purge.plan.plan import Plan
from tests.unit.orphans.test_verdicts import FOUND, NOW
from tests.unit.purge.test_plan import free_plan

Parse = Callable[[str], Any]
KINDS: dict[str, tuple[str, Parse]] = {
    "plan": (free_plan().to_json_text(), lambda text: Plan.from_json_text(text, "f.json")),
    "verdicts": (verdicts.write(FOUND), lambda text: verdicts.parse(text, "f.json", now=NOW)),
}


def told(kind: str, change: Callable[[dict[str, Any]], Any], *, rehash: bool = True) -> str:
    """Code and message for a changed document."""
    text, parse = KINDS[kind]
    document = json.loads(text)
    change(document)
    if rehash:
        document.pop("sha256")
        document["sha256"] = digest(document)
    with pytest.raises(LowwaterError) as failed:
        parse(canonical(document))
    return f"{failed.value.code}: {failed.value.message}"


@pytest.mark.parametrize(
    ("kind", "invalid", "changed", "noun", "no_such"),
    [
        ("plan", "PLAN_INVALID", "PLAN_EDITED: f.json was changed after it was planned", "plan",
         "is not a plan"),
        ("verdicts", "VERDICTS_INVALID", "VERDICTS_CHANGED: f.json was changed after it was "
         "written", "file of verdicts", "is not a file of verdicts"),
    ],
)  # fmt: skip
def test_each_kind_keeps_its_words(
    kind: str, invalid: str, changed: str, noun: str, no_such: str
) -> None:
    assert told(kind, lambda d: d.update(version=2)) == (
        f"{invalid}: f.json is no {noun} of version 1"
    )
    edited = told(kind, lambda d: d.update(cluster_id="other"), rehash=False)
    assert edited.startswith(f"{changed}: its sha256 is ")
    assert told(kind, lambda d: d.pop("cluster_name")) == (
        f"{invalid}: f.json {no_such}: $.cluster_name is missing"
    )
    assert told(kind, lambda d: d.update(zebra=1)) == (
        f"{invalid}: f.json holds keys or values that no {noun} has"
    )


@pytest.mark.parametrize(
    ("kind", "said"), [("plan", "is not a plan"), ("verdicts", "is not a file of verdicts")]
)
def test_a_number_that_json_has_not_is_named(kind: str, said: str) -> None:
    text, parse = KINDS[kind]
    with pytest.raises(LowwaterError, match=f"f.json {said}: "):
        parse(text.replace('"version":1', '"version":1,"x":NaN'))
    with pytest.raises(LowwaterError, match=r"f\.json is not JSON: "):
        parse(text[:-1])
