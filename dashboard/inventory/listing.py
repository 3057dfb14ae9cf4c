"""A broker's disk from a host without this program: the shell line that lists it, and the reader of
what that prints, line by line: memory follows the folders, not the files.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import BinaryIO

from dashboard.core.canonical import parse_json
from dashboard.core.clock import parse_time
from dashboard.core.errors import InventoryError, LogDirError, UsageError
from dashboard.inventory.contents import (
    BLOCK_BYTES,
    LONGEST_LINE,
    DamagedError,
    FolderSum,
    parse_checkpoint,
    parse_meta,
    parse_topic_id,
)
from dashboard.inventory.names import (
    CHECKPOINTS,
    LARGEST_METADATA,
    META,
    METADATA_LOG_PREFIX,
    PARTITION_METADATA,
    PLAIN_CHARACTERS,
    REMOTE_INDEX_CACHE,
    folder_of,
    is_left_out,
    parse_log_dirs,
)
from dashboard.inventory.recorder import LINK, NESTED, NO_PARTITION, SPECIAL, Recorder

# The output is lines of text. `#` lines frame it: a header with the log dirs as JSON, the time,
# and per log dir the contents of its small files (`./FILE:LINE`, by grep) and then every file:
# `TYPE <tab> bytes <tab> 512-byte blocks <tab> mtime <tab> path`. A name with a character that
# Kafka never uses is replaced by `:INODE`, so no name can pretend to be a line of its own.

HEADER = "#lowwater-listing"
VERSION = 1
AT, LOG_DIR, MISSING, CONTENTS, FILES, END = (
    "#at", "#dir", "#missing", "#contents", "#files", "#end",
)  # fmt: skip
UNREADABLE = "u"  # the letter of a folder that may not be opened, where find's own would be d

_ODD = f"-name '*[!{PLAIN_CHARACTERS}]*'"
_LEFT_OUT = rf"\( -path './{METADATA_LOG_PREFIX}*' -o -path './{REMOTE_INDEX_CACHE}' \)"
_STATE = r"\t%s\t%b\t%T@\t"


def shell_line(log_dirs: Sequence[str]) -> str:
    """One line for `sh`, with GNU find and any grep; it reads, and follows no link.

    Two walks: contents first, so that a reader knows a folder's topic id when its files come.
    """
    announced = shlex.quote(f"{HEADER} {VERSION} {json.dumps(list(log_dirs))}")
    parts = [
        "LC_ALL=C; export LC_ALL",
        rf"printf '%s\n' {announced}",
        rf"printf '{AT} %s\n' " + '"$(date -u +%Y-%m-%dT%H:%M:%SZ)"',
    ]
    for number, log_dir in enumerate(log_dirs):
        parts.append(
            f"if cd {shlex.quote(log_dir)}; then printf '{LOG_DIR} {number}\\n'; "
            f"{_small_files()}; printf '{CONTENTS} %s\\n' \"$?\"; "
            f"{_files()}; printf '{FILES} %s\\n' \"$?\"; "
            f"else printf '{MISSING} {number}\\n'; fi"
        )
    parts.append(rf"printf '{END}\n'")
    return "(" + "; ".join(parts) + ")"


def _small_files() -> str:
    small = " -o ".join(f"-path ./{name}" for name in (META, *CHECKPOINTS))
    blocks = LARGEST_METADATA // 512 + 1
    metadata = f"-path './*/{PARTITION_METADATA}' -size -{blocks}"
    return (
        rf"find . -mindepth 1 -maxdepth 2 \( {_LEFT_OUT} -o {_ODD} \) -prune -o "
        rf"-type f \( {metadata} -o {small} \) -exec grep -aH '' {{}} +"
    )


def _files() -> str:
    return (
        f"find . -maxdepth 2 {_LEFT_OUT} -prune -o "
        rf"{_ODD} -printf '%y{_STATE}%h/:%i\n' -prune -o "
        rf"-type d \( ! -readable -o ! -executable \) -printf '{UNREADABLE}{_STATE}%P\n' -prune -o "
        rf"-printf '%y{_STATE}%P\n'"
    )


NEWEST_FROM = "mtime"

_CONTENT = re.compile(rf"\./((?:[{PLAIN_CHARACTERS}]+/)?[{PLAIN_CHARACTERS}]+):(.*)".encode(), re.S)
_NUMBER = re.compile("[0-9]{1,9}")
_GREETING_LINES = 1000  # what a login shell may print before the header
_KILLED = 126  # find itself ends with 0 or 1; from here on a shell reports why it did not run
_LONGEST = 8 * LONGEST_LINE


class Lines:
    """The listing's lines without their ends, counted; `marker` is the `#` line met last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0
        self.marker: tuple[str, str] | None = None

    def next(self) -> bytes | None:
        """The next line, or None at the end. A terminal's carriage return is dropped."""
        line = self._file.readline(_LONGEST)
        if not line:
            return None
        self.number += 1
        rest = line
        while len(rest) == _LONGEST and not rest.endswith(b"\n"):  # none of ours is so long
            rest = self._file.readline(_LONGEST)
        return line.rstrip(b"\r\n")

    def until_marker(self) -> Iterator[bytes]:
        """The lines before the next `#` line, which becomes `marker`; None at the end of all."""
        self.marker = None
        while (line := self.next()) is not None:
            if line.startswith(b"#"):
                word, _, rest = line.decode("utf-8", "replace").partition(" ")
                self.marker = (word, rest.strip())
                return
            yield line


