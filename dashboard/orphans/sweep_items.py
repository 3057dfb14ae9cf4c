"""What lies in a quarantine: the log's story of each folder, settled by what the disk shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.clock import parse_time
from dashboard.errors import UsageError
from dashboard.inventory.names import folder_of
from dashboard.orphans.sweep_log import Entry

PROVED = "clock_proved"  # of an entry: its time is one on which this host and the cluster agreed
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

    def path(self, quarantine: Path) -> Path:
        """Where it lies while it is set aside."""
        return quarantine / self.item / self.directory

    def begin(self) -> dict[str, Any]:
        """The body of the entry that precedes its move."""
        return {name: getattr(self, name) for name in _BEGUN}


_SINCE = ("state", "moved_at", "proved_at", "changed")
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
                found[name] = after(found[name], entry.kind, entry.body, parse_time(entry.at))
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise ValueError(f"entry {entry.seq} was written by no sweep") from error
    return found


def _begun(body: Mapping[str, Any]) -> Item:
    item = Item(**{key: body[key] for key in _BEGUN if key in body or key not in _LATER})
    if not _ITEM.fullmatch(item.item) or folder_of(item.directory) is None:
        raise ValueError("it names no folder")
    return item


def after(item: Item, kind: str, body: Mapping[str, Any], at: datetime) -> Item:
    """The item once an entry of this kind stands in the log."""
    changed = bool(body.get("changed", item.changed))
    moved_at = at if kind == "moved" else item.moved_at
    proved_at = at if body.get(PROVED) is True else item.proved_at
    return replace(
        item, state=_STATES[kind], moved_at=moved_at, proved_at=proved_at, changed=changed
    )


def unsettled(found: Mapping[str, Item], folder: int) -> Iterator[tuple[Item, str, dict[str, Any]]]:
    """For each act that was begun and has no outcome: what the disk shows became of it.

    `folder` is the open quarantine. Gives item, kind of the entry to write, and its body. A
    deletion that has begun has no entry: it goes on.
    """
    for item in found.values():
        if item.state not in _OPEN:
            continue
        kind = _outcome(item, folder)
        if kind is not None:
            body: dict[str, Any] = {"item": item.item, "seen_on_disk": True}
            if kind == "moved" and _log_bytes(item, folder) != item.log_bytes:
                body["changed"] = True
            yield item, kind, body


def _outcome(item: Item, folder: int) -> str | None:
    aside = _is_there(f"{item.item}/{item.directory}", item, folder)
    if item.state == "deleting":
        if aside:
            return "not-deleted"
        begun = _is_there(f"{item.item}/{item.directory}{DELETING}", item, folder)
        return None if begun else "deleted"
    back = _is_there(f"{item.log_dir}/{item.directory}", item, folder)
    if aside:
        return "moved" if item.state == "moving" else "not-restored"
    if back:
        return "not-moved" if item.state == "moving" else "restored"
    return "lost"


def _is_there(path: str, item: Item, folder: int) -> bool:
    """Whether this very folder, told by its inode on the quarantine's device, has this name."""
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (os.fstat(folder).st_dev, item.inode)


def _log_bytes(item: Item, folder: int) -> int | None:
    try:
        opened = os.open(f"{item.item}/{item.directory}", os.O_RDONLY, dir_fd=folder)
    except OSError:
        return None
    try:
        with os.scandir(opened) as entries:
            logs = [e for e in entries if e.name.endswith(".log")]
            return sum(e.stat(follow_symlinks=False).st_size for e in logs)
    except OSError:
        return None
    finally:
        os.close(opened)
