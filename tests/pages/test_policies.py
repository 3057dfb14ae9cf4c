"""Policies: their state, the switch with its sentence, what is blocked, the past week."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.core.canonical import read
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import AnalysisError, RefusedError
from dashboard.core.words import first_letter_up
from dashboard.purge.journal.alerts import Event
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import PolicyClaim, PolicyStatus
from dashboard.purge.journal.rows import Options
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.section import policy_settings
from dashboard.settings.purge import LIFTABLE_GUARDS
from dashboard.ui import policy_advice
from tests.pages.conftest import Open, copied, said
from tests.pages.purges import a_plan
from tests.support import sample_store

SENTENCE = "switch on policy orders on prod-eu as ce145edf084b"
ORDERS = """
[policies.orders]
topics = ["orders*"]
most_bytes_per_hour = "10GiB"
windows = ["Mon-Sun 00:00-24:00"]
overrides = { "under-replicated" = "one broker is often late" }
"""
OpenPolicies = Callable[..., AppTest]


@pytest.fixture
def open_policies(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenPolicies:
    """`open_policies(settings, variant, **query)`: the page with these settings beside it."""

    def open_it(settings: str = ORDERS, variant: str | None = "plain", **query: str) -> AppTest:
        path = tmp_path / "lowwater.toml"
        path.write_text(settings)
        monkeypatch.setenv("LOWWATER_SETTINGS", str(path))
        return open_page("policies", variant, **query)

    return open_it


def defined(text: str = ORDERS, name: str = "orders") -> Policy:
    found = policy_settings(tomllib.loads(text)["policies"], "here", LIFTABLE_GUARDS)
    return next(policy for policy in found if policy.name == name)


def switched_on(journal: Journal, policy: Policy | None = None) -> None:
    one = policy or defined()
    journal.switch_policy(
        sample_store.CLUSTER_ID, one.name, one.definition_sha256, enabled=True, who="eve",
        typed="", from_where="a test", now=utc_now(),
    )  # fmt: skip


def typed(app: AppTest, text: str) -> AppTest:
    field = next(f for f in app.text_input if f.label == "Confirmation")
    return field.set_value(text).run()


def test_a_policy_is_off_until_its_sentence_is_typed(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    app = open_policies()
    text = said(app)
    assert "○ off" in text
    assert "No service holds the lease, and none ever did: nothing is purged." in text
    assert "<code>lowwater policies run</code>" in text
    assert f"<code>{SENTENCE}</code>" in text
    for words in (
        "<dt>Topics</dt><dd>those called orders*</dd>",
        "<dd>10.0 GiB an hour</dd>",
        "What it would have done",
        "purged in at least 1 run",
        "One snapshot is kept of this time",
        "records that are deleted cannot be brought back.",
    ):
        assert words in text
    assert app.button(key="policy-on").disabled

    typed(app, "switch on policy order on prod-eu")
    assert app.button(key="policy-on").disabled
    assert "The button is enabled when the sentence matches." in said(app)

    typed(app, SENTENCE)
    app.button(key="policy-on").click().run()
    state = journal.policy_states(sample_store.CLUSTER_ID)["orders"]
    assert (state.enabled, state.who) == (True, "ada")
    assert state.definition_sha256 == defined().definition_sha256
    assert [entry.body["typed"] for entry in journal.entries()] == [SENTENCE]
    assert "● on; switched on" in said(app)
    assert not any(button.key == "policy-on" for button in app.button)


def test_off_is_one_click_with_a_name(open_policies: OpenPolicies, journal: Journal) -> None:
    switched_on(journal)
    app = open_policies()
    assert not any(field.label == "Confirmation" for field in app.text_input)
    app.text_input(key="policy-who").set_value(" ").run()
    assert app.button(key="policy-off").disabled

    app.text_input(key="policy-who").set_value("bob").run()
    app.button(key="policy-off").click().run()
    state = journal.policy_states(sample_store.CLUSTER_ID)["orders"]
    assert (state.enabled, state.who) == (False, "bob")
    assert "by bob from dashboard on" in said(app)


def test_a_switch_goes_by_the_name_and_the_sentence_that_stand_there_at_the_click(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    """Streamlit makes one run of a change and a click that come while the page is busy."""
    app = open_policies()
    typed(app, SENTENCE)
    next(f for f in app.text_input if f.label == "Confirmation").set_value("no")
    app.button(key="policy-on").click().run()
    assert "CONFIRMATION_MISMATCH" in said(app)

    typed(app, SENTENCE)
    app.text_input(key="policy-who").set_value("bob")
    app.button(key="policy-on").click().run()
    app.text_input(key="policy-who").set_value("carol")
    app.button(key="policy-off").click().run()
    assert [entry.body["who"] for entry in journal.entries()] == ["bob", "carol"]


def test_a_policy_changed_since_it_was_switched_on_is_off(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal, defined(ORDERS.replace("10GiB", "5GiB")))
    app = open_policies()

    assert "⚠ off: changed since it was switched on" in said(app)
    assert "Its definition changed since it was switched on: confirm it as it is now." in said(app)
    typed(app, SENTENCE)
    app.button(key="policy-on").click().run()
    assert "● on; switched on" in said(app)


def test_an_open_page_is_drawn_anew_once_the_settings_define_it_otherwise(
    open_policies: OpenPolicies,
    journal: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its parts draw themselves each 5 s: they told `off: changed` of a policy that was on."""
    parts: list[Callable[[], object]] = []

    whole = st.fragment

    def fragment(body: Callable[..., object] | None = None, **options: Any) -> Any:
        if body is None or "run_every" not in options:
            return whole(body, **options)  # a decorator: its module is loaded just now

        def drawn(*args: object) -> None:
            parts.append(lambda: body(*args))
            body(*args)

        return drawn

    monkeypatch.setattr(st, "fragment", fragment)
    drawn_anew: list[str] = []
    switched_on(journal)
    assert "● on; switched on" in said(open_policies())
    (tmp_path / "lowwater.toml").write_text(ORDERS.replace("10GiB", "20GiB"))
    switched_on(journal, defined(ORDERS.replace("10GiB", "20GiB")))

    def rerun(scope: str) -> None:
        drawn_anew.append(scope)
        raise RefusedError("", "")

    monkeypatch.setattr(st, "rerun", rerun)
    for part in parts:
        part()
    assert drawn_anew == ["app"]


