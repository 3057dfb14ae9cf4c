"""What happens to folders in quarantine: deleted when their time is up, or put back by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from dashboard.core.clock import format_time
from dashboard.core.errors import ClusterError, UsageError
from dashboard.inventory.names import Folder, folder_of
from dashboard.orphans.sweep.folder import (
    FOLDER,
    Measured,
    measure,
    opened,
    records_of,
    refuse_if_open,
)
from dashboard.orphans.sweep.items import DELETING, Item
from dashboard.orphans.sweep.places import LogDir
from dashboard.orphans.sweep.report import Outcome, Refusal
from dashboard.orphans.sweep.site import Site
from dashboard.safety.last_copy import Records

Stopped = Callable[[], str | None]  # why nothing may be changed now, or None

GONE = "it is not there any more, and lowwater has not deleted it: somebody moved or removed it"
HELD = "the broker holds its files open: their bytes come back when it restarts"


def find(site: Site, name: str) -> tuple[Path, Item]:
    """The folder in quarantine that `name` means: its path there, or its own name if one has it.

    Raises UsageError QUARANTINED_UNKNOWN or QUARANTINED_AMBIGUOUS.
    """
    every = site.aside()
    wanted = name.rstrip("/")
    found = [(p, i) for p, i in every if wanted in (str(i.path(p)), i.directory)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(str(item.path(place)) for place, item in found or every) or "nothing"
    if found:
        raise UsageError(
            f"several folders in quarantine bear the name {name}",
            f"Give the path of one: {listed}.",
            code="QUARANTINED_AMBIGUOUS",
        )
    raise UsageError(
        f"{name} does not lie in the quarantine of these log dirs",
        f"There lies: {listed}. Another place is named with --quarantine-dir."
        + "".join(f" Not looked into: {why}." for why in site.refused_places()),
        code="QUARANTINED_UNKNOWN",
    )


def confirmation(item: Item) -> str:
    """The sentence that --confirm must repeat to delete a folder before its time."""
    return f"delete {item.directory} of {item.cluster_name}"


def not_stopped(stopped: Stopped) -> None:
    """Raises Refusal `read-only`; asked right before each act, for the checks take their time."""
    if stopped() is not None:
        raise Refusal("read-only", "the read-only switch was set meanwhile")


def delete_if_due(
    site: Site, place: Path, item: Item, keep: timedelta, stopped: Stopped
) -> Outcome:
    """Delete a folder whose time in quarantine is up; tell the others'. Dry runs only tell."""
    if item.state == "deleting":
        return delete(site, place, item, stopped)
    if _is_gone(item.path(place)):
        if site.apply:
            site.quarantine(place).gone(item)
        return replace(_outcome(place, item, "none", "gone", GONE), bytes=None)
    try:
        since = _lies_since(site, place, item)
    except Refusal as refusal:  # whose clock nobody can tell ends nobody's time
        return _refused(place, item, "delete", refusal)
    if site.now() < since + keep:
        return _outcome(place, item, "none", "quarantined", f"until {format_time(since + keep)}")
    return delete(site, place, item, stopped)


def _is_gone(path: Path) -> bool:
    """Whether nothing has its name in quarantine. A disk that errs does not say so."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _lies_since(site: Site, place: Path, item: Item) -> datetime:
    """Since when it lies there: by proved clocks alone, where the cluster tells its time.

    A clock that was a day behind when the folder was moved would end a day in a minute. What moved
    by a clock that nobody had proved, as in logs of earlier releases, counts from the first sweep
    whose clock is. Raises Refusal as `tells_the_time` does.
    """
    now = site.now()
    if not site.live.tells_the_time(now):
        return item.moved_at or now
    if item.proved_at is None and site.apply:
        item = site.quarantine(place).seen(item)
    return item.proved_at or now


def put_back_at(site: Site, place: Path, item: Item, *, cluster_tells: bool) -> datetime:
    """From when on verdicts may have seen that somebody put it back: by proved clocks alone, where
    the cluster tells its time.

    By a clock that was a day behind, verdicts of the morning would be newer than a restore of the
    evening. One that nobody had proved counts from the first sweep whose clock is.
    """
    if not cluster_tells:
        return item.put_back_at or site.now()
    if not item.put_back_proved and site.apply:
        item = site.quarantine(place).seen(item)
    return item.put_back_at if item.put_back_at and item.put_back_proved else site.now()


def delete(site: Site, place: Path, item: Item, stopped: Stopped) -> Outcome:
    """Delete one folder in quarantine, or say why not.

    Not by a clock that disagrees with the cluster's: a day would be over in an hour, and what is
    young may have been judged to be old.
    """
    try:
        site.live.tells_the_time(site.now())
        held = _may_be_deleted(site, place, item)
        if not site.apply:
            return _outcome(place, item, "delete", "would_delete", HELD if held else None)
        if item.state != "deleting":
            site.refuse_over_day("deleting", item.allocated_bytes)
        not_stopped(stopped)
        site.quarantine(place).delete(item)
    except Refusal as refusal:
        return _refused(place, item, "delete", refusal)
    return _outcome(place, item, "delete", "deleted", HELD if held else None)


def restore(site: Site, place: Path, item: Item, stopped: Stopped) -> Outcome:
    """Put one folder back where it came from, or say why not."""
    try:
        log_dir = site.log_dir(item.log_dir)
        _is_of(site, item)
        if item.state != "quarantined":
            raise Refusal("deleting", "its deletion has begun: it is not whole any more")
        _has_room(site, log_dir, item)
        not_stopped(stopped)
        site.quarantine(place).restore(item, log_dir, clock_proved=_proves(site))
    except Refusal as refusal:
        return _refused(place, item, "restore", refusal)
    return _outcome(place, item, "restore", "restored", None)


def _proves(site: Site) -> bool:
    """Whether this host's clock is proved now. A wrong one keeps nobody from putting back."""
    try:
        return site.live.tells_the_time(site.now())
    except Refusal:
        return False


