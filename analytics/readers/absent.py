"""Since when topics are absent on which groups are remembered.

One may only be hidden from us for a while: an ACL is taken away and given back, somebody collects
with fewer rights. What its groups had read stays known until it has been missing for as long as
snapshots are kept, by the settings and by clocks that were right: how many of them are there tells
nothing, after a quarter without `watch` say.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.core.clock import format_time, parse_time
from dashboard.store.clocks import clock_was_right, seen_at
from dashboard.store.snapshot_files import Manifest

DETAIL = "absent_topics"  # of an analysis' manifest: each name, and when it was first missed


def since(base: Manifest | None) -> Mapping[str, str]:
    """What an analysis keeps of them; {} of one by an earlier version."""
    return {} if base is None else dict(base.details.get(DETAIL, {}))


def carried(
    held: pa.Table, present: pa.Table, base: Manifest | None, snapshot: Manifest
) -> dict[str, str]:
    """Topics of which offsets are `held` that the snapshot has not, and since when, by name."""
    known, now = since(base), format_time(seen_at(snapshot))
    names = pc.unique(column(held, "topic"))
    missing = names.filter(_absent(names, present)).to_pylist()
    begins = clock_was_right(snapshot)
    return {name: known.get(name, now) for name in sorted(missing) if begins or name in known}


def ended(snapshot: Manifest, oldest: pa.Scalar, kept_for: timedelta) -> datetime | None:
    """Topics whose absence began before this moment are forgotten by the analysis of a snapshot:
    longer ago than snapshots are `kept_for`, and than the `oldest` kept one was taken. None: by a
    clock that was wrong none is.
    """
    if not clock_was_right(snapshot):
        return None
    moment: datetime = oldest.as_py()
    return min(moment, snapshot.taken_at - kept_for)


def hidden(
    names: pa.Array, present: pa.Table, base: Manifest | None, before: datetime | None
) -> pa.Array:
    """Whether each topic is absent, and has not been since `before` (`ended`)."""
    gone = [n for n, at in since(base).items() if before is not None and parse_time(at) < before]
    forgotten = pc.is_in(names, value_set=pa.array(gone, pa.string()))
    return pc.and_(_absent(names, present), pc.invert(forgotten))


def _absent(names: pa.Array, present: pa.Table) -> pa.Array:
    return pc.invert(pc.is_in(names, value_set=column(present, "topic")))
