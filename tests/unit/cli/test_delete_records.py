"""`lowwater delete-records`: nothing is sent without a yes, and a yes covers what was shown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dashboard.cluster.live
from dashboard import calls
from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.domain.model import Guard
from dashboard.purge.journal.journal import open_default
from dashboard.purge.plan import drafts
from dashboard.purge.plan.claims import GroupClaim
from dashboard.purge.plan.guards import Lifted
from dashboard.purge.plan.plan import Plan
from dashboard.settings.settings import Settings, load
from dashboard.store.connections import client_of_run
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.cli.plans import a_plan
from tests.unit.cli.workers import start_with

WORDS = ["delete-records", "--bootstrap-server", "h:1", "--offset-json-file", "o.json"]


@pytest.fixture(autouse=True)
def offsets(alone: Path) -> None:
    Path("o.json").write_text(
        '{"partitions":[{"topic":"orders","partition":0,"offset":600}],"version":1}'
    )


@pytest.fixture
def drafted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Let these be the plans of each reading, one after the other; the overrides are returned.

    `lifted` is what a plan becomes with overrides; without it they lift nothing.
    """

    def place(*plans: Plan, lifted: Plan | None = None) -> list[list[str]]:
        readings: list[Plan] = []
        overrides: list[list[str]] = []

        def read_live(*_: Any, **_more: Any) -> Any:
            readings.append(plans[min(len(readings), len(plans) - 1)])
            return SimpleNamespace(plan=planned, facts=SimpleNamespace(elsewhere=None))

        def planned(override: Any) -> Plan:
            overrides.append([lift.name for lift in override])
            return lifted if lifted and override and len(readings) == 1 else readings[-1]

        @contextmanager
        def connect(_client: Any, _timeout: Any) -> Iterator[Any]:
            yield SimpleNamespace(cluster_id=lambda: "c1")

        monkeypatch.setattr(drafts, "read_live", read_live)
        monkeypatch.setattr(dashboard.cluster.live, "connect", connect)
        return overrides

    return place


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that were started; each ends at once with all its partitions done."""
    found: list[str] = []

    def spawn(settings: Settings, run_id: str) -> int:
        found.append(run_id)
        journal = open_default(settings)
        rows = [
            replace(row, state="done", low_watermark=600, leader_log_start_offset=600)
            for row in journal.partitions(run_id)
        ]
        journal.record(run_id, "read", rows, utc_now())
        journal.set_run(run_id, "done", utc_now())
        journal.close()
        return 0

    start_with(monkeypatch, spawn)
    return found


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_yes_lifts_what_may_be_lifted_and_answers_per_partition(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    overrides = drafted(a_plan())
    assert main([*WORDS, "--yes", "--json"]) == 2  # one of three stays guarded
    value = _printed(capsys)
    assert [r["error"] for r in value["partitions"]] == [None, None, "under-replicated"]
    assert [r["low_watermark"] for r in value["partitions"]] == [600, 600, None]
    assert overrides == [[], ["under-replicated"]]
    assert spawned == [value["run_id"]]


@pytest.mark.parametrize("as_json", [True, False])
def test_an_offset_that_a_replay_window_lowered_is_not_done(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    """Records below 600 went; the file asked for more, an erasure say."""
    plan = a_plan()
    first, second, _ = plan.partitions
    capped = replace(first, capped_by="replay-window")
    drafted(replace(plan, partitions=(capped, second)))
    assert main([*WORDS, "--yes", *(["--json"] if as_json else [])]) == 2
    out, err = capsys.readouterr()
    assert spawned
    assert "1 target lowered by the replay-window" in err
    if as_json:
        rows = json.loads(out)["partitions"]
        assert [(r["error"], r["low_watermark"]) for r in rows] == [
            ("replay-window", 600), (None, 600),
        ]  # fmt: skip
    else:
        assert "partition: orders-0\terror: replay-window\tlow_watermark: 600" in out
        assert "partition: orders-1\tlow_watermark: 600" in out


def test_a_script_is_told_so_too(monkeypatch: pytest.MonkeyPatch, spawned: list[str]) -> None:
    plan = a_plan()
    first, *rest = plan.partitions
    lowered = replace(plan, partitions=(replace(first, capped_by="replay-window"), *rest))
    monkeypatch.setattr(calls, "_planned", lambda *_: lowered)
    found = calls.delete_records({("orders", 0): 700}, bootstrap_servers="h:1")
    assert [(r.low_watermark, r.error) for r in found.values()] == [
        (600, "replay-window"), (600, None), (None, "under-replicated"),
    ]  # fmt: skip


@pytest.mark.parametrize("answer", [None, "", "no\n", "y\n"])
def test_without_a_yes_nothing_is_queued(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str | None,
) -> None:
    drafted(a_plan())
    stdin = io.StringIO() if answer is None else _Terminal(answer)
    monkeypatch.setattr("sys.stdin", stdin)
    assert main([*WORDS, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == "CONFIRMATION_REQUIRED"
    assert spawned == []


def test_a_yes_at_the_question_is_enough_and_lines_read_as_kafkas(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafted(a_plan())
    monkeypatch.setattr("sys.stdin", _Terminal("yes\n"))
    assert main(WORDS) == 2
    captured = capsys.readouterr()
    lines = captured.out.splitlines()  # as kafka-delete-records.sh prints them
    assert lines[:2] == [
        "Executing records delete operation", "Records delete operation completed:",
    ]  # fmt: skip
    assert "partition: orders-0\tlow_watermark: 600" in lines
    assert "partition: orders-2\terror: under-replicated" in captured.out
    assert len(spawned) == 1


def test_the_plan_that_was_shown_is_the_one_that_is_queued(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarded = a_plan()
    override = Lifted("under-replicated", None)
    last = replace(guarded.partitions[2], guards=(), lifted=(override,))
    shown = replace(guarded, partitions=(*guarded.partitions[:2], last))
    grown = tuple(replace(p, high_watermark=9000) for p in shown.partitions)
    drafted(guarded, replace(shown, partitions=grown), lifted=shown)
    monkeypatch.setattr("sys.stdin", _Terminal("yes\n"))
    assert main(WORDS) == 0
    said = capsys.readouterr().err
    assert "a yes lifts under-replicated on orders-2: one of three is gone" in said
    assert f"sha256 {shown.sha256}" in said
    with closing(open_default(load())) as journal:
        assert journal.plan(spawned[0]).sha256 == shown.sha256


@pytest.mark.parametrize(
    "changed",
    [
        ({"groups": (GroupClaim("billing", 500), GroupClaim("late", 900))}, "group late came"),
        ({"groups": (GroupClaim("billing", 400),)}, "group billing was at 500 and is at 400"),
        ({"groups": (GroupClaim("billing", None),)}, "group billing was at 500 and is at None"),
        ({"topic_id": "other"}, "made anew"),
        ({"log_start_offset": 0}, "starts at 0 again"),
        ({"guards": (Guard("reassigning", "it moves", "Wait."),)}, "reassigning: it moves"),
        ({"lifted": (Lifted("share-group", "s"),)}, "share-group of group s was not there"),
    ],
)
def test_what_changed_while_the_question_stood_refuses_by_name(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changed: tuple[dict[str, Any], str],
) -> None:
    (change, said), shown = changed, a_plan()
    drafted(shown, replace(shown, partitions=(
        shown.partitions[0], replace(shown.partitions[1], **change), shown.partitions[2],
    )))  # fmt: skip
    monkeypatch.setattr("sys.stdin", _Terminal("yes\n"))
    assert main([*WORDS, "--json"]) == 3
    error = _printed(capsys)["error"]
    assert (error["code"], "orders-1" in error["message"]) == ("READERS_CHANGED", True)
    assert said in error["message"]
    assert spawned == []


def test_an_answer_after_the_plan_expired_deletes_nothing(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafted(a_plan(hours_ago=2), a_plan())
    monkeypatch.setattr("sys.stdin", _Terminal("yes\n"))
    assert main([*WORDS, "--json"]) == 3
    assert _printed(capsys)["error"]["code"] == "PLAN_EXPIRED"
    assert spawned == []


def test_its_own_rights_reach_this_run_alone_and_change_nothing_that_is_stored(
    drafted: Callable[..., list[list[str]]], spawned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Policies, pages and plans would go on with them: an admin's, or none at all."""
    drafted(a_plan())
    Path("least.properties").write_text("security.protocol=SSL\nssl.keystore.location=/least\n")
    Path("admin.properties").write_text("security.protocol=SSL\nssl.truststore.location=/admin\n")
    store = ClusterStore(Store(load().data), "c1")
    store.write_connection("k:9093", str(Path("least.properties").resolve()), "prod")
    before = store.connection()
    assert main([*WORDS, "--json"]) == 1  # it asks, and nobody is there
    assert store.connection() == before
    assert main([*WORDS, "--command-config", "admin.properties", "--yes", "--json"]) == 2
    assert store.connection() == before
    capsys.readouterr()
    with closing(open_default(load())) as journal:
        run = journal.head(spawned[0])
    assert client_of_run(load(), store, run.connection) == {
        "bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.ca.location": "/admin",
    }  # fmt: skip


