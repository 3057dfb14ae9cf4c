"""By what time archives expire: this host's clock, once another one tells the same.

What expires is gone for good, and a machine that was resumed, or has no NTP, takes all for old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache, partial

from dashboard.archive.place import Place
from dashboard.archive.summary import Summary
from dashboard.cluster import live
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.settings.settings import Settings
from dashboard.store import clocks
from dashboard.store.connections import client_for
from dashboard.store.snapshots import Store

_Compared = tuple[datetime, timedelta | None]  # now, and by how much that is ahead; None: untold


def proved_times(
    settings: Settings, store: Store, due: Sequence[Summary]
) -> dict[str, datetime | RefusedError]:
    """Now, by the id of each of these archives' clusters, once its own controller tells the same,
    or else the object store in which they lie; RefusedError CLOCK_UNPROVED where one tells another
    time or neither tells any.

    No other cluster's counts: it may be on this very machine, which was just resumed and reaches
    nobody else.
    """
    if not due:
        return {}
    place = due[0].archive.place
    dated = None if place.is_local else cache(partial(_by_place, place))
    return {
        cluster_id: _proved(_clocks(settings, store, cluster_id, place.url, dated))
        for cluster_id in sorted({one.archive.run.cluster_id for one in due})
    }


def _proved(clocks_of: Iterator[tuple[str, Callable[[], _Compared]]]) -> datetime | RefusedError:
    untold = []
    for whose, ask in clocks_of:
        try:
            now, by = ask()
        except LowwaterError as error:
            untold.append(f"{whose}: {error.message}")
            continue
        if by:
            return _unproved(clocks.in_words(by, now, whose), "Set it right (NTP)")
        if by is not None:
            return now
        untold.append(f"{whose} tells none")
    return _unproved(
        f"no other clock tells whether this host's is right ({'; '.join(untold)})",
        "Let that cluster be reached, if its controller tells the time",
    )


def _clocks(
    settings: Settings,
    store: Store,
    cluster_id: str,
    url: str,
    dated: Callable[[], _Compared] | None,
) -> Iterator[tuple[str, Callable[[], _Compared]]]:
    """Whose it is, and what asks it."""
    whose = f"the controller of cluster {cluster_id}"
    yield whose, partial(_by_controller, settings, store, cluster_id)
    if dated is not None:
        yield f"the object store {url}", dated


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
