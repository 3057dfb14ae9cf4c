"""A policy in words, its next run, the sample for a cluster, and the chart's lines."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.policies.service.switching import Serving
from dashboard.purge.journal.policies import Lease, Use
from dashboard.settings.policies.section import policy_settings
from dashboard.settings.purge import LIFTABLE_GUARDS
from dashboard.ui import policy_advice, policy_table
from dashboard.ui.policy_table import PolicyView
from dashboard.views.policy_texts import definition, next_run, service
from tests.unit.policies.examples import NOON, policy

HOUR, HALF = timedelta(hours=1), timedelta(minutes=30)
_LEASE = Lease("c", "h", "ops-1", 7, NOON - 2 * HOUR, NOON, NOON + timedelta(seconds=15))
LEADS = Serving(_LEASE, NOON, 0, 2 * HOUR)


@pytest.mark.parametrize(
    ("text", "what", "how"),
    [
        ('topics = ["a*", "b"]', "Topics", "those called a*, b"),
        ('topics_regex = "x.*"', "Topics", "those that match x.*"),
        ('preset = "repartition"', "Topics", "repartition topics of Kafka Streams (*-repartition)"),
        ('preset = "repartition"\ntopics = ["a*"]', "Topics",
         "those called a*, of these the repartition topics"),
        ("", "Purges", "what every group has committed"),
        ('committed_by = "owner"\nowner = "billing"', "Purges",
         "what billing has committed, where no other group has committed less"),
        ('target = "keep:3d"', "Purges", "what is older than 3d"),
        ('target = "keep:10GiB"', "Purges", "all but the last 10.0 GiB of each partition"),
        ('target = "retention"', "Purges", "what the topic's own retention allows to go, within "
         "segments too"),
        ("min_purge_interval_ms = 90000", "How often", "a partition at most once every 90 s"),
        ("min_purge_interval_ms = 100\nas_often_as_commits = true", "How often",
         "a partition at most once every 0.1 s"),
        ("", "At most", "no limit is set"),
        ("most_partitions_per_hour = 5\nmost_bytes_per_hour = \"1GiB\"", "At most",
         "1.0 GiB and 5 partitions an hour"),
        ('windows = ["Mon 22:00-06:00"]\ntimezone = "Europe/Berlin"', "When",
         "Mon 22:00-06:00 (Europe/Berlin)"),
        ('trigger = "disk-above:80%"', "Only while", "some log dir is more than 80% full"),
        ('trigger = "growth-above:5GiB/h"', "Only while",
         "its topics grow by more than 5.0 GiB an hour"),
        ('overrides = {"under-replicated" = "why"}', "Lifts under-replicated", "why"),
        ("archive = true", "Archives", "each record into the place of [archive], proved, before "
         "any is deleted"),
        ('archive = "s3://b/kept"', "Archives", "each record into s3://b/kept, proved, before any "
         "is deleted"),
        ('waive = {"old" = "gone since May"}', "Waives old",
         "while no coordinator lists it: gone since May"),
    ],
)  # fmt: skip
def test_every_part_of_a_definition_is_said(text: str, what: str, how: str) -> None:
    assert dict(definition(policy(text)))[what] == how


def test_the_page_says_what_purging_as_often_as_commits_costs() -> None:
    often = dict(definition(policy("min_purge_interval_ms = 500\nas_often_as_commits = true")))
    assert often["Costs"].startswith("up to 172\u202f800 runs a day for each application")
    assert "Costs" not in dict(definition(policy("")))


def test_the_page_shows_whom_it_waives_as_text() -> None:
    view = PolicyView(policy('waive = {"<b>old" = "no <pod>"}'), "on", None, None, None, ())
    said = policy_table.definition_html(view)
    assert "<dt>Waives &lt;b&gt;old</dt>" in said
    assert "while no coordinator lists it: no &lt;pod&gt;" in said


def test_the_next_run_needs_a_switch_a_service_and_an_open_window() -> None:
    plain, closed = policy(), policy('windows = ["Wed 22:00-23:00"]')
    soon = NOON + timedelta(seconds=42)

    assert next_run(plain, "off", LEADS, soon, NOON) == "none: it is off"
    assert next_run(plain, "changed", LEADS, soon, NOON) == "none: it is off"
    assert next_run(plain, "on", LEADS, soon, NOON) == "in 42 s"
    assert next_run(plain, "on", LEADS, None, NOON) == "as soon as a partition is due"
    assert next_run(closed, "on", LEADS, None, NOON) == "in 10 h"
    never = Serving(None, None, 0, 2 * HOUR)
    assert next_run(plain, "on", never, soon, NOON) == "none: no service gives a sign of life"
    by_timer = Serving(None, NOON - HOUR, 0, 2 * HOUR)
    between = "when a service runs: none holds the lease now"
    assert next_run(plain, "on", by_timer, soon, NOON) == between


def test_of_a_lease_that_has_expired_only_its_last_sign_is_told() -> None:
    """`policies run --once` from a timer holds none between two calls, and purges at each."""
    assert service(LEADS, NOON) == (
        "A service runs on ops-1 (process 7) for 2 h. Others that are started stand by and take "
        "over when it is gone."
    )
    said = service(LEADS, NOON + timedelta(minutes=1))
    assert said == (
        "No service holds the lease now; the last sign of one, on ops-1, was 1 min ago. A timer "
        "may run one (lowwater policies run --once): it purges while it runs."
    )
    assert "was 30 min ago. A timer may" in service(Serving(None, NOON - HALF, 0, HOUR), NOON)


def test_nothing_is_purged_only_without_a_sign_for_long_and_without_an_open_run() -> None:
    assert service(Serving(None, None, 0, HOUR), NOON) == (
        "No service holds the lease, and none ever did: nothing is purged."
    )
    assert service(Serving(None, NOON - 3 * HOUR, 0, HOUR), NOON) == (
        "No service holds the lease, and the last sign of one was 3 h ago: nothing is purged."
    )
    assert service(Serving(None, NOON - 3 * HOUR, 2, HOUR), NOON) == (
        "No service holds the lease, and the last sign of one was 3 h ago. 2 purges of policies "
        "are in flight: a worker may carry that on, and still send."
    )


def test_the_sample_names_the_repartition_topics_that_were_found() -> None:
    topics = [f"app-{n}-repartition" for n in range(4)] + ["lost-repartition", "orders"]
    text = policy_advice.sample("prod", topics, ["app"])
    (made,) = policy_settings(tomllib.loads(text)["policies"], "the sample", LIFTABLE_GUARDS)

    assert (made.preset, made.cluster) == ("repartition", "prod")
    assert "# app-0-repartition: owned by app" in text
    assert "# and 2 more" in text
    assert "5 repartition topics of 1 application" in policy_advice.why(topics, ["app"])


@pytest.mark.parametrize("topics", [["__consumer_offsets", 'a"\n[x]'], []])
def test_a_sample_is_a_settings_section_whatever_topics_are_called(topics: list[str]) -> None:
    text = policy_advice.sample('o"dd', topics, [])
    (made,) = policy_settings(tomllib.loads(text)["policies"], "the sample", LIFTABLE_GUARDS)
    assert made.globs == (topics[-1] if topics else "orders",)
    odd = policy_advice.sample("c", ["x\n[y]-repartition"], [])
    assert list(tomllib.loads(odd)) == ["policies"]


@pytest.mark.parametrize("dark", [True, False])
def test_both_backlogs_are_lines_that_differ_in_more_than_colour(dark: bool) -> None:
    points = [(NOON, 2**30, 2**31), (NOON + timedelta(hours=1), 0, 2**32)]
    made = policy_advice.option(points, dark=dark)

    without, own = made["series"]
    assert (without["name"], own["name"]) == ("as it was", "with the policy")
    assert without["lineStyle"]["type"] != own["lineStyle"]["type"]
    assert [point["value"][1] for point in without["data"]] == [2.0, 4.0]
    assert [point["value"][1] for point in own["data"]] == [1.0, 0.0]
    assert made["yAxis"]["name"] == "backlog, GiB"
    assert "2.0 GiB below the target as it was" in without["data"][0]["tooltip"]["formatter"]


def test_the_page_says_whose_moment_its_settings_are() -> None:
    view = PolicyView(policy(), "on", None, None, None, ())
    assert "as the settings said at the last click here" in policy_table.definition_html(view)
    assert "from the next click" in policy_advice.next_step(Path("/etc/lowwater.toml"))
    nowhere_yet = policy_advice.next_step(None)
    assert "~/.config/lowwater" in nowhere_yet
    assert "from the next click" in nowhere_yet


def test_what_the_hour_used_is_told_as_the_most_and_what_is_unknown() -> None:
    view = PolicyView(policy('most_bytes_per_hour = "1KiB"'), "on", None, None, None, ())
    said = policy_table.now_html(view, LEADS, Use(3, 512, 1), NOON)
    assert "3 partitions started, at most " in said and "1 partition not measured" in said
    assert "not measured" not in policy_table.now_html(view, LEADS, Use(3, 512), NOON)
