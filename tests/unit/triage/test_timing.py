"""When bytes have left at the latest, what would make it sooner, and who makes it later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import ClusterError
from dashboard.domain.model import ConfigEntry
from dashboard.triage.answer import Triage
from dashboard.triage.timing import CHECK, DELAY, NATIVE, VERIFIED, WAIT_ALL, Timing, helps, timing
from dashboard.triage.words import sentences
from tests.unit.purge.facts_of import NOW
from tests.unit.triage.world import D1, SEGMENT, World, ask, read_to_the_end


def entry(scope: str, name: str, key: str, value: str) -> ConfigEntry:
    return ConfigEntry(scope, name, key, value, "STATIC_BROKER_CONFIG")


def of(*entries: ConfigEntry, topics: tuple[str, ...] = ("a", "b")) -> Timing:
    return timing(entries, 7, topics, purge_seconds=2.0, follower_seconds=0.0)


def test_the_worst_case_is_of_this_broker_and_the_slowest_topic() -> None:
    found = of(
        entry("broker", "7", CHECK, "300000"),
        entry("broker", "8", CHECK, "900000"),
        entry("topic", "a", DELAY, "60000"),
        entry("topic", "b", DELAY, "90000"),
        entry("topic", "never-planned", DELAY, "990000"),
    )
    assert found.worst_seconds == 2 + 300 + 90
    assert (found.slowest, found.assumed) == (("b",), ())


def test_what_cannot_be_read_counts_with_kafkas_defaults_and_says_so() -> None:
    found = of(entry("topic", "a", DELAY, "1000"))
    assert (found.check_seconds, found.delay_seconds) == (300, 60)
    assert found.slowest == ("b",)
    assert found.assumed == (CHECK, DELAY)


def test_in_time_nothing_needs_help_and_too_late_the_dynamic_setting_comes_first() -> None:
    found = of(entry("broker", "7", CHECK, "300000"), entry("topic", "a", DELAY, "60000"))
    assert helps(found, timedelta(seconds=362)) == []
    first, second, _ = helps(found, timedelta(seconds=361))
    assert first.startswith(DELAY)
    assert "not enough" not in first
    assert CHECK in second
    assert "read-only" in second
    assert "not enough by itself" in helps(found, timedelta(minutes=1))[0]


def test_a_delay_that_is_short_already_is_no_help() -> None:
    found = of(*(entry("topic", t, DELAY, "500") for t in ("a", "b")))
    assert not any(text.startswith(DELAY) for text in helps(found, timedelta(seconds=1)))


def slow(broker: int, topic: str = "a", catch_up: float | None = 120.0) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "broker_id": broker, "log_dir": D1, "slow": True,
            "cause": "disk", "lag_records": 500, "in_sync": True, "catch_up_seconds": catch_up,
            "observed_at": NOW}  # fmt: skip


def silent() -> World:
    """Where each replica's log ends, no broker tells: the newest findings do."""
    world = World({("a", 0): read_to_the_end(5)})
    world.failing["replicas"] = ClusterError("nobody answers", "Start a broker.")
    return world


def triage(
    folder: Path,
    *rows: dict[str, Any],
    world: World | None = None,
    age: timedelta | None = None,
) -> Triage:
    made = world or World({("a", 0): read_to_the_end(5)})
    return ask(folder, made, SEGMENT, "a", tables={"slow_followers": list(rows)}, age=age)


def test_with_everybody_in_step_waiting_for_all_is_the_mode(tmp_path: Path) -> None:
    answer = triage(tmp_path, slow(3, topic="other"))
    assert (answer.mode, answer.risks) == (WAIT_ALL, ())
    assert answer.timing is not None
    assert answer.timing.worst_seconds == pytest.approx(360.75)
    assert (answer.met, answer.in_time) == (True, True)


def test_another_slow_follower_changes_the_mode_but_not_when_bytes_leave(tmp_path: Path) -> None:
    answer = triage(tmp_path, slow(3), world=silent())
    assert (answer.mode, [r.broker_id for r in answer.risks]) == (VERIFIED, [3])
    assert answer.timing is not None
    assert answer.timing.follower_seconds == 0
    said = " ".join(sentences(answer))
    assert "--mode leader-only-verified" in said
    assert "is itself behind" not in said


def test_where_the_broker_in_need_is_the_slow_one_its_bytes_leave_late(tmp_path: Path) -> None:
    answer = triage(tmp_path / "x", slow(2), world=silent())
    assert answer.timing is not None
    assert answer.timing.follower_seconds == 120
    assert "is itself behind" in " ".join(sentences(answer))
    endless = triage(tmp_path / "y", slow(2, catch_up=None), world=silent())
    assert (endless.in_time, endless.met, endless.sure) == (False, False, "sure")
    assert "cannot be said" in " ".join(sentences(endless))


def test_who_was_slow_and_keeps_up_now_changes_no_mode(tmp_path: Path) -> None:
    for name, age in (("x", None), ("y", timedelta(hours=10))):
        answer = triage(tmp_path / name, slow(2, catch_up=None), slow(3), age=age)
        assert (answer.mode, answer.risks) == (WAIT_ALL, ())
        assert (answer.in_time, answer.met) == (True, True)


def test_what_is_too_old_names_nobody_slow(tmp_path: Path) -> None:
    """Not even where the cluster does not say who is behind: the broker may have been repaired."""
    answer = triage(tmp_path, slow(3), world=silent(), age=timedelta(hours=10))
    assert (answer.mode, answer.risks) == (WAIT_ALL, ())


def test_where_nothing_tells_who_is_slow_no_time_is_promised(tmp_path: Path) -> None:
    answer = triage(tmp_path, slow(2), world=silent(), age=timedelta(hours=10))
    assert (answer.in_time, answer.met) == (False, False)
    assert "cannot be said: who follows slowly was not told" in " ".join(sentences(answer))


@pytest.mark.further
def test_a_follower_that_stands_still_now_is_seen_without_the_analysis(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(5)})
    world.ends_behind = {3: 20}
    answer = triage(tmp_path, world=world)
    assert (answer.mode, [r.broker_id for r in answer.risks]) == (VERIFIED, [3])


def test_leaders_that_speak_leader_only_are_asked_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World({("a", 0): read_to_the_end(5)})
    world.ends_behind = {3: 20}
    native = list(world.brokers())
    for broker in native:
        broker.api_versions["DeleteRecords"] = 3
    monkeypatch.setattr(world, "brokers", lambda _=(): tuple(native))
    assert triage(tmp_path, world=world).mode == NATIVE


def test_too_late_is_not_met_however_many_bytes(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(5)})
    answer = ask(tmp_path, world, SEGMENT, "a", within=timedelta(minutes=5))
    assert (answer.sure, answer.in_time, answer.met) == ("sure", False, False)
    assert "too late" in " ".join(sentences(answer))
    assert DELAY in " ".join(sentences(answer))
