"""Which partitions a policy may purge now, and when the next one may be (KIP-811's interval)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dashboard.domain.model import TopicPartition
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.windows import is_open, next_open


@dataclass(frozen=True, slots=True)
class Due:
    """Partitions whose purge may start now; when the first of the others may, None without any."""

    now: frozenset[TopicPartition]
    next_at: datetime | None


def due(
    policy: Policy,
    partitions: Iterable[TopicPartition],
    last_starts: Mapping[TopicPartition, datetime],
    now: datetime,
) -> Due:
    """A partition is due once its last start lies the interval back and a window is open.

    KIP-811's interval is a minimum between two starts: a purge may come later, never earlier. One
    that was never purged is due at once. A last start in the future, after the clock stepped
    back, waits for its interval too.
    """
    interval = policy.min_purge_interval
    free_at = {p: last_starts[p] + interval if p in last_starts else now for p in partitions}
    window_open = is_open(policy, now)
    ready = frozenset(p for p, at in free_at.items() if at <= now) if window_open else frozenset()
    waiting = [max(at, now) for p, at in free_at.items() if p not in ready]
    next_at = next_open(policy, min(waiting)).astimezone(UTC) if waiting else None
    return Due(ready, next_at)


def longest_waiting_first(
    partitions: Iterable[TopicPartition], last_starts: Mapping[TopicPartition, datetime]
) -> tuple[TopicPartition, ...]:
    """The order in which a budget is spent: never purged ones first, then by their last start."""
    never = datetime.min.replace(tzinfo=UTC)
    return tuple(sorted(partitions, key=lambda p: (last_starts.get(p, never), p)))
