"""What the queue refuses before anything is written, and what a worker without a cluster says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import LowwaterError
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.plan.guards import Override
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.purge.facts_of import KEY, NOW, facts
from tests.unit.purge.test_plan import free_plan, plan_of

STRICT = Settings(purge=PurgeSettings(liftable_guards=("over-limit",)))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = open_default(Settings(state_dir=tmp_path))
    yield made
    made.close()


def enqueue(journal: Journal, plan: Plan, **change: Any) -> str:
    settings = change.pop("settings", Settings(state_dir=journal.file.path.parent))
    given: dict[str, Any] = {
        "mode": "wait-all", "confirm": plan.confirmation, "sha256": plan.sha256, "who": "ann",
        "token": "click", "now": NOW, "start": False, **change,
    }  # fmt: skip
    return queue.enqueue(settings, journal, plan, **given)


def overriding_plan() -> Plan:
    lifted = Override("unread-by-group", "a", "why", "ann", NOW)
    found = facts(claims={0: {"a": 10}})
    return plan_of(found, {KEY: ResolvedTarget(40)}, overrides=[lifted])


@pytest.mark.parametrize("typed", ["purge orders on prod", "purge 1 topics on prod"])
def test_a_program_may_count_the_topics_and_the_journal_keeps_what_was_typed(
    journal: Journal, typed: str
) -> None:
    run_id = enqueue(journal, free_plan(), confirm=typed)
    assert journal.head(run_id).typed == typed


@pytest.mark.parametrize(
    ("change", "code", "exit_code"),
    [
        ({"confirm": "purge 2 topics on prod"}, "CONFIRMATION_MISMATCH", 3),
        ({"confirm": ""}, "CONFIRMATION_MISMATCH", 3),
        ({"sha256": "0" * 64}, "PLAN_EDITED", 3),
        ({"now": NOW + timedelta(hours=1)}, "PLAN_EXPIRED", 3),
        ({"mode": "fast"}, "MODE_UNKNOWN", 1),
        ({"settings": Settings(read_only=True)}, "READ_ONLY", 3),
        ({"settings": STRICT, "overridden": True}, "NOT_LIFTABLE", 3),
    ],
)
def test_the_queue_refuses(
    journal: Journal, change: dict[str, Any], code: str, exit_code: int
) -> None:
    change = dict(change)
    plan = overriding_plan() if change.pop("overridden", False) else free_plan()
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, plan, **change)
    assert (refused.value.code, refused.value.exit_code) == (code, exit_code)
    assert journal.runs() == []
    assert journal.entries() == []


@pytest.mark.parametrize(
    ("change", "settings", "code"),
    [
        ({"expires_at": NOW + timedelta(days=36_500)}, {}, "PLAN_EXPIRED"),
        ({"created_at": NOW + timedelta(days=2), "expires_at": NOW + timedelta(days=9)}, {},
         "PLAN_EXPIRED"),
        ({}, {"plan_expires_after": timedelta(minutes=1)}, "PLAN_EXPIRED"),
        ({}, {"most_partitions": 0}, "GUARDED"),
    ],
)  # fmt: skip
def test_a_plan_that_was_sealed_again_is_bounded_by_settings(
    journal: Journal, change: dict[str, Any], settings: dict[str, Any], code: str
) -> None:
    """Its text may say that it lives for ever, or is of tomorrow; its hash is right."""
    plan = replace(free_plan(), **change)
    chosen = Settings(state_dir=journal.file.path.parent, purge=PurgeSettings(**settings))
    at = NOW if code == "GUARDED" else NOW + timedelta(hours=1)
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, plan, settings=chosen, now=at)
    assert refused.value.code == code
    assert journal.entries() == []


def test_a_plan_that_frees_a_tools_topic_was_not_made_by_a_planner(journal: Journal) -> None:
    plan = free_plan()
    edited = replace(
        plan, partitions=tuple(replace(p, topic="connect-offsets") for p in plan.partitions)
    )
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, edited)
    assert (refused.value.code, "connect-offsets" in refused.value.message) == ("GUARDED", True)


def test_a_plan_without_a_free_partition_is_refused(journal: Journal) -> None:
    guarded = plan_of(facts(), {KEY: ResolvedTarget(None)})
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, guarded)
    assert (refused.value.code, refused.value.exit_code) == ("NOTHING_FREE", 3)
    assert refused.value.message.endswith("free of guards: no-committed-offset on 1")


def test_an_expired_plan_that_ran_says_that_it_ran(journal: Journal) -> None:
    enqueue(journal, free_plan())
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, free_plan(), token="later", now=NOW + timedelta(days=1))
    assert refused.value.code == "PLAN_ALREADY_APPLIED"


def test_the_switch_in_the_journal_refuses_too(journal: Journal) -> None:
    journal.set_read_only(True, "approver", NOW)
    with pytest.raises(LowwaterError) as refused:
        enqueue(journal, free_plan())
    assert refused.value.code == "READ_ONLY"


def test_read_only_that_was_written_since_the_start_refuses(
    journal: Journal, tmp_path: Path
) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text("read_only = true")
    with pytest.raises(LowwaterError, match=str(file)) as refused:
        enqueue(journal, free_plan(), settings=Settings(state_dir=tmp_path, source=file))
    assert refused.value.code == "READ_ONLY"


def test_the_connection_is_kept_as_paths(journal: Journal, tmp_path: Path) -> None:
    config = {"client_config": "/etc/client.properties"}
    run_id = enqueue(journal, free_plan(), connection=config)
    connection = journal.run(run_id).run.connection
    assert connection["client_config"] == "/etc/client.properties"
    assert connection["cluster_id"] == "cluster-1"
    assert str(connection["data"]).startswith("/")


def test_a_closed_run_takes_no_wish(journal: Journal) -> None:
    run_id = enqueue(journal, free_plan())
    queue.request_pause(Settings(), journal, run_id, "ann")
    assert journal.wish(run_id) == "pause"
    queue.request_resume(Settings(), journal, run_id, "ann")
    assert journal.wish(run_id) is None
    journal.set_run(run_id, "done", NOW)
    with pytest.raises(LowwaterError) as refused:
        queue.request_cancel(Settings(), journal, run_id, "ann")
    assert refused.value.code == "RUN_CLOSED"


def test_a_worker_that_reaches_no_cluster_closes_the_run_with_the_reason(
    journal: Journal, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path, data=str(tmp_path / "data"))
    servers = {"bootstrap_servers": "127.0.0.1:9"}
    timeout = timedelta(milliseconds=100)
    run_id = enqueue(
        journal, free_plan(), settings=settings, start=True, connection=servers, timeout=timeout
    )
    view = queue.wait(settings, journal, run_id, timeout=timedelta(seconds=240))
    assert (view.run.state, view.exit_code) == ("refused", 3)
    assert view.partitions[0].error == "CLUSTER_UNREACHABLE"
    assert "127.0.0.1:9" in view.to_json()["error"]["message"]
    assert journal.verify().ok


def test_waiting_gives_up_at_its_timeout(journal: Journal) -> None:
    run_id = enqueue(journal, free_plan())
    journal.beat(run_id, NOW + timedelta(days=3650))  # not stale: nobody is to be started
    began = time.monotonic()
    settings = Settings(state_dir=journal.file.path.parent)
    view = queue.wait(settings, journal, run_id, timeout=timedelta(milliseconds=50))
    assert view.run.open
    assert time.monotonic() - began < 200


def test_a_plan_that_calls_its_cluster_by_another_name_is_refused(
    journal: Journal, tmp_path: Path
) -> None:
    """Sealed again by hand, it would have people type the name of a cluster that is not purged."""
    settings = Settings(state_dir=tmp_path, data=str(tmp_path / "data"))
    plan = free_plan()
    store = ClusterStore(Store(settings.data), plan.cluster_id)
    store.write_connection("prod-1:9092", None, "prod")
    forged = replace(plan, cluster_name="dev")
    with pytest.raises(LowwaterError) as caught:
        enqueue(journal, forged, settings=settings, confirm="purge orders on dev")
    assert caught.value.code == "CLUSTER_MISMATCH"
    assert "is called prod" in caught.value.message
    assert enqueue(journal, plan, settings=settings)


def test_a_plan_whose_sentence_may_mean_another_cluster_is_refused(
    journal: Journal, tmp_path: Path
) -> None:
    """A second cluster of that name came after the plan, or the plan is an older release's."""
    settings, store = (
        Settings(state_dir=tmp_path, data=str(tmp_path / "data")),
        Store(str(tmp_path / "data")),
    )
    plan = free_plan()
    ClusterStore(store, plan.cluster_id).write_connection("h:1", None, plan.cluster_name)
    ClusterStore(store, "second").write_connection("h:2", None, plan.cluster_name)
    with pytest.raises(LowwaterError, match="another cluster of the data folder") as caught:
        enqueue(journal, plan, settings=settings)
    assert caught.value.code == "CLUSTER_MISMATCH"
    apart = replace(plan, name_shared=True)
    with pytest.raises(LowwaterError) as caught:
        enqueue(journal, apart, settings=settings, confirm=plan.confirmation)
    assert caught.value.code == "CONFIRMATION_MISMATCH"
    run_id = enqueue(journal, apart, settings=settings)
    assert journal.head(run_id).typed == f"{plan.confirmation} ({plan.cluster_id})"
