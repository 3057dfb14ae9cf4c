"""Policies of the settings: what is written is what is kept, and every mistake is named."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError, fields, replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.purge.plan.targets import parse_target
from dashboard.settings import settings as settings_module
from dashboard.settings.policies.policy import Policy, Trigger, check_target, parse_window
from dashboard.settings.policies.section import POLICY_KEYS, POLICY_LIFTABLE, policy_settings
from dashboard.settings.purge import LIFTABLE_GUARDS
from dashboard.settings.settings import load

DOCS = Path(settings_module.__file__).parents[2] / "docs"


def _policies(text: str) -> tuple[Policy, ...]:
    return policy_settings(tomllib.loads(text)["policies"], "here", LIFTABLE_GUARDS)


def _one(lines: str) -> Policy:
    """The policy of these lines, of topic `t` where they name none."""
    names = ("preset", "topics")
    topics = "" if lines.startswith(names) else 'topics = ["t"]\n'
    return _policies(f"[policies.p]\n{topics}{lines}")[0]


def test_the_defaults_are_the_careful_ones() -> None:
    found = _one("")
    assert found == Policy("p", globs=("t",))
    assert (found.target, found.committed_by, found.mode) == ("committed", "all", "wait-all")
    assert found.min_purge_interval == timedelta(seconds=30)
    assert (found.most_bytes_per_hour, found.most_partitions_per_hour) == (None, None)
    assert (found.windows, found.timezone, found.trigger) == ((), "UTC", Trigger())
    assert (found.overrides, found.cluster, found.owner) == ({}, None, None)


def test_every_key_is_kept_as_it_is_written() -> None:
    found = _one(
        """
        target = "committed"
        committed_by = "owner"
        owner = "g"
        mode = "leader-only"
        min_purge_interval_ms = 1500
        most_bytes_per_hour = "10GiB"
        most_partitions_per_hour = 7
        windows = ["Mon-Fri 22:00-06:00"]
        timezone = "Europe/Berlin"
        trigger = "disk-above:80%"
        overrides = { "under-replicated" = " two racks " }
        waive = { "old=app " = " gone since May " }
        cluster = "prod"
        """
    )
    assert found == Policy(
        name="p",
        globs=("t",),
        committed_by="owner",
        owner="g",
        mode="leader-only",
        min_purge_interval=timedelta(milliseconds=1500),
        most_bytes_per_hour=10 * 2**30,
        most_partitions_per_hour=7,
        windows=(parse_window("Mon-Fri 22:00-06:00", ""),),
        timezone="Europe/Berlin",
        trigger=Trigger("disk-above", share=0.8, text="disk-above:80%"),
        overrides={"under-replicated": "two racks"},
        waive={"old=app ": "gone since May"},  # Kafka takes any text for a group's id
        cluster="prod",
    )


def test_an_interval_of_commits_is_asked_for_and_says_what_it_costs() -> None:
    """The coupling that KIP-811 ended: Streams purged after each commit, 100 ms apart."""
    found = _one("min_purge_interval_ms = 100\nas_often_as_commits = true")
    assert found.min_purge_interval == timedelta(milliseconds=100)
    assert found.caution is not None
    assert "up to 864\u202f000 runs a day" in found.caution
    assert "log.retention.check.interval.ms" in found.caution
    assert _one("min_purge_interval_ms = 1000").caution is None
    off = _one("as_often_as_commits = false")
    assert off.definition_sha256 == _one("").definition_sha256


def test_policies_keep_the_order_of_the_file() -> None:
    found = _policies('[policies.z]\ntopics = ["t"]\n[policies.a]\ntopics = ["t"]')
    assert [policy.name for policy in found] == ["z", "a"]


def test_the_preset_counts_the_owners_commits_and_lifts_undeclared_readers() -> None:
    found = _one('preset = "repartition"')
    assert (found.target, found.committed_by, found.owner) == ("committed", "owner", None)
    assert found.overrides == {
        "readers-undeclared": "a Streams repartition topic is read by its application only"
    }
    own = _one('preset = "repartition"\noverrides = { "readers-undeclared" = "asked" }')
    assert own.overrides == {"readers-undeclared": "asked"}


def test_the_preset_lifts_nothing_that_the_settings_do_not_allow() -> None:
    table = {"p": {"preset": "repartition"}}
    assert policy_settings(table, "here", ("over-limit",))[0].overrides == {}


@pytest.mark.parametrize("target", ["committed", "retention", "keep:3d", "keep:10GiB", "keep:5ms"])
def test_a_policys_targets_are_those_of_a_plan(target: str) -> None:
    assert _one(f'target = "{target}"').target == target
    assert parse_target(check_target(target, "here")).text == target


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("always", Trigger()),
        ("disk-above:99.5%", Trigger("disk-above", share=0.995, text="disk-above:99.5%")),
        (
            "growth-above:5GiB/h",
            Trigger("growth-above", bytes_per_hour=5 * 2**30, text="growth-above:5GiB/h"),
        ),
    ],
)
def test_triggers_are_read(text: str, trigger: Trigger) -> None:
    assert _one(f'trigger = "{text}"').trigger == trigger


_WRONG = [
    ("preset = 'changelog'", "preset = 'changelog'", "repartition"),
    ("topics = ['t']\ntopics_regex = 't'", "'topics' and 'topics_regex'", "one of them"),
    ("topics = []", "'topics'", "orders"),
    ("topics = 't'", "'topics'", "orders"),
    ("topics = ['t', ' ']", "'topics'", "orders"),
    ("topics_regex = '('", "topics_regex = '('", "whole name"),
    ("topics_regex = ''", "'topics_regex'", "topics_regex ="),
    ("target = 'high-watermark'", "no group has read yet", "keep:3d"),
    ("target = 'offset:5'", "other records each time", "keep:3d"),
    ("target = 'timestamp:2026-03-01T04:00:00Z'", "past after the first", "keep:3d"),
    ("target = 'keep:'", "target = 'keep:'", "keep:3d"),
    ("target = 'keep:0d'", "target = 'keep:0d'", "keep:3d"),
    ("target = 'keep:0B'", "target = 'keep:0B'", "keep:3d"),
    ("target = 'committed:x'", "target = 'committed:x'", "keep:3d"),
    ("target = 'retention:1d'", "target = 'retention:1d'", "keep:3d"),
    ("target = true", "'target' is no text", "Write target"),
    ("committed_by = 'nobody'", "committed_by = 'nobody'", "all or owner"),
    ("committed_by = 'all'\ntarget = 'keep:3d'", "'committed_by'", "Leave out committed_by"),
    ("owner = 'g'\ntarget = 'retention'", "'owner'", "Leave out owner"),
    ("committed_by = 'owner'", "without an owner", 'owner = "GROUP"'),
    ("committed_by = 'owner'\nowner = ' '", "'owner' is no text", "owner ="),
    ("owner = 'g'", "all groups count", 'committed_by = "owner"'),
    ("preset = 'repartition'\nowner = 'g'", "finds each topic's owner", "Leave out owner"),
    ("mode = 'fast'", "mode = 'fast'", "leader-only-verified"),
    ("min_purge_interval_ms = 999", "min_purge_interval_ms = 999", "30000"),
    ("min_purge_interval_ms = 999", "min_purge_interval_ms = 999", "as_often_as_commits = true"),
    ("min_purge_interval_ms = 99\nas_often_as_commits = true", "min_purge_interval_ms = 99", "100"),
    ("as_often_as_commits = true", "says nothing with min_purge_interval_ms = 30000", "= 100"),
    ("min_purge_interval_ms = 1000\nas_often_as_commits = true", "'as_often_as_commits'", "= 100"),
    ("as_often_as_commits = 'often'", "'as_often_as_commits' = 'often'", "true or false"),
    ("min_purge_interval_ms = 99999999999999", "min_purge_interval_ms", "a year at most"),
    ("min_purge_interval_ms = '30s'", "'min_purge_interval_ms' = '30s'", "number"),
    ("most_bytes_per_hour = '10GB'", "'most_bytes_per_hour' = '10GB'", "10GiB"),
    ("most_bytes_per_hour = '0B'", "'most_bytes_per_hour'", "above 0"),
    ("most_bytes_per_hour = 5", "'most_bytes_per_hour' = 5", "10GiB"),
    ("most_partitions_per_hour = 0", "'most_partitions_per_hour' = 0", "above 0"),
    ("windows = []", "'windows'", "leave it out"),
    ("windows = ['always']", "windows has 'always'", "Mon-Fri"),
    ("windows = ['Mon-Fry 22:00-06:00']", "windows has", "Mon-Fri"),
    ("windows = ['Mon- 22:00-06:00']", "windows has", "Mon-Fri"),
    ("windows = ['Mon 2:00-06:00']", "windows has", "Mon-Fri"),
    ("windows = ['Mon 10:00-10:00']", "never opens", "Mon 00:00-24:00"),
    ("windows = ['Mon 24:00-10:00']", "no day has that time", "23:59"),
    ("windows = ['Mon 00:60-10:00']", "no day has that time", "23:59"),
    ("windows = ['Mon 00:00-24:01']", "no day has that time", "24:00"),
    ("windows = ['Mon 01:00-02:60']", "no day has that time", "24:00"),
    ("timezone = 'Europe/Berln'", "timezone = 'Europe/Berln'", "'Europe/Berlin'"),
    ("timezone = '../UTC'", "timezone = '../UTC'", "IANA"),
    ("timezone = 'Europe'", "timezone = 'Europe'", "IANA"),
    ("timezone = ''", "timezone = ''", "IANA"),
    ("timezone = 5", "timezone = 5", "IANA"),
    ("trigger = 'disk-above:0%'", "trigger = 'disk-above:0%'", "disk-above:80%"),
    ("trigger = 'disk-above:100%'", "trigger = 'disk-above:100%'", "disk-above:80%"),
    ("trigger = 'growth-above:0B/h'", "trigger = 'growth-above:0B/h'", "growth-above"),
    ("trigger = 'growth-above:5GiB'", "trigger = 'growth-above:5GiB'", "5GiB/h"),
    ("overrides = ['over-limit']", "overrides is no table", "overrides ="),
    ("overrides = { 'over-limit' = '' }", "overrides: 'over-limit'", "over-limit ="),
    ("cluster = ''", "'cluster'", "cluster ="),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "said", "next_step"), _WRONG)
def test_a_wrong_value_is_named_with_file_section_key_and_next_step(
    lines: str, said: str, next_step: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        _one(lines)
    assert caught.value.message.startswith("here, [policies.p]")
    assert said in caught.value.message
    assert next_step in caught.value.next_step


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="unknown key 'window'") as caught:
        _one('window = ["Mon 01:00-02:00"]')
    assert "Did you mean 'windows'?" in caught.value.next_step


def test_a_policy_names_its_topics() -> None:
    with pytest.raises(SettingsError, match=r"\[policies\.p\] names no topics"):
        _policies("[policies.p]\ntarget = 'committed'")


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "a" * 65, "a\n"])
def test_a_policys_name_fits_into_a_command_and_a_sentence(name: str) -> None:
    with pytest.raises(SettingsError, match="is no name of a policy"):
        policy_settings({name: {"topics": ["t"]}}, "here", LIFTABLE_GUARDS)


@pytest.mark.parametrize("guard", LIFTABLE_GUARDS)
def test_a_policy_lifts_no_guard_that_speaks_of_groups_or_of_what_is_unknown(guard: str) -> None:
    table = {"p": {"topics": ["t"], "overrides": {guard: "why"}}}
    if guard in POLICY_LIFTABLE:
        found = policy_settings(table, "here", LIFTABLE_GUARDS)
        assert found[0].overrides == {guard: "why"}
        return
    with pytest.raises(SettingsError, match=f"overrides names '{guard}'") as caught:
        policy_settings(table, "here", LIFTABLE_GUARDS)
    assert "nobody looks at a policy's plan" in caught.value.message
    assert "under-replicated" in caught.value.next_step


@pytest.mark.parametrize("guard", ["groups-incomplete", "cluster-mismatch", "over-limits"])
def test_what_is_no_liftable_guard_at_all_is_told_apart(guard: str) -> None:
    with pytest.raises(SettingsError, match="is no guard that can be lifted") as caught:
        _one(f'overrides = {{ "{guard}" = "why" }}')
    assert ("Did you mean 'over-limit'?" in caught.value.next_step) == (guard == "over-limits")


def test_what_policies_may_lift_is_exactly_what_a_clusters_state_decides() -> None:
    assert set(POLICY_LIFTABLE) == {
        "readers-undeclared",
        "under-replicated",
        "reassigning",
        "leader-log-dir-move",
        "unclean-election-enabled",
        "over-limit",
    }


def test_a_policy_lifts_no_guard_that_the_purge_settings_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "lowwater.toml"
    path.write_text(
        '[purge]\nliftable_guards = ["over-limit"]\n[policies.p]\ntopics = ["t"]\n'
        'overrides = { "reassigning" = "why" }\n'
    )
    with pytest.raises(SettingsError, match="liftable_guards of") as caught:
        load(path, {})
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ('"old"', "here, [policies.p]: waive is no table"),
        ('["old"]', "here, [policies.p]: waive is no table"),
        ('{ "old" = " " }', "here, [policies.p], waive: 'old' is no text, or empty"),
        ('{ "old" = 1 }', "here, [policies.p], waive: 'old' is no text, or empty"),
        ('{ "old" = { "why" = "x" } }', "here, [policies.p], waive: 'old' is no text, or empty"),
        ('{ "" = "why" }', "here, [policies.p]: waive names '', which is no name of a group"),
        ('{ "a\\u0000b" = "why" }', "which is no name of a group"),
        ('{ "console-*" = "why" }', "waive names 'console-*', which is a pattern"),
        ('{ "pod-?" = "why" }', "waive names 'pod-?', which is a pattern"),
        ('{ "pod-[0-9]" = "why" }', "waive names 'pod-[0-9]', which is a pattern"),
        ('{ "g" = "why" }\ncommitted_by = "owner"\nowner = "g"', "waive names 'g', its owner"),
    ],
)
def test_a_policy_waives_whole_names_with_a_reason_each(written: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _one(f"waive = {written}")
    assert named in caught.value.message


def test_whom_it_waives_and_why_are_part_of_its_definition() -> None:
    texts = ["", '{ "a" = "x" }', '{ "a" = "y" }', '{ "b" = "x" }', '{ "a" = "x", "b" = "x" }']
    found = [_one(f"waive = {text}" if text else "").definition_sha256 for text in texts]
    assert len(set(found)) == len(texts)
    assert _one('waive = { "b" = "x", "a" = "x" }').definition_sha256 == found[-1]
    assert _one("waive = {}").definition_sha256 == found[0]


def test_the_sentence_names_policy_cluster_and_definition() -> None:
    one = _one("")
    sentence = f"switch on policy p on prod-eu as {one.definition_sha256[:12]}"
    assert one.confirmation("prod-eu") == sentence


def test_a_policy_cannot_be_changed_and_may_be_a_key() -> None:
    found = _one("")
    with pytest.raises(FrozenInstanceError):
        found.target = "retention"  # type: ignore[misc]
    assert {found: 1}[_one("")] == 1


_OTHER = {
    "name": "q",
    "preset": "repartition",
    "globs": ("u",),
    "regex": "t",
    "target": "retention",
    "committed_by": "owner",
    "owner": "g",
    "mode": "leader-only",
    "min_purge_interval": timedelta(milliseconds=30_001),
    "as_often_as_commits": True,
    "most_bytes_per_hour": 1,
    "most_partitions_per_hour": 1,
    "windows": (parse_window("Mon 01:00-02:00", ""),),
    "timezone": "Europe/Berlin",
    "trigger": Trigger("disk-above", share=0.8),
    "overrides": {"over-limit": "why"},
    "waive": {"old": "gone"},
    "archive": "s3://bucket/kept",
    "cluster": "prod",
}


def test_whatever_changes_it_is_another_definition() -> None:
    assert _OTHER.keys() == {field.name for field in fields(Policy)}
    found = _one("")
    others = [replace(found, **{key: value}) for key, value in _OTHER.items()]
    hashes = {found.definition_sha256, *(other.definition_sha256 for other in others)}
    assert len(hashes) == 1 + len(_OTHER)


def test_how_it_is_spelt_is_no_change_of_its_definition() -> None:
    one = 'topics = ["a", "b"]\nwindows = ["Mon-Wed 01:00-02:00", "Sun 01:00-02:00"]'
    two = 'windows = ["Sun 01:00-02:00", "Mon,Tue,Wed 01:00-02:00"]'
    three = 'trigger = "always"\nmin_purge_interval_ms = 30000'
    same = _one(f'topics = ["b", "a"]\n{two}\n{three}')
    assert _one(one).definition_sha256 == same.definition_sha256


def test_the_definitions_hash_does_not_change_with_a_release() -> None:
    """Else every policy would be off after an upgrade: say so in the changelog if it must."""
    found = _one(
        'preset = "repartition"\nwindows = ["Sat-Sun 22:00-06:00"]\ntrigger = "disk-above:80%"'
    )
    golden = "d551f299043294382635f6e375f033859db48e0e0c8897c980b581a1b0011e80"
    assert found.definition_sha256 == golden


def test_the_docs_show_every_key_and_name_every_guard_that_a_policy_may_lift() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    sample = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    shown = {key for policy in sample["policies"].values() for key in policy}
    assert shown == set(POLICY_KEYS)
    section = page.split("## Policies")[1].split("## Alerts")[0]
    assert all(f"`{name}`" in section for name in POLICY_LIFTABLE)
    chapters = (DOCS / "policies.md").read_text("utf-8")
    assert all(f"`{key}" in chapters for key in POLICY_KEYS)
