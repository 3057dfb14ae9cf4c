"""The settings sections [policies.NAME]: what may be purged again and again, how often and when."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.core.words import parse_size
from dashboard.settings.policies.policy import PRESET_LIFTS, REPARTITION, Policy
from dashboard.settings.policies.words import (
    Trigger,
    Window,
    check_target,
    parse_trigger,
    parse_window,
    time_zone,
)
from dashboard.settings.purge import LIFTABLE_GUARDS
from dashboard.settings.values import check_keys, count, filled, one_of, tables, text, texts

__all__ = ["POLICY_KEYS", "POLICY_LIFTABLE", "Policy", "Trigger", "Window", "policy_settings"]

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
_MODES = ("wait-all", "leader-only", "leader-only-verified")
POLICY_KEYS = (
    "preset", "topics", "topics_regex", "target", "committed_by", "owner", "mode",
    "min_purge_interval_ms", "most_bytes_per_hour", "most_partitions_per_hour", "windows",
    "timezone", "trigger", "overrides", "waive", "cluster",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A wait-all purge of an idle cluster waits up to 500 ms for followers' next fetch: below a second
# the next purge would be due before the last one is over.
_LEAST_INTERVAL_MS = 1000
_MOST_INTERVAL_MS = 366 * 24 * 3600 * 1000


def policy_settings(table: Any, where: str, liftable: Collection[str]) -> tuple[Policy, ...]:
    """The policies of a settings file, in its order. Raises SettingsError naming section and key.

    `liftable` are the guards that [purge] allows to be lifted at all.
    """
    return tuple(
        _policy(name, entry, f"{where}, [policies.{name}]", liftable)
        for name, entry in tables(table, "policies", where)
    )


def _policy(name: str, entry: Mapping[str, Any], where: str, liftable: Collection[str]) -> Policy:
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            f"{where}: '{name}' is no name of a policy",
            "Use up to 64 letters, digits, '.', '_' and '-', a letter or digit first.",
        )
    check_keys(entry, POLICY_KEYS, where)
    preset = one_of(entry, "preset", (REPARTITION,), where) if "preset" in entry else None
    globs, regex = _topics(entry, preset, where)
    target = check_target(text(entry.get("target", "committed"), "target", where), where)
    committed_by, owner = _committed_by(entry, preset, target, where)
    return Policy(
        name=name,
        preset=preset,
        globs=globs,
        regex=regex,
        target=target,
        committed_by=committed_by,
        owner=owner,
        mode=one_of(entry, "mode", _MODES, where, "wait-all"),
        min_purge_interval=_interval(entry.get("min_purge_interval_ms", 30_000), where),
        most_bytes_per_hour=_bytes(entry, "most_bytes_per_hour", where),
        most_partitions_per_hour=count(entry[key], key, where)
        if (key := "most_partitions_per_hour") in entry
        else None,
        windows=_windows(entry, where),
        timezone=time_zone(entry.get("timezone", "UTC"), where),
        trigger=parse_trigger(text(entry.get("trigger", "always"), "trigger", where), where),
        overrides=_overrides(entry.get("overrides", {}), preset, liftable, where),
        waive=_waive(entry.get("waive", {}), owner, where),
        cluster=filled(entry, "cluster", where) if "cluster" in entry else None,
    )


def _topics(
    entry: Mapping[str, Any], preset: str | None, where: str
) -> tuple[tuple[str, ...], str | None]:
    if "topics" in entry and "topics_regex" in entry:
        raise SettingsError(
            f"{where}: both 'topics' and 'topics_regex'",
            "Keep one of them: globs in topics, or one expression in topics_regex.",
        )
    if "topics_regex" in entry:
        return (), _regex(filled(entry, "topics_regex", where), where)
    if "topics" in entry:
        return texts(entry["topics"], "topics", '["orders.*"]', where), None
    if preset is None:
        raise SettingsError(
            f"{where} names no topics",
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


def _committed_by(
    entry: Mapping[str, Any], preset: str | None, target: str, where: str
) -> tuple[str, str | None]:
    """Whose commits make the target, and the owner's name where the settings give it."""
    if target != "committed":
        for key in ("committed_by", "owner"):
            if key in entry:
                raise SettingsError(
                    f"{where}: '{key}' says nothing with target = '{target}'",
                    f'Leave out {key}, or write target = "committed".',
                )
        return "all", None
    default = "owner" if preset else "all"
    by = one_of(entry, "committed_by", ("all", "owner"), where, default)
    if "owner" in entry and (by == "all" or preset):
        why = "the preset finds each topic's owner itself" if preset else "all groups count"
        raise SettingsError(
            f"{where}: 'owner' beside committed_by = '{by}': {why}",
            "Leave out owner." if preset else 'Leave out owner, or write committed_by = "owner".',
        )
    if by == "owner" and not preset and "owner" not in entry:
        raise SettingsError(
            f"{where}: committed_by = 'owner' without an owner",
            'Add owner = "GROUP", the group whose commits count, or committed_by = "all".',
        )
    return by, filled(entry, "owner", where) if "owner" in entry else None


def _interval(value: Any, where: str) -> timedelta:
    milliseconds = count(value, "min_purge_interval_ms", where)
    if not _LEAST_INTERVAL_MS <= milliseconds <= _MOST_INTERVAL_MS:
        raise SettingsError(
            f"{where}: min_purge_interval_ms = {milliseconds}",
            f"Write {_LEAST_INTERVAL_MS} (a second: waiting for all replicas alone takes up to "
            "half of that) or more, a year at most; Kafka Streams' own default is 30000.",
        )
    return timedelta(milliseconds=milliseconds)


def _bytes(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    if key not in entry:
        return None
    size = parse_size(text(entry[key], key, where))
    if not size:
        raise SettingsError(
            f"{where}: '{key}' = {entry[key]!r}",
            f'Write {key} = "10GiB": a whole number above 0 and B, KiB, MiB, GiB or TiB.',
        )
    return size


def _windows(entry: Mapping[str, Any], where: str) -> tuple[Window, ...]:
    if "windows" not in entry:
        return ()
    written = texts(entry["windows"], "windows", '["Mon-Fri 22:00-06:00"]', where)
    return tuple(parse_window(window, where) for window in written)


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
        found[name] = filled(table, name, f"{where}, overrides").strip()
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
    return {name: filled(table, name, f"{where}, waive") for name in table}


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
