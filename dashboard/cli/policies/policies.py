"""`lowwater policies check|run|on|off|doctor`: purges that the settings describe and repeat."""

from __future__ import annotations

import argparse
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Parser, Verbs, add_verb
from dashboard.cli.policies import check
from dashboard.cli.policies import run as policies_run
from dashboard.core.clock import format_time, parse_duration, utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines, in_paragraphs

if TYPE_CHECKING:
    from dashboard.policies.doctor.diagnosis import Diagnosis
    from dashboard.purge.journal.policies import PolicyState
    from dashboard.settings.policies.policy import Policy
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore

_DESCRIPTION = """\
Policies are purges that lowwater.toml describes ([policies.NAME]) and an operator switches on.
check   what each would purge now, what holds it back, and what it would have done last week
run     the service: carries them out until Ctrl-C; of several, one leads. --once: one cycle of each
on      switch one on, as check showed it defined, by the sentence that check prints
off     no further purge of it begins, and what one in flight has not sent stays
doctor  which repartition topics of Streams are purged badly, and what to set; asks no broker"""
_NAMED = ("on", "off")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "policies",
        description=_DESCRIPTION,
        examples=(
            "lowwater policies check",
            'lowwater policies on tidy --confirm "switch on policy tidy on prod as 7359a176e27a"',
            "lowwater policies run --json",
            "lowwater policies off repartition",
            "lowwater policies doctor --json",
        ),
    )
    parser.add_argument("action", choices=("check", "run", *_NAMED, "doctor"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the policy, for on and off")
    parser.add_argument("--confirm", metavar="TEXT", help="with on: the sentence")
    policies_run.add_flags(parser)
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Do what `action` says. Raises UsageError, SettingsError, StoreError, RefusedError,
    ClusterError, JournalError.
    """
    _refuse_flags(args)
    settings, cluster = context.open_cluster(args)
    if args.action in _NAMED:
        return _switch(args, settings, cluster)
    if args.action == "doctor":
        return run_doctor(args, settings, cluster)
    policies = of_cluster(settings, cluster)
    if not policies:
        raise _none(args, settings, cluster)
    action = check.run if args.action == "check" else policies_run.run
    return action(args, settings, cluster, policies)


def of_cluster(settings: Settings, cluster: ClusterStore) -> tuple[Policy, ...]:
    """The settings' policies for this cluster."""
    from dashboard.policies.service.switching import is_for

    return tuple(policy for policy in settings.policies if is_for(policy, cluster))


def _none(args: argparse.Namespace, settings: Settings, cluster: ClusterStore) -> UsageError:
    """NO_POLICY; a service that would start here holds what was taken out, as one that runs does.

    Raises JournalError.
    """
    from dashboard.policies.service.switching import on_and_undefined

    now = utc_now()
    with context.open_journal(settings) as journal:
        on = on_and_undefined(
            journal.policy_states(cluster.cluster_id).values(), settings.policies, cluster
        )
        lease = journal.lease(cluster.cluster_id)
        if args.action == "run" and on and not (lease and lease.alive(now)):
            journal.hold_taken_out(cluster.cluster_id, (), now)
    off = "".join(f" Still on in the journal: lowwater policies off {s.name}." for s in on)
    return UsageError(
        f"the settings describe no policy for cluster {cluster.name}",
        f"Write [policies.NAME] in lowwater.toml; docs/policies.md tells how.{off}",
        code="NO_POLICY",
    )


def _switch(args: argparse.Namespace, settings: Settings, cluster: ClusterStore) -> int:
    from dashboard.policies.service import switching

    name = args.name
    policy = next((policy for policy in settings.policies if policy.name == name), None)
    who, host, now = context.actor(settings), socket.gethostname(), utc_now()
    with context.open_journal(settings) as journal:
        path, known = journal.file.path.absolute(), journal.policy_states(cluster.cluster_id)
        if policy is None and (args.action == "on" or name not in known):
            raise _unknown(name, settings, known, path)
        if policy is not None and args.action == "on":
            switching.switch_on(
                settings, journal, cluster, policy, typed=args.confirm or "", who=who,
                from_where=host, now=now,
            )  # fmt: skip
        else:
            switching.switch_off(
                settings, journal, cluster, name, who=who, from_where=host, now=now
            )
        state = journal.policy_states(cluster.cluster_id).get(name)
    standing = switching.standing(policy, state) if policy else "off"
    defined = policy or state
    value: dict[str, Any] = {
        "name": name,
        "standing": standing,
        "cluster": cluster.name,
        "cluster_id": cluster.cluster_id,
        "definition_sha256": defined.definition_sha256 if defined else None,
        "who": state.who if state else None,
        "at": state.at if state else None,
        "caution": policy.caution if policy and standing == "on" else None,
        "journal": str(path),
    }
    text = f"policy {name} is {standing} on {cluster.name}"
    if state:
        text += f", by {state.who} at {format_time(state.at)}, in the journal {path}"
    if value["caution"]:
        text = in_lines([text, f"caution: {value['caution']}"])
    output.emit(value, text, as_json=args.json)
    return 0


def _unknown(
    name: str, settings: Settings, known: Mapping[str, PolicyState], journal: Path
) -> UsageError:
    """Neither the settings nor the journal's switches have it, or `on` wants what only they say."""
    names = ", ".join(policy.name for policy in settings.policies) or "none"
    here = f" The journal {journal} never had it on."
    if name in known:
        on = known[name].enabled
        here = f" The journal has it as on: lowwater policies off {name}." if on else ""
    return UsageError(
        f"the settings have no [policies.{name}]", f"Known: {names}.{here}", code="POLICY_UNKNOWN"
    )


def _refuse_flags(args: argparse.Namespace) -> None:
    if args.action in _NAMED and not args.name:
        raise UsageError(
            f"lowwater policies {args.action} names no policy",
            f"Write: lowwater policies {args.action} NAME.",
        )
    if args.name and args.action not in _NAMED:
        raise UsageError(
            f"lowwater policies {args.action} does not take '{args.name}'", "Leave it out."
        )
    if args.confirm is not None and args.action != "on":
        raise UsageError(f"lowwater policies {args.action} takes no --confirm", "Leave it out.")
    policies_run.refuse_flags(args)
    refuse_flags(args)


# `lowwater policies doctor`: repartition topics that are purged badly, and what to set instead.


def add_flags(parser: Parser) -> None:
    """The flags that are the doctor's alone."""
    parser.add_argument(
        "--window", metavar="7d", help="with doctor: how old a snapshot may be that it looks at"
    )


def refuse_flags(args: argparse.Namespace) -> None:
    """Raises UsageError when the doctor's flags stand with another action."""
    if args.window is not None and args.action != "doctor":
        raise UsageError(f"lowwater policies {args.action} takes no --window", "Leave it out.")


def run_doctor(args: argparse.Namespace, settings: Settings, cluster: ClusterStore) -> int:
    """Print what is wrong with repartition topics; 0 also where something is. Asks no broker.

    Raises StoreError, JournalError, UsageError DURATION_INVALID.
    """
    from dashboard.policies.doctor.diagnosis import KINDS, Rules
    from dashboard.policies.doctor.repartition import diagnose

    rules = Rules()
    if args.window is not None:
        rules = replace(rules, window=parse_duration(args.window))
    with context.open_journal(settings) as journal:
        found = diagnose(cluster, journal, settings, utc_now(), rules)
    counts = Counter(diagnosis.kind for diagnosis in found)
    value: dict[str, Any] = {
        "cluster": cluster.name,
        "cluster_id": cluster.cluster_id,
        "topics": len({diagnosis.topic for diagnosis in found}),
        "kinds": {kind: counts[kind] for kind in KINDS},
        "rows": [diagnosis.to_json() for diagnosis in found],
    }
    output.emit(value, _doctor_text(found), as_json=args.json)
    return 0


def _doctor_text(found: Sequence[Diagnosis]) -> str:
    """A paragraph for each problem, then what is not known; healthy ones are counted, and how
    applications purge is told.
    """
    from dashboard.policies.doctor import words
    from dashboard.policies.doctor.diagnosis import UNKNOWN

    if not found:
        return words.NO_TOPIC
    problems = [words.paragraph(diagnosis) for diagnosis in found if diagnosis.problem]
    unknown = [in_lines([d.topic, f"  {d.sentence}"]) for d in found if d.kind == UNKNOWN]
    head = in_lines([words.summary(found), *(f"  {line}" for line in words.rhythms(found))])
    return in_paragraphs([head, *problems, *unknown])
