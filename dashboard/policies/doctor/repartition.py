"""The repartition doctor: which `*-repartition` topics are purged badly, and what to set instead.

It reads kept snapshots, the newest findings and the journal, never a cluster. Kafka Streams
creates these topics with unlimited retention and 50 MB segments, and purges them itself after a
commit, at most once in `repartition.purge.interval.ms` (`StreamThread.maybeCommit`, KIP-811).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from dashboard.domain.columns import Flags
from dashboard.domain.system_topics import REPARTITION_SUFFIX
from dashboard.history.findings_age import told_interval, unusable
from dashboard.history.week.rows import ABSENT
from dashboard.policies.doctor import diagnosis as d
from dashboard.policies.doctor import words
from dashboard.policies.doctor.case import Case, longest_lag, read_memory
from dashboard.policies.doctor.diagnosis import Diagnosis, Evidence, Rules, Setting, rhythms
from dashboard.policies.doctor.history import History, read_history
from dashboard.policies.doctor.pace import Pace, paces, read_signs
from dashboard.policies.doctor.words import INTERVAL, INTERVAL_DEFAULT_MS, bytes_said
from dashboard.policies.service.switching import is_for, standing
from dashboard.purge.journal.gate import Sent, sent_between
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore

_RULES = Rules()


def diagnose(
    store: ClusterStore,
    journal: Journal | None,
    settings: Settings,
    now: datetime,
    rules: Rules = _RULES,
) -> list[Diagnosis]:
    """Every repartition topic of the newest snapshot: what is wrong with it, or that nothing is.

    Problems come first, those that give back most before the others. Without a journal no purge
    is known to be ours. Snapshots that do not tell of `now` (`findings_age`) say nothing of any.
    Raises StoreError where the store cannot be read, JournalError.
    """
    memory = read_memory(store)
    history = read_history(store, now, rules.window, memory.groups)
    if history is None:
        return []
    watched = told_interval(store)
    if (stale := unusable(history.times[-1], "", now, settings.every, watched)) != "":
        return [_not_known(topic, history, f"not known: {stale}") for topic in history.topics]
    if len(history.times) < max(2, rules.least_snapshots) or history.span < rules.least_span:
        short = words.too_short(len(history.times), history.span, rules)
        return [_not_known(topic, history, short) for topic in history.topics]
    sent: list[Sent] = []
    if journal is not None:
        sent = sent_between(journal, store.cluster_id, REPARTITION_SUFFIX, history.times)
    signs = read_signs(history, sent, rules.reads_take)
    pace = paces(history, signs)
    ours = _by_topic(sent)
    rhythm = rhythms(history, signs, ours)
    on = _switched_on(store, journal, settings)
    found: list[Diagnosis] = []
    for topic, place in history.topics.items():
        policies = tuple(policy for policy in on if policy.matches(topic))
        sent_here = tuple(ours.get(topic, ()))
        case = Case(
            topic, place, history, signs, memory, pace.get(topic), sent_here, policies, rules
        )
        told = rhythm.get(topic)
        found += [one if one.kind == d.DEAD else replace(one, rhythm=told) for one in _judge(case)]
    return sorted(found, key=_order)


def _judge(case: Case) -> list[Diagnosis]:
    dead = application_dead(case)
    if dead is not None:
        return [dead]
    looks = (not_purged, two_purgers, too_often, retention_instead)
    found = [diagnosis for look in looks if (diagnosis := look(case)) is not None]
    return found or [_no_problem(case)]


def _no_problem(case: Case) -> Diagnosis:
    unknown = _unknown(case)
    if unknown is not None:
        return Diagnosis(case.topic, d.UNKNOWN, unknown, case.evidence())
    evidence = case.evidence()
    said = words.healthy(
        evidence.purges_at_least or 0,
        evidence.segments_freed,
        bounded=case.unlimited is False,
        busy=bool(case.commits.any()),
    )
    return Diagnosis(case.topic, d.HEALTHY, said, evidence)


def _unknown(case: Case) -> str | None:
    """Why nothing can be said of a topic; None: something can."""
    owners, owner = case.history.owners, case.owner
    if case.topic in owners.strangers:
        return words.STRANGERS
    if (owner is None or owner.state is None) and owners.incomplete:
        return words.incomplete(owners.incomplete)
    if case.topic in owners.contested and not (owner and owner.has_members):
        return words.CONTESTED
    if owner is None or not owner.has_members:
        since, seen = case.quiet_since()
        return words.stopped(owner.group_id if owner else None, since, seen, case.rules)
    if case.unlimited is None:
        return words.NO_CONFIG
    return None


def _not_known(topic: str, history: History, why: str) -> Diagnosis:
    times = history.times
    evidence = Evidence("low", times[0], times[-1], len(times))
    return Diagnosis(topic, d.UNKNOWN, why, evidence)


def _by_topic(sent: Iterable[Sent]) -> dict[str, list[Sent]]:
    found: dict[str, list[Sent]] = {}
    for one in sent:
        found.setdefault(one.topic, []).append(one)
    return found


def _switched_on(
    store: ClusterStore, journal: Journal | None, settings: Settings
) -> tuple[Policy, ...]:
    """The policies of this cluster that an operator switched on as they are defined now."""
    states = journal.policy_states(store.cluster_id) if journal else {}
    return tuple(
        policy
        for policy in settings.policies
        if is_for(policy, store) and standing(policy, states.get(policy.name)) == "on"
    )


def _order(diagnosis: Diagnosis) -> tuple[int, int, float, str]:
    requests = diagnosis.saves_requests_per_hour or 0.0
    at = d.KINDS.index(diagnosis.kind) if not diagnosis.problem else 0
    return (at, -(diagnosis.saves_bytes or 0), -requests, diagnosis.topic)


# The five findings of the doctor, each a look at one case: a diagnosis, or None.

_NEARLY_EVERY = 0.8  # of the intervals in which commits moved
_PATIENCE = 4  # times the longest pause between two purges before, then they have ended
_BUSY = 3  # intervals in which commits must have moved


def application_dead(case: Case) -> Diagnosis | None:
    """Its group has no members or is gone, and has committed nothing for `dead_after`."""
    sentence = _left(case)
    if sentence is None:
        return None
    sure = case.owner is not None and case.quiet_since()[1]
    lag = longest_lag(case.history, case.place)
    return Diagnosis(
        case.topic,
        d.DEAD,
        sentence,
        case.evidence(case.commits, "high" if sure else "medium"),
        retention_of_dead(case),
        saves_bytes=case.total_bytes,
        caution=words.dead_caution(case.unread(), lag),
    )


def _left(case: Case) -> str | None:
    """How it is known that nobody reads the topic any more; None: it is not."""
    owner, owners = case.owner, case.history.owners
    since, seen = case.quiet_since()
    others = owners.strangers | owners.contested  # the application may be another one
    if case.newest - since < case.rules.dead_after or case.topic in others:
        return None
    if owner is not None and owner.has_members:
        if owner.may_read(case.topic):
            return None
        return words.left_behind(owner.group_id, since, seen)
    if (owner is None or owner.state is None) and owners.incomplete:
        return None  # a group that is not listed may be there all the same
    if owner is None:
        return words.never_there(since)
    return words.gone(owner.group_id, owner.state, since, seen)


def not_purged(case: Case) -> Diagnosis | None:
    """Commits move, the log start does not (any more), and retention deletes nothing."""
    stalled, since = _stalled(case)
    if not case.unlimited or case.keeping is not None or not stalled.any():
        return None  # a policy that keeps a time purges in its own time
    commits = int(case.commits[stalled].any(axis=0).sum())
    lag = longest_lag(case.history, case.place)
    return Diagnosis(
        case.topic,
        d.NOT_PURGED,
        words.not_purged(int(stalled.sum()), case.partitions, since, commits),
        case.evidence(case.commits[stalled]),
        purge_it(case),
        saves_bytes=case.memory.committed_bytes.get(case.topic),
        caution="A shorter retention is no way out: " + words.retention_caution(lag),
    )


def _stalled(case: Case) -> tuple[Flags, datetime]:
    """Partitions that nobody purges (any more), and the first moment since when."""
    found = np.zeros(case.partitions, dtype=bool)
    since = case.newest
    start = case.history.log_start[case.place, -1]
    backlog = (start != ABSENT) & (case.history.committed[case.place, -1] > start)
    for row in np.flatnonzero(backlog & (case.commits.sum(axis=1) >= _BUSY)).tolist():
        stands = _stands_since(case, row)
        if stands is not None:
            found[row] = True
            since = min(since, stands)
    return found, since


def _stands_since(case: Case, row: int) -> datetime | None:
    """Since when a log start stands still below moving commits; None: that is no long pause."""
    times = case.history.times
    start = case.history.log_start[case.place.start + row]
    moves = (np.flatnonzero(case.purged[row]) + 1).tolist()
    first = moves[-1] if moves else int(np.argmax(start != ABSENT))
    pauses = [times[b] - times[a] for a, b in pairwise(moves)]
    patience = max([case.rules.least_span, *(_PATIENCE * pause for pause in pauses)])
    if case.commits[row, first:].sum() < _BUSY or case.newest - times[first] < patience:
        return None
    return times[first]


def two_purgers(case: Case) -> Diagnosis | None:
    """The log start moves on between our runs, or past what was read; retention is unlimited."""
    if not case.unlimited:
        return None
    passed = case.signs.beyond[case.place]
    if passed.any():
        sentence = words.purged_unread(int(passed.any(axis=0).sum()))
        return Diagnosis(
            case.topic, d.TWO_PURGERS, sentence, case.evidence(passed, "high"),
            find_the_other(case), caution=words.LOST_UNREAD,
        )  # fmt: skip
    foreign = int(case.foreign.any(axis=0).sum())
    ours = case.our_purges()
    least = case.rules.least_foreign
    if foreign < least or (ours < least and not case.policies):
        return None
    hours = case.history.span.total_seconds() / 3600
    return Diagnosis(
        case.topic,
        d.TWO_PURGERS,
        words.two_purgers(case.policy_names, foreign, ours),
        case.evidence(case.foreign),
        leave_it_to_streams(case),
        saves_bytes=0,
        saves_requests_per_hour=ours / hours if ours else None,
    )


def too_often(case: Case) -> Diagnosis | None:
    """Nearly every commit is followed by a purge, and hardly any purge frees a segment."""
    purges, freed = case.counted()
    moves, busy = case.purged.sum(axis=1), case.commits.sum(axis=1)
    eager = (moves >= case.rules.least_purges) & (moves >= _NEARLY_EVERY * busy)
    pace = case.pace
    if not eager.any() or purges < case.rules.least_ratio * max(freed, 1) or pace is None:
        return None
    if pace.advised is None or pace.advised < 2 * pace.seen:
        return None  # another topic of the application needs the pace: this one rides along
    ours = not case.foreign.any()
    return Diagnosis(
        case.topic,
        d.TOO_OFTEN,
        words.too_often(purges, freed, pace.seen),
        case.evidence(case.purged),
        our_interval(case, pace) if ours else streams_interval(pace),
        saves_bytes=0,
        saves_requests_per_hour=pace.saved_per_hour,
        caution=None if ours else words.OLD_STREAMS,
    )


def retention_instead(case: Case) -> Diagnosis | None:
    """A policy of ours keeps a time or a size of the topic: that is what retention is for."""
    policy = case.keeping
    if policy is None or case.foreign.any():
        return None  # where Streams purges as well, leaving it to Streams is the better advice
    setting = retention_of_policy(case, policy)
    return Diagnosis(
        case.topic,
        d.RETENTION,
        words.retention_does_it(policy.name, policy.target, setting.name),
        case.evidence(None, "high"),
        setting,
        saves_bytes=0,
        caution=words.retention_caution(longest_lag(case.history, case.place)),
    )


# Which setting the doctor asks to change for a finding, to what, and why that one.

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
