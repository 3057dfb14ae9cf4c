"""Each place where something is queued, switched or declared asks for a role, before anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.errors import RefusedError
from dashboard.people.people import Actor
from dashboard.policies.service import switching
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_plan import free_plan

PEOPLE = PeopleSettings(viewers=("*",), operators=("bob",), approvers=("ann",))
EVE, BOB, ANN = (Actor(name, None, "local") for name in ("eve", "bob", "ann"))
Act = Callable[[Settings, Journal, Actor], Any]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path, people=PEOPLE)


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    made = open_default(settings)
    yield made
    made.close()


def purge(settings: Settings, journal: Journal, who: Actor) -> str:
    plan = free_plan()
    return queue.enqueue(
        settings, journal, plan, mode="wait-all", confirm=plan.confirmation, sha256=None,
        who=who, token="click", now=NOW, start=False,
    )  # fmt: skip


def test_a_viewer_queues_nothing_and_an_operator_does(settings: Settings, journal: Journal) -> None:
    with pytest.raises(RefusedError) as refused:
        purge(settings, journal, EVE)
    assert refused.value.code == "ROLE_TOO_LOW"
    assert journal.runs() == []
    assert journal.entries() == []
    assert journal.run(purge(settings, journal, BOB)).run.who == "bob"


@pytest.mark.parametrize("ask", [queue.request_pause, queue.request_resume, queue.request_cancel])
def test_a_viewer_stops_no_run(settings: Settings, journal: Journal, ask: Any) -> None:
    run_id = purge(settings, journal, BOB)
    links = journal.newest_entry()
    with pytest.raises(RefusedError) as refused:
        ask(settings, journal, run_id, EVE)
    assert refused.value.code == "ROLE_TOO_LOW"
    assert journal.newest_entry() == links
    ask(settings, journal, run_id, BOB)


@pytest.mark.parametrize("who", [EVE, BOB])
def test_only_an_approver_moves_the_switch_of_every_purge(
    settings: Settings, journal: Journal, who: Actor
) -> None:
    with pytest.raises(RefusedError) as refused:
        queue.switch_read_only(settings, journal, True, who)
    assert refused.value.code == "ROLE_TOO_LOW"
    assert not journal.read_only()
    queue.switch_read_only(settings, journal, True, ANN)
    assert journal.read_only()


def test_a_viewer_switches_no_policy(settings: Settings, journal: Journal) -> None:
    from tests.unit.policies.test_switching import policy

    for act in (_on, _off):
        with pytest.raises(RefusedError) as refused:
            act(settings, journal, policy())
        assert refused.value.code == "ROLE_TOO_LOW"
    assert journal.entries() == []


def _on(settings: Settings, journal: Journal, policy: Any) -> None:
    switching.switch_on(
        settings, journal, None, policy, typed="", who=EVE, from_where="here", now=NOW  # type: ignore[arg-type]
    )  # fmt: skip


def _off(settings: Settings, journal: Journal, policy: Any) -> None:
    switching.switch_off(settings, journal, None, policy.name, who=EVE, from_where="here", now=NOW)  # type: ignore[arg-type]


LINES = {
    "purge": "delete-records --bootstrap-server 127.0.0.1:9 --offset-json-file none.json",
    "waive": "plan --topic t --to committed --waive g=gone --out plan.json",
    "override": "plan --topic t --to committed --override over-limit=yes --out plan.json",
    "triage": "triage --broker 1 --need 1GiB --within 5m --accept-undeclared yes --out plan.json",
    "sweep": "orphans sweep --log-dirs /d --bootstrap-server 127.0.0.1:9 --verdicts v --apply",
    "delete-now": "orphans sweep --log-dirs /d --bootstrap-server 127.0.0.1:9 --delete-now f",
    "restore": "orphans sweep --log-dirs /d --bootstrap-server 127.0.0.1:9 --restore f",
}


@pytest.mark.parametrize("line", LINES.values(), ids=list(LINES))
def test_the_command_line_asks_for_a_role_before_it_reads_anything(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'operator = "eve"\nstate_dir = "{tmp_path}/s"\n[people]\nviewers = ["*"]\n'
    (tmp_path / "lowwater.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main([*line.split(), "--json"]) == 3
    assert '"ROLE_TOO_LOW"' in capsys.readouterr().out
    assert not (tmp_path / "plan.json").exists()
