"""What the queue refuses before the journal is asked: each names the plan and the next step."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from dashboard.core.clock import CLOCKS_AGREE
from dashboard.core.errors import RefusedError
from dashboard.domain.model import Guard
from dashboard.domain.system_topics import is_system_topic
from dashboard.purge.journal import gate
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.plan import Plan
from dashboard.safety.guard_texts import guard
from dashboard.settings.current import why_read_only
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.section import POLICY_LIFTABLE
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store


def read_only(settings: Settings, journal: Journal) -> None:
    """READ_ONLY: every purge is switched off, here or in the journal."""
    reason = stopped(settings, journal)
    if reason is not None:
        raise RefusedError(reason, "Switch read_only off first.", code="READ_ONLY")


def stopped(settings: Settings, journal: Journal) -> str | None:
    """Why every purge is switched off now, in the settings or the journal; None: none is."""
    return why_read_only(settings) or gate.switched_off(journal)


def other_text(plan: Plan, confirm: str, sha256: str | None) -> None:
    """PLAN_EDITED, NOTHING_FREE or CONFIRMATION_MISMATCH: not what somebody saw and confirmed."""
    if sha256 is not None and sha256 != plan.sha256:
        raise RefusedError(
            f"the plan is not the one that was previewed: its sha256 is {plan.sha256}",
            "Preview it again, and confirm what you then see.",
            code="PLAN_EDITED",
        )
    nothing_free(plan)
    if confirm not in (plan.confirmation, plan.counted_confirmation):
        raise RefusedError(
            f"'{confirm}' is not the confirmation of this plan",
            f"Repeat exactly: {plan.confirmation}",
            code="CONFIRMATION_MISMATCH",
        )


def _other_name(settings: Settings, plan: Plan) -> None:
    """CLUSTER_MISMATCH: the plan calls its cluster by another name than the data folder does, or by
    one that is another cluster's too, without saying so.

    That name is in the sentence which people type, and in what is kept of the run.
    """
    store = ClusterStore(Store(settings.data), plan.cluster_id)
    named = store.connection().name
    if named not in (None, plan.cluster_name):
        raise RefusedError(
            f"the plan is for {plan.cluster_name}, and cluster {plan.cluster_id} is called {named}",
            "Plan again: it was renamed since, or the plan was edited.",
            code="CLUSTER_MISMATCH",
        )
    if not plan.name_shared and store.others_called(plan.cluster_name):
        raise RefusedError(
            f"the plan is for {plan.cluster_name} ({plan.cluster_id}), and another cluster of the "
            "data folder is called so, too: its confirmation does not tell them apart",
            "Plan again: the new plan's confirmation has the id.",
            code="CLUSTER_MISMATCH",
        )


def nothing_free(plan: Plan) -> None:
    """NOTHING_FREE: guards hold every partition; the most frequent first."""
    if not plan.free_partitions:
        holding = Counter(p.kept_by or "no target" for p in plan.partitions).most_common()
        names = ", ".join(f"{name} on {count}" for name, count in holding)
        raise RefusedError(
            f"plan {plan.plan_id} has no partition free of guards: {names}",
            "Read the guards in its preview; each says what lifts it.",
            code="NOTHING_FREE",
        )


def beyond_policy(plan: Plan, policy: Policy) -> None:
    """NOT_LIFTABLE: what costs a person's judgement each time, no policy decides for good."""
    lifted = [o.name for o in plan.overrides if o.name not in POLICY_LIFTABLE]
    lifted += [f"{w.group_id}'s claim" for w in plan.waivers if not _of_definition(w, policy)]
    if lifted:
        raise RefusedError(
            f"the plan lifts {', '.join(sorted(set(lifted)))}, which no policy may: {policy.name}",
            f"A policy lifts {', '.join(POLICY_LIFTABLE)} alone, and waives whom its waive names "
            "while no coordinator lists it; purge the rest by hand.",
            code="NOT_LIFTABLE",
        )


def _of_definition(waiver: Waiver, policy: Policy) -> bool:
    """Whether just this waiver was confirmed with the policy: of a group while it is gone."""
    named = policy.waive.get(waiver.group_id) == waiver.reason
    return named and waiver.gone and not waiver.alive and not waiver.move


