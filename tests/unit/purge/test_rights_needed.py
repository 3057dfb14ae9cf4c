"""Which right a purge lacks is said before it is confirmed, and by its error afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.cli.purge.preview import describe
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Authorized
from dashboard.domain.rights import MissingRight, may_delete, missing
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.ui.purge import plan_view
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room
from tests.unit.purge.test_plan import free_plan

LINE = (
    "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:ann "
    "--operation Delete --topic 'orders'"
)


class Told:
    """Brokers that tell of a few topics."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized:
        assert list(groups) == []
        if not self.answers:
            raise ClusterError("no broker answers", "Start one.", code="NO_BROKER")
        found = {
            "may": frozenset({"Describe", "Delete"}), "orders": frozenset({"Describe"}),
            "hidden": frozenset[str](), "old": None,
        }  # fmt: skip
        return Authorized(None, {t: found[t] for t in topics}, {})

    def principal(self) -> str | None:
        return "User:ann"


def test_each_topic_may_or_may_not_or_is_not_told() -> None:
    topics = ["orders", "may", "old", "hidden"]
    assert may_delete(Told(), topics) == {
        "may": True, "orders": False, "hidden": False, "old": None,
    }  # fmt: skip
    assert [right.topic for right in missing(Told(), topics) or ()] == ["hidden", "orders"]


def test_it_names_the_right_the_principal_and_the_line() -> None:
    (right,) = missing(Told(), ["orders", "may"]) or ()
    assert right.said == f"User:ann has no DELETE on topic orders: {LINE}"
    assert right.to_json() == {
        "topic": "orders", "operation": "Delete", "principal": "User:ann", "command": LINE,
    }  # fmt: skip
    unknown = MissingRight("orders", None)
    assert "User:NAME" in unknown.line
    assert unknown.said.startswith("the principal has no DELETE")


def test_where_nobody_answers_it_is_not_known() -> None:
    assert missing(Told(answers=False), ["orders"]) is None


def test_a_plan_keeps_it_and_every_preview_of_it_says_it_in_words() -> None:
    assert "MISSING RIGHT" not in describe(preview(free_plan(), NOW))
    plan = replace(free_plan(), rights_missing=missing(Told(), ["orders"]))
    kept = Plan.from_json_text(plan.to_json_text(), "plan.json")
    view = preview(kept, NOW)
    for said in (describe(view), plan_view.decisions_html(view)):
        assert "MISSING RIGHT: User:ann has no DELETE on topic orders, so nothing" in said
    assert LINE in describe(view)


@pytest.mark.parametrize("missing_rights", [None, ()])
def test_a_plan_tells_none_missing_from_nobody_told(
    missing_rights: tuple[MissingRight, ...] | None,
) -> None:
    plan = replace(free_plan(), rights_missing=missing_rights)
    kept = Plan.from_json_text(plan.to_json_text(), "plan.json")
    assert kept.rights_missing == missing_rights
    assert preview(kept, NOW).to_json()["rights_missing"] == (
        None if missing_rights is None else []
    )


@pytest.mark.parametrize(("code", "named"), [(29, True), (44, False)])
def test_the_error_of_a_run_names_the_right(tmp_path: Path, code: int, named: bool) -> None:
    room = Room(tmp_path)
    room.live.answers = [code]
    (row,) = room.carry_out().partitions
    wanted = MissingRight(TOPIC, "User:ann").said
    assert (row.state, row.message) == ("not_done", wanted if named else None)
    room.journal.close()
