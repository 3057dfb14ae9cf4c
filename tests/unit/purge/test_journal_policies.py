"""One service at a time, switched on by name, no partition too soon: the database decides it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.clock import format_time
from dashboard.core.errors import RefusedError
from dashboard.domain.model import Guard, TopicPartition
from dashboard.purge.jobs import queue
from dashboard.purge.journal import policies
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import (
    Blocked,
    PolicyClaim,
    PolicyError,
    PolicyStatus,
    Use,
)
from dashboard.purge.journal.rows import Options
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Estimate, Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt.model import Receipt
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from tests.unit.purge import policy_racer
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition
from tests.unit.purge.test_plan import free_plan, plan_of

CLUSTER, TTL, INTERVAL = "cluster-1", timedelta(seconds=15), timedelta(seconds=30)
MOST = timedelta(days=1)
CLAIM = PolicyClaim("tidy", "sha", INTERVAL, "ours")
OPTIONS = Options(30_000, 500, 2, 3_600_000)


def take(journal: Journal, holder: str = "ours", now: datetime = NOW) -> str:
    return journal.take_lease(
        CLUSTER, holder, host="h", pid=7, ttl=TTL, most_silence=MOST, now=now
    ).holder


def switch(
    journal: Journal, sha256: str = "sha", *, on: bool = True, seen_at: datetime | None = None
) -> None:
    journal.switch_policy(
        CLUSTER, "tidy", sha256, enabled=on, who="ann", typed="switch on policy tidy on prod",
        from_where="host", now=NOW, seen_at=seen_at,
    )  # fmt: skip


def insert(
    journal: Journal, plan: Plan, claim: PolicyClaim | None = CLAIM, now: datetime = NOW
) -> str:
    run_id, _ = journal.insert(
        plan, token=f"{random.random()}", mode="wait-all", who="policy tidy", from_where="host",
        typed="", options=OPTIONS, connection={}, now=now, policy=claim,
    )  # fmt: skip
    return run_id


def refused(journal: Journal, plan: Plan, *args: Any, **change: Any) -> RefusedError:
    entries, runs = journal.newest_entry(), len(journal.runs())
    with pytest.raises(RefusedError) as found:
        insert(journal, plan, *args, **change)
    assert (journal.newest_entry(), len(journal.runs())) == (entries, runs)
    return found.value


def ready(journal: Journal) -> Journal:
    take(journal)
    switch(journal)
    return journal


def test_a_run_of_a_policy_is_kept_with_its_name(journal: Journal) -> None:
    run_id = insert(ready(journal), free_plan())
    run = journal.run(run_id)
    assert run.run.policy == "tidy"
    assert run.to_json()["policy"] == "tidy"
    (entry,) = journal.entries(run_id)
    assert (entry.body["policy"], entry.body["definition_sha256"]) == ("tidy", "sha")
    assert journal.policy_runs(CLUSTER) == {run_id: "tidy"}
    assert journal.policy_runs(CLUSTER, NOW + timedelta(seconds=1)) == {}
    assert journal.policy_runs("another") == {}
    assert journal.verify().ok


def test_a_run_of_a_person_is_of_no_policy(journal: Journal) -> None:
    run_id = insert(journal, free_plan(), None)
    assert journal.run(run_id).run.policy is None
    assert journal.policy_runs(CLUSTER) == {}


def test_a_policy_is_off_until_its_sentence_and_off_again_when_its_definition_changes(
    journal: Journal,
) -> None:
    take(journal)
    assert refused(journal, free_plan()).code == "POLICY_OFF"
    switch(journal, "another")
    assert refused(journal, free_plan()).code == "POLICY_CHANGED"
    switch(journal, on=False)
    assert refused(journal, free_plan()).code == "POLICY_OFF"
    switch(journal)
    insert(journal, free_plan())


def test_who_switched_a_policy_is_a_link_of_the_chain(journal: Journal) -> None:
    switch(journal, seen_at=NOW - TTL)
    (entry,) = journal.entries()
    told = ("policy", "enabled", "definition_sha256", "who", "typed", "from_where", "cluster_id")
    assert (entry.kind, entry.run_id) == ("policy", None)
    assert [entry.body[key] for key in told] == [
        "tidy", True, "sha", "ann", "switch on policy tidy on prod", "host", CLUSTER,
    ]  # fmt: skip
    state = journal.policy_states(CLUSTER)["tidy"]
    assert (state.who, state.at, state.from_where) == ("ann", NOW, "host")
    assert (state.enabled, state.definition_sha256, state.hold) == (True, "sha", None)
    assert (entry.body["seen_at"], state.waives_since) == (format_time(NOW - TTL), NOW - TTL)
    assert journal.policy_states("another") == {}


def test_a_switch_of_an_earlier_version_tells_its_own_time_alone(tmp_path: Path) -> None:
    """Its file is opened as it is; and one that is switched off by it shows nothing of before."""
    journal = Journal(tmp_path / "journal.sqlite")
    switch(journal)
    journal.file.rows("DROP TABLE policy_seen")
    journal.close()
    journal = Journal(tmp_path / "journal.sqlite")
    assert "seen_at" not in journal.entries()[0].body
    assert journal.policy_states(CLUSTER)["tidy"].waives_since == NOW
    for seen_at in (NOW - TTL, None):
        switch(journal, seen_at=seen_at)
        assert journal.policy_states(CLUSTER)["tidy"].seen_at == seen_at
    assert journal.verify().ok
    journal.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE policy_switches SET enabled=0",
        "UPDATE policy_switches SET definition_sha256='another'",
        "DELETE FROM policy_switches",
        "INSERT INTO policy_switches VALUES ('cluster-1','more',1,'x','eve','2026','h')",
        "UPDATE policy_seen SET seen_at='2027-01-01T00:00:00.000Z'",
        "DELETE FROM policy_seen",
        "UPDATE run_policies SET policy='more'",
        "DELETE FROM run_policies",
        "UPDATE entries SET body=replace(body, 'ann', 'eve') WHERE kind='policy'",
    ],
)
def test_a_switch_changed_behind_its_back_is_found(journal: Journal, sql: str) -> None:
    insert(ready(journal), free_plan())
    switch(journal, seen_at=NOW)
    assert journal.verify().ok
    journal.file.rows(sql)
    assert not journal.verify().ok


def test_without_the_lease_nothing_is_queued(journal: Journal) -> None:
    switch(journal)
    assert refused(journal, free_plan()).code == "LEADER_LOST"
    take(journal, "theirs")
    error = refused(journal, free_plan())
    assert (error.code, "process 7 on h" in error.message) == ("LEADER_LOST", True)
    assert take(journal) == "theirs"
    assert journal.release_lease(CLUSTER, "ours", NOW) is False
    assert journal.release_lease(CLUSTER, "theirs", NOW) is True
    assert journal.lease(CLUSTER) is None
    assert take(journal) == "ours"
    insert(journal, free_plan())


def test_a_holder_that_slept_through_its_lease_is_refused(journal: Journal) -> None:
    ready(journal)
    late = NOW + TTL
    assert refused(journal, free_plan(), now=late).code == "LEADER_LOST"
    assert take(journal, "theirs", late) == "theirs"
    assert refused(journal, free_plan(), now=late).code == "LEADER_LOST"
    assert refused(journal, free_plan()).code == "LEADER_LOST"  # by its own stale clock as well


def test_a_renewed_lease_lasts_from_its_renewal(journal: Journal) -> None:
    ready(journal)
    later = NOW + timedelta(seconds=10)
    lease = journal.take_lease(
        CLUSTER, "ours", host="h", pid=7, ttl=TTL, most_silence=MOST, now=later
    )
    assert (lease.taken_at, lease.renewed_at, lease.expires_at) == (NOW, later, later + TTL)
    assert journal.lease(CLUSTER) == lease
    assert take(journal, "theirs", NOW + TTL) == "ours"


def test_a_clock_that_steps_back_does_not_hold_the_lease_for_an_hour(journal: Journal) -> None:
    switch(journal)
    take(journal, "dead", NOW + timedelta(hours=1))
    assert take(journal, "ours", NOW) == "ours"
    insert(journal, free_plan())
    # A step back of less than the lease lasts changes nothing.
    assert take(journal, "theirs", NOW - timedelta(seconds=5)) == "ours"


def test_leases_of_two_clusters_are_apart(journal: Journal) -> None:
    take(journal)
    other = journal.take_lease(
        "cluster-2", "theirs", host="h", pid=8, ttl=TTL, most_silence=MOST, now=NOW
    )
    assert other.holder == "theirs"
    assert take(journal) == "ours"


@pytest.mark.parametrize("by", [None, CLAIM], ids=["a person", "the policy"])
def test_the_next_purge_of_a_partition_waits_its_interval(
    journal: Journal, by: PolicyClaim | None
) -> None:
    first = insert(ready(journal), free_plan(), by)
    journal.set_run(first, "done", NOW)
    again = free_plan(created_by="again")
    soon = NOW + INTERVAL - timedelta(milliseconds=1)
    take(journal, now=soon)
    error = refused(journal, again, now=soon)
    assert error.code == "TOO_SOON"
    assert all(told in error.message for told in (f"{TOPIC}-0", format_time(NOW), first))
    assert format_time(NOW + INTERVAL) in error.next_step
    take(journal, now=NOW + INTERVAL)
    insert(journal, again, now=NOW + INTERVAL)


def test_a_person_is_never_too_soon(journal: Journal) -> None:
    journal.set_run(insert(ready(journal), free_plan()), "done", NOW)
    by_hand = insert(journal, free_plan(created_by="bob"), None)
    assert journal.head(by_hand).state == "queued"


def test_another_partition_of_the_topic_is_not_too_soon(journal: Journal) -> None:
    journal.set_run(insert(ready(journal), free_plan()), "done", NOW)
    key = TopicPartition(TOPIC, 1)
    other = plan_of(
        facts(partition(number=1), claims={1: {"a": 40}}), {key: ResolvedTarget(40)}
    )  # fmt: skip
    insert(journal, other)


def test_a_last_start_ahead_of_the_clock_holds_and_says_why(journal: Journal) -> None:
    journal.set_run(insert(ready(journal), free_plan(), None), "done", NOW)
    before = NOW - timedelta(seconds=10)
    error = refused(journal, free_plan(created_by="again"), now=before)
    assert (error.code, "stepped back" in error.message) == ("TOO_SOON", True)


def test_the_later_of_queued_and_sent_is_the_last_start(journal: Journal) -> None:
    key = TopicPartition(TOPIC, 0)
    run_id = insert(journal, free_plan(), None)
    assert journal.last_starts(CLUSTER, [TOPIC, "none"]) == {key: NOW}
    sent_at = NOW + timedelta(minutes=2)
    row = replace(journal.partitions(run_id)[0], state="sent", sent_at=sent_at)
    journal.record(run_id, "intent", [row], sent_at)
    assert journal.last_starts(CLUSTER, [TOPIC]) == {key: sent_at}
    journal.record(run_id, "read", [replace(row, state="done")], sent_at + timedelta(minutes=9))
    journal.record(run_id, "intent", [replace(row, sent_at=NOW)], NOW)  # the clock stepped back
    assert journal.last_starts(CLUSTER, [TOPIC]) == {key: sent_at}
    assert journal.last_starts("another", [TOPIC]) == {}


def test_last_starts_are_found_by_key_however_many_there_are(journal: Journal) -> None:
    starts = "FROM partition_starts WHERE cluster_id='' AND topic=''"
    use = "FROM run_policies WHERE cluster_id='' AND policy='' AND queued_at>=''"
    for sql in (starts, f"{starts} AND started_at>''", use):
        (plan,) = journal.file.rows(f"EXPLAIN QUERY PLAN SELECT 1 {sql}")
        assert plan["detail"].startswith("SEARCH")


def measured(most: int | None = 900, **change: Any) -> Plan:
    """A plan that frees 500 bytes, by an estimate that knows at most so many."""
    estimate = Estimate(500, "history", {1: 500}, 100, most, 0, 0, 0)
    return free_plan(estimates={KEY: estimate}, **change)


def after(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_a_policys_use_adds_up_the_most_that_its_runs_may_free(journal: Journal) -> None:
    first = insert(ready(journal), measured())
    journal.set_run(first, "done", NOW)
    take(journal, now=after(1))
    second = insert(journal, measured(created_by="again"), now=after(1))
    journal.set_run(second, "done", after(1))
    assert journal.policy_use(CLUSTER, "tidy", NOW) == Use(2, 1800)
    assert journal.policy_use(CLUSTER, "tidy", after(1)) == Use(1, 900)
    assert journal.policy_use(CLUSTER, "tidy", after(2)) == Use(0, 0)
    assert journal.policy_use(CLUSTER, "other", NOW) == Use(0, 0)
    assert journal.policy_use("another", "tidy", NOW) == Use(0, 0)


def test_bytes_that_nobody_can_bound_are_told_apart_from_none(journal: Journal) -> None:
    insert(ready(journal), measured(None))
    assert journal.policy_use(CLUSTER, "tidy", NOW) == Use(1, 0, 1)


def test_what_a_receipt_measured_counts_where_it_is_more(journal: Journal) -> None:
    run_id = insert(ready(journal), measured())
    for freed, counted in ((700, 900), (1500, 1500), (None, 1500)):
        journal.write_receipt(run_id, Receipt(freed_bytes=freed), NOW)
        assert journal.policy_use(CLUSTER, "tidy", NOW) == Use(1, counted)


def test_a_run_counts_from_when_its_last_request_left(journal: Journal) -> None:
    run_id = insert(ready(journal), measured())
    row = journal.partitions(run_id)[0]
    for minutes in (59, 70, 65):  # a request that is sent again; a clock that steps back
        journal.record(run_id, "intent", [replace(row, state="sent", sent_at=after(minutes))], NOW)
    journal.set_run(run_id, "done", after(71))
    assert journal.policy_use(CLUSTER, "tidy", after(70)) == Use(1, 900)
    assert journal.policy_use(CLUSTER, "tidy", after(71)) == Use(0, 0)


def test_a_run_that_may_still_be_sent_counts_however_old_it_is(journal: Journal) -> None:
    run_id = insert(ready(journal), measured())
    assert journal.policy_use(CLUSTER, "tidy", after(600)) == Use(1, 900)
    journal.set_run(run_id, "refused", after(601))
    assert journal.policy_use(CLUSTER, "tidy", after(600)) == Use(0, 0)


def test_runs_of_an_earlier_version_count_as_they_did_until_they_are_sent(
    journal: Journal,
) -> None:
    run_id = insert(ready(journal), measured())
    with journal.file.write() as db:
        db.execute("DELETE FROM run_budgets")
    assert journal.policy_use(CLUSTER, "tidy", NOW) == Use(1, 900)
    row = replace(journal.partitions(run_id)[0], state="sent", sent_at=after(59))
    journal.record(run_id, "intent", [row], after(59))
    journal.set_run(run_id, "done", after(60))
    assert journal.policy_use(CLUSTER, "tidy", after(59)) == Use(1, 900)


def test_the_hours_use_is_found_by_index_however_many_runs_there_were(journal: Journal) -> None:
    plan = f"EXPLAIN QUERY PLAN {policies.USE}"
    steps = [row["detail"] for row in journal.file.rows(plan, *"123456")]
    scans = [s for s in steps if s.startswith("SCAN") and "counted" not in s]
    assert scans == ["SCAN runs USING INDEX open_runs"], steps


def test_a_status_is_replaced_and_no_link_of_the_chain(journal: Journal) -> None:
    blocked = (Blocked("t", 3, (Guard("share-group", "g shares it", "stop g"),)),)
    off = PolicyStatus("off", "switched off", None, None, 1, 4, (), ())
    ran = PolicyStatus(
        "ran", "3 partitions", NOW + 2 * TTL, "20260301T120000-ab", 1, 4, blocked,
        (PolicyError(None, "READ_ONLY", "purges are switched off"),),
    )  # fmt: skip
    journal.write_policy_status(CLUSTER, "tidy", off, NOW)
    journal.write_policy_status(CLUSTER, "tidy", ran, NOW + TTL)
    assert journal.policy_statuses(CLUSTER) == {"tidy": (NOW + TTL, ran)}
    assert journal.newest_entry() == 0


# -- the queue


def enqueue(journal: Journal, plan: Plan, **change: Any) -> str:
    given: dict[str, Any] = {
        "settings": Settings(state_dir=journal.file.path.parent),
        "policy": Policy("tidy", globs=("*",), mode="leader-only-verified"),
        "claim": CLAIM, "now": NOW, **change,
    }  # fmt: skip
    return queue.enqueue_policy(given.pop("settings"), journal, plan, **given)


def lifting(name: str, group: str | None = None, **change: Any) -> Plan:
    found = facts(partition(**change), claims={0: {"a": 10}})
    override = Override(name, group, "why", "ann", NOW)
    plan = plan_of(found, {KEY: ResolvedTarget(10 if group is None else 40)}, overrides=[override])
    assert [o.name for o in plan.overrides] == [name]
    return plan


def test_a_policys_run_is_queued_in_its_name_and_no_worker_started(journal: Journal) -> None:
    run = journal.run(enqueue(ready(journal), free_plan(), connection={"client_config": "/c"})).run
    assert (run.who, run.typed, run.mode, run.state) == (
        "policy tidy", "", "leader-only-verified", "queued",
    )  # fmt: skip
    assert (run.connection["client_config"], run.connection["cluster_id"]) == ("/c", CLUSTER)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"settings": Settings(read_only=True)}, "READ_ONLY"),
        ({"now": NOW + timedelta(hours=2)}, "PLAN_EXPIRED"),
        ({"plan": lifting("unread-by-group", "a")}, "NOT_LIFTABLE"),
        ({"plan": plan_of(facts(), {KEY: ResolvedTarget(None)})}, "NOTHING_FREE"),
        ({"plan": free_plan(waivers=[Waiver("dead", "gone", "ann", NOW)])}, "NOT_LIFTABLE"),
    ],
)
def test_the_queue_refuses_a_policy(journal: Journal, change: dict[str, Any], code: str) -> None:
    change = dict(change)
    with pytest.raises(RefusedError) as found:
        enqueue(ready(journal), change.pop("plan", free_plan()), **change)
    assert found.value.code == code
    assert journal.runs() == []


def test_the_journals_switch_stops_policies_too(journal: Journal) -> None:
    ready(journal).set_read_only(True, "eve", NOW)
    with pytest.raises(RefusedError) as found:
        enqueue(journal, free_plan())
    assert found.value.code == "READ_ONLY"


WAIVES = Policy("tidy", globs=("*",), waive={"dead": "gone since May"})
GONE = Waiver("dead", "gone since May", "ann", NOW, gone=True)


def test_the_waivers_of_its_definition_are_let_through(journal: Journal) -> None:
    run_id = enqueue(ready(journal), free_plan(waivers=[GONE]), policy=WAIVES)
    assert journal.plan(run_id).waivers == (GONE,)


@pytest.mark.parametrize(
    "change",
    [{"group_id": "other"}, {"reason": "another"}, {"gone": False}, {"move": True}],
    ids=lambda change: next(iter(change)),
)
def test_a_waiver_that_its_definition_does_not_make_is_refused(
    journal: Journal, change: dict[str, Any]
) -> None:
    with pytest.raises(RefusedError) as found:
        enqueue(ready(journal), free_plan(waivers=[replace(GONE, **change)]), policy=WAIVES)
    assert found.value.code == "NOT_LIFTABLE"
    assert journal.runs() == []


def test_what_a_policy_may_lift_is_let_through(journal: Journal) -> None:
    enqueue(ready(journal), lifting("under-replicated", isr=(1, 2)))
    assert [run.state for run in journal.runs()] == ["queued"]


# -- processes


def start(journal: Journal, **told: Any) -> subprocess.Popen[str]:
    racer = subprocess.Popen(
        [sys.executable, policy_racer.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    given = {"journal": str(journal.file.path), "now": format_time(NOW), **told}
    assert racer.stdin is not None
    racer.stdin.write(json.dumps(given) + "\n")
    racer.stdin.flush()
    return racer


def go(racers: list[subprocess.Popen[str]]) -> list[str]:
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [r.stdout.readline().strip() for r in racers if r.stdout is not None]


def end(racers: list[subprocess.Popen[str]]) -> None:
    for racer in racers:
        racer.kill()
        racer.communicate()


def outcomes(journal: Journal, told: list[Mapping[str, Any]]) -> list[str]:
    racers = [start(journal, **each) for each in told]
    try:
        return sorted(go(racers))
    finally:
        end(racers)


def test_of_eight_services_that_race_for_the_lease_one_holds_it(journal: Journal) -> None:
    told = outcomes(journal, [{"holder": f"service {n}"} for n in range(8)])
    held = journal.lease(CLUSTER)
    assert held is not None
    assert told == [held.holder] * 8


@pytest.mark.further
def test_of_eight_services_that_race_for_a_run_the_holders_gets_in_once(journal: Journal) -> None:
    ready(journal)
    told = [
        {
            "holder": "ours" if n < 5 else f"service {n}",
            "token": f"click {n}",
            "plan": free_plan(created_by=f"racer {n}").to_json_text(),
        }
        for n in range(8)
    ]
    assert outcomes(journal, told) == ["LEADER_LOST"] * 3 + ["TOO_SOON"] * 4 + ["in"]
    assert len(journal.runs()) == 1
    assert journal.verify().ok


def test_a_holder_that_was_killed_is_followed_when_its_lease_is_over(journal: Journal) -> None:
    switch(journal)
    dead = start(journal, holder="dead", stay=True)
    try:
        assert go([dead]) == ["dead"]
    finally:
        end([dead])
    assert take(journal, "ours", NOW + TTL - timedelta(milliseconds=1)) == "dead"
    assert take(journal, "ours", NOW + TTL) == "ours"
    insert(journal, free_plan(), now=NOW + TTL)


# -- what is asked often stays quick with years of runs


def test_the_newest_runs_are_those_open_or_of_late(journal: Journal) -> None:
    plans = [free_plan(created_by=f"{n}") for n in range(4)]
    ids = []
    for n, plan in enumerate(plans):
        ids.append(insert(journal, plan, None, NOW + timedelta(hours=n)))
        if n:
            journal.set_run(ids[n], "done", NOW)
        if n == 0:
            journal.file.rows("UPDATE run_topics SET topic='another'")  # so that more may follow
    since = NOW + timedelta(hours=2)
    assert [r.run_id for r in journal.recent(CLUSTER, since, 9)] == [ids[3], ids[2], ids[0]]
    assert [r.run_id for r in journal.recent(CLUSTER, since, 2)] == [ids[3], ids[2]]
    assert journal.recent("another", NOW, 9) == []


def test_a_receipt_of_a_list_is_what_was_written(journal: Journal) -> None:
    run_id = insert(journal, free_plan(), None)
    receipt = Receipt(final=True, freed_bytes=7, gap="x" * 3000)
    journal.write_receipt(run_id, receipt, NOW)
    (run,) = journal.runs()
    assert run.receipt == receipt
    assert run.receipt_final
    assert journal.run(run_id).to_json()["receipt"] == receipt.to_json()