def _forbidden_overrides(settings: Settings, plan: Plan) -> None:
    """NOT_LIFTABLE: a plan of other settings, or made by hand, may lift what these do not."""
    for override in plan.overrides:
        if override.name not in settings.purge.liftable_guards:
            raise RefusedError(
                f"the plan overrides {override.name}, which these settings do not allow",
                "Plan again without it, or allow it with liftable_guards in [purge].",
                code="NOT_LIFTABLE",
            )


def changed_since(
    settings: Settings, journal: Journal, plan: Plan, token: str, now: datetime
) -> None:
    """PLAN_EXPIRED, unless the plan ran already: then the journal names its run; and what
    `not_allowed` refuses. Whoever confirms is refused by the same, alone or as the second person.

    A plan lives as long as the settings let it, whatever its own text says: it may be edited.
    """
    if not journal.knows(plan.sha256, token):
        _too_old(settings, plan, now)
    not_allowed(settings, plan)


def not_allowed(settings: Settings, plan: Plan) -> None:
    """NOT_LIFTABLE, GUARDED or CLUSTER_MISMATCH: what is judged of every plan before it is queued,
    whoever asks for it, a policy too.
    """
    _blocked(settings, plan)
    _other_name(settings, plan)


def _blocked(settings: Settings, plan: Plan) -> None:
    """NOT_LIFTABLE or GUARDED: of a plan for Kafka's own tool too, which needs no name."""
    _forbidden_overrides(settings, plan)
    _not_free_any_more(settings, plan)


def offsets_json(settings: Settings, journal: Journal, plan: Plan, now: datetime) -> str:
    """The free targets for Kafka's own tool, by `refuse_offsets`."""
    refuse_offsets(settings, journal, plan, now)
    return plan.offsets_json()


def refuse_offsets(settings: Settings, journal: Journal, plan: Plan, now: datetime) -> None:
    """READ_ONLY, NOTHING_FREE, PLAN_EXPIRED, NOT_LIFTABLE or GUARDED: what no queue would take is
    not handed to a tool that looks at nothing again, neither at groups nor at a topic made anew.
    """
    read_only(settings, journal)
    nothing_free(plan)
    if plan.archive is not None:
        raise RefusedError(
            f"plan {plan.plan_id} keeps its records in {plan.archive} first, which Kafka's tool "
            "does not",
            "Apply it here, or plan without an archive.",
            code="ARCHIVE_INCOMPLETE",
        )
    _too_old(settings, plan, now)
    _blocked(settings, plan)


def _too_old(settings: Settings, plan: Plan, now: datetime) -> None:
    if plan.created_at - now > CLOCKS_AGREE:
        raise RefusedError(
            f"plan {plan.plan_id} was made at {plan.created_at:%Y-%m-%d %H:%M:%S} UTC, which is "
            "yet to come here: a clock was wrong, or the plan was edited",
            "Set the clock right, then plan again.",
            code="PLAN_EXPIRED",
        )
    if plan.expired(now) or now >= plan.created_at + settings.purge.plan_expires_after:
        gate.late(plan, settings.purge.plan_expires_after)


def _not_free_any_more(settings: Settings, plan: Plan) -> None:
    """GUARDED: what may be judged without the cluster blocks it, whatever the plan's text says.

    A plan sealed again by hand has a right hash. All other guards are judged again, with these,
    from live reads before anything is sent (`recheck`).
    """
    why = _guarded(settings, plan)
    if why is not None:
        raise RefusedError(why.reason, f"{why.lift} Then plan again.", code="GUARDED")


def _guarded(settings: Settings, plan: Plan) -> Guard | None:
    free, most = plan.free_partitions, settings.purge.most_partitions
    if len(plan.partitions) > most and not any(o.name == "over-limit" for o in plan.overrides):
        return guard("over-limit", partitions=len(plan.partitions), limit=most)
    for topic in sorted({p.topic for p in free}):
        if is_system_topic(topic):
            return guard("system-topic", topic=topic)
    return None
