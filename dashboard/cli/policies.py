"""`lowwater policies check|run|on|off|doctor`: purges that the settings describe and repeat."""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output, policies_check, policies_doctor, policies_run
from dashboard.cli.parser import Verbs, add_verb
from dashboard.clock import utc_now
from dashboard.errors import UsageError

if TYPE_CHECKING:
    from dashboard.policy_settings import Policy
    from dashboard.settings import Settings
    from dashboard.snapshots import ClusterStore

_DESCRIPTION = """\
Policies are purges that lowwater.toml describes ([policies.NAME]) and an operator switches on.
check   what each would purge now, what holds it back, and what it would have done last week
run     the service: carries them out until Ctrl-C; of several, one leads. --once: one cycle of each
on      switch one on, as it is defined now, by the sentence that check prints
off     no further purge of it begins, and what one in flight has not sent stays
doctor  which repartition topics of Streams are purged badly, and what to set; asks no broker"""
_NAMED = ("on", "off")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "policies",
        "purge again and again by the settings' policies",
        description=_DESCRIPTION,
        examples=(
            "lowwater policies check",
            'lowwater policies on repartition --confirm "switch on policy repartition on prod"',
            "lowwater policies run --json",
            "lowwater policies off repartition",
            "lowwater policies doctor --json",
        ),
    )
    parser.add_argument("action", choices=("check", "run", *_NAMED, "doctor"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the policy, for on and off")
    parser.add_argument("--confirm", metavar="TEXT", help="with on: the sentence")
    policies_run.add_flags(parser)
    policies_doctor.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Do what `action` says. Raises UsageError, SettingsError, StoreError, RefusedError,
    ClusterError, JournalError.
    """
    _refuse_flags(args)
    settings, cluster = context.open_cluster(args)
    if args.action in _NAMED:
        return _switch(args, settings, cluster)
    if args.action == "doctor":
        return policies_doctor.run(args, settings, cluster)
    policies = of_cluster(settings, cluster)
    action = policies_check.run if args.action == "check" else policies_run.run
    return action(args, settings, cluster, policies)


def of_cluster(settings: Settings, cluster: ClusterStore) -> tuple[Policy, ...]:
    """The settings' policies for this cluster. Raises UsageError NO_POLICY."""
    from dashboard.policies.switching import is_for

    found = tuple(policy for policy in settings.policies if is_for(policy, cluster))
    if not found:
        raise UsageError(
            f"the settings describe no policy for cluster {cluster.name}",
            "Write [policies.NAME] in lowwater.toml; docs/policies.md tells how.",
            code="NO_POLICY",
        )
    return found


def _switch(args: argparse.Namespace, settings: Settings, cluster: ClusterStore) -> int:
    from dashboard.policies import switching

    policy = _named(args.name, settings)
    who, host, now = context.actor(settings), socket.gethostname(), utc_now()
    with context.open_journal(settings) as journal:
        if args.action == "on":
            switching.switch_on(
                settings, journal, cluster, policy, typed=args.confirm or "", who=who,
                from_where=host, now=now,
            )  # fmt: skip
        else:
            switching.switch_off(
                settings, journal, cluster, policy, who=who, from_where=host, now=now
            )
        state = journal.policy_states(cluster.cluster_id).get(policy.name)
    standing = switching.standing(policy, state)
    value: dict[str, Any] = {
        "name": policy.name,
        "standing": standing,
        "cluster": cluster.name,
        "cluster_id": cluster.cluster_id,
        "definition_sha256": policy.definition_sha256,
        "who": state.who if state else None,
        "at": state.at if state else None,
    }
    output.emit(value, f"policy {policy.name} is {standing} on {cluster.name}", as_json=args.json)
    return 0


def _named(name: str, settings: Settings) -> Policy:
    for policy in settings.policies:
        if policy.name == name:
            return policy
    known = ", ".join(policy.name for policy in settings.policies) or "none"
    raise UsageError(
        f"the settings have no [policies.{name}]", f"Known: {known}.", code="POLICY_UNKNOWN"
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
    policies_doctor.refuse_flags(args)
