"""Moves in words: who moves from where to where before a purge, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.cli.purge import preview as moves_text
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.moves import MoveRow, refused
from dashboard.purge.plan.preview import GroupLoss, Preview, preview
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_plan import free_plan


def view(partitions: int = 0, *, move: bool = True, loss: int = 5) -> Preview:
    waiver = Waiver("old", "gone", "ann", NOW, move=move)
    return replace(
        preview(replace(free_plan(), waivers=(waiver,)), NOW),
        moves=tuple(MoveRow("old", "orders", n, n, 60) for n in range(partitions)),
        groups=(GroupLoss("old", waived=True, reason="gone", loss_if_latest=loss),),
    )


def test_each_step_is_named() -> None:
    assert moves_text.planned_moves(view(2)) == [
        "moves group old on orders, 2 partitions once their records are gone: 0: 0 → 60, 1: 1 → 60"
    ]


def test_many_steps_are_cut_and_counted() -> None:
    (line,) = moves_text.planned_moves(view(23))
    assert "23 partitions" in line
    assert line.endswith("19: 19 → 60, and 3 more (--json lists all)")


@pytest.mark.parametrize(
    ("move", "loss", "said"),
    [
        (True, 5, ["group old is not moved: Kafka holds none of its offsets below a target"]),
        (False, 0, []),
        (
            False,
            5,
            [
                "group old may be moved to the targets while it has no members, so that "
                "it resumes there: plan again with --move-waived"
            ],
        ),
    ],
)
def test_what_does_not_move_is_told_or_offered(move: bool, loss: int, said: list[str]) -> None:
    assert moves_text.planned_moves(view(move=move, loss=loss)) == said


def test_what_became_of_moves_is_counted_and_each_failure_named() -> None:
    moved = MoveRow("old", "orders", 0, 10, 60, "moved", attempts=1)
    stays = refused(MoveRow("old", "orders", 1, 10, 60), "GROUP_ALIVE", "it has 2 members")
    assert moves_text.made_moves([moved, stays]) == [
        "offsets of group old on orders: 1 moved, 1 refused",
        "group old on orders-1 is refused: GROUP_ALIVE: it has 2 members",
    ]
    assert moves_text.made_moves([]) == []


def test_a_move_without_a_waiver_asks_no_broker(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--topic", "orders", "--to", "committed", "--out", "p.json"]
    assert main([*words, "--move-waived"]) == 1
    assert "there is no waived group to move" in capsys.readouterr().err
    assert not Path("p.json").exists()
