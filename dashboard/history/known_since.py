"""What a data folder's memory of its cluster began with, which tells it from every other folder.

That is its first snapshot: the id, and the hash of its manifest. Each analysis carries it from the
one it goes on from, whatever is pruned, and plans and the journal keep it. A folder that does not
go on from what a purge rested on is another one, say the one below a mount point. Times of two
folders are never compared: either may be of a clock that was wrong.

As text: `ID:HASH`, `ID` alone of what an earlier version carried; several with a space between
where the snapshots of another folder were put in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

from dashboard.core.errors import StoreError
from dashboard.history.findings_age import newest_manifest
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore

DETAIL = "known_since"  # of an analysis' manifest
_ID = r"\d{8}T\d{9}Z-[0-9a-f]{4}"
_FIRST = rf"{_ID}(:[0-9a-f]{{16}})?"
_TEXT = re.compile(rf"{_FIRST}( {_FIRST})*")

_Firsts = dict[str, str]  # the hash of each first snapshot's manifest by its id, "" of some


def is_told(text: str) -> bool:
    """Whether a text has the shape of what a memory began with."""
    return _TEXT.fullmatch(text) is not None


def began_at(text: str) -> datetime | None:
    """When it began by the clock of then, to be shown to people; None for another text."""
    return time_of(text) if is_told(text) else None


def known_since(cluster: ClusterStore) -> str | None:
    """What the newest analysis' memory began with, or that of the kept snapshots.

    None: the folder knows nothing of the cluster. Raises StoreError.
    """
    return _text(_of(cluster, newest_manifest(cluster)))


def carried_since(cluster: ClusterStore) -> str | None:
    """The same where the newest analysis carries it; None where pruning may yet change it."""
    return _carried(newest_manifest(cluster))


def goes_on_from(cluster: ClusterStore, since: str) -> bool:
    """Whether the memory of this folder goes on from all that `since` names: what the newest
    analysis carries, or what is kept where none carries anything. Raises StoreError.
    """
    analysis, wanted = newest_manifest(cluster), _firsts(since)
    own = _of(cluster, analysis)
    if _carried(analysis) is None:
        own |= {i: _hash(cluster, i) for i in cluster.ids("snapshots") if i in wanted}
    return all(i in own and _same(its, own[i]) for i, its in wanted.items())


def of_analysis(cluster: ClusterStore, before: Sequence[Manifest], *, anew: bool) -> str | None:
    """What a new analysis carries that remembers what those `before` do, the newest one last.

    `anew`: it reads all kept snapshots besides, and so what was put back before the oldest.
    """
    carrying = [analysis for analysis in before if _carried(analysis)]
    found = _of(cluster, next(reversed(carrying or [*before]), None))
    kept = _kept(cluster)[:1] if anew else []
    return _text(found | {i: _hash(cluster, i) for i in kept if i <= min(found, default=i)})


def _carried(analysis: Manifest | None) -> str | None:
    told = None if analysis is None else analysis.details.get(DETAIL)
    return told if isinstance(told, str) and is_told(told) else None


def _of(cluster: ClusterStore, analysis: Manifest | None) -> _Firsts:
    if (carried := _carried(analysis)) is not None:
        return _firsts(carried)
    # One of an earlier version: the oldest that is kept, or the snapshot that it shows.
    shown = "" if analysis is None else str(analysis.details.get("snapshot_id", ""))
    told = [*([shown] if is_told(shown) else []), *_kept(cluster)[:1]]
    return {first: _hash(cluster, first) for first in sorted(told)[:1]}


def _kept(cluster: ClusterStore) -> list[str]:
    return [name for name in cluster.ids("snapshots") if is_told(name)]


def _hash(cluster: ClusterStore, snapshot: str) -> str:
    """Of the manifest's bytes; "" where it is not kept, or cannot be read."""
    try:
        body = cluster.manifest_bytes("snapshots", snapshot)
    except StoreError:
        return ""
    return "" if body is None else hashlib.sha256(body).hexdigest()[:16]


def _same(one: str, other: str) -> bool:
    """Whether two hashes are of one manifest, as far as they are known."""
    return one == other or not (one and other)


def _firsts(text: str) -> _Firsts:
    return {name: its for name, _, its in (first.partition(":") for first in text.split(" "))}


def _text(firsts: _Firsts) -> str | None:
    return " ".join(f"{i}:{its}" if its else i for i, its in sorted(firsts.items())) or None