def test_read_only_refuses_on_and_lets_off(open_policies: OpenPolicies, journal: Journal) -> None:
    journal.set_read_only(True, "eve", utc_now())
    app = open_policies()
    typed(app, SENTENCE)
    assert app.button(key="policy-on").disabled
    assert "Purges are switched off (read-only): no policy can be switched on." in said(app)
    assert "⏸ Every purge is switched off (read-only)" in said(app)

    switched_on(journal)
    app = open_policies()
    app.button(key="policy-off").click().run()
    assert not journal.policy_states(sample_store.CLUSTER_ID)["orders"].enabled


def test_read_only_that_comes_after_the_page_refuses_at_the_click(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    app = open_policies()
    typed(app, SENTENCE)
    journal.set_read_only(True, "eve", utc_now())
    app.button(key="policy-on").click().run()

    assert journal.policy_states(sample_store.CLUSTER_ID) == {}
    assert "Purges are switched off (READ_ONLY)" in said(app)


def status(journal: Journal, **body: object) -> None:
    whole = read(
        {"state": "refused", "reason": "2 partitions are guarded", "next_at": None,
         "last_run": None, "topics": 1, "partitions": 6, "blocked": [], "errors": [], **body},
        PolicyStatus,
    )  # fmt: skip
    journal.write_policy_status(sample_store.CLUSTER_ID, "orders", whole, utc_now())


def serves(journal: Journal, now: datetime) -> None:
    """A service on ops-1 leads; after ten minutes without any, policies are held."""
    journal.take_lease(
        sample_store.CLUSTER_ID, "h1", host="ops-1", pid=77, ttl=timedelta(minutes=5),
        most_silence=timedelta(minutes=10), now=now,
    )  # fmt: skip


def test_the_service_its_next_run_and_what_guards_hold_back(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    now = utc_now()
    serves(journal, now)
    guard = {"name": "share-group", "reason": "Share <b>x</b> reads", "lift": "Let it acknowledge."}
    status(
        journal,
        next_at=format_time(now + timedelta(hours=10, minutes=30)),
        blocked=[{"topic": "orders", "partition": p, "guards": [guard]} for p in (0, 1, 4)]
        + [{"topic": f"o{n}", "partition": 7, "guards": [guard]} for n in range(16)],
        errors=[{"application": None, "code": "GROUPS_INCOMPLETE", "reason": "no right"}],
    )
    text = said(open_policies())

    assert "▶ A service runs on ops-1 (process 77)" in text
    assert "in 10 h</abbr>" in text
    assert "⊘ refused: 2 partitions are guarded" in text
    assert "6 partitions of 1 topic" in text
    assert 'orders<br><small><abbr title="0, 1, 4">3 partitions</abbr>' in text
    assert "<td>o13-7</td><td><code>share-group</code></td>" in text
    assert "Share &lt;b&gt;x&lt;/b&gt; reads</td><td>Let it acknowledge.</td>" in text
    assert "and 2 reasons more" in text
    assert "⚠ orders: no right (GROUPS_INCOMPLETE)" in text


def test_its_last_runs_and_the_hours_use_lead_to_the_runs(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    now = utc_now()
    serves(journal, now)
    one = defined()
    run_id, _ = journal.insert(
        a_plan(PlanRequest(("orders",), parse_target("committed"))), token="t", mode="wait-all",
        who="policy orders", from_where="ops-1", typed="", connection={}, now=now,
        options=Options(30_000, 500, 2, 3_600_000),
        policy=PolicyClaim(one.name, one.definition_sha256, one.min_purge_interval, "h1"),
    )  # fmt: skip
    app = open_policies()
    text = said(app)

    assert "1 partition started, at most <abbr" in text
    assert "3.0 MiB</abbr> of <abbr" in text
    (link,) = [link for link in app.page_link if "○ queued" in link.label]
    assert "by policy orders" in link.label
    assert f"run={run_id}" in link.proto.query_string
    assert "none this week" not in text


def test_a_service_that_is_gone_is_told_with_when_it_was_seen(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    journal.take_lease(
        sample_store.CLUSTER_ID, "h1", host="ops-1", pid=77, ttl=timedelta(seconds=15),
        most_silence=timedelta(days=1), now=utc_now() - timedelta(hours=3),
    )  # fmt: skip
    text = said(open_policies())
    silent = "No service holds the lease, and the last sign of one, on ops-1, was 3 h ago: nothing"
    assert silent in text
    assert "none: no service gives a sign of life" in text


def test_between_two_calls_of_a_timer_nobody_says_that_nothing_is_purged(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    """`policies run --once` gives its lease up at its end, and purges again within the hour."""
    switched_on(journal)
    at = utc_now() - timedelta(minutes=30)
    journal.take_lease(
        sample_store.CLUSTER_ID, "h1", host="ops-1", pid=77, ttl=timedelta(seconds=15),
        most_silence=timedelta(days=1), now=at,
    )  # fmt: skip
    journal.release_lease(sample_store.CLUSTER_ID, "h1", at)
    text = said(open_policies())
    assert "No service holds the lease now; the last sign of one was 30 min ago." in text
    assert "nothing is purged" not in text
    assert "when a service runs: none holds the lease now" in text


def test_one_that_is_held_says_why_and_is_confirmed_again(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    now = utc_now() + timedelta(hours=2)
    serves(journal, now)
    text = said(app := open_policies())
    assert "⏸ held: confirm it again" in text
    assert "⏸ held: it waits for a person: no service gave a sign of life" in text
    assert "none: it is held" in text
    assert "Make sure that nobody did, then confirm it again." in text
    assert "Switch on" in [button.label for button in app.button]


@pytest.mark.further
def test_alerts_that_the_webhook_did_not_take_are_told(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    cluster, now = sample_store.CLUSTER_ID, utc_now() - timedelta(hours=20)
    events = [Event("stalled", f"run {n}", f"run {n} <stalls>", {}) for n in (1, 2)]
    journal.see_alerts(cluster, events, ending=(), quiet=timedelta(hours=1), now=now)
    assert "not told" not in said(open_policies()), "nothing has failed yet"
    journal.claim_alerts(
        cluster, ["stalled"], until=utc_now(), longest=timedelta(hours=1), now=utc_now()
    )
    journal.alerts_failed(cluster, events, error="HTTP 502", retry_at=utc_now())
    text = said(open_policies())
    assert "2 alerts not told to the webhook: HTTP 502" in text
    assert "run 1 &lt;stalls&gt; (seen 20 h ago, 1 attempt), and 1 more" in text
    journal.alerts_told(cluster, events, utc_now())
    assert "not told" not in said(open_policies())


@pytest.mark.further
def test_one_of_several_is_chosen_and_others_clusters_are_named(
    open_policies: OpenPolicies,
) -> None:
    more = '\n[policies.pay]\ntopics = ["payments"]\n[policies.far]\ntopics = ["x"]\ncluster = "us"'
    app = open_policies(ORDERS + more, policy="pay")
    text = said(app)

    assert "<code>switch on policy pay on prod-eu as " in text
    assert "<td><b>orders</b></td>" in text and "<td><b>pay</b></td>" in text
    assert "<td><b>far</b></td>" not in text
    assert "For other clusters, and not shown: far (us)." in text

    app.selectbox(key="policy").select("orders").run()
    assert f"<code>{SENTENCE}</code>" in said(app)


def test_one_that_archives_says_so_where_it_is_confirmed(open_policies: OpenPolicies) -> None:
    text = said(open_policies(f'{ORDERS}\narchive = "s3://bucket/kept"\n'))
    assert "<dt>Archives</dt><dd>each record into s3://bucket/kept, proved, before any" in text
    assert "records that are deleted come back from their archive alone." in text


@pytest.mark.further
def test_without_a_policy_a_section_to_copy_is_shown(open_policies: OpenPolicies) -> None:
    app = open_policies("")
    assert "No policy is set up" in said(app)
    section = copied(app)[0]
    assert 'cluster = "prod-eu"' in section
    (policy,) = policy_settings(tomllib.loads(section)["policies"], "the sample", LIFTABLE_GUARDS)
    assert policy.most_bytes_per_hour == 10 * 2**30


@pytest.mark.further_but("None-No snapshot yet", "broker-missing-Broker 3 did not answer")
@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (None, "No snapshot yet"),
        ("no-analysis", "No analysis yet: bytes of the past week are spread evenly"),
        ("broker-missing", "Broker 3 did not answer"),
        ("incomplete", "The list of consumer groups is incomplete"),
        ("stale", "⚠ stale"),
    ],
)
def test_each_state_is_designed(
    open_policies: OpenPolicies, variant: str | None, expected: str
) -> None:
    assert expected in said(open_policies(variant=variant))


@pytest.mark.further
def test_one_that_the_settings_do_not_define_is_switched_off_here(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal, defined(ORDERS.replace("orders]", "gone]"), "gone"))
    app = open_policies()
    assert "Policy gone is switched on" in " ".join(c.value for c in app.caption)
    next(f for f in app.text_input if f.key == "undefined-who-gone").set_value("ann")
    next(b for b in app.button if b.key == "undefined-off-gone").click().run()
    state = journal.policy_states(sample_store.CLUSTER_ID)["gone"]
    assert (state.enabled, state.who) == (False, "ann")


@pytest.mark.further
def test_one_that_is_on_here_and_defined_for_another_cluster_is_switched_off_here(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    app = open_policies(ORDERS + 'cluster = "prod-us"\n')
    assert "For other clusters, and not shown: orders (prod-us)." in said(app)
    assert "the settings do not define it for this cluster" in said(app)
    next(f for f in app.text_input if f.key == "undefined-who-orders").set_value("ann").run()
    next(b for b in app.button if b.key == "undefined-off-orders").click().run()
    assert not journal.policy_states(sample_store.CLUSTER_ID)["orders"].enabled


def test_one_that_was_taken_out_is_confirmed_again_for_that_reason(
    open_policies: OpenPolicies, journal: Journal
) -> None:
    switched_on(journal)
    journal.hold_taken_out(sample_store.CLUSTER_ID, set(), utc_now())
    hold = journal.policy_states(sample_store.CLUSTER_ID)["orders"].hold
    assert hold is not None and "somebody took it out" in hold.why
    text = said(open_policies())
    above = text[: text.index("Type this sentence to confirm")].rpartition('<div class="lw">')[2]
    assert first_letter_up(hold.why) in above
    assert "Make sure that it is wanted again, then confirm it again." in above
    assert "sign of life" not in text


def test_where_spark_cannot_tell_the_past_week_the_rest_of_the_page_shows(
    open_policies: OpenPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_asked: object) -> None:
        raise AnalysisError("there is no java on the path", "Install a JRE.", code="JAVA_MISSING")

    monkeypatch.setattr(policy_advice, "past_week", fails)
    text = said(open_policies(f'{ORDERS}[policies.far]\ntopics = ["x"]\ncluster = "other"'))
    assert "○ off" in text
    assert text.index("there is no java on the path") < text.rindex("far")
