"""The log dirs of one broker, opened and proved to be its own; the quarantine beside each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.errors import LogDirError, RefusedError
from dashboard.inventory.contents import DamagedError, parse_meta
from dashboard.inventory.names import META, folder_of
from dashboard.orphans.sweep_log import NAME as LOG
from dashboard.orphans.sweep_openers import Broker, lock_holder
from dashboard.orphans.sweep_refusal import Refusal

QUARANTINE = ".lowwater-quarantine"
SCRIPT_LOG = "sweep-script.log"  # of hosts that were swept by the shell script
_LOG_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
        file = os.open(META, _FILE, dir_fd=folder)
        with os.fdopen(file, "rb") as lines:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise DamagedError("it is no file")
            meta = parse_meta(lines)
        state, holder = os.fstat(folder), lock_holder(folder)
    except (OSError, DamagedError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{META}: {error}"
        raise LogDirError(
            f"{path} cannot be read as a log dir: {reason}",
            "Name what the broker's log.dirs says, on its host, as a user who may read it.",
            code="LOG_DIR_UNREADABLE",
        ) from error
    return LogDir(
        path, Path(path).resolve(), folder, state.st_dev, state.st_ino,
        meta.cluster_id, meta.node_id, meta.directory_id, holder is not None, Broker(holder or 0),
    )  # fmt: skip


def prove_identity(
    log_dirs: Sequence[LogDir], cluster_id: str, alive: Iterable[int], *, may_be_down: bool = False
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


def quarantine_of(log_dir: LogDir, given: Sequence[str], of_broker: Sequence[str]) -> Path:
    """Where folders of a log dir are set aside: one of `given`, or a folder beside the log dir.

    `of_broker` are all log dirs that the broker names. A foreign folder inside a log dir keeps a
    broker from starting, so the quarantine lies outside every one; and on the same mount, so that
    a move is a rename. Raises Refusal `quarantine`.
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
    if chosen.is_symlink() or (chosen.exists() and not chosen.is_dir()):
        raise Refusal("quarantine", f"{chosen} is a link or no folder")
    _refuse_inside(chosen, [str(log_dir.real), *of_broker])
    ours = any((chosen / log).is_file() for log in (LOG, SCRIPT_LOG))
    if chosen.is_dir() and not ours and any(chosen.iterdir()):
        raise Refusal(
            "quarantine", f"{chosen} holds other things: name an empty folder, or a new one"
        )
    return chosen


def _refuse_inside(chosen: Path, log_dirs: Iterable[str]) -> None:
    above = [chosen, *chosen.parents]
    for log_dir in log_dirs:
        real = Path(log_dir).resolve()
        if any(_same(folder, real) for folder in above):
            raise Refusal("quarantine", f"{chosen} lies inside the log dir {log_dir}")
        if chosen in real.parents:
            raise Refusal("quarantine", f"{chosen} holds the log dir {log_dir}")
    for folder in above:
        if (folder / META).exists():
            raise Refusal("quarantine", f"{chosen} lies inside a log dir: {folder} has a {META}")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


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
