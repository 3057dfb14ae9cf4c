"""`lowwater policies`: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.cli.policies.run import _once, _Told
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.purge.journal.journal import Journal
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.collected import collected
from tests.unit.policies.service_room import Streams

TOPIC = "billing-sum-repartition"
SETTINGS = """
state_dir = "state"
operator = "ann"
[policies.streams]
preset = "repartition"
min_purge_interval_ms = 1000
[policies.elsewhere]
topics = ["x"]
cluster = "other"
"""
SENTENCE = "switch on policy streams on prod as 9dbafa301547"


@pytest.fixture
def live(alone: Path, monkeypatch: pytest.MonkeyPatch) -> Streams:
    (alone / "lowwater.toml").write_text(SETTINGS)
    monkeypatch.delenv("LOWWATER_STATE_DIR")
    store = collected(ClusterStore(Store("data"), "cluster-1"), utc_now(), TOPIC)
    store.write_connection("here:9092", None, "prod")
    made = Streams()
    made.topic(TOPIC)
    made.produce(TOPIC, 10)
    made.commit("billing", TOPIC)
    monkeypatch.setattr("dashboard.cluster.live.connect", lambda *_, **_named: made)
    return made


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the objects on stdout."""
    code = main(["policies", *words, "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_check_tells_what_would_go_and_sends_nothing(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (value,) = call(capsys, "check")
    assert code == 0
    (policy,) = value["policies"]
    assert (policy["name"], policy["standing"], policy["held_by"]) == ("streams", "off", "off")
    assert policy["confirmation"] == SENTENCE
    (application,) = policy["applications"]
    assert application["state"] == "would-run"
    assert (application["application"], application["due"]) == ("billing", 1)
    assert application["topics"] == [TOPIC]
    assert policy["past_week"]["purges"] == 0
    assert (live.sent, value["leader"], value["last_sign"]) == ([], None, None)
    assert main(["policies", "check"]) == 0
    out = capsys.readouterr().out
    assert "no service holds the lease now, none gave a sign yet; a timer may run one" in out


def test_check_exits_3_when_all_there_is_to_purge_is_refused(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    live.commit("audit", TOPIC, offset=3)
    code, (value,) = call(capsys, "check")
    assert code == 3
    (application,) = value["policies"][0]["applications"]
    assert application["blocked"][0]["guards"][0]["name"] == "unread-by-group"
    assert application["code"] == "GUARDED"


def test_check_without_json_names_the_sentence_and_the_guards(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    live.commit("audit", TOPIC, offset=3)
    main(["policies", "check"])
    text = capsys.readouterr().out
    assert f'lowwater policies on streams --confirm "{SENTENCE}"' in text
    assert "unread-by-group" in text


def test_check_shows_whom_a_policy_waives_and_who_is_listed(
    live: Streams, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waives = 'waive = { "audit" = "looked once", "pod-7" = "gone" }'
    text = SETTINGS.replace(
        "min_purge_interval_ms = 1000", f"min_purge_interval_ms = 1000\n{waives}"
    )
    (alone / "lowwater.toml").write_text(text)
    live.commit("audit", TOPIC, offset=0)
    main(["policies", "check"])
    out = capsys.readouterr().out
    assert "  waives audit while no coordinator lists it: looked once\n" in out
    assert "  waives pod-7 while no coordinator lists it: gone\n" in out
    assert "not waived, since a coordinator lists it: audit" in out
    _, (value,) = call(capsys, "check")
    (policy,) = value["policies"]
    assert policy["waive"] == {"audit": "looked once", "pod-7": "gone"}
    assert policy["applications"][0]["not_waived"] == ["audit"]
    assert policy["confirmation"] != SENTENCE


def test_the_cost_of_purging_as_often_as_commits_is_said_before_and_at_the_switch(
    live: Streams, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    often = "min_purge_interval_ms = 100\nas_often_as_commits = true"
    _, (value,) = call(capsys, "check")
    assert value["policies"][0]["caution"] is None
    (alone / "lowwater.toml").write_text(SETTINGS.replace("min_purge_interval_ms = 1000", often))
    main(["policies", "check"])
    assert "  caution: up to 864\u202f000 runs a day for each" in capsys.readouterr().out
    _, (value,) = call(capsys, "check")
    (policy,) = value["policies"]
    assert policy["min_purge_interval_ms"] == 100
    assert main(["policies", "on", "streams", "--confirm", policy["confirmation"]]) == 0
    assert "caution: up to 864\u202f000 runs a day" in capsys.readouterr().out
    code, (off,) = call(capsys, "off", "streams")
    assert (code, off["standing"], off["caution"]) == (0, "off", None)


def test_a_policy_is_switched_on_by_its_sentence_and_off_without(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (value,) = call(capsys, "on", "streams", "--confirm", "yes")
    assert (code, value["error"]["code"]) == (3, "CONFIRMATION_MISMATCH")
    code, (value,) = call(capsys, "on", "streams", "--confirm", SENTENCE)
    assert (code, value["standing"], value["who"]) == (0, "on", "ann")
    code, (value,) = call(capsys, "off", "streams")
    assert (code, value["standing"]) == (0, "off")


def test_off_is_said_only_of_a_journal_that_had_it_on(
    live: Streams, alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    monkeypatch.setenv("LOWWATER_STATE_DIR", "elsewhere")  # as a shell without the service's has it
    for words in (("off", "streams"), ("off", "streams")):
        code, (value,) = call(capsys, *words)
        assert (code, value["error"]["code"]) == (3, "POLICY_NOT_ON")
        assert f"{alone}/elsewhere/journal.sqlite" in value["error"]["message"]
    code, (value,) = call(capsys, "off", "nobody")
    assert (code, value["error"]["code"]) == (1, "POLICY_UNKNOWN")
    assert f"{alone}/elsewhere/journal.sqlite" in value["error"]["next"]

    monkeypatch.delenv("LOWWATER_STATE_DIR")
    _, (first,) = call(capsys, "off", "streams")
    code, (second,) = call(capsys, "off", "streams")  # it is off: the first one's word stands
    assert (code, second) == (0, first)
    assert first["journal"] == f"{alone}/state/journal.sqlite"
    assert main(["policies", "off", "streams"]) == 0
    said = capsys.readouterr().out
    assert said == (
        f"policy streams is off on prod, by ann at {first['at']}, "
        f"in the journal {alone}/state/journal.sqlite\n"
    )


def test_once_runs_one_cycle_and_ends(live: Streams, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    code, events = call(capsys, "run", "--once")
    assert code == 0
    assert [e["event"] for e in events] == ["leading", "cycle"]
    assert events[1]["state"] == "ran"
    assert live.log_start(TOPIC) == 10
    assert live.closed
    code, events = call(capsys, "run", "--once")
    assert code == 0, "the lease was given up: the next call leads"
    assert len(live.sent) == 1, "the interval is not over"


def test_once_is_refused_while_another_leads(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    with _leading():
        code, events = call(capsys, "run", "--once")
    assert (code, events[-1]["error"]["code"]) == (3, "NOT_LEADING")
    assert live.sent == []


def test_once_without_a_cluster_is_exit_4(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    live.down = True
    code, events = call(capsys, "run", "--once")
    assert (code, events[-1]["error"]["code"]) == (4, "CLUSTER_UNREACHABLE")


def test_once_is_exit_4_where_planning_gets_no_answer(
    live: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    live.failing["offsets"] = ClusterError("the leader hung up", "Look at its log.")
    code, events = call(capsys, "run", "--once")
    assert (code, events[-1]["state"], events[-1]["code"]) == (4, "waiting", "CLUSTER_UNREACHABLE")
    live.failing.clear()
    code, events = call(capsys, "run", "--once")
    assert (code, events[-1]["state"]) == (0, "ran")


def test_the_service_goes_on_until_a_signal_and_gives_up_the_lease(
    live: Streams, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)

    def end() -> None:
        until = time.monotonic() + 240
        while live.log_start(TOPIC) < 10 and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end).start()
    code, events = call(capsys, "run")
    assert code == 130
    assert "ran" in {e.get("state") for e in events}
    journal = Journal(alone / "state" / "journal.sqlite")
    assert journal.lease("cluster-1") is None
    journal.close()


@pytest.mark.parametrize(
    "words",
    [
        ("on",),
        ("check", "streams"),
        ("check", "--once"),
        ("off", "streams", "--confirm", "x"),
        ("on", "unknown", "--confirm", "x"),
    ],
)
def test_wrong_usage_is_named(
    live: Streams, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, (value,) = call(capsys, *words)
    assert (code, value["error"]["code"]) in ((1, "USAGE"), (1, "POLICY_UNKNOWN"))


def test_a_cluster_without_policies_is_named(
    live: Streams, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (alone / "lowwater.toml").write_text("")
    code, (value,) = call(capsys, "check")
    assert (code, value["error"]["code"]) == (1, "NO_POLICY")


@contextmanager
def _leading() -> Any:
    journal = Journal(Path("state") / "journal.sqlite")
    from datetime import timedelta

    ttl = timedelta(minutes=5)
    journal.take_lease(
        "cluster-1", "other", host="far", pid=7, ttl=ttl, most_silence=ttl, now=utc_now()
    )
    yield
    journal.close()


@pytest.mark.parametrize(
    ("verb", "code", "error"), [("watch", 4, "CLUSTER_UNREACHABLE"), ("policies", 1, "NO_SNAPSHOT")]
)
def test_the_documented_services_read_their_settings_and_know_their_flags(
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    verb: str,
    code: int,
    error: str,
) -> None:
    """Nothing was collected there, and no broker has such a name."""
    text = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    chapter = text.split("### As a supervised process")[1]
    (alone / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    toml = chapter.split("```toml\n")[1].split("```")[0]
    for place in ("/etc/lowwater/", "/var/lib/lowwater/"):
        toml = toml.replace(place, f"{alone}/")
    (alone / "lowwater.toml").write_text(toml)
    monkeypatch.delenv("LOWWATER_STATE_DIR")
    lines = [x for x in chapter.splitlines() if x.startswith("ExecStart=")]
    (words,) = [found for x in lines if (found := x.split("/lowwater ")[1].split())[0] == verb]
    assert main(words) == code
    assert json.loads(capsys.readouterr().out)["error"]["code"] == error


def test_one_that_was_taken_out_is_told_held_and_switched_off(
    live: Streams, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "on", "streams", "--confirm", SENTENCE)
    (alone / "lowwater.toml").write_text(SETTINGS[: SETTINGS.index("[policies")])
    code, (value,) = call(capsys, "run", "--once")
    assert (code, value["error"]["code"]) == (1, "NO_POLICY")
    assert "lowwater policies off streams" in value["error"]["next"]

    (alone / "lowwater.toml").write_text(SETTINGS)
    code, events = call(capsys, "run", "--once")
    assert (code, events[-1]["state"], events[-1]["code"]) == (3, "held", "POLICY_TAKEN_OUT")
    assert live.sent == []

    (alone / "lowwater.toml").write_text(SETTINGS.replace("streams", "others"))
    code, (value,) = call(capsys, "check")
    assert (code, value["on_and_undefined"]) == (0, ["streams"])
    assert main(["policies", "check"]) == 0
    assert "define it for this cluster: lowwater policies off streams" in capsys.readouterr().out
    moved = SETTINGS.replace('preset = "repartition"', 'preset = "repartition"\ncluster = "us"')
    (alone / "lowwater.toml").write_text(f'{moved}[policies.here]\ntopics = ["none"]\n')
    code, (value,) = call(capsys, "check")
    assert (code, value["on_and_undefined"]) == (0, ["streams"])
    (alone / "lowwater.toml").write_text(SETTINGS.replace("streams", "others"))
    code, (value,) = call(capsys, "on", "streams", "--confirm", SENTENCE)
    assert (code, value["error"]["code"]) == (1, "POLICY_UNKNOWN")
    code, (value,) = call(capsys, "off", "streams")
    assert (code, value["standing"], value["who"]) == (0, "off", "ann")
    code, (value,) = call(capsys, "off", "nobody")
    assert (code, value["error"]["code"]) == (1, "POLICY_UNKNOWN")


def test_a_cycle_that_ran_counts_after_hundreds_that_were_refused() -> None:
    told = _Told(as_json=True)
    cycle = {"event": "cycle", "at": "now", "policy": "p", "run_id": None, "application": None}
    told.event({**cycle, "state": "ran", "reason": "done"})
    for _ in range(150):
        told.event({**cycle, "state": "refused", "reason": "guarded"})
    assert _exit_once(told) == 0
    told.event({**cycle, "state": "ran", "reason": "partial: 1 of 2"})
    for _ in range(150):
        told.event({**cycle, "state": "refused", "reason": "guarded"})
    assert _exit_once(told) == 2


@pytest.mark.parametrize(
    ("others", "code", "exit_code"),
    [
        ((), "CLUSTER_CHANGED", 4),
        (("refused",), "BROKER_UNREACHABLE", 4),  # not all is refused: of one nobody knows
        (("ran",), "BROKER_UNREACHABLE", 0),
        ((), "TOO_SOON", 0),
        ((), "READ_ONLY", 0),
        ((), None, 0),
    ],
)
def test_a_cycle_of_which_no_answer_came_is_no_good_end(
    others: tuple[str, ...], code: str | None, exit_code: int
) -> None:
    told = _Told(as_json=True)
    cycle = {"event": "cycle", "at": "now", "policy": "p", "run_id": None, "application": None}
    for state in others:
        told.event({**cycle, "state": state, "reason": "done", "code": None})
    told.event({**cycle, "state": "waiting", "reason": "later", "code": code})
    assert _exit_once(told) == exit_code


def _exit_once(told: _Told) -> int:
    ended = SimpleNamespace(error=None, leader=None, applications=SimpleNamespace(in_flight={}))
    return _once(ended, told)  # type: ignore[arg-type]
