"""The log dirs of one broker, opened and proved to be its own; the quarantine beside each."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dashboard.core.errors import LogDirError, RefusedError
from dashboard.inventory.contents import DamagedError, Meta, parse_meta
from dashboard.inventory.names import META, folder_of
from dashboard.orphans.sweep.folder import FOLDER, Broker, lock_holder
from dashboard.orphans.sweep.log import NAME as LOG
from dashboard.orphans.sweep.report import Refusal

QUARANTINE = ".lowwater-quarantine"
SCRIPT_LOG = "sweep-script.log"  # of hosts that were swept by the shell script
_LOG_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # a folder that may be passed, not listed
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class LogDir:
    """An open log dir; `path` is spelt as the broker spells it, `real` has no links in it."""

    path: str
    real: Path
    folder: int
    device: int
    inode: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    is_locked: bool  # a broker runs on it, here
    broker: Broker

    def still_so(self) -> None:
        """Raises Refusal `log-dir` when its meta.properties or the lock's holder changed."""
        try:
            meta, holder = _meta(self.folder), lock_holder(self.folder)
        except (OSError, DamagedError) as error:
            raise Refusal("log-dir", f"the identity of {self.path} cannot be read") from error
        known = (self.cluster_id, self.node_id, self.directory_id)
        if (meta.cluster_id, meta.node_id, meta.directory_id) != known:
            raise Refusal("log-dir", f"{self.path} has another {META} than when the sweep began")
        # A broker that starts reads the whole log dir: what was asked before it does not hold.
        if (holder is not None, holder or 0) != (self.is_locked, self.broker.pid):
            raise Refusal("log-dir", f"the broker of {self.path} started or ended meanwhile")

    def inode_of(self, directory: str | None) -> int | None:
        """Of the folder of this name; None: nothing that can be looked at has it."""
        with suppress(OSError):
            if directory is not None:
                return os.stat(directory, dir_fd=self.folder, follow_symlinks=False).st_ino
        return None

    def names(self) -> list[str]:
        """The partition folders that lie in it now."""
        with os.scandir(self.folder) as entries:
            return sorted(e.name for e in entries if folder_of(e.name) is not None)


@contextmanager
def open_log_dirs(paths: Sequence[str]) -> Iterator[tuple[LogDir, ...]]:
    """Open all of them, links in the paths followed as the broker does.

    Raises LogDirError when one cannot be read or is no log dir, RefusedError LOG_DIR_TWICE.
    """
    with ExitStack() as stack:
        found: list[LogDir] = []
        for path in paths:
            one = _open(path, stack)
            for other in found:
                if (other.device, other.inode) == (one.device, one.inode):
                    raise _refused(
                        "LOG_DIR_TWICE", f"{other.path} and {path} are the same folder",
                        "Name it once, as the broker's log.dirs does.",
                    )  # fmt: skip
            found.append(one)
        yield tuple(found)


