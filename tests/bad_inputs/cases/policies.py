"""Policies and alerts of the settings file, and their switch."""

from __future__ import annotations

from tests.bad_inputs.case import Case, both, env, sql, toml
from tests.bad_inputs.cases.settings import line

P = "[policies.a]\n"
T = f'{P}topics = ["x"]\n'
ON = "policies on a --confirm 'switch on policy a on prod-eu as f875957af4eb'"
WHERE = "policies.a"
SOON = "strftime('%Y-%m-%dT%H:%M:%fZ','now','+{} seconds')"


def policy(name: str, body: str, word: str = WHERE, code: str = "SETTINGS_INVALID") -> Case:
    return line(f"policy: {name}", body, word, code)


def alert(name: str, body: str, word: str = "[alerts]", code: str = "SETTINGS_INVALID") -> Case:
    return line(f"alert: {name}", f"[alerts]\n{body}", word, code)


def switch(  # noqa: PLR0917 a table's columns
    name: str, body: str, words: str, code: str, exit_: int, word: str
) -> Case:
    return Case(f"switch: {name}", toml(body), words, code, exit_, word)


CASES = [
    policy("none of them a table", 'policies = "all"', "[policies]"),
    policy("a name with a blank", '[policies."a b"]\ntopics = ["x"]', "a b"),
    policy("a name of 65 letters", f'[policies.{"a" * 65}]\ntopics = ["x"]', "aaaa"),
    policy("an unknown key", f"{T}when = 1", "when", "SETTINGS_KEY_UNKNOWN"),
    policy("no topics", P, "names no topics"),
    policy("topics that are text", f'{P}topics = "x"', "topics"),
    policy("topics that are blank", f'{P}topics = [" "]', "topics"),
    policy("topics of numbers", f"{P}topics = [1]", "topics"),
    policy("topics in two ways", f'{T}topics_regex = "x"', "topics_regex"),
    policy("an expression that never closes", f'{P}topics_regex = "("', "topics_regex"),
    policy("an expression that is empty", f'{P}topics_regex = ""', "topics_regex"),
    policy("an expression past all counts", f'{P}topics_regex = "a{{99999999999}}"',
           "topics_regex"),
    policy("an expression of brackets", f'{P}topics_regex = "{"(" * 5000}"', "topics_regex"),
    policy("an unknown preset", f'{P}preset = "streams"', "streams"),
    policy("the high watermark", f'{T}target = "high-watermark"', "no group has read"),
    policy("one offset", f'{T}target = "offset:5"', "offset"),
    policy("one moment", f'{T}target = "timestamp:2026-03-01T04:00:00Z"', "moment"),
    policy("a target of a word", f'{T}target = "all"', "target"),
    policy("nothing to keep", f'{T}target = "keep:0h"', "target"),
    policy("a time of a thousand digits to keep", f'{T}target = "keep:{"9" * 5000}h"', "target"),
    policy("an owner beside a retention", f'{T}target = "retention"\nowner = "g"', "owner"),
    policy("commits beside a retention", f'{T}target = "retention"\ncommitted_by = "all"',
           "committed_by"),
    policy("commits of nobody", f'{T}committed_by = "me"', "committed_by"),
    policy("an owner's commits without an owner", f'{T}committed_by = "owner"', "owner"),
    policy("an owner beside all groups", f'{T}owner = "g"', "owner"),
    policy("an owner beside a preset", f'{P}preset = "repartition"\nowner = "g"', "owner"),
    policy("a mode that is none", f'{T}mode = "fast"', "fast"),
    policy("an interval of no time", f"{T}min_purge_interval_ms = 0", "min_purge_interval_ms"),
    policy("an interval below a second", f"{T}min_purge_interval_ms = 999",
           "min_purge_interval_ms"),
    policy("an interval below a commit's",
           f"{T}min_purge_interval_ms = 99\nas_often_as_commits = true", "min_purge_interval_ms"),
    policy("commits' pace without it", f"{T}as_often_as_commits = true", "as_often_as_commits"),
    policy("commits' pace as a word", f'{T}as_often_as_commits = "often"', "as_often_as_commits"),
    policy("an interval past a year", f"{T}min_purge_interval_ms = {10**12}",
           "min_purge_interval_ms"),
    policy("an interval with a unit", f'{T}min_purge_interval_ms = "30s"',
           "min_purge_interval_ms"),
    policy("an interval that is true", f"{T}min_purge_interval_ms = true",
           "min_purge_interval_ms"),
    policy("a budget of no bytes", f'{T}most_bytes_per_hour = "0B"', "most_bytes_per_hour"),
    policy("a budget of a number", f"{T}most_bytes_per_hour = 10", "most_bytes_per_hour"),
    policy("a budget in decimal units", f'{T}most_bytes_per_hour = "10GB"',
           "most_bytes_per_hour"),
    policy("a budget of no partitions", f"{T}most_partitions_per_hour = 0",
           "most_partitions_per_hour"),
    policy("windows that are text", f'{T}windows = "Mon 01:00-02:00"', "windows"),
    policy("a window of no day", f'{T}windows = ["Day 01:00-02:00"]', "Day"),
    policy("a window without days", f'{T}windows = ["01:00-02:00"]', "01:00-02:00"),
    policy("a window of 25 hours", f'{T}windows = ["Mon 25:00-26:00"]', "25:00"),
    policy("a window of 60 minutes", f'{T}windows = ["Mon 01:60-02:00"]', "01:60"),
    policy("a window that never opens", f'{T}windows = ["Mon 01:00-01:00"]', "never opens"),
    policy("a window with a seconds' hand", f'{T}windows = ["Mon 01:00:00-02:00:00"]',
           "not days and times"),
    policy("a window in another script",
           f'{T}windows = ["Mon \u0660\u0661:00-02:00"]', "not days and times"),
    policy("a time zone that is none", f'{T}timezone = "Berlin"', "Berlin"),
    policy("a time zone by a path", f'{T}timezone = "../../etc/passwd"', "timezone"),
    policy("a time zone with a zero", f'{T}timezone = "a\\u0000b"', "timezone"),
    policy("a time zone of a long name", f'{T}timezone = "{"x" * 5000}"', "timezone"),
    policy("a time zone that is a number", f"{T}timezone = 1", "timezone"),
    policy("a time zone that is a folder", f'{T}timezone = "Europe"', "Europe"),
    policy("a trigger that is none", f'{T}trigger = "full"', "full"),
    policy("a trigger at no share", f'{T}trigger = "disk-above:0%"', "disk-above:0%"),
    policy("a trigger at all of it", f'{T}trigger = "disk-above:100%"', "disk-above:100%"),
    policy("a trigger of a growth by day", f'{T}trigger = "growth-above:5GiB/d"', "growth-above"),
    policy("a trigger that is a list", f"{T}trigger = []", "trigger"),
    policy("overrides that are text", f'{T}overrides = "over-limit"', "overrides"),
    policy("an override without a reason", f'{T}overrides = {{ "over-limit" = "" }}',
           "over-limit"),
    policy("an override of no guard", f'{T}overrides = {{ "over-limits" = "x" }}', "over-limits"),
    policy("an override of what no policy lifts", f'{T}overrides = {{ "unread-by-group" = "x" }}',
           "unread-by-group"),
    policy("an override that [purge] leaves out",
           f'[purge]\nliftable_guards = []\n{T}overrides = {{ "over-limit" = "x" }}',
           "liftable_guards"),
    policy("a waiver without a reason", f'{T}waive = {{ "old" = "" }}', "old"),
    policy("a waiver of a pattern", f'{T}waive = {{ "pod-*" = "x" }}', "pod-*"),
    policy("a waiver of nobody", f'{T}waive = {{ "" = "x" }}', "waive"),
    policy("waivers that are a list", f'{T}waive = ["old"]', "waive"),
    policy("a cluster without a name", f'{T}cluster = ""', "cluster"),
    line("alert: no table", 'alerts = "on"', "[alerts]"),
    alert("an unknown key", 'url = "https://h"', "url", "SETTINGS_KEY_UNKNOWN"),
    alert("an address and a file", 'webhook = "https://h/p"\nwebhook_file = "f"', "both"),
    alert("an address without https", 'webhook = "h/p"', "webhook"),
    alert("an address over plain http", 'webhook = "http://example.org/p"', "plain http"),
    alert("an address with a blank", 'webhook = "https://h/a b"', "webhook"),
    alert("an address behind a broken bracket", 'webhook = "https://[::1"', "webhook"),
    alert("an address whose port is a word", 'webhook = "https://h:p/"', "webhook"),
    alert("an address of a script", 'webhook = "javascript:alert(1)"', "webhook"),
    alert("an empty address", 'webhook = ""', "webhook"),
    alert("an address that is a list", "webhook = []", "webhook"),
    alert("a file without a name", 'webhook_file = " "', "webhook_file"),
    alert("a file with a zero in its name", 'webhook_file = "a\\u0000b"', "webhook_file"),
    alert("names that are text", 'on = "reverted"', "on"),
    alert("no names", "on = []", "on"),
    alert("a name that is none", 'on = ["revert"]', "revert"),
    alert("two shares of a disk", 'on = ["disk-above:80%", "disk-above:90%"]', "disk-above"),
    alert("a share of all", 'on = ["disk-above:100%"]', "disk-above:100%"),
    switch("no policy at all", "", "policies check", "NO_POLICY", 1, "prod-eu"),
    switch("no policy to run", "", "policies run --once", "NO_POLICY", 1, "prod-eu"),
    switch("none for this cluster", f'{T}cluster = "else"', "policies check", "NO_POLICY", 1,
           "prod-eu"),
    switch("an unknown one", T, "policies on b --confirm x", "POLICY_UNKNOWN", 1, "policies.b"),
    switch("an unknown one, off", T, "policies off b", "POLICY_UNKNOWN", 1, "policies.b"),
    switch("off of one that this journal never had on", T, "policies off a", "POLICY_NOT_ON", 3,
           "journal.sqlite"),
    switch("another sentence", T, "policies on a --confirm yes", "CONFIRMATION_MISMATCH", 3,
           "yes"),
    switch("no sentence", T, "policies on a", "CONFIRMATION_MISMATCH", 3, "policy a"),
    switch("one for another cluster", f'{T}cluster = "else"', ON, "OTHER_CLUSTER", 3, "else"),
    switch("while all is read-only", f"read_only = true\n{T}", ON, "READ_ONLY", 3, "settings"),
    switch("by nobody", f'operator = " "\n{T}', ON, "WHO_MISSING", 1, "policy a"),
    switch("off by nobody", f'operator = " "\n{T}', "policies off a", "WHO_MISSING", 1,
           "policy a"),
    switch("a check that reaches nobody", T, "policies check", "CLUSTER_UNREACHABLE", 4,
           "127.0.0.1:1"),
    Case("switch: a lease whose time is none", both(toml(T), sql(
         "INSERT INTO policy_leases VALUES ('sAmpLeCLusTer0000000x1','h','here',1,'x','x','x')")),
         "policies run --once", "JOURNAL_BROKEN", 70, "journal"),
    Case("switch: a switch whose time is none", both(toml(T), sql(
         "INSERT INTO policy_switches VALUES ('sAmpLeCLusTer0000000x1','a',0,'x','eve','x','h')")),
         ON, "JOURNAL_BROKEN", 70, "journal"),
    Case("switch: another that leads", both(toml(T), sql(
         "INSERT INTO policy_leases VALUES ('sAmpLeCLusTer0000000x1','h','there',1,"
         f"{SOON.format(0)},{SOON.format(0)},{SOON.format(600)})")),
         "policies run --once", "NOT_LEADING", 3, "there"),
    Case("switch: a state folder that is a file", both(toml(T), env(LOWWATER_STATE_DIR="text")),
         ON, "JOURNAL_FAILED", 70, "text"),
]  # fmt: skip
