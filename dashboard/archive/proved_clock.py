"""By what time archives expire: this host's clock, once another one tells the same.

What expires is gone for good, and a machine that was resumed, or has no NTP, takes all for old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from dashboard.archive.place import Place
from dashboard.archive.summary import Summary
from dashboard.cluster import live
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, RefusedError, StoreError
from dashboard.settings.settings import Settings
from dashboard.store import clocks
from dashboard.store.connections import client_for
from dashboard.store.snapshots import Store

_Compared = tuple[datetime, timedelta | None]  # now, and by how much that is ahead; None: untold


def proved_now(settings: Settings, store: Store, due: Sequence[Summary]) -> datetime:
    """Now, once one other clock tells the same: a controller's, first of these archives' clusters,
    then of others in the data folder; or else that of the object store in which they lie.

    Raises RefusedError CLOCK_UNPROVED where it tells another time, or none tells any. Another
    cluster's does not count while one of these archives' own does not answer: a machine that was
    just resumed may reach nobody but itself.
    """
    untold, silent = [], False
    for own, whose, ask in _clocks(settings, store, due):
        if silent and own is False:
            continue
        try:
            now, by = ask()
        except LowwaterError as error:
            untold.append(f"{whose}: {error.message}")
            silent |= own is True
            continue
        if by:
            raise _unproved(clocks.in_words(by, now, whose), "Set it right (NTP)")
        if by is not None:
            return now
        untold.append(f"{whose} tells none")
    raise _unproved(
        f"no other clock tells whether this host's is right ({'; '.join(untold) or 'none known'})",
        "Let a cluster of the data folder be reached whose controller tells the time",
    )


def _clocks(
    settings: Settings, store: Store, due: Sequence[Summary]
) -> Iterator[tuple[bool | None, str, Callable[[], _Compared]]]:
    """Whether it is of one of these archives' clusters (None: of no cluster), whose it is, and what
    asks it.
    """
    of_archives = {one.archive.run.cluster_id for one in due}
    try:
        known = store.clusters()
    except StoreError:
        known = []
    for cluster_id in sorted(known, key=lambda one: (one not in of_archives, one)):
        whose = f"the controller of cluster {cluster_id}"
        own = cluster_id in of_archives
        yield own, whose, partial(_by_controller, settings, store, cluster_id)
    place = due[0].archive.place
    if not place.is_local:
        yield None, f"the object store {place.url}", partial(_by_place, place)


def _by_controller(settings: Settings, store: Store, cluster_id: str) -> _Compared:
    client = client_for(settings, store.cluster(cluster_id))
    with live.connect(client, settings.broker_timeout, cluster_id=cluster_id) as cluster:
        now = utc_now()
        return now, clocks.apart(cluster.controller_time, now)


def _by_place(place: Place) -> _Compared:
    now = utc_now()
    return now, clocks.apart(place.told_time, now)


def _unproved(why: str, mend: str) -> RefusedError:
    return RefusedError(
        f"{why}: how old archives are is not known",
        f"{mend}, then run it again; archives delete takes one by its sentence.",
        code="CLOCK_UNPROVED",
    )
