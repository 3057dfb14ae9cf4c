"""Which logs may have lost records that their curves count: where leader epochs end tells.

A log loses its end where it comes to follow another leader, or its broker starts again, and neither
happens without a new leader epoch (KIP-101). One that has grown past its old end since looks whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.points import Points
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import NO_EPOCH, Curves, Flags, Ints
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.safety import epochs
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.store.snapshot_files import Manifest
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
