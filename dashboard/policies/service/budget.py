"""How many of the partitions that are due fit into what a policy may purge in an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.core.words import binary
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.journal_policies import Use
from dashboard.settings.policies.policy import Policy


class Within(NamedTuple):
    """What fits, in the order given; what does not, with why; all reasons in one text, or ""."""

    kept: tuple[TopicPartition, ...]
    left_out: Mapping[TopicPartition, str]
    reason: str


def within(
    policy: Policy, candidates: Iterable[tuple[TopicPartition, int | None]], used: Use
) -> Within:
    """The candidates (partition, the most bytes or None) that the hour's budgets still allow.

    `used` is what the policy started in the last hour. As long as bytes of it are not measured,
    nobody knows what is left of the hour's bytes, so that nothing is.

    The first that does not fit any more ends it: smaller ones behind it must not take its place
    hour after hour, so give them longest waiting first. Two kinds are passed over instead, since
    waiting helps neither: bytes that are not measured, where bytes are limited, and one partition
    that is larger than a whole hour's bytes.
    """
    kept: list[TopicPartition] = []
    left_out: dict[TopicPartition, str] = {}
    partitions, size, full = used.partitions, used.bytes, ""
    for partition, most in candidates:
        never = _never_fits(policy, most)
        full = full or ("" if never else _full(policy, partitions + 1, size + (most or 0), used))
        if never or full:
            left_out[partition] = never or full
            continue
        kept.append(partition)
        partitions, size = partitions + 1, size + (most or 0)
    return Within(tuple(kept), left_out, "; ".join(dict.fromkeys(left_out.values())))


def _never_fits(policy: Policy, size: int | None) -> str:
    most = policy.most_bytes_per_hour
    if most is None:
        return ""
    if size is None:
        return "not measured: its bytes cannot be counted against most_bytes_per_hour"
    if size > most:
        return f"larger than a whole hour's most_bytes_per_hour, {binary(most)}"
    return ""


def _full(policy: Policy, partitions: int, size: int, used: Use) -> str:
    most = policy.most_partitions_per_hour
    if most is not None and partitions > most:
        return f"most_partitions_per_hour, {most}, is used up"
    most = policy.most_bytes_per_hour
    if most is not None and used.unmeasured:
        count = f"{used.unmeasured} of the partitions that it purged in the last hour"
        return f"bytes of {count} are not measured: what is left of most_bytes_per_hour is unknown"
    if most is not None and size > most:
        return f"most_bytes_per_hour, {binary(most)}, is used up"
    return ""
