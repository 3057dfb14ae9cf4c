"""What lies in a quarantine: the log's story of each folder, settled by what the disk shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.core.canonical import LATER, written
from dashboard.core.clock import parse_time
from dashboard.core.errors import JournalError, UsageError
from dashboard.inventory.names import folder_of
from dashboard.orphans.sweep.log import Body, Entry

DELETING = ".deleting"  # appended to a folder's name when its deletion begins

# The entry's kind -> the state it leaves the folder in.
_STATES = {
    "moving": "moving",
    "moved": "quarantined",
    "seen": "quarantined",  # by a clock that was proved
    "not-moved": "not moved",
    "put-back": "put back",
    "restoring": "restoring",
    "restored": "restored",
    "seen-restored": "restored",  # by a clock that was proved
    "not-restored": "quarantined",
    "deleting": "deleting",
    "not-deleted": "quarantined",
    "deleted": "deleted",
    "lost": "lost",
}
_OPEN = ("moving", "restoring", "deleting")
_ITEM = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Item:
    """One folder that was set aside, or was about to be; sizes are bytes."""

    item: str  # the folder of the quarantine that holds it
    directory: str
    log_dir: str
    inode: int  # persists; a device's number may change when the host starts again
    cluster_id: str
    cluster_name: str
    broker_id: int
    topic: str
    partition: int
    topic_id: str
    log_bytes: int
    allocated_bytes: int
    verdicts: str  # sha256 of the file that let it go
    directory_id: str | None = None  # of its log dir's meta.properties; null before it was kept
    topic_lived: bool | None = None  # whether the cluster had its topic then; null likewise
    state: str = "moving"
    moved_at: datetime | None = None
    proved_at: datetime | None = None  # since when by proved clocks
    changed: bool = False  # its contents were not those judged when it was seen last
    put_back_at: datetime | None = None  # when somebody restored it, or it was first seen there
    put_back_proved: bool = False  # whether that time is by a proved clock

    def path(self, quarantine: Path) -> Path:
        """Where it lies while it is set aside."""
        return quarantine / self.item / self.directory

    def begin(self) -> Body:
        """The body of the entry that precedes its move."""
        return {name: getattr(self, name) for name in _BEGUN}


@dataclass(frozen=True, slots=True)
class Act:
    """The body of an entry after `moving`: what became of an item; None is not written."""

    item: str
    seen_on_disk: bool | None = field(default=None, metadata=LATER)  # found out, not done by us
    changed: bool | None = field(default=None, metadata=LATER)  # as `Item.changed`
    # Whether the entry's time is one on which this host and the cluster agreed.
    clock_proved: bool | None = field(default=None, metadata=LATER)
    error: str | None = field(default=None, metadata=LATER)

    def body(self) -> Body:
        """As the log has it."""
        found: Body = written(self)
        return found


_SINCE = ("state", "moved_at", "proved_at", "changed", "put_back_at", "put_back_proved")
_BEGUN = tuple(f.name for f in fields(Item) if f.name not in _SINCE)
_LATER = ("directory_id", "topic_lived")  # entries of earlier releases lack them


def items(entries: Iterable[Entry]) -> dict[str, Item]:
    """Every folder that the log tells of, by item, in the state its last entry left it in.

    Raises ValueError for an entry that no sweep has written, whatever its hash: names in it become
    paths of what is deleted.
    """
    found: dict[str, Item] = {}
    for entry in entries:
        if entry.kind not in _STATES:
            continue
        try:
            name = entry.body["item"]
            if entry.kind == "moving":
                found[name] = _begun(entry.body)
            else:
                act = _act(entry.body)
                found[name] = after(found[name], entry.kind, act, parse_time(entry.at))
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise ValueError(f"entry {entry.seq} was written by no sweep") from error
    return found


def _begun(body: Mapping[str, Any]) -> Item:
    item = Item(**{key: body[key] for key in _BEGUN if key in body or key not in _LATER})
    if not _ITEM.fullmatch(item.item) or folder_of(item.directory) is None:
        raise ValueError("it names no folder")
    return item


def _act(body: Mapping[str, Any]) -> Act:
    """Of a line that is read: what no sweep writes there counts as before there were records."""
    changed = bool(body["changed"]) if "changed" in body else None
    return Act(body["item"], changed=changed, clock_proved=body.get("clock_proved") is True)


def after(item: Item, kind: str, act: Act, at: datetime) -> Item:
    """The item once an entry of this kind stands in the log."""
    changed = item.changed if act.changed is None else act.changed
    moved_at = at if kind == "moved" else item.moved_at
    proved = act.clock_proved is True
    known = None if kind == "moved" else item.proved_at
    back = _STATES[kind] == "restored"
    return replace(
        item, state=_STATES[kind], moved_at=moved_at, changed=changed,
        proved_at=at if proved else known,
        put_back_at=at if back else item.put_back_at,
        put_back_proved=proved if back else item.put_back_proved,
    )  # fmt: skip


def unsettled(
    found: Mapping[str, Item], folder: int, where: Path
) -> Iterator[tuple[Item, str, Act]]:
    """For each act that was begun and has no outcome: what the disk shows became of it; and which
    folders somebody put back, or took away and laid back in quarantine, by hand.

    `folder` is the open quarantine, `where` its path. Gives item, kind of the entry to write, and
    the act. A deletion that has begun has no entry: it goes on. Raises JournalError
    QUARANTINE_UNSETTLED where the disk does not say: nothing is written down of that.
    """
    for item in found.values():
        if item.state in ("quarantined", "lost") and _is_back(item, folder):
            yield item, "restored", Act(item.item, seen_on_disk=True)
        if item.state not in (*_OPEN, "lost"):
            continue
        kind = _outcome(item, folder, where)
        if kind is not None:
            changed = kind == "moved" and _log_bytes(item, folder, where) != item.log_bytes
            yield item, kind, Act(item.item, seen_on_disk=True, changed=changed or None)


def _outcome(item: Item, folder: int, where: Path) -> str | None:
    if item.state == "lost":  # somebody took it away; laid back there, its time begins anew
        lies = _inode(f"{item.item}/{item.directory}", folder, where) == item.inode
        return "moved" if lies else None
    aside = _lies_aside(item.directory, item, folder, where)
    if item.state == "deleting":
        if aside:
            return "not-deleted"
        begun = _lies_aside(f"{item.directory}{DELETING}", item, folder, where)
        return None if begun else "lost"  # ended by us, or its rest was taken out: it does not say
    if aside:
        return "moved" if item.state == "moving" else "not-restored"
    # In the log dir the broker may have made another folder of this name meanwhile.
    if _inode(f"{item.log_dir}/{item.directory}", folder, where) == item.inode:
        return "not-moved" if item.state == "moving" else "restored"
    return "lost"


def _is_back(item: Item, folder: int) -> bool:
    """Whether this very folder has its old name again, and none in quarantine. In doubt it lies
    there: who deletes or restores it looks for itself.
    """
    with suppress(OSError):
        os.stat(f"{item.item}/{item.directory}", dir_fd=folder, follow_symlinks=False)
        return False
    with suppress(OSError):
        found = Path(item.log_dir, item.directory).lstat()
        return (found.st_dev, found.st_ino) == (os.fstat(folder).st_dev, item.inode)
    return False


def _lies_aside(name: str, item: Item, folder: int, where: Path) -> bool:
    """Whether this very folder has this name in quarantine. Nobody else gives names there."""
    path = f"{item.item}/{name}"
    inode = _inode(path, folder, where)
    if inode not in (None, item.inode):
        raise _unsettled(where / path, f"another folder than the one of inode {item.inode}")
    return inode is not None


def _inode(path: str, folder: int, where: Path) -> int | None:
    """The inode that has this name, 0 on another disk; None: nothing has it."""
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unsettled(where / path, error.strerror or str(error)) from error
    return found.st_ino if found.st_dev == os.fstat(folder).st_dev else 0


def _log_bytes(item: Item, folder: int, where: Path) -> int:
    path = f"{item.item}/{item.directory}"
    try:
        return log_bytes(path, folder)
    except OSError as error:
        raise _unsettled(where / path, error.strerror or str(error)) from error


def log_bytes(path: str, folder: int) -> int:
    """Bytes of the `.log` files in a folder, by its path from an open one. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        with os.scandir(opened) as entries:
            logs = [e for e in entries if e.name.endswith(".log")]
            return sum(e.stat(follow_symlinks=False).st_size for e in logs)
    finally:
        os.close(opened)


def _unsettled(path: Path, found: str) -> JournalError:
    return JournalError(
        f"an earlier sweep ended amid an act, and {path} does not tell what became of it: {found}",
        "Look at that path and its disk, then sweep again: it goes on from there. Nothing of that "
        "quarantine is touched until then.",
        code="QUARANTINE_UNSETTLED",
    )
