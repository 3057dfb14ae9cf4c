"""The repartition doctor: which `*-repartition` topics are purged badly, and what to set instead.

It reads kept snapshots, the newest findings and the journal, never a cluster. Kafka Streams
creates these topics with unlimited retention and 50 MB segments, and purges them itself after a
commit, at most once in `repartition.purge.interval.ms` (`StreamThread.maybeCommit`, KIP-811).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from dashboard.history.findings_age import unusable
from dashboard.policies.doctor import diagnosis as d
from dashboard.policies.doctor import judges, words
from dashboard.policies.doctor.case import Case
from dashboard.policies.doctor.diagnosis import Diagnosis, Evidence, Rules
from dashboard.policies.doctor.history import History, read_history
from dashboard.policies.doctor.memory import read_memory
from dashboard.policies.doctor.pace import paces
from dashboard.policies.doctor.signs import read_signs
from dashboard.policies.service.switching import is_for, standing
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_sent import Sent, sent_between
from dashboard.settings.policies.policy import REPARTITION_SUFFIX, Policy
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
    if (stale := unusable(history.times[-1], "", now, settings.every)) != "":
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
    on = _switched_on(store, journal, settings)
    found: list[Diagnosis] = []
    for topic, place in history.topics.items():
        policies = tuple(policy for policy in on if policy.matches(topic))
        sent_here = tuple(ours.get(topic, ()))
        case = Case(
            topic, place, history, signs, memory, pace.get(topic), sent_here, policies, rules
        )
        found += _judge(case)
    return sorted(found, key=_order)


def _judge(case: Case) -> list[Diagnosis]:
    dead = judges.dead(case)
    if dead is not None:
        return [dead]
    looks = (judges.not_purged, judges.two_purgers, judges.too_often, judges.retention_instead)
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
