"""Each event is told once, whatever the webhook does; its address is seen nowhere."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import Guard
from dashboard.policies.service import alerts as webhook
from dashboard.policies.service.alerts import Alerts, Told
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.journal.policies import Blocked, PolicyStatus
from dashboard.purge.journal.rows import Follower
from dashboard.settings.sections import AlertSettings
from dashboard.settings.settings import Settings
from dashboard.store import attempts
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, build
from tests.support import sample_store
from tests.unit.policies.hook import SECRET, Hook, hook
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_journal_policies import insert
from tests.unit.purge.test_plan import free_plan

CLUSTER = "cluster-1"
ALL = ("reverted", "stalled", "new-stray", "disk-above:90%", "policy-refused")
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with hook() as listening:
        yield listening


@pytest.fixture
def settings(tmp_path: Path, hooked: Hook) -> Settings:
    alerts = AlertSettings(hooked.address, on=ALL)
    return Settings(state_dir=tmp_path, data=str(tmp_path / "data"), alerts=alerts)


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    made = open_default(settings)
    yield made
    made.close()


@pytest.fixture
def alerts(settings: Settings, journal: Journal) -> Alerts:
    return Alerts(settings, journal, CLUSTER, "prod")


def refuse(journal: Journal, state: str = "refused", guard: str = "share-group") -> None:
    blocked = (Blocked("t", 0, (Guard(guard, "why", "what lifts it"),)),)
    status = PolicyStatus(state, "guards", None, None, 1, 1, blocked, ())
    journal.write_policy_status(CLUSTER, "tidy", status, NOW)


def sent_row(journal: Journal, **change: Any) -> str:
    """A run whose one partition was sent at NOW, then became what `change` says."""
    run_id = insert(journal, free_plan(), None)
    row = replace(journal.partitions(run_id)[0], state="sent", sent_at=NOW)
    journal.record(run_id, "intent", [row], NOW)
    journal.record(run_id, "read", [replace(row, **change)], NOW)
    return run_id


def test_an_event_is_told_once_in_the_contracts_words(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    assert alerts.look(NOW) == []
    refuse(journal)
    (told,) = alerts.look(NOW)
    assert told == Told("policy-refused", "policy tidy is refused: guards", 1, None)
    assert alerts.look(NOW + SECOND) == alerts.look(NOW + 5 * HOUR) == []
    (body,) = hooked.got
    assert body.keys() == {"event", "cluster", "at", "text", "details"}
    assert (body["event"], body["cluster"], body["at"]) == (
        "policy-refused", "prod", "2026-03-01T12:00:00.000Z",
    )  # fmt: skip
    assert body["text"] == "prod: policy tidy is refused: guards"
    assert body["details"]["items"][0]["guards"] == ["share-group"]
    assert hooked.paths == [f"/{SECRET}?token={SECRET}"]


def test_a_service_that_starts_again_tells_nothing_twice(
    alerts: Alerts, journal: Journal, settings: Settings, hooked: Hook
) -> None:
    refuse(journal)
    alerts.look(NOW)
    assert Alerts(settings, Journal(journal.file.path), CLUSTER, "prod").look(NOW + HOUR) == []
    assert len(hooked.got) == 1


def test_of_two_services_one_tells(
    alerts: Alerts, journal: Journal, settings: Settings, hooked: Hook
) -> None:
    refuse(journal)
    together, told = threading.Barrier(4), list[Told]()

    def service() -> None:
        own = Journal(journal.file.path)
        together.wait()
        told.extend(Alerts(settings, own, CLUSTER, "prod").look(NOW))
        own.close()

    services = [threading.Thread(target=service) for _ in range(4)]
    for each in services:
        each.start()
    for each in services:
        each.join()
    assert (len(told), len(hooked.got)) == (1, 1)


def test_what_happens_again_much_later_is_told_again_but_no_flicker(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    refuse(journal)
    alerts.look(NOW)
    refuse(journal, "ran")
    alerts.look(NOW + 10 * SECOND)
    refuse(journal)
    assert alerts.look(NOW + 20 * SECOND) == []
    refuse(journal, "ran")
    alerts.look(NOW + 2 * HOUR)
    refuse(journal)
    assert len(alerts.look(NOW + 2 * HOUR + SECOND)) == 1
    refuse(journal, guard="not-deletable")  # another reason is another event
    assert len(alerts.look(NOW + 2 * HOUR + 2 * SECOND)) == 1


def test_a_failure_is_kept_tried_again_ever_later_and_then_forgotten(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    hooked.answers = [500, 503, 302]
    refuse(journal)
    at, waits = NOW, []
    for error in ("answered 500", "answered 503", "answered 302"):
        (told,) = alerts.look(at)
        assert told.error is not None
        assert error in told.error
        (row,) = journal.untold_alerts(CLUSTER)
        assert (row.error, row.told_at, row.attempts) == (told.error, None, len(waits) + 1)
        assert alerts.look(row.retry_at - SECOND) == []
        waits.append(row.retry_at - at)
        at = row.retry_at
    assert waits == sorted(set(waits))
    (told,) = alerts.look(at)
    assert told.error is None
    assert journal.untold_alerts(CLUSTER) == []
    assert hooked.paths == [f"/{SECRET}?token={SECRET}"] * 4  # none was followed elsewhere


def test_a_webhook_that_is_down_for_days_is_tried_each_hour(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    hooked.answers = [500] * 40
    refuse(journal)
    at = NOW
    for _ in range(20):
        alerts.look(at)
        (row,) = journal.untold_alerts(CLUSTER)
        assert row.retry_at - at <= HOUR
        at = row.retry_at
    assert row.retry_at - at <= HOUR


def test_a_webhook_that_hangs_holds_up_no_purge(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    hooked.answers = ["hang"]
    refuse(journal)
    found: list[Told] = []
    free = threading.Event()

    def send(address: str, body: Any, _: float) -> None:
        try:
            webhook.post(address, body, 1.5)
        finally:
            free.wait(120)

    alerts.send = send
    looking = threading.Thread(target=lambda: found.extend(alerts.look(NOW)))
    looking.start()
    while not hooked.got:
        pass
    other = Journal(journal.file.path)
    run_id = insert(other, free_plan(), None)  # the journal is free while the webhook hangs
    assert looking.is_alive()
    other.beat(run_id, NOW)
    other.close()
    free.set()
    looking.join()
    alerts.send = webhook.post
    assert [told.error for told in found] == ["the webhook did not answer in time"]
    assert len(alerts.look(NOW + HOUR)) == 1


def test_the_message_of_a_process_that_died_while_sending_is_sent_later(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    refuse(journal)
    alerts.send = die
    with pytest.raises(KeyboardInterrupt):
        alerts.look(NOW)
    alerts.send = webhook.post
    assert alerts.look(NOW + SECOND) == []
    assert len(alerts.look(NOW + timedelta(minutes=1))) == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (f"http://127.0.0.1:9/{SECRET}", "refused the connection"),
        (f"http://nowhere.invalid/{SECRET}", "webhook"),
        (f"http://127.0.0.1:{SECRET}/", "could not be reached"),
        (f"https://127.0.0.1:1/{SECRET}ü", "webhook"),
    ],
)
def test_the_address_is_in_no_error_and_not_in_the_journal(
    settings: Settings, journal: Journal, address: str, why: str
) -> None:
    alerts = Alerts(replace(settings, alerts=AlertSettings(address, on=ALL)), journal, CLUSTER, "p")
    refuse(journal)
    (told,) = alerts.look(NOW)
    assert told.error is not None
    assert why in told.error
    with pytest.raises(webhook.NotTold) as failed:
        webhook.post(address, {}, 1)
    shown = repr(told) + repr(alerts) + "".join(traceback.format_exception(failed.value))
    assert SECRET not in shown.replace(repr(address), "")
    assert "nowhere" not in repr(told)
    assert failed.value.__context__ is None
    journal.close()
    kept = b"".join(p.read_bytes() for p in journal.file.path.parent.glob("journal.sqlite*"))
    assert SECRET.encode() not in kept


def test_a_webhook_file_that_cannot_be_read_is_a_failure_like_another(
    settings: Settings, journal: Journal, hooked: Hook, tmp_path: Path
) -> None:
    file = tmp_path / "webhook"
    chosen = replace(settings, alerts=AlertSettings(webhook_file=file, on=ALL))
    alerts = Alerts(chosen, journal, CLUSTER, "prod")
    refuse(journal)
    (told,) = alerts.look(NOW)
    assert told.error is not None
    assert str(file) in told.error
    file.write_text(hooked.address + "\n")
    assert [t.error for t in alerts.look(NOW + HOUR)] == [None]


def test_nothing_is_looked_at_without_a_webhook_or_without_events(
    settings: Settings, journal: Journal, hooked: Hook
) -> None:
    refuse(journal)
    for chosen in (AlertSettings(on=ALL), AlertSettings(hooked.address)):
        assert Alerts(replace(settings, alerts=chosen), journal, CLUSTER, "p").look(NOW) == []
    others = AlertSettings(hooked.address, on=("reverted", "stalled"))
    assert Alerts(replace(settings, alerts=others), journal, CLUSTER, "p").look(NOW) == []


# -- the events


def texts(alerts: Alerts, now: datetime = NOW) -> list[tuple[str, str]]:
    return [(told.event, told.text) for told in alerts.look(now)]


def test_records_that_came_back_are_told_once_for_a_run(alerts: Alerts, journal: Journal) -> None:
    run_id = sent_row(journal, state="reverted")
    ((event, text),) = texts(alerts)
    assert event == "reverted"
    assert f"1 partition of orders, purged by run {run_id}" in text
    assert texts(alerts, NOW + 9 * HOUR) == []


def test_a_partition_without_proof_stalls_when_its_request_is_over(
    alerts: Alerts, journal: Journal
) -> None:
    run_id = sent_row(journal, state="unknown")
    assert texts(alerts, NOW + 30 * SECOND) == []
    ((event, text),) = texts(alerts, NOW + 31 * SECOND)
    assert (event, run_id in text, "1 without proof" in text) == ("stalled", True, True)
    assert texts(alerts, NOW + 60 * SECOND) == []


BEHIND = Follower(2, 0, True, False, None, 100, None)
CLOSING = replace(BEHIND, closing_per_second=10.0)
DEAD = replace(BEHIND, alive=False)


@pytest.mark.parametrize(("follower", "stalls"), [(BEHIND, True), (CLOSING, False), (DEAD, False)])
def test_a_follower_that_never_comes_stalls_when_the_watch_is_over(
    alerts: Alerts, journal: Journal, follower: Follower, stalls: bool
) -> None:
    run_id = sent_row(journal, state="leader_done", followers=(follower,))
    journal.set_run(run_id, "partial", NOW, watched_until=NOW + HOUR)
    assert texts(alerts, NOW + HOUR - SECOND) == []
    found = texts(alerts, NOW + HOUR)
    assert [event for event, _ in found] == ["stalled"] * stalls
    assert all("broker 2 behind with no end in sight" in text for _, text in found)


def test_a_follower_behind_in_an_open_run_is_no_stall_yet(alerts: Alerts, journal: Journal) -> None:
    sent_row(journal, state="sent", followers=(BEHIND,))
    assert texts(alerts, NOW + 9 * HOUR) == []


def test_what_was_sent_in_the_future_stalls_at_once(alerts: Alerts, journal: Journal) -> None:
    sent_row(journal, state="unknown")
    assert texts(alerts, NOW - 10 * SECOND) == []
    assert [event for event, _ in texts(alerts, NOW - HOUR)] == ["stalled"]


def test_after_a_clock_stepped_back_what_happens_again_is_told_again(
    alerts: Alerts, journal: Journal
) -> None:
    refuse(journal)
    assert len(alerts.look(NOW + 24 * HOUR)) == 1
    refuse(journal, "ran")
    assert alerts.look(NOW) == alerts.look(NOW + 2 * HOUR) == []
    refuse(journal)
    assert len(alerts.look(NOW + 3 * HOUR)) == 1


@pytest.fixture
def found(settings: Settings, journal: Journal) -> Alerts:
    sample_store.write(settings.data, "rich", now=NOW)
    return Alerts(settings, journal, sample_store.CLUSTER_ID, "prod-eu")


def test_orphan_folders_are_told_together_and_once(found: Alerts, hooked: Hook) -> None:
    told = {t.event: t for t in found.look(NOW)}
    stray = told["new-stray"]
    (body,) = [b for b in hooked.got if b["event"] == "new-stray"]
    assert stray.events == body["details"]["count"] == len(body["details"]["items"]) > 1
    assert all(item["directory"] for item in body["details"]["items"])
    assert found.look(NOW + SECOND) == []


def test_disks_above_the_share_are_told_by_name_and_share(
    found: Alerts, settings: Settings, journal: Journal, hooked: Hook
) -> None:
    on = AlertSettings(hooked.address, on=("disk-above:1%",))
    low = Alerts(replace(settings, alerts=on), journal, sample_store.CLUSTER_ID, "prod-eu")
    (told,) = low.look(NOW)
    assert told.event == "disk-above:1%"
    assert "% full" in told.text
    high = replace(on, on=("disk-above:99.9%",))
    calm = Alerts(replace(settings, alerts=high), journal, sample_store.CLUSTER_ID, "prod-eu")
    assert calm.look(NOW) == []


def test_findings_that_are_old_tell_nothing_but_that(found: Alerts, hooked: Hook) -> None:
    (told,) = found.look(NOW + HOUR)
    assert told.event == "findings-unusable"
    assert told.text.startswith("full disks and new strays are not told: ")
    assert "lowwater watch" in told.text
    assert found.look(NOW + 2 * HOUR) == []
    assert [body["event"] for body in hooked.got] == ["findings-unusable"]


def test_findings_of_a_slow_watch_are_not_called_old_in_its_time(
    found: Alerts, settings: Settings
) -> None:
    """`watch --every 1h` beside settings that say nothing of how often."""
    cluster = ClusterStore(Store(settings.data), sample_store.CLUSTER_ID)
    with attempts.attempt(cluster, lambda: NOW, print, HOUR):
        pass
    assert "findings-unusable" not in {told.event for told in found.look(NOW + 2 * HOUR)}
    assert "findings-unusable" in {told.event for told in found.look(NOW + 4 * HOUR)}


def test_findings_of_a_moment_still_to_come_are_said_to_be_so(found: Alerts) -> None:
    (told,) = found.look(NOW - HOUR)
    assert told.event == "findings-unusable"
    assert "ahead of this host's clock" in told.text


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"clock_ahead_seconds": 3600.0}, "3600 s ahead of the cluster's controller"),
        ({"clock_ahead_seconds": -3600.0}, "3600 s behind the cluster's controller"),
        ({"clock_error": "CLOCK_UNREAD"}, "could not be compared with the cluster's controller"),
    ],
)
def test_findings_by_a_clock_that_was_wrong_are_said_to_be_so(
    alerts: Alerts, settings: Settings, details: dict[str, object], said: str
) -> None:
    analysed(settings, NOW, details=details)
    (told,) = alerts.look(NOW)
    assert told.event == "findings-unusable"
    assert said in told.text


def analysed(
    settings: Settings,
    now: datetime,
    *,
    total: int | None = 100,
    strays: int = 0,
    details: dict[str, object] | None = None,
) -> None:
    """A snapshot of now and its findings: a full disk (total 0: no row of any), and strays."""
    store = ClusterStore(Store(settings.data), CLUSTER)
    taken = store.begin("snapshots", now)
    taken.commit(0.1, details or {})
    analysis = store.begin("findings", now)

    def write(name: str, count: int, **values: Any) -> None:
        row = {"snapshot_id": taken.id, "taken_at": now, "broker_id": 1, "log_dir": "/d", **values}
        columns = {key: [value] * count for key, value in row.items()}
        analysis.write(name, build(FINDING_TABLES[name], columns))

    write("disks", int(total != 0), total_bytes=total, usable_bytes=1)
    write("orphans", strays, directory="t-0", kind="orphan", size_bytes=7, verdict="unsure")
    analysis.commit(0.1, {"snapshot_id": taken.id})
    store.set_latest(analysis.id)


def of_findings(alerts: Alerts, now: datetime) -> list[str]:
    return [told.event for told in alerts.look(now)]


@pytest.mark.parametrize("total", [0, None])
def test_where_no_broker_tells_its_disks_strays_are_told_and_the_rest_is_said(
    alerts: Alerts, settings: Settings, total: int | None
) -> None:
    """All refuse DescribeLogDirs, or are older; the folder is in an inventory."""
    analysed(settings, NOW, total=total, strays=1)
    told = {each.event: each.text for each in alerts.look(NOW)}
    assert told.keys() == {"new-stray", "findings-unusable"}
    assert told["findings-unusable"].startswith(
        "full disks are not told: no broker tells how full its disks are"
    )
    assert of_findings(alerts, NOW + SECOND) == []
    (late,) = alerts.look(NOW + HOUR)
    assert late.text.startswith("full disks and new strays are not told: the newest findings are")


def test_who_asked_for_strays_alone_hears_nothing_of_disks(
    settings: Settings, journal: Journal, hooked: Hook
) -> None:
    analysed(settings, NOW, total=0)
    on = replace(settings, alerts=AlertSettings(hooked.address, on=("new-stray",)))
    alone = Alerts(on, journal, CLUSTER, "prod")
    assert of_findings(alone, NOW) == []
    assert of_findings(alone, NOW + HOUR) == ["findings-unusable"]


def test_a_full_disk_is_not_over_while_nobody_tells_of_it(
    alerts: Alerts, settings: Settings
) -> None:
    analysed(settings, NOW)
    assert of_findings(alerts, NOW) == ["disk-above:90%"]
    analysed(settings, NOW + 2 * HOUR, total=0)
    assert of_findings(alerts, NOW + 2 * HOUR) == ["findings-unusable"]
    analysed(settings, NOW + 4 * HOUR)
    assert of_findings(alerts, NOW + 4 * HOUR) == [], "the same one, still"


def test_who_asked_for_nothing_that_findings_tell_hears_nothing_of_them(
    found: Alerts, settings: Settings, journal: Journal, hooked: Hook
) -> None:
    others = replace(settings, alerts=AlertSettings(hooked.address, on=("reverted",)))
    assert Alerts(others, journal, sample_store.CLUSTER_ID, "prod-eu").look(NOW + HOUR) == []


def test_a_clock_that_steps_back_delays_no_alert_for_longer_than_a_retry(
    alerts: Alerts, journal: Journal, hooked: Hook
) -> None:
    hooked.answers = [500]
    refuse(journal)
    (failed,) = alerts.look(NOW + 24 * HOUR)
    assert failed.error is not None
    (told,) = alerts.look(NOW)
    assert told.error is None
