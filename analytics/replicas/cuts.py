"""What befalls a log between snapshots beside growing: which may have lost records that their
curves count, as leader epochs end; and when segments roll, as they are full or `segment.ms` after
their first record.

A log loses its end where it comes to follow another leader, or its broker starts again, and neither
happens without a new leader epoch (KIP-101). One that has grown past its old end since looks whole.

How much is written in `segment.ms` tells how large segments are that roll by time
(LogSegment.shouldRoll). It is carried with the curves from snapshot to snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.points import Points
from dashboard.core.arrow import column, looked_up
from dashboard.domain.model import DEFAULT_SEGMENT_BYTES
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import NO_EPOCH, UNKNOWN, Curves, Flags, Ints
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.safety import epochs
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore

_NEVER_CUT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Cuts:
    """Of replicas: where another leader epoch leads than when their curves were drawn; of those,
    which lost what the curves count, and where nobody could tell.
    """

    changed: Flags
    lost: Flags
    untold: Flags


def ends_told(cluster: ClusterStore, snapshot: Manifest, since: str) -> pa.Table | None:
    """EPOCH_ENDS of a snapshot that asked where the epochs of its predecessors end by now, up to
    `since`; None: it did not. What one between the two found lost is in it, too.
    """
    asked_of = snapshot.details.get(ASKED_OF)
    if asked_of is None or str(asked_of) < since:
        return None
    return cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)


def tells_epochs(snapshot: Manifest) -> bool:
    """Whether all that it counted in bytes lies below the log ends that the next one asks about."""
    return ASKED_OF in snapshot.details


def cuts(curves: Curves, row: Ints, points: Points, told: pa.Table | None) -> Cuts:
    """What became of the logs of `curves` in a snapshot: `row` is the curve of each of its points
    (-1: none), `told` its `ends_told`.
    """
    own = np.maximum(row, 0)
    epoch = np.append(curves.epoch, NO_EPOCH)[own]
    known = (epoch != NO_EPOCH) & (points.leader_epoch != NO_EPOCH)
    changed = (row >= 0) & ((epoch != points.leader_epoch) | ~known)
    lost, untold = np.zeros_like(changed), changed.copy()
    at = np.flatnonzero(changed & known)
    if told is not None and len(at):
        partition = integers(points.places["partition"], 0)
        place = pa.array(points.topic_no[at]), pa.array(partition[at]), pa.array(epoch[at])
        ends = pc.fill_null(epochs.ends(*place, told), _NEVER_CUT).to_numpy()
        lost[at] = ends < curves.offset[curves.last][own[at]]
        untold[at] = epochs.unasked(*place, told).to_numpy(zero_copy_only=False)
    return Cuts(changed, lost, untold)


@dataclass(frozen=True)
class Rolls:
    """Each replica's segment.bytes and segment.ms (UNKNOWN: not known), and the time since the
    snapshot before; None where that is not known.
    """

    segment_bytes: Ints
    segment_ms: Ints
    took_ms: int | None


def default(count: int) -> Rolls:
    """Segments of the default size for so many replicas, of which no time is known."""
    size = np.full(count, DEFAULT_SEGMENT_BYTES, dtype=np.int64)
    return Rolls(size, np.full_like(size, UNKNOWN), None)


def rolls(places: pa.Table, topics: pa.Table, took_ms: int | None) -> Rolls:
    """Those of `places`' replicas by the topics' settings: topic, segment_bytes, segment_ms."""
    names, known = column(places, "topic"), column(topics, "topic")

    def of(name: str, missing: int) -> Ints:
        found = looked_up(names, known, column(topics, name))
        return integers(pa.chunked_array([found]), missing)

    return Rolls(of("segment_bytes", DEFAULT_SEGMENT_BYTES), of("segment_ms", UNKNOWN), took_ms)


def took_ms(earlier: str, later: str) -> int | None:
    """Milliseconds between two snapshots; None without an earlier one, or where clocks went back.

    Ids are times: the earlier snapshot itself may be pruned.
    """
    began, ended = time_of(earlier), time_of(later)
    if began is None or ended is None or began >= ended:
        return None
    return (ended - began) // timedelta(milliseconds=1)


def rolled(was: Ints, growth: Ints, size: Ints, by: Rolls) -> Ints:
    """Bytes written in `segment.ms`: the mean over the bytes of each log; UNKNOWN until it grew.

    `was` is the mean before, `growth` what came since then, `size` the log's bytes now.
    """
    if by.took_ms is None:
        return was
    grew = (growth > 0) & (by.segment_ms < UNKNOWN)
    now = np.clip(growth / by.took_ms * by.segment_ms, 1, 1 << 62)
    new = was == UNKNOWN
    weight = np.where(new, 1.0, np.minimum(growth / np.maximum(size, 1), 1.0))
    mean = np.rint(np.where(new, 0, was) * (1 - weight) + now * weight)
    return np.where(grew, mean.astype(np.int64), was)
