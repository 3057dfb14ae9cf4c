"""The settings section [purge]: how purges are sent, watched and stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dashboard.core.errors import SettingsError, UsageError
from dashboard.settings.values import MAY_BE_ZERO, matches_any, section

# Guards that an override may lift; the design's other guards never are (safety/guard_texts.py).
LIFTABLE_GUARDS = (
    "unread-by-group",
    "no-committed-offset",
    "readers-undeclared",
    "unseen-reader-suspected",
    "members-without-commits",
    "share-group",
    "changelog-source",
    "remote-storage",
    "under-replicated",
    "reassigning",
    "leader-log-dir-move",
    "unclean-election-enabled",
    "over-limit",
    "no-history",
    "stale-history",
)


LONGEST_REQUEST = timedelta(milliseconds=2**31 - 1)  # timeout_ms of DeleteRecords is an int32

LEAST_SILENCE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PurgeSettings:
    """How purges are sent and watched; times as timedelta, counts as numbers."""

    request_timeout: timedelta = timedelta(seconds=30)
    watch_for: timedelta = field(default=timedelta(hours=1), metadata=MAY_BE_ZERO)
    plan_expires_after: timedelta = timedelta(hours=1)
    most_silence: timedelta = timedelta(minutes=10)
    most_service_silence: timedelta = timedelta(hours=2)
    partitions_per_request: int = 500
    requests_in_flight: int = 2
    most_partitions: int = 10_000
    pattern_refresh: timedelta = field(default=timedelta(minutes=5), metadata=MAY_BE_ZERO)
    subscribe_by_name: tuple[str, ...] = ()
    most_history_age: timedelta = timedelta(days=1)
    stop_at_error_share: float = 0.5
    stop_at_least_answered: int = 20
    stop_on_isr_loss: bool = True
    liftable_guards: tuple[str, ...] = LIFTABLE_GUARDS

    def by_name(self, groups: Iterable[str]) -> frozenset[str]:
        """Those of these groups of which somebody said that they subscribe to no pattern."""
        return frozenset(group for group in groups if matches_any(group, self.subscribe_by_name))


def purge_settings(table: Any, where: str) -> PurgeSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "purge", PurgeSettings, where)
    place = own.where
    guards = _guards(own.get("liftable_guards", list(LIFTABLE_GUARDS)), place)
    by_name = own.texts("subscribe_by_name", '["GROUP-*"]') if "subscribe_by_name" in own else ()
    found = PurgeSettings(
        **own.values(PurgeSettings), liftable_guards=guards, subscribe_by_name=by_name
    )
    if found.request_timeout > LONGEST_REQUEST:
        raise SettingsError(
            f"{place}: 'request_timeout' is longer than a request can say",
            "Write 24d or less; minutes are plenty.",
        )
    for name in ("most_silence", "most_service_silence"):
        if getattr(found, name) < LEAST_SILENCE:
            raise SettingsError(
                f"{place}: '{name}' is shorter than {LEAST_SILENCE.total_seconds():g}s",
                "Write 1m or more: who works shows that it lives every few seconds, on a busy disk "
                "less often.",
            )
    return found


def check_request_timeout(timeout: timedelta) -> timedelta:
    """The same time; UsageError TIMEOUT_INVALID for one that no DeleteRecords request can say."""
    if not timedelta(0) < timeout <= LONGEST_REQUEST:
        raise UsageError(
            f"a time-out of {timeout // timedelta(milliseconds=1)} ms cannot be sent",
            "Give more than 0 and 24 days at most, such as 30s; without it the settings' is sent.",
            code="TIMEOUT_INVALID",
        )
    return timeout


def _guards(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise SettingsError(
            f"{where}: liftable_guards is no list",
            f'Write liftable_guards = ["NAME", …] with names of: {", ".join(LIFTABLE_GUARDS)}.',
        )
    for name in value:
        if name not in LIFTABLE_GUARDS:
            raise SettingsError(
                f"{where}: liftable_guards names '{name}'",
                f"Liftable guards are: {', '.join(LIFTABLE_GUARDS)}.",
            )
    return tuple(value)