def _open(path: str, stack: ExitStack) -> LogDir:
    try:
        folder = os.open(path, _LOG_DIR)
        stack.callback(os.close, folder)
        meta, holder, real = _meta(folder), lock_holder(folder), Path(path).resolve()
        state = os.fstat(folder)
        if _identity(real) != (state.st_dev, state.st_ino):
            raise DamagedError("its path led elsewhere a moment later")
    except (OSError, DamagedError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{META}: {error}"
        raise LogDirError(
            f"{path} cannot be read as a log dir: {reason}",
            "Name what the broker's log.dirs says, on its host, as a user who may read it.",
            code="LOG_DIR_UNREADABLE",
        ) from error
    return LogDir(
        path, real, folder, state.st_dev, state.st_ino,
        meta.cluster_id, meta.node_id, meta.directory_id, holder is not None, Broker(holder or 0),
    )  # fmt: skip


def _meta(folder: int) -> Meta:
    """The identity of an open log dir. Raises OSError, DamagedError."""
    file = os.open(META, _FILE, dir_fd=folder)
    with os.fdopen(file, "rb") as lines:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DamagedError("it is no file")
        return parse_meta(lines)


def prove_identity(
    log_dirs: Sequence[LogDir], cluster_id: str, alive: Iterable[int], *, may_be_down: bool
) -> int:
    """The broker whose log dirs these are, by meta.properties and by the live cluster.

    Raises RefusedError CLUSTER_MISMATCH, NODE_MISMATCH, DIRECTORY_MISMATCH or NOT_ITS_DISK.
    """
    for found in log_dirs:
        if found.cluster_id != cluster_id:
            raise _refused(
                "CLUSTER_MISMATCH",
                f"{found.path} belongs to cluster {found.cluster_id}, "
                f"the cluster reached is {cluster_id}",
                "Correct --bootstrap-server or --log-dirs. To another cluster every folder is an "
                "orphan.",
            )
    nodes = {found.node_id for found in log_dirs}
    node = next(iter(nodes))
    if len(nodes) != 1 or node is None:
        named = ", ".join(f"{found.path} of {found.node_id}" for found in log_dirs)
        raise _refused(
            "NODE_MISMATCH", f"these are not one broker's log dirs: {named}",
            "Sweep one broker at a time.",
        )  # fmt: skip
    runs = node in set(alive)
    if not runs and not may_be_down:
        raise _refused(
            "NODE_MISMATCH", f"broker {node} is not alive in cluster {cluster_id}",
            "Start it first: only a running broker can tell what it hosts.",
        )  # fmt: skip
    directory_ids = [found.directory_id for found in log_dirs if found.directory_id]
    if len(set(directory_ids)) != len(directory_ids):
        raise _refused(
            "DIRECTORY_MISMATCH", "two of the log dirs bear the same directory id",
            "One is a copy of the other: name those that the broker uses.",
        )  # fmt: skip
    for found in log_dirs:
        if runs and not found.is_locked:
            raise _refused(
                "NOT_ITS_DISK",
                f"broker {node} is alive, but no process of this host holds the lock of "
                f"{found.path}",
                "Run it on the broker's own host; this may be a copy of its disk.",
            )
    return node


@dataclass(frozen=True, slots=True)
class Place:
    """A quarantine's path, and what must hold of the folder that is opened there."""

    path: Path
    device: int  # of the log dirs that it serves: a move is a rename
    log_dirs: tuple[str, ...]  # all that the broker names

    def prove(self, folder: int) -> None:
        """Proves the open quarantine itself: its path may lead elsewhere by now.

        Whoever else may write there can put a link, or a log of his own making, in the way of a
        sweep as root. Raises Refusal `quarantine`.
        """
        state = os.fstat(folder)
        self.prove_above(folder)
        for log_dir in self.log_dirs:
            if (state.st_dev, state.st_ino) in map(_identity, Path(log_dir).resolve().parents):
                raise Refusal("quarantine", f"{self.path} holds the log dir {log_dir}")
        _refuse_foreign(self.path, state)
        names = os.listdir(folder)
        if names and not {LOG, SCRIPT_LOG} & set(names):
            raise Refusal(
                "quarantine", f"{self.path} holds other things: name an empty folder, or a new one"
            )

    def prove_above(self, folder: int) -> None:
        """It, or the folder that it will be made in, lies outside every log dir, on their disk.

        A foreign folder inside a log dir keeps a broker from starting. Raises Refusal.
        """
        if os.fstat(folder).st_dev != self.device:
            raise Refusal("quarantine", f"{self.path} is on another mount by now")
        real = {_identity(Path(log_dir)): log_dir for log_dir in self.log_dirs}
        for at in _upward(folder):
            state = os.fstat(at)
            inside = real.get((state.st_dev, state.st_ino))
            if inside is not None:
                raise Refusal("quarantine", f"{self.path} lies inside the log dir {inside}")
            if has(at, META):
                raise Refusal(
                    "quarantine", f"{self.path} lies inside a log dir: a folder above has a {META}"
                )


def _refuse_foreign(path: Path, state: os.stat_result) -> None:
    if state.st_uid != os.geteuid():
        raise Refusal(
            "quarantine",
            f"{path} belongs to uid {state.st_uid}, not to uid {os.geteuid()}: sweep as that user, "
            "or name another folder with --quarantine-dir",
        )
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refusal(
            "quarantine",
            f"others may write to {path}: take that right away (chmod go-w), or name another "
            "folder with --quarantine-dir",
        )


def quarantine_of(log_dir: LogDir, given: Sequence[str], of_broker: Sequence[str]) -> Place:
    """Where folders of a log dir are set aside: one of `given`, or a folder beside the log dir.

    `of_broker` are all log dirs that the broker names. Raises Refusal `quarantine`.
    """
    here = [Path(path) for path in given] or [log_dir.real.parent / QUARANTINE]
    there = [path for path in here if _device(path) == log_dir.device]
    if not there:
        raise Refusal(
            "quarantine",
            f"{', '.join(map(str, here))} is not on the mount of {log_dir.path}: name a folder "
            "there, outside every log dir, with --quarantine-dir",
        )
    chosen = there[0].parent.resolve() / there[0].name
    place = Place(chosen, log_dir.device, (str(log_dir.real), *of_broker))
    try:
        folder = os.open(chosen, FOLDER)
        prove = place.prove
    except FileNotFoundError:
        folder = os.open(chosen.parent, _ABOVE)
        prove = place.prove_above
    except OSError as error:
        if error.errno == errno.EACCES:
            _refuse_foreign(chosen, chosen.lstat())
        odd = error.errno in _NO_FOLDER
        reason = "is a link or no folder" if odd else f"cannot be opened: {error.strerror}"
        raise Refusal("quarantine", f"{chosen} {reason}") from error
    try:
        prove(folder)
    finally:
        os.close(folder)
    return place


def _upward(folder: int) -> Iterator[int]:
    """The folder and each one above it, open: what really lies there, whatever a path says."""
    at = os.open(".", _ABOVE, dir_fd=folder)
    try:
        while True:
            yield at
            above = os.open("..", _ABOVE, dir_fd=at)
            ended = os.path.sameopenfile(above, at)
            os.close(at)
            at = above
            if ended:
                return
    finally:
        os.close(at)


def has(folder: int, name: str) -> bool:
    """Whether an open folder has this name, be it a link that leads nowhere."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _device(path: Path) -> int | None:
    """The file system of a folder, or of the one that it will be made in."""
    for folder in (path, path.parent):
        try:
            return folder.stat().st_dev
        except OSError:
            continue
    return None


def _refused(code: str, message: str, next_step: str) -> RefusedError:
    return RefusedError(message, next_step, code=code)
