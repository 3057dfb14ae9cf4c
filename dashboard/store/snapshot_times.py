"""When snapshots were taken: ids tell, but those that follow one of a clock that ran ahead."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from dashboard.core.errors import StoreError
from dashboard.store.snapshot_files import time_of
from dashboard.store.snapshots import ClusterStore


def times(cluster: ClusterStore, ids: Collection[str], now: datetime) -> dict[str, datetime]:
    """The time of each of these snapshots; a folder that bears none is left out.

    An id sorts behind all that were committed before it. So while one bears a time after `now`,
    those behind it tell that time and not their own, which stands in their manifests. One that
    cannot be read is of the time that its id tells.
    """
    found = {name: at for name in ids if (at := time_of(name)) is not None}
    if max(found.values(), default=now) > now:
        for name in found:
            with suppress(StoreError):  # damaged, or pruned meanwhile
                found[name] = cluster.manifest("snapshots", name).taken_at
    return found
