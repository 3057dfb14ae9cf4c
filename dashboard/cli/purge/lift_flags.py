"""`--waive "GROUP=why"` and `--override "NAME:GROUP=why"`: where the group ends and the why begins.

Kafka takes any text for a group's id, a `=` too. A group in double quotes, written as in JSON, ends
where they end. Without quotes every `=` may be the one: only a group that is known decides.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from dashboard.cli import context
from dashboard.core.errors import StoreError, UsageError
from dashboard.core.visible import json_pair
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.settings.settings import Settings

if TYPE_CHECKING:  # pyarrow is slow to import
    from dashboard.store.snapshot_files import Kind
    from dashboard.store.snapshots import ClusterStore

Known = Callable[[], Collection[str]]


def parse_waive(text: str, known: Known) -> Waive:
    """`GROUP=why`. Raises UsageError WAIVER_INVALID, or GROUP_AMBIGUOUS that names the choices."""
    return Waive(*_parted(text, known))


def parse_lift(text: str, known: Known) -> Lift:
    """`NAME=why` or `NAME:GROUP=why`. Raises UsageError OVERRIDE_INVALID or GROUP_AMBIGUOUS."""
    named = re.match(r"\s*([a-z-]+):", text)
    if named is None:
        name, _, reason = text.partition("=")
        return Lift(name.strip(), reason.strip())
    group_id, reason = _parted(text[named.end() :], known)
    return Lift(named[1], reason, group_id)


def known_groups(args: argparse.Namespace, settings: Settings) -> Known:
    """The groups that the data folder knows; it is read only where a text is in doubt."""
    return lambda: _stored_groups(args, settings)


def _stored_groups(args: argparse.Namespace, settings: Settings) -> frozenset[str]:
    """Of the newest snapshot, and those that the newest analysis remembers; none without them."""
    try:
        cluster = context.open_store(settings.data).cluster(args.cluster)
        return _groups_of(cluster, "snapshots", "groups") | _groups_of(cluster, "findings", "holds")
    except StoreError:
        return frozenset()


def _groups_of(cluster: ClusterStore, kind: Kind, table: str) -> frozenset[str]:
    newest = cluster.latest(kind)
    if newest is None:
        return frozenset()
    return frozenset(cluster.read(kind, newest, table, ["group_id"])["group_id"].to_pylist())


def _parted(text: str, known: Known) -> tuple[str, str]:
    """Group and reason; an empty reason where there is no such pair."""
    if text.lstrip().startswith('"'):
        return _quoted(text.lstrip())
    pairs = list(_pairs(text, known))
    if len(pairs) > 1:
        there = known()
        pairs = [pair for pair in pairs if pair[0] in there] or pairs
    if len(pairs) > 1:
        raise _ambiguous(text, [group_id for group_id, _ in pairs])
    return pairs[0] if pairs else (text.partition("=")[0].strip(), "")


def _pairs(text: str, known: Known) -> Iterator[tuple[str, str]]:
    """Space before a `=` is part of the name where there is such a group."""
    for found in re.finditer("=", text):
        before, reason = text[: found.start()], text[found.end() :].strip()
        if reason and before.strip():
            yield before.strip(), reason
        if reason and before[-1:].isspace() and before in known():
            yield before, reason


def _quoted(text: str) -> tuple[str, str]:
    try:
        group_id, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text.partition("=")[0], ""
    rest = text[end:].lstrip()
    return (str(group_id), rest[1:].strip()) if rest.startswith("=") else (str(group_id), "")


def _ambiguous(text: str, groups: Collection[str]) -> UsageError:
    named = " or ".join(json.dumps(group_id, ensure_ascii=False) for group_id in groups)
    offered = " or ".join(json_pair(group_id, "why") for group_id in groups)
    return UsageError(
        f"'{text}' may mean the group {named}",
        f"Put the group in double quotes: {offered}.",
        code="GROUP_AMBIGUOUS",
    )