@pytest.mark.parametrize(("named", "code"), [("prod", 2), ("c1", 2), ("staging", 1)])
def test_a_name_that_is_not_that_of_the_cluster_reached_is_refused_and_never_given_to_it(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
    named: str,
    code: int,
) -> None:
    drafted(a_plan())
    store = ClusterStore(Store(load().data), "c1")
    store.write_connection("k:9093", None, "prod")
    assert main([*WORDS, "--cluster", named, "--yes", "--json"]) == code
    value = _printed(capsys)
    assert value.get("error", {}).get("code") == (None if code == 2 else "CLUSTER_MISMATCH")
    assert (store.name, len(spawned)) == ("prod", code // 2)


def test_the_flag_of_the_kips_text_is_taken_too(
    drafted: Callable[..., list[list[str]]], spawned: list[str]
) -> None:
    drafted(a_plan())
    words = [w.replace("--offset-json-file", "--delete-offset-json-file") for w in WORDS]
    assert main([*words, "--yes", "--json"]) == 2
    assert len(spawned) == 1


def test_what_nobody_may_lift_is_exit_3(
    drafted: Callable[..., list[list[str]]],
    spawned: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    drafted(a_plan(all_guarded=True))
    assert main([*WORDS, "--yes", "--json"]) == 3
    value = _printed(capsys)
    assert value["error"]["code"] == "NOTHING_FREE"
    assert {r["error"] for r in value["partitions"]} == {"under-replicated"}
    assert spawned == []


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("[]", [], "OFFSETS_INVALID"),
        ('{"partitions":[{"topic":"t","partition":0,"offset":-2}]}', [], "OFFSETS_INVALID"),
        (None, ["--timeout-ms", "-1"], "TIMEOUT_INVALID"),
        (None, ["--command-config", "none"], "CLIENT_CONFIG_UNREADABLE"),
    ],
)
def test_bad_input_is_named_and_no_broker_is_asked(
    capsys: pytest.CaptureFixture[str], text: str | None, words: list[str], code: str
) -> None:
    if text is not None:
        Path("o.json").write_text(text)
    assert main([*WORDS, *words, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code


@pytest.mark.parametrize(
    "file", ['{"partitions":[],"version":1}', '{"partitions":[],"comment":"none today"}']
)
def test_a_file_without_partitions_asks_for_nothing_as_to_kafkas_tool(
    spawned: list[str], capsys: pytest.CaptureFixture[str], file: str
) -> None:
    Path("o.json").write_text(file)
    assert main(WORDS) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Executing records delete operation", "Records delete operation completed:",
    ]  # fmt: skip
    assert main([*WORDS, "--json"]) == 0
    assert _printed(capsys) == {"run_id": None, "state": "done", "partitions": []}
    assert spawned == []


def test_fields_that_nobody_knows_are_none_of_its_business(
    drafted: Callable[..., list[list[str]]], spawned: list[str]
) -> None:
    drafted(a_plan())
    row = '{"topic":"orders","partition":0,"offset":600,"note":"see the ticket"}'
    Path("o.json").write_text(f'{{"partitions":[{row}],"version":1,"by":"ops"}}')
    assert main([*WORDS, "--yes"]) == 2
    assert len(spawned) == 1


def test_its_version_is_told_and_a_missing_config_is_named_by_its_own_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["delete-records", "--version"]) == 0
    assert capsys.readouterr().out.startswith("lowwater ")
    assert main([*WORDS, "--yes", "--command-config", "none.properties"]) == 1
    said = capsys.readouterr().err
    assert "none.properties" in said
    assert "given with --command-config" in said


def test_a_leader_that_is_ahead_of_the_low_watermark_is_told_beside_kafkas_lines(
    drafted: Callable[..., list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def spawn(settings: Settings, run_id: str) -> int:
        with closing(open_default(settings)) as journal:
            rows = [
                replace(row, state="done", low_watermark=0, leader_log_start_offset=600)
                for row in journal.partitions(run_id)
            ]
            journal.record(run_id, "read", rows, utc_now())
            journal.set_run(run_id, "done", utc_now())
        return 0

    start_with(monkeypatch, spawn)
    drafted(a_plan())
    assert main([*WORDS, "--yes", "--leader-only"]) == 2
    captured = capsys.readouterr()
    assert "partition: orders-0\tlow_watermark: 0" in captured.out.splitlines()
    assert "on 2 of 3 partitions the leader's log starts elsewhere" in captured.err