def read_header(lines: Lines) -> tuple[str, ...]:
    """The log dirs that the listing announces. Raises InventoryError LISTING_INVALID."""
    for _ in range(_GREETING_LINES):
        line = lines.next()
        if line is None:
            break
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        version, _, announced = rest.partition(" ")
        if word == HEADER and _NUMBER.fullmatch(version):
            if int(version) != VERSION:
                raise _invalid(f"it has version {version}; this release reads {VERSION}")
            return _log_dirs(announced)
    raise _invalid("no line of it is the header of a listing")


def read(lines: Lines, log_dirs: tuple[str, ...], recorder: Recorder) -> None:
    """The rest of the listing into `recorder`; damaged lines are gaps with their number.

    Raises InventoryError LISTING_CUT_SHORT when its end is missing, LISTING_WITHOUT_FILES when
    the host's find could not print them, LogDirError when no log dir could be opened there.
    """
    _time(lines, recorder)
    opened = set()
    for expected, log_dir in enumerate(log_dirs):
        found = _marker(lines, recorder)
        if found == (MISSING, str(expected)):
            recorder.gap(log_dir, "", "it could not be opened on that host")
        elif found == (LOG_DIR, str(expected)):
            opened.add(log_dir)
            _read_log_dir(lines, log_dir, recorder)
        else:
            raise _cut_short(lines, f"log dir {log_dir} was to come")
    if _marker(lines, recorder) != (END, ""):
        raise _cut_short(lines, "its end was to come")
    if not opened:
        raise LogDirError(
            f"{', '.join(log_dirs)}: none could be opened on that host",
            "Check the paths, and run the line as a user who may read them.",
            code="LOG_DIR_UNREADABLE",
        )


def _time(lines: Lines, recorder: Recorder) -> None:
    word, rest = _marker(lines, recorder)
    try:
        recorder.scanned_at = parse_time(rest if word == AT else "")
    except UsageError as error:
        raise _invalid(f"line {lines.number} does not say when it was made") from error


def _read_log_dir(lines: Lines, log_dir: str, recorder: Recorder) -> None:
    topic_ids: dict[str, str] = {}
    read: set[str] = set()
    pairs = _contents(lines, log_dir, recorder)
    for path, group in groupby(pairs, key=lambda pair: pair[0]):
        contents = (line for _, line in group)
        try:
            _take(log_dir, path, contents, topic_ids, recorder)
        except DamagedError as error:
            recorder.gap(log_dir, path, str(error))
        if "/" not in path:
            read.add(path)
    _completed(lines, CONTENTS)
    files = Files(log_dir, topic_ids, read, recorder)
    for line in lines.until_marker():
        if not files.take(line):
            _damaged(lines, log_dir, recorder)
    files.close()
    _completed(lines, FILES)
    if not files.root_seen:
        raise InventoryError(
            f"line {lines.number}: find printed no file of {log_dir}",
            "That host's find has no -printf (busybox): install GNU findutils, or scan there.",
            code="LISTING_WITHOUT_FILES",
        )


def _take(
    log_dir: str,
    path: str,
    contents: Iterator[bytes],
    topic_ids: dict[str, str],
    recorder: Recorder,
) -> None:
    """One small file's lines. Raises DamagedError."""
    folder, _, name = path.rpartition("/")
    if path == META:
        recorder.meta(log_dir, parse_meta(contents))
    elif path in CHECKPOINTS:
        for entry in parse_checkpoint(contents):
            recorder.checkpoint(log_dir, path, entry)
    elif folder and name == PARTITION_METADATA:
        if folder_of(folder) is None:  # its folder is told, once, when its files come
            return
        topic_ids[folder] = ""  # seen: its gap, if any, is told here and only here
        topic_ids[folder] = parse_topic_id(contents)
    else:
        raise DamagedError("its content was not asked for")


def _contents(lines: Lines, log_dir: str, recorder: Recorder) -> Iterator[tuple[str, bytes]]:
    for line in lines.until_marker():
        match = _CONTENT.fullmatch(line)
        if match is None:
            _damaged(lines, log_dir, recorder)
        else:
            yield match[1].decode("ascii"), match[2]


def _completed(lines: Lines, word: str) -> None:
    """The marker that ends a part must be there, and its find must have run to its end."""
    found, status = lines.marker or ("", "")
    if found != word or not _NUMBER.fullmatch(status):
        raise _cut_short(lines, f"{word} was to come")
    if int(status) >= _KILLED:
        raise _cut_short(lines, f"find ended with {status} on that host")


def _marker(lines: Lines, recorder: Recorder) -> tuple[str, str]:
    for _ in lines.until_marker():
        _damaged(lines, None, recorder)
    return lines.marker or ("", "")


def _damaged(lines: Lines, log_dir: str | None, recorder: Recorder) -> None:
    recorder.gap(log_dir, f"line {lines.number}", "damaged: it is not what the line prints")


def _log_dirs(announced: str) -> tuple[str, ...]:
    try:
        found = parse_json(announced)
        if not isinstance(found, list) or not found:
            raise ValueError("no list")
        named = tuple(parse_log_dirs(str(path))[0] for path in found)
        if list(named) != found or len(set(named)) != len(named):
            raise ValueError("not as printed")
    except (ValueError, UsageError) as error:
        raise _invalid("its header does not name the log dirs") from error
    return named


def _invalid(reason: str) -> InventoryError:
    return InventoryError(
        f"the listing cannot be used: {reason}",
        "Make it with the line that `lowwater inventory command` prints, run by sh.",
        code="LISTING_INVALID",
    )


def _cut_short(lines: Lines, reason: str) -> InventoryError:
    return InventoryError(
        f"the listing is cut short or torn at line {lines.number}: {reason}",
        "Make it again, and keep the whole output.",
        code="LISTING_CUT_SHORT",
    )


# Turns the file lines of a listing into rows, one partition folder at a time.

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
