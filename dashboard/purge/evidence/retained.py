"""How much of a log a target keeps: by age, by bytes, or as the topic's own retention would.

Kafka deletes a segment by `retention.ms` once its youngest record is too old, and by
`retention.bytes` while what is left stays at least that large (UnifiedLog,
deleteRetentionMsBreachedSegments and deleteRetentionSizeBreachedSegments). A target is an offset,
so below the first young record all goes, of its own segment too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.targets import Target, parse_target


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a partition: records from `since` on, the last `size_bytes`; None: no limit."""

    since: datetime | None = None
    size_bytes: int | None = None
    problem: str | None = None


def kept(
    facts: PlanFacts, keys: Iterable[TopicPartition], target: Target, now: datetime
) -> dict[TopicPartition, Kept]:
    """What the target keeps of each partition; {} for kinds that do not say."""
    if target.kind == "timestamp":
        return dict.fromkeys(keys, Kept(since=target.at))
    if target.kind == "keep":
        since = _ago(now, target.keep_for) if target.keep_for is not None else None
        return dict.fromkeys(keys, Kept(since, target.keep_bytes))
    if target.kind == "retention":
        return {key: _by_retention(facts.configs.get(key.topic, {}), now) for key in keys}
    return {}


def _by_retention(configs: Mapping[str, str | None], now: datetime) -> Kept:
    limits = {}
    for name in ("retention.ms", "retention.bytes"):
        value = configs.get(name)
        if value is None:
            return Kept(problem=f"the topic's {name} cannot be read")
        limits[name] = int(value)
    age_ms, size_bytes = limits["retention.ms"], limits["retention.bytes"]
    return Kept(
        since=_ago(now, timedelta(milliseconds=age_ms)) if 0 <= age_ms <= _OLDEST_MS else None,
        size_bytes=size_bytes if size_bytes >= 0 else None,
    )


_OLDEST_MS = 1000 * 365 * 86_400_000  # Kafka's "for ever" may also be written as a huge number


def _ago(now: datetime, age: timedelta) -> datetime | None:
    """None where no record can be as old: before the first timestamp that Kafka knows."""
    epoch = datetime.fromtimestamp(0, now.tzinfo)
    return now - age if age <= now - epoch else None


def by_bytes(target: str) -> bool:
    """Whether a target, as `--to` spells it, may keep a number of bytes: none may be lost since."""
    kind, _, _ = target.partition(":")
    if kind == "keep":
        return parse_target(target).keep_bytes is not None
    return kind == "retention"
