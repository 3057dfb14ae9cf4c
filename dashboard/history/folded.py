"""Which kept snapshots an analysis has in its memory: those that it names.

Ids sort in the order of commits, so these are nearly always the ones up to its own. One may come to
stand before it later all the same: overtaken while it was written, put back by hand, or taken by an
older release while ids were of a time to come. It is unread until an analysis names it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.store.snapshot_files import Manifest

DETAIL = "folded"  # of an analysis' manifest: the snapshots that were kept, up to its own
# Who keeps every minute's snapshot for months would else carry megabytes in each manifest.
MOST = 1000


def told(kept: Iterable[str], snapshot_id: str) -> list[str]:
    """What the analysis of a snapshot names of the kept ones: the newest `MOST`."""
    return sorted(name for name in kept if name <= snapshot_id)[-MOST:]


def late(kept: Iterable[str], analysis: Manifest | None) -> list[str]:
    """The kept snapshots before an analysis' own that it has not in its memory, oldest first.

    Those that it could not read are named by itself (`holes`). One of an earlier version names
    none: it is taken to know all up to its own.
    """
    if analysis is None or DETAIL not in analysis.details:
        return []
    names = analysis.details[DETAIL]
    known = {*names, *analysis.details.get("left_out", {})}
    first = names[0] if len(names) >= MOST else ""  # of those before it is not told
    own = str(analysis.details.get("snapshot_id", ""))
    return sorted(name for name in kept if first < name < own and name not in known)