def _has_room(site: Site, log_dir: LogDir, item: Item) -> None:
    """A folder of the broker's own must not meet this one: it would not start again."""
    folder = _folder(item)
    live_name = f"{item.topic}-{item.partition}"
    try:
        hosted = site.live.hosts(item.topic, item.partition)
        same_id = hosted and site.live.topic_id(item.topic) == item.topic_id
    except ClusterError as error:
        raise Refusal("unknown", f"the cluster did not answer: {error.message}") from error
    if item.directory in log_dir.names():
        raise Refusal("taken", "its name is taken in the log dir")
    if same_id or (hosted and folder.kind in ("live", "future")):
        raise Refusal("hosted", "the broker hosts this partition now")
    if folder.kind in ("live", "future") and any(live_name in d.names() for d in site.log_dirs):
        raise Refusal("taken", f"{live_name} lies in a log dir: the broker would not start")


def _may_be_deleted(site: Site, place: Path, item: Item) -> bool:
    """Whether the broker still holds it open. Raises Refusal when it must not be deleted.

    All that was asked before it was moved is asked again: a day has passed, and this cannot be
    undone. A deletion that has begun goes on only where it might begin.
    """
    _is_of(site, item)
    log_dir = site.log_dir(item.log_dir)
    if item.directory_id not in (None, log_dir.directory_id):
        raise Refusal("log-dir", f"{item.log_dir} has another directory id than when it was moved")
    found, records = _measured(place, item)
    if item.state != "deleting":
        _is_unchanged(item, found)
    is_stray = _folder(item).kind == "stray"
    held = refuse_if_open(found, broker=log_dir.broker, is_stray=is_stray)
    site.live.may_be_deleted(
        item, log_dir.names, records=records, now=site.now(), lived=item.topic_lived
    )
    log_dir.still_so()
    return held


def _is_unchanged(item: Item, found: Measured) -> None:
    if item.changed:
        raise Refusal("changed", "it changed while it was moved: look at it, then --restore it")
    if found.log_bytes != item.log_bytes:
        raise Refusal("changed", "its records are not those that were set aside")


def _is_of(site: Site, item: Item) -> None:
    if (item.cluster_id, item.broker_id) != (site.cluster_id, site.broker_id):
        raise Refusal(
            "other-broker", f"it came from broker {item.broker_id} of cluster {item.cluster_id}"
        )


def _measured(place: Path, item: Item) -> tuple[Measured, Records]:
    with ExitStack() as stack:
        outer = os.open(place, FOLDER)
        stack.callback(os.close, outer)
        middle = stack.enter_context(opened(outer, item.item))
        begun = DELETING if item.state == "deleting" else ""
        inner = stack.enter_context(opened(middle, f"{item.directory}{begun}"))
        found = measure(inner, os.fstat(outer).st_dev)
        records = records_of(inner, found)
    if found.inode != item.inode:
        raise Refusal("changed", "another folder lies under its name")
    return found, records


def _folder(item: Item) -> Folder:
    found = folder_of(item.directory)
    assert found is not None  # it was when it was moved
    return found


def _refused(place: Path, item: Item, action: str, why: Refusal) -> Outcome:
    return replace(_outcome(place, item, action, "refused", why.reason), code=why.code)


def _outcome(place: Path, item: Item, action: str, state: str, reason: str | None) -> Outcome:
    gone = state in ("deleted", "restored", "gone")
    return Outcome(
        item.broker_id, item.log_dir, item.directory, action, state,
        None if gone else str(item.path(place)), item.allocated_bytes, reason,
    )  # fmt: skip
