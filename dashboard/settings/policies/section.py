"""The settings sections [policies.NAME]: what may be purged again and again, how often and when."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.core.words import parse_size
from dashboard.domain.model import MODES
from dashboard.settings.archive import check_url
from dashboard.settings.policies.policy import (
    PRESET_LIFTS,
    REPARTITION,
    Policy,
    Window,
    check_target,
    parse_trigger,
    parse_window,
    time_zone,
)
from dashboard.settings.purge import LIFTABLE_GUARDS
from dashboard.settings.values import Section, check_keys, count, switch, tables

# What a policy may lift speaks of how a cluster is today. Guards that speak of groups, of the
# kind of topic or of what is unknown never are: nobody looks at a policy's plan before it runs.
POLICY_LIFTABLE = (
    "readers-undeclared",
    "under-replicated",
    "reassigning",
    "leader-log-dir-move",
    "unclean-election-enabled",
    "over-limit",
)
POLICY_KEYS = (
    "preset", "topics", "topics_regex", "target", "committed_by", "owner", "mode",
    "min_purge_interval_ms", "as_often_as_commits", "most_bytes_per_hour",
    "most_partitions_per_hour", "windows", "timezone", "trigger", "overrides", "waive", "archive",
    "cluster",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A wait-all purge of an idle cluster waits up to 500 ms for followers' next fetch: below a second
# the next purge would be due before the last one is over.
_LEAST_INTERVAL_MS = 1000
# Streams' commit.interval.ms with exactly-once: it purged after each commit before KIP-811.
_LEAST_OF_COMMITS_MS = 100
_MOST_INTERVAL_MS = 366 * 24 * 3600 * 1000


def policy_settings(table: Any, where: str, liftable: Collection[str]) -> tuple[Policy, ...]:
    """The policies of a settings file, in its order. Raises SettingsError naming section and key.

    `liftable` are the guards that [purge] allows to be lifted at all.
    """
    return tuple(_policy(name, own, liftable) for name, own in tables(table, "policies", where))


def _policy(name: str, own: Section, liftable: Collection[str]) -> Policy:
    where = own.where
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            f"{where}: '{name}' is no name of a policy",
            "Use up to 64 letters, digits, '.', '_' and '-', a letter or digit first.",
        )
    check_keys(own.entries, POLICY_KEYS, where)
    preset = own.one_of("preset", (REPARTITION,)) if "preset" in own else None
    globs, regex = _topics(own, preset)
    target = check_target(own.text("target", "committed"), where)
    committed_by, owner = _committed_by(own, preset, target)
    return Policy(
        name=name,
        preset=preset,
        globs=globs,
        regex=regex,
        target=target,
        committed_by=committed_by,
        owner=owner,
        mode=own.one_of("mode", MODES, "wait-all"),
        min_purge_interval=_interval(own),
        as_often_as_commits=_as_often_as_commits(own),
        most_bytes_per_hour=_bytes(own, "most_bytes_per_hour"),
        most_partitions_per_hour=count(own.get(key), key, where)
        if (key := "most_partitions_per_hour") in own
        else None,
        windows=_windows(own),
        timezone=time_zone(own.get("timezone", "UTC"), where),
        trigger=parse_trigger(own.text("trigger", "always"), where),
        overrides=_overrides(own.get("overrides", {}), preset, liftable, where),
        waive=_waive(own.get("waive", {}), owner, where),
        archive=_archive(own.get("archive", False), where),
        cluster=own.filled_or_none("cluster"),
    )


def _archive(value: Any, where: str) -> str | bool:
    """A place, or true: that of [archive]."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise SettingsError(
            f"{where}: 'archive' = {value!r}", 'Write archive = true, or archive = "s3://…".'
        )
    return check_url(value)


def _topics(own: Section, preset: str | None) -> tuple[tuple[str, ...], str | None]:
    if "topics" in own and "topics_regex" in own:
        raise SettingsError(
            f"{own.where}: both 'topics' and 'topics_regex'",
            "Keep one of them: globs in topics, or one expression in topics_regex.",
        )
    if "topics_regex" in own:
        return (), _regex(own.filled("topics_regex"), own.where)
    if "topics" in own:
        return own.texts("topics", '["orders.*"]'), None
    if preset is None:
        raise SettingsError(
            f"{own.where} names no topics",
            'Add topics = ["orders.*"], topics_regex = "…" or preset = "repartition".',
        )
    return (), None


def _regex(expression: str, where: str) -> str:
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingsError(
            f"{where}: topics_regex = '{expression}' is no regular expression: {error}",
            "Correct it; it is Python's syntax and must match a topic's whole name.",
        ) from error
    return expression


