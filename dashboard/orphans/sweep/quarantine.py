"""Sets folders aside by rename, puts them back, deletes them: each act between two log entries."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from dashboard.core.clock import parse_time
from dashboard.core.errors import JournalError, RefusedError
from dashboard.core.locks import take
from dashboard.core.system import LIBC
from dashboard.orphans.sweep import log as sweep_log
from dashboard.orphans.sweep.folder import FOLDER, Measured, opened
from dashboard.orphans.sweep.items import (
    DELETING,
    Act,
    Item,
    after,
    items,
    log_bytes,
    unsettled,
)
from dashboard.orphans.sweep.places import SCRIPT_LOG, LogDir, Place, has
from dashboard.orphans.sweep.report import Refusal

Clock = Callable[[], datetime]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_REPLACE = 1  # RENAME_NOREPLACE of renameat2(2)


class Quarantine:
    """One open, locked quarantine. Every act is in its log before it begins and after it ended."""

    def __init__(self, path: Path, folder: int, log: sweep_log.SweepLog, now: Clock) -> None:
        self.path = path
        self._folder = folder
        self._log = log
        self._now = now
        try:
            self.items = items(log.entries)
        except ValueError as error:
            raise sweep_log.broken(str(path), (str(error),)) from error
        for item, kind, act in list(unsettled(self.items, folder, path)):
            self._record(item, kind, act)
            if kind in ("not-moved", "lost"):
                self._drop_empty(item)

    def move(
        self,
        log_dir: LogDir,
        begun: Item,
        found: Measured,
        still_so: Callable[[], None],
        *,
        clock_proved: bool,
    ) -> Item:
        """Set a folder aside. What `still_so` refuses afterwards goes back where it was.
        `clock_proved`: this host's clock agreed with the cluster's, so its time here counts.

        Raises Refusal `failed` or that of `still_so`; JournalError when the log cannot be written.
        """
        with _uninterrupted():
            self._log.append("moving", begun.begin(), self._now())
            self.items[begun.item] = begun
            try:
                aside = self._new_folder(begun.item)
            except OSError as error:
                raise self._not_moved(begun, error) from error
            try:
                self._rename_aside(log_dir, begun, aside)
                try:
                    _make_durable(aside, log_dir.folder)
                    _same_folder(
                        begun.directory, aside, found.inode,
                        "another folder had its name when it was moved",
                    )  # fmt: skip
                    still_so()
                except Refusal as refusal:
                    self._put_back(begun, log_dir, aside, refusal)
                    raise
            finally:
                os.close(aside)
            return self._record(begun, "moved", Act(begun.item, clock_proved=clock_proved))

    def seen(self, item: Item) -> Item:
        """Note that it lies here, or is back in its log dir, by a clock that agrees with the
        cluster's: its time begins.
        """
        kind = "seen-restored" if item.state == "restored" else "seen"
        return self._record(item, kind, Act(item.item, clock_proved=True))

    def gone(self, item: Item) -> Item:
        """Note that somebody took it out of here: no act of ours ended it."""
        done = self._record(item, "lost", Act(item.item, seen_on_disk=True))
        self._drop_empty(item)
        return done

    def restore(self, item: Item, log_dir: LogDir, *, clock_proved: bool) -> Item:
        """Put a folder back under its old name, replacing nothing. Raises Refusal."""
        with _uninterrupted(), self._opened(item) as aside:
            _same_folder(item.directory, aside, item.inode, "another folder lies under its name")
            self._record(item, "restoring", Act(item.item))
            try:
                rename(item.directory, aside, item.directory, log_dir.folder)
                os.fsync(log_dir.folder)
                os.fsync(aside)
            except OSError as error:
                self._record(item, "not-restored", Act(item.item, error=_text(error)))
                taken = error.errno in (errno.EEXIST, errno.ENOTEMPTY)
                raise Refusal(
                    "taken" if taken else "failed",
                    "its name is taken in the log dir" if taken else f"failed: {_text(error)}",
                ) from error
            done = self._record(item, "restored", Act(item.item, clock_proved=clock_proved))
        self._drop_empty(item)
        return done

    def delete(self, item: Item) -> Item:
        """Delete a folder for good, or go on with that. Raises Refusal `failed`, `changed`.

        What is emptied is the open folder that was looked at, not what has its name by then.
        """
        begun = f"{item.directory}{DELETING}"
        name = begun if item.state == "deleting" else item.directory
        with self._opened(item) as aside, opened(aside, name) as folder:
            if os.fstat(folder).st_ino != item.inode:
                raise Refusal("changed", "another folder lies under its name")
            try:
                if item.state != "deleting":
                    self._record(item, "deleting", Act(item.item))
                    rename(item.directory, aside, begun, aside)
                    os.fsync(aside)
                remove(begun, aside, folder)
                os.fsync(aside)
            except OSError as error:
                if has(aside, item.directory):
                    self._record(item, "not-deleted", Act(item.item, error=_text(error)))
                    raise Refusal("failed", f"it could not be deleted: {_text(error)}") from error
                raise Refusal(
                    "failed",
                    f"it could be deleted in part at most: {_text(error)}. Files of it may be gone "
                    "already; a later sweep goes on with the rest",
                ) from error
            done = self._record(item, "deleted", Act(item.item))
        self._drop_empty(item)
        return done

    def acts(self, kind: str, whose: tuple[str, int], since: datetime) -> list[int]:
        """Bytes of disk of each folder of this broker that an act of this kind was done to since
        then; also at times that are still to come, by a clock that was ahead.
        """
        found = [self.items[e.body["item"]] for e in self._log.entries
                 if e.kind == kind and parse_time(e.at) > since]  # fmt: skip
        return [i.allocated_bytes for i in found if (i.cluster_id, i.broker_id) == whose]

    @contextmanager
    def _opened(self, item: Item) -> Iterator[int]:
        try:
            aside = os.open(item.item, FOLDER, dir_fd=self._folder)
        except OSError as error:
            raise Refusal("gone", f"it is not in the quarantine: {_text(error)}") from error
        try:
            yield aside
        finally:
            os.close(aside)

    def _new_folder(self, name: str) -> int:
        os.mkdir(name, 0o700, dir_fd=self._folder)
        os.fsync(self._folder)
        return os.open(name, FOLDER, dir_fd=self._folder)

    def _rename_aside(self, log_dir: LogDir, item: Item, aside: int) -> None:
        try:
            rename(item.directory, log_dir.folder, item.directory, aside)
        except OSError as error:
            raise self._not_moved(item, error) from error

    def _put_back(self, item: Item, log_dir: LogDir, aside: int, why: Refusal) -> None:
        act = Act(item.item, error=why.code)
        try:
            rename(item.directory, aside, item.directory, log_dir.folder)
        except OSError as error:
            self._record(item, "moved", replace(act, changed=True))
            raise Refusal(
                why.code,
                f"{why.reason}; it could not be put back ({_text(error)}) and lies in "
                f"{item.path(self.path)}",
            ) from error
        with suppress(Refusal):  # nothing is left to undo; the log fails on such a disk too
            _make_durable(log_dir.folder, aside)
        self._record(item, "put-back", act)
        self._drop_empty(item)

    def _not_moved(self, item: Item, error: OSError) -> Refusal:
        self._record(item, "not-moved", Act(item.item, error=_text(error)))
        self._drop_empty(item)
        if error.errno == errno.EXDEV:
            return Refusal(
                "quarantine",
                f"{self.path} is another mount of the same disk: name a folder on the log dir's "
                "own mount with --quarantine-dir",
            )
        return Refusal("failed", f"it could not be moved: {_text(error)}")

    def _record(self, item: Item, kind: str, act: Act) -> Item:
        at = self._now()
        self._log.append(kind, act.body(), at)
        self.items[item.item] = after(self.items[item.item], kind, act, at)
        return self.items[item.item]

    def _drop_empty(self, item: Item) -> None:
        with suppress(OSError):
            os.rmdir(item.item, dir_fd=self._folder)


def new_item_name(now: datetime) -> str:
    """A name that no other folder of a quarantine has."""
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


@contextmanager
def open_quarantine(place: Place, now: Clock) -> Iterator[Quarantine]:
    """Make or open it, lock it, and settle what a killed sweep left.

    Raises RefusedError SWEEP_BUSY, JournalError.
    """
    path = place.path
    with opened_quarantine(place, make=True) as folder:
        lock(folder, str(path))
        log = sweep_log.SweepLog(folder, str(path), now())
        try:
            yield Quarantine(path, folder, log, now)
        finally:
            log.close()


@contextmanager
def opened_quarantine(place: Place, *, make: bool = False) -> Iterator[int]:
    """The quarantine as a descriptor, proved once it is open.

    Raises JournalError QUARANTINE_UNWRITABLE, also when it is not the folder that was checked.
    """
    try:
        folder = _open_folder(place, make=make)
    except Refusal as refusal:
        raise _unusable(place.path, refusal.reason) from refusal
    except OSError as error:
        raise _unusable(place.path, _text(error)) from error
    try:
        yield folder
    finally:
        os.close(folder)


def folders_in(place: Place) -> list[tuple[str, int]]:
    """Each folder that lies in a quarantine, whoever moved it there: the name of what holds it, and
    the bytes of its records. Raises JournalError.
    """
    with opened_quarantine(place) as quarantine:
        try:
            return [
                (item, log_bytes(f"{item}/{name}", quarantine))
                for item in _folders(".", quarantine)
                for name in _folders(item, quarantine)
            ]
        except OSError as error:
            raise _unusable(place.path, _text(error)) from error


def moved_by_script(place: Place, path: str) -> bool:
    """Whether the shell script's log tells that it set this folder of a log dir aside there.

    Raises JournalError.
    """
    told = b" moved %s to " % os.fsencode(path)
    with opened_quarantine(place) as quarantine:
        try:
            file = os.open(SCRIPT_LOG, _READ, dir_fd=quarantine)
            with os.fdopen(file, "rb") as lines:
                return any(told in line for line in lines)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unusable(place.path, _text(error)) from error


def _folders(path: str, folder: int) -> list[str]:
    opened = os.open(path, FOLDER, dir_fd=folder)
    try:
        with os.scandir(opened) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    finally:
        os.close(opened)


def lock(folder: int, where: str) -> None:
    """Take an open folder for this sweep alone, until it is closed. Raises RefusedError."""
    try:
        taken = take(folder)
    except OSError as error:
        raise JournalError(
            f"{where} cannot be locked: {_text(error)}",
            "Sweep a local file system that knows flock(2).",
            code="SWEEP_LOCK_FAILED",
        ) from error
    if not taken:
        raise RefusedError(
            f"another sweep works on {where}",
            "Wait until it has ended.",
            code="SWEEP_BUSY",
        )


def rename(source: str, source_folder: int, name: str, folder: int) -> None:
    """Rename that never replaces anything, not even an empty folder. Raises OSError.

    rename(2) would replace an empty folder in silence: a broker makes one for a new partition.
    """
    call = getattr(LIBC, "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, "this system cannot rename without replacing")
    if call(source_folder, os.fsencode(source), folder, os.fsencode(name), _NO_REPLACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _open_folder(place: Place, *, make: bool) -> int:
    """Raises OSError, Refusal. Made only where it was proved that it may lie."""
    above = os.open(place.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if make:
            place.prove_above(above)
            with suppress(FileExistsError):
                os.mkdir(place.path.name, 0o700, dir_fd=above)
                os.fsync(above)
        folder = os.open(place.path.name, FOLDER, dir_fd=above)
    finally:
        os.close(above)
    try:
        place.prove(folder)
    except (OSError, Refusal):
        os.close(folder)
        raise
    return folder


def _unusable(path: Path, reason: str) -> JournalError:
    return JournalError(
        f"the quarantine {path} cannot be made or opened: {reason}",
        "Run it as a user who may write there, or name another with --quarantine-dir.",
        code="QUARANTINE_UNWRITABLE",
    )


def remove(name: str, folder: int, opened: int) -> None:
    """Delete an open folder's files, then its name in `folder`. Raises OSError.

    It holds plain files alone, or it was refused; a folder in it would end this.
    """
    for inside in os.listdir(opened):
        os.unlink(inside, dir_fd=opened)
    os.fsync(opened)
    os.rmdir(name, dir_fd=folder)


def _same_folder(name: str, folder: int, inode: int, otherwise: str) -> None:
    try:
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise Refusal("gone", f"it is not there any more: {_text(error)}") from error
    if state.st_ino != inode or not stat.S_ISDIR(state.st_mode):
        raise Refusal("changed", otherwise)


def _make_durable(*folders: int) -> None:
    """Wait until the disk has what was renamed. Raises Refusal `failed`."""
    try:
        for folder in folders:
            os.fsync(folder)
    except OSError as error:
        raise Refusal("failed", f"the disk did not take it: {_text(error)}") from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until an act has its outcome in the log."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    kept = {
        number: signal.signal(number, lambda n, _frame: pending.append(n))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if pending:
            raise KeyboardInterrupt


def _text(error: OSError) -> str:
    return error.strerror or str(error)
