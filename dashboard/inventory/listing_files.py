"""Turns the file lines of a listing into rows, one partition folder at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from dashboard.inventory.command import UNREADABLE
from dashboard.inventory.names import (
    CHECKPOINTS,
    META,
    PARTITION_METADATA,
    PLAIN_CHARACTERS,
    folder_of,
    is_left_out,
)
from dashboard.inventory.recorder import LINK, NESTED, NO_PARTITION, SPECIAL, Recorder
from dashboard.inventory.segments import BLOCK_BYTES, FolderSum

_LINE = re.compile(
    rf"([a-zA-Z?])\t([0-9]{{1,19}})\t([0-9]{{1,19}})\t(-?[0-9]{{1,19}})(?:\.([0-9]{{1,10}}))?\t"
    rf"(?:\./)?((?:[{PLAIN_CHARACTERS}]+/)?(?:[{PLAIN_CHARACTERS}]+|:[0-9]+)|)"
)
_LARGEST = 2**63 - 1
_UNUSUAL = {"d": NESTED, UNREADABLE: NESTED, "l": LINK}


class Files:
    """The files of one log dir, in find's order: a folder, then what is in it.

    `topic_ids` are those of the contents part by folder (empty: the file was damaged), `read` the
    small files of the log dir itself that it showed.
    """

    def __init__(
        self, log_dir: str, topic_ids: Mapping[str, str], read: Set[str], recorder: Recorder
    ) -> None:
        self.log_dir = log_dir
        self.root_seen = False
        self._topic_ids = topic_ids
        self._read = read
        self._recorder = recorder
        self._folder: FolderSum | None = None
        self._directory: str | None = None  # of the lines that may come now, counted or not

    def take(self, line: bytes) -> bool:
        """One line; False when it is damaged or stands where it cannot stand."""
        match = _LINE.fullmatch(line.decode("utf-8", "replace"))
        if match is None:
            return False
        letter, size, blocks, seconds, fraction, path = match.groups()
        if int(size) > _LARGEST or int(blocks) > _LARGEST // BLOCK_BYTES:
            return False
        # find writes the second below and the fraction above it, for times before 1970 too
        mtime_ns = int(seconds) * 10**9 + int((fraction or "0").ljust(9, "0")[:9])
        if "/" in path:
            return self._inside(letter, path, (int(size), int(blocks), mtime_ns))
        self._top(letter, path, int(size), mtime_ns)
        return True

    def close(self) -> None:
        """After the last line: the last folder's rows."""
        if self._folder is not None:
            folder = self._folder.folder
            topic_id = self._topic_ids.get(folder.directory) or None
            self._recorder.folder(self.log_dir, folder, topic_id, self._folder.rows())
        self._folder = self._directory = None

    def _top(self, letter: str, name: str, size: int, mtime_ns: int) -> None:
        """An entry of the log dir itself; the empty name is the log dir."""
        self.close()
        if not name:
            self.root_seen = True
            if letter == UNREADABLE:
                self._gap("", "permission denied")
        elif letter == "l":
            self._gap(name, LINK)
        elif letter == UNREADABLE:
            self._gap(name, "permission denied")
        elif letter == "d" and name.startswith(":"):
            self._gap(name, NO_PARTITION)
        elif letter == "d" and not is_left_out(name):
            self._directory = name
            folder = folder_of(name)
            if folder is None:
                self._gap(name, NO_PARTITION)
            else:
                self._folder = FolderSum(folder, mtime_ns)
        elif letter == "f" and name in (META, *CHECKPOINTS) and size and name not in self._read:
            self._gap(name, "its content is not in the listing")

    def _inside(self, letter: str, path: str, state: tuple[int, int, int]) -> bool:
        """An entry of a folder; `state` is its size, blocks and mtime."""
        directory, _, name = path.partition("/")
        if directory != self._directory:
            return False
        if self._folder is None:  # in a folder that was told as no partition
            return True
        if letter != "f":
            self._gap(path, _UNUSUAL.get(letter, SPECIAL))
            return True
        self._folder.add(name, *state)
        if name == PARTITION_METADATA and directory not in self._topic_ids:
            self._gap(path, "its content is not in the listing")
        return True

    def _gap(self, path: str, reason: str) -> None:
        # A name that the line did not print: `find . -inum` shows it.
        path = re.sub(":([0-9]+)$", r"inode \1", path)
        self._recorder.gap(self.log_dir, path, reason)