def _committed_by(own: Section, preset: str | None, target: str) -> tuple[str, str | None]:
    """Whose commits make the target, and the owner's name where the settings give it."""
    if target != "committed":
        for key in ("committed_by", "owner"):
            if key in own:
                raise SettingsError(
                    f"{own.where}: '{key}' says nothing with target = '{target}'",
                    f'Leave out {key}, or write target = "committed".',
                )
        return "all", None
    default = "owner" if preset else "all"
    by = own.one_of("committed_by", ("all", "owner"), default)
    if "owner" in own and (by == "all" or preset):
        why = "the preset finds each topic's owner itself" if preset else "all groups count"
        raise SettingsError(
            f"{own.where}: 'owner' beside committed_by = '{by}': {why}",
            "Leave out owner." if preset else 'Leave out owner, or write committed_by = "owner".',
        )
    if by == "owner" and not preset and "owner" not in own:
        raise SettingsError(
            f"{own.where}: committed_by = 'owner' without an owner",
            'Add owner = "GROUP", the group whose commits count, or committed_by = "all".',
        )
    return by, own.filled_or_none("owner")


def _interval(own: Section) -> timedelta:
    key = "min_purge_interval_ms"
    milliseconds = count(own.get(key, 30_000), key, own.where)
    as_commits = _as_often_as_commits(own)
    if as_commits and milliseconds >= _LEAST_INTERVAL_MS:
        raise SettingsError(
            f"{own.where}: 'as_often_as_commits' says nothing with {key} = {milliseconds}",
            f"Leave out as_often_as_commits, or write {key} = {_LEAST_OF_COMMITS_MS}.",
        )
    least = _LEAST_OF_COMMITS_MS if as_commits else _LEAST_INTERVAL_MS
    if not least <= milliseconds <= _MOST_INTERVAL_MS:
        raise SettingsError(
            f"{own.where}: {key} = {milliseconds}",
            f"Write {_LEAST_INTERVAL_MS} (a second: waiting for all replicas alone takes up to "
            "half of that) or more, a year at most; Kafka Streams' own default is 30000, and with "
            f"as_often_as_commits = true it may be {_LEAST_OF_COMMITS_MS}.",
        )
    return timedelta(milliseconds=milliseconds)


def _as_often_as_commits(own: Section) -> bool:
    key = "as_often_as_commits"
    return switch(own.get(key, False), key, own.where)


def _bytes(own: Section, key: str) -> int | None:
    if key not in own:
        return None
    size = parse_size(own.text(key))
    if not size:
        raise SettingsError(
            f"{own.where}: '{key}' = {own.get(key)!r}",
            f'Write {key} = "10GiB": a whole number above 0 and B, KiB, MiB, GiB or TiB.',
        )
    return size


def _windows(own: Section) -> tuple[Window, ...]:
    if "windows" not in own:
        return ()
    written = own.texts("windows", '["Mon-Fri 22:00-06:00"]')
    return tuple(parse_window(window, own.where) for window in written)


def _overrides(
    table: Any, preset: str | None, liftable: Collection[str], where: str
) -> dict[str, str]:
    if not isinstance(table, dict):
        raise SettingsError(
            f"{where}: overrides is no table", 'Write overrides = { "under-replicated" = "why" }.'
        )
    lifted = dict(PRESET_LIFTS) if preset else {}
    found = {name: why for name, why in lifted.items() if name in liftable}
    for name in table:
        if name not in POLICY_LIFTABLE:
            raise _never(name, where)
        if name not in liftable:
            raise SettingsError(
                f"{where}: overrides names '{name}', which liftable_guards of [purge] leaves out",
                f"Leave out the override, or add '{name}' to liftable_guards.",
            )
        found[name] = Section(f"{where}, overrides", table).filled(name)
    return found


def _waive(table: Any, owner: str | None, where: str) -> dict[str, str]:
    """Exact names of groups, each with its reason, as `--waive` takes them."""
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: waive is no table", 'Write waive = { "old-app" = "why" }.')
    for name in table:
        # Kafka takes any text for an id; what looks like a pattern would waive nobody, silently.
        wrong = (
            "which is no name of a group" if not name.strip() or "\0" in name
            else "which is a pattern, and a policy waives groups by their names alone"
            if any(sign in name for sign in "*?[")
            else "its owner, whose commits make the target" if name == owner
            else None
        )  # fmt: skip
        if wrong:
            raise SettingsError(
                f"{where}: waive names '{name}', {wrong}",
                'Write each group\'s whole name: waive = { "old-app" = "why" }; '
                "lowwater findings holds lists those of a topic.",
            )
    own = Section(f"{where}, waive", table)
    return {name: own.filled(name) for name in table}


def _never(name: str, where: str) -> SettingsError:
    may = f"A policy may lift {', '.join(POLICY_LIFTABLE)}"
    if name not in LIFTABLE_GUARDS:
        near = difflib.get_close_matches(name, POLICY_LIFTABLE, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        return SettingsError(
            f"{where}: overrides names '{name}', which is no guard that can be lifted",
            f"{hint}{may}.",
        )
    return SettingsError(
        f"{where}: overrides names '{name}', which no policy may lift: nobody looks at a policy's "
        "plan before it runs, and past that guard records may be lost unread",
        f"{may}; lift others in a plan by hand.",
    )
