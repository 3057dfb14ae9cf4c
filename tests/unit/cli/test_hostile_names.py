"""No name, reason or error adds a line to a text: previews, questions, lists, the service's log.

Kafka takes any text for a group's id. A line that it forges reads as one of Lowwater's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import dashboard.cli
from dashboard.cli import output
from dashboard.cli.machine import collect, watch
from dashboard.cli.policies import check
from dashboard.cli.policies import run as policies_run
from dashboard.cli.purge import preview as live_text
from dashboard.cli.purge import run as run_text
from dashboard.cli.purge.preview import describe
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.core.visible import in_lines
from dashboard.domain.model import Guard, TopicPartition
from dashboard.policies.checking import Checked
from dashboard.policies.service.outcome import Outcome
from dashboard.policies.service.switching import Serving
from dashboard.policies.simulate import Simulation
from dashboard.purge.forecast.forecast import Forecast, SlowBroker
from dashboard.purge.forecast.stalls import Stall
from dashboard.purge.journal.alerts import AlertRow, Event
from dashboard.purge.journal.policies import Lease
from dashboard.purge.journal.rows import PartitionRow, RunView
from dashboard.purge.plan.guards import Lifted, Override, Waiver
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.plan.plan import Declared, Plan
from dashboard.purge.plan.preview import preview
from dashboard.safety.guard_texts import guard
from dashboard.safety.unseen_readers import TopicReading
from dashboard.settings.policies.policy import Policy
from tests.unit.cli.plans import a_plan
from tests.unit.purge.outcomes import run

FORGED = "FORGED: every group has read all that goes"
HOSTILE = f"x\n{FORGED}\r\u2028{FORGED}\x85{FORGED}"


def _plan(name: str) -> Plan:
    """With `name` wherever a person or Kafka may choose the text."""
    plan, now = a_plan(), utc_now()
    first, second, third = plan.partitions
    claim = replace(first.groups[0], group_id=name)
    unread = guard("unread-by-group", group_id=name, committed_offset=1, records=2, target_offset=3)
    return replace(
        plan,
        cluster_name=name,
        created_by=name,
        partitions=(
            replace(first, groups=(claim,), lifted=(Lifted("unread-by-group", name),)),
            replace(second, groups=(claim,)),
            replace(third, guards=(unread,)),
        ),
        waivers=(Waiver(name, name, name, now),),
        overrides=(Override("unread-by-group", name, name, name, now),),
        declarations=(Declared("orders", name, "groups", 0, name, name, name),),
        unseen_readers=(TopicReading("half", 10, 10, 1000, 1, name),),
        expires_at=plan.expires_at + timedelta(hours=1),
    )


def _preview(name: str) -> str:
    return describe(preview(_plan(name), utc_now()))


def _moved(name: str) -> str:
    move = MoveRow(name, "t", 0, 1, 2, "failed", error="E", message=name)
    return in_lines(live_text.made_moves([move]))


def _run(name: str) -> str:
    row = PartitionRow("orders", 0, 9, "not_done", error="E", message=name)
    failed = {"code": "E", "message": name, "next": name}
    return run_text.describe(RunView(replace(run("r", None), error=failed), (row,)))


def _forecast(name: str) -> str:
    stalls = [
        Stall(TopicPartition("t", 0), 2, "unreadable", name),
        Stall(TopicPartition("t", 1), 3, "behind", lag_records=9, closing_per_second=0.0),
    ]
    slow = {3: SlowBroker(name, None)}
    found = Forecast(
        utc_now(), 1.0, 30.0, 0, None, 0, 2, 0, tuple(stalls), {}, {1: 2}, {1: 2}, slow=slow
    )
    return live_text.describe_forecast(found)


def _snapshot(name: str) -> str:
    return collect.describe({
        "snapshot_id": "s", "seconds": 1.0, "tables": {}, "inventories": [], "removed": [],
        "brokers": [{"broker_id": 1, "reachable": False, "error": name}],
        "groups_incomplete": [name], "errors": [{"part": "read", "object": name, "error": name}],
    })  # fmt: skip


def _watch(name: str) -> str:
    return watch._text({"event": "snapshot", "error": {"message": name, "next": name}})


def _cycle(name: str) -> str:
    return policies_run._text({
        "event": "cycle", "at": "2026-03-01T12:00:00Z", "policy": "p", "application": name,
        "state": "nothing", "reason": name, "run_id": None, "bytes_at_once": None,
    })  # fmt: skip


def _service_error(name: str) -> str:
    return policies_run._text(
        {"event": "cycle", "at": "2026-03-01T12:00:00Z", "error": {"message": name, "next": name}}
    )


def _alert(name: str) -> str:
    return policies_run._text(
        {"event": "alert", "at": "t", "alert": "a", "text": name, "failed": name}
    )


def _leading(name: str) -> str:
    leader = {"pid": 1, "host": name}
    return policies_run._text({"event": "leading", "at": "t", "cluster": name, "leader": leader})


def _policies(name: str) -> str:
    now, blocked = utc_now(), a_plan().partitions[0]
    blocked = replace(blocked, guards=(Guard("share-group", name, name),))
    waived = Policy("p", committed_by="owner", waive={name: name})
    outcome = Outcome("refused", name, name, blocked=(blocked,), not_waived=(name,), partitions=1)
    checked = Checked(waived, "held", (), (outcome,), name, None)
    week = Simulation(now, now, 1, 1, 1, 1, 1, 1, 1, notes=(name,))
    lease = Lease("c", "h", name, 1, now, now, now + timedelta(hours=1))
    alert = AlertRow(Event("a", "s", name, {}), now, None, 1, now, name)
    service = [
        check._service(Serving(lease, None, 0, timedelta(hours=1)), now),
        check._not_told(alert),
        check._undefined(name),
    ]
    return check._text(name, service, [(checked, week)])


TEXTS: Mapping[str, Callable[[str], str]] = {
    "a plan's preview": _preview,
    "a run": _run,
    "moves of groups": _moved,
    "a live forecast": _forecast,
    "a snapshot": _snapshot,
    "watch": _watch,
    "a cycle of the service": _cycle,
    "an error of the service": _service_error,
    "an alert of the service": _alert,
    "who leads": _leading,
    "policies check": _policies,
}


@pytest.mark.parametrize("what", TEXTS)
def test_no_name_adds_a_line(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.emit({}, TEXTS[what]("x"), as_json=False)
    plain = capsys.readouterr().out
    output.emit({}, TEXTS[what](HOSTILE), as_json=False)
    forged = capsys.readouterr().out
    assert FORGED in forged  # it stands there, within a line
    assert not [line for line in forged.splitlines() if line.lstrip().startswith("FORGED")]
    assert len(forged.splitlines()) == len(plain.splitlines())


def test_no_error_adds_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit_error(RefusedError(HOSTILE, HOSTILE, code="GUARDED"), as_json=False)
    said = capsys.readouterr().err
    assert [line.partition(":")[0] for line in said.splitlines()] == ["error", "next"]


def test_lines_are_made_in_one_place() -> None:
    """What composes a text of several lines by itself would be one line of escapes, or a hole."""
    own = re.compile(r"""(?<![\w.])Lines\(|["']\\n["']\.join""")
    folder = Path(dashboard.cli.__file__).parent
    assert [path.name for path in folder.rglob("*.py") if own.search(path.read_text())] == []


def test_the_question_of_delete_records_is_of_one_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from dashboard.cli.purge.delete_records import _lifted

    guarded: Any = _plan(HOSTILE)
    free = replace(guarded, partitions=tuple(replace(p, guards=()) for p in guarded.partitions))
    for line in _lifted(guarded, free):
        output.progress(line)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("a yes lifts unread-by-group on orders-2")
