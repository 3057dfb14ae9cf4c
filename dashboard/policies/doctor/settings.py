"""Which setting the doctor asks to change for a finding, to what, and why that one."""

from __future__ import annotations

from datetime import timedelta

from dashboard.policies.doctor.case import Case
from dashboard.policies.doctor.diagnosis import Setting
from dashboard.policies.doctor.pace import Pace
from dashboard.policies.doctor.words import INTERVAL, INTERVAL_DEFAULT_MS, bytes_said
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.policies.policy import Policy

_DAY_MS = 86_400_000
_MS = timedelta(milliseconds=1)


def retention_of_dead(case: Case) -> Setting:
    """A day of retention: unlike a purge it rolls active segments, so that all of it goes."""
    return Setting(
        "topic",
        "retention.ms",
        case.config.get("retention.ms"),
        str(_DAY_MS),
        "it does better than a purge here: retention rolls and frees active segments too, so that "
        f"all of {bytes_said(case.total_bytes)} come back; if the application never returns, "
        "delete the topic instead",
    )


def purge_it(case: Case) -> Setting:
    """What keeps Streams from purging; a compacted topic cannot be purged at all."""
    cleanup = case.config.get("cleanup.policy")
    if cleanup is not None and "delete" not in cleanup:
        why = "Kafka refuses DeleteRecords on a topic whose cleanup.policy lacks delete"
        return Setting("topic", "cleanup.policy", cleanup, "delete", why)
    return Setting(
        "application",
        INTERVAL,
        None,
        str(INTERVAL_DEFAULT_MS),
        "Streams purges by itself: either that is set very long, or the application may not "
        f"(grant its principal DELETE on topic {case.topic}; Streams logs a refused purge at "
        "DEBUG only), or it is no Streams: then a Lowwater policy with preset repartition does it",
    )


def find_the_other(case: Case) -> Setting:
    """Who purges unread records must lose the right to."""
    why = (
        f"find who else purges topic {case.topic}; take DELETE on it from all principals but its "
        "application's"
    )
    return Setting("cluster", "ACL DELETE", None, None, why)


def leave_it_to_streams(case: Case) -> Setting:
    """Of two purgers ours is the one to stop: Streams purges what it has committed anyway."""
    why = (
        "Streams purges what it has committed by itself: leave the topic to it, by a narrower "
        "pattern or by switching the policy off"
    )
    if case.policies:
        return Setting("lowwater", f"policy {case.policy_names}", "on", "off", why)
    return Setting("lowwater", "runs on this topic", None, None, why)


def our_interval(case: Case, pace: Pace) -> Setting:
    """All purges were ours: the policy's own interval."""
    now = str(case.policies[0].min_purge_interval // _MS) if case.policies else None
    whose = f"policy {case.policy_names}" if case.policies else "runs on this topic"
    why = f"all these purges were Lowwater's own ({whose})"
    return Setting("lowwater", "min_purge_interval_ms", now, _advised(pace), why)


def streams_interval(pace: Pace) -> Setting:
    """The application's interval; it holds for all its repartition topics."""
    return Setting(
        "application",
        INTERVAL,
        None,
        _advised(pace),
        "a tenth of the time in which the busiest partition of the application fills a segment "
        f"({INTERVAL_DEFAULT_MS} by default, 120 purges an hour); where the disk matters more, a "
        "smaller segment.bytes or segment.ms of the topic frees earlier",
    )


def retention_of_policy(case: Case, policy: Policy) -> Setting:
    """What a policy's `keep:` is as a retention of the topic, which is per partition too."""
    kept = parse_target(policy.target)
    if kept.keep_for is not None:
        name, value = "retention.ms", kept.keep_for // _MS
    else:
        name, value = "retention.bytes", kept.keep_bytes or 0
    why = f"then leave the topic out of policy {policy.name}"
    return Setting("topic", name, case.config.get(name), str(value), why)


def _advised(pace: Pace) -> str | None:
    return None if pace.advised is None else str(pace.advised // _MS)
