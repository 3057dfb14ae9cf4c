"""What a run that closed means for its policy's status: the first thing not done, by name."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.policies.service import purging
from dashboard.policies.service.outcome import Outcome
from tests.unit.purge.outcomes import run as run_of

PLANNED = Outcome("busy", "2 of 2 partitions", "app")
DENIED = "TOPIC_AUTHORIZATION_FAILED"


def row(partition: int, state: str, error: str | None = None) -> Any:
    return SimpleNamespace(topic="t", partition=partition, state=state, error=error)


@pytest.mark.parametrize(
    ("state", "error", "rows", "reason", "code"),
    [
        ("done", None, [row(0, "done")], "done: 2 of 2 partitions", None),
        # What the leader alone has is not done for who waits for all, and says why.
        (
            "partial", None, [row(0, "done"), row(1, "leader_done", "REQUEST_TIMED_OUT")],
            "partial: 1 of 2 partitions are not done, t-1: REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT",
        ),
        (
            "partial", None, [row(0, "done"), row(1, "not_done", DENIED)],
            f"partial: 1 of 2 partitions are not done, t-1: {DENIED}", DENIED,
        ),
        (
            "partial", None, [row(0, "not_done", DENIED)],
            f"failed: 1 of 1 partitions are not done, t-0: {DENIED}", DENIED,
        ),
        (
            "refused", {"message": "read-only", "code": "READ_ONLY"}, [row(0, "not_done", "X")],
            "refused: read-only", "READ_ONLY",
        ),
    ],
)  # fmt: skip
def test_a_run_that_closed_says_what_is_not_done(
    state: str, error: dict[str, str] | None, rows: list[Any], reason: str, code: str | None
) -> None:
    plan: Any = SimpleNamespace(free_partitions=())
    none = all(one.state == "not_done" for one in rows)
    run = replace(run_of("r1", None), state=state, error=error, none_done=none)
    found = purging.of_run(PLANNED, plan, run, rows)
    assert found.reason.startswith(reason)
    assert (found.code, found.run_id) == (code, "r1")
    assert found.state == ("refused" if state == "refused" else "ran")
