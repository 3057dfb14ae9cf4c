"""A broker's disk made ready for a sweep: log dirs proved, locked; quarantines and their logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.core.errors import JournalError
from dashboard.domain.model import LogDirsAnswer
from dashboard.inventory.names import folder_of
from dashboard.orphans.sweep import log as sweep_log
from dashboard.orphans.sweep.items import Item, after, items, unsettled
from dashboard.orphans.sweep.live import (
    Cluster,
    LiveCheck,
    broker_log_dirs,
    prove_all_named,
    prove_cluster,
    prove_log_dirs,
)
from dashboard.orphans.sweep.log import LogState
from dashboard.orphans.sweep.places import (
    SCRIPT_LOG,
    LogDir,
    Place,
    open_log_dirs,
    prove_identity,
    quarantine_of,
)
from dashboard.orphans.sweep.quarantine import (
    Clock,
    Quarantine,
    folders_in,
    lock,
    moved_by_script,
    open_quarantine,
    opened_quarantine,
)
from dashboard.orphans.sweep.report import DayLimit, Refusal
from dashboard.orphans.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Options:
    """What flags and settings say.

    `keep` is how long a folder stays in the quarantine before it is deleted; `most_share` how much
    of a broker's folders or bytes may be set aside at once: more may mean lost metadata. A service
    has a limit a `day`, and leaves what a person has put back (`put_back_stays`).
    """

    log_dirs: tuple[str, ...]
    quarantine_dirs: tuple[str, ...] = ()
    keep: timedelta = timedelta(hours=24)
    apply: bool = False
    most_share: float = 0.05
    day: DayLimit | None = None
    put_back_stays: bool = False


@dataclass(slots=True)
class Site:
    """One broker's log dirs; `answer` is None only for a restore while the broker is down."""

    log_dirs: tuple[LogDir, ...]
    cluster_id: str
    broker_id: int
    alive: bool
    answer: LogDirsAnswer | None
    live: LiveCheck
    now: Clock
    places: Mapping[str, Place | Refusal]  # log dir -> its quarantine, or why it has none
    beside: Mapping[str, Place]  # log dir -> the default one, where that is not the one above
    stack: ExitStack
    apply: bool
    day: DayLimit | None = None
    opened: dict[Path, Quarantine] = field(default_factory=dict)

    def log_dir(self, path: str) -> LogDir:
        """The named log dir. Raises Refusal `log-dir`."""
        for found in self.log_dirs:
            if found.path == path:
                return found
        raise Refusal("log-dir", f"its log dir {path} is not among --log-dirs")

    def place(self, log_dir: LogDir) -> Path:
        """Where to set a folder of a log dir aside. Not in two places: who names another one by
        each call exceeds the share, and forgets what lies here. Raises Refusal `quarantine`.
        """
        found, beside = self.places[log_dir.path], self.beside.get(log_dir.path)
        if isinstance(found, Refusal):
            raise found
        lying = len(self._lying(beside)) if beside is not None else 0
        if beside is not None and lying:
            raise Refusal(
                "quarantine",
                f"{lying} folders lie in {beside.path}: sweep without --quarantine-dir, or delete "
                "them or put them back first",
            )
        return found.path

    def refused_places(self) -> list[str]:
        """Why log dirs have no quarantine: what lies there is neither told nor touched."""
        return sorted({p.reason for p in self.places.values() if isinstance(p, Refusal)})

    def quarantine(self, path: Path) -> Quarantine:
        """The quarantine opened to act. Raises RefusedError SWEEP_BUSY, JournalError."""
        assert self.apply
        if path not in self.opened:
            place = next(p for p in self._places() if p.path == path)
            self.opened[path] = self.stack.enter_context(open_quarantine(place, self.now))
        return self.opened[path]

    def refuse_over_day(self, kind: str, size: int) -> None:
        """Raises Refusal `day-limit` where `size` bytes more of acts of this kind (`moved`,
        `deleting`) exceed what a day allows; by the logs, so that no restart begins a new day.
        """
        if self.day is None:
            return
        since = self.now() - timedelta(days=1)
        there = [place.path for place in self._places() if os.path.lexists(place.path)]
        whose = (self.cluster_id, self.broker_id)
        done = [self.quarantine(path).acts(kind, whose, since) for path in there]
        self.day.refuse_over([size for sizes in done for size in sizes], size)

    def aside(self) -> list[tuple[Path, Item]]:
        """Every folder that lies in a quarantine of these log dirs, in the order it came."""
        lying = ("quarantined", "deleting")
        return [(place.path, item) for place, item in self._items() if item.state in lying]

    def put_back(self, log_dir: str, directory: str) -> list[tuple[Path, Item]]:
        """What the quarantines' logs tell of folders of this name that somebody restored."""
        return [
            (place.path, item)
            for place, item in self._items()
            if (item.log_dir, item.directory, item.state) == (log_dir, directory, "restored")
        ]

    def brought_back(self, row: Verdict, log_dir: LogDir) -> bool:
        """Whether somebody put this folder back, after a sweep had set it aside: under its name,
        under another (by inode, of that topic and partition), or as a copy (a name with a suffix
        is given to one folder alone).
        """
        inode = log_dir.inode_of(row.directory)
        whose = (self.cluster_id, self.broker_id)
        mine = (i for _, i in self._items() if (i.cluster_id, i.broker_id) == whose)
        return inode is not None and any(_is_brought_back(item, row, inode) for item in mine)

    def moved_by_script(self, log_dir: LogDir, directory: str) -> Path | None:
        """The script's log, where it tells that it set a folder of this log dir aside, which is
        there again. Raises JournalError.
        """
        place = self.places[log_dir.path]
        if isinstance(place, Refusal) or not os.path.lexists(place.path):
            return None
        if directory not in log_dir.names():
            return None
        moved = moved_by_script(place, f"{log_dir.path}/{directory}")
        return place.path / SCRIPT_LOG if moved else None

    def lying_bytes(self) -> list[int]:
        """Bytes of records in each folder that lies in a quarantine of these log dirs, the default
        ones included, as the disks have them: what the script moved there too, and nothing that is
        gone. Not what their logs tell to be of another broker. Raises JournalError.
        """
        every = {place.path: place for place in (*self._places(), *self.beside.values())}
        return [size for place in every.values() for size in self._lying(place)]

    def _lying(self, place: Place) -> list[int]:
        if not os.path.lexists(place.path):
            return []
        known = self._known(place) if place in self.places.values() else peek(place, self.now)
        others = {item.item for item in known.values() if item.broker_id != self.broker_id}
        return [size for item, size in folders_in(place) if item not in others]

    def _known(self, place: Place) -> Mapping[str, Item]:
        return self.quarantine(place.path).items if self.apply else peek(place, self.now)

    def _items(self) -> list[tuple[Place, Item]]:
        """Every folder that the quarantines' logs tell of, in the order it came."""
        there = [place for place in self._places() if os.path.lexists(place.path)]
        return [(place, item) for place in there for item in self._known(place).values()]

    def _places(self) -> list[Place]:
        found = {p.path: p for p in self.places.values() if isinstance(p, Place)}
        return [found[path] for path in sorted(found)]


def _is_brought_back(item: Item, row: Verdict, inode: int) -> bool:
    if item.directory == row.directory:
        folder = folder_of(item.directory)
        if folder is not None and folder.kind != "live":
            return item.state not in ("moving", "not moved", "put back")
        if (item.log_dir, item.state) == (row.log_dir, "restored"):
            return True
    same = (item.inode, item.topic_id, item.partition) == (inode, row.topic_id, row.partition)
    return same and item.state in ("restored", "lost")


def peek(place: Place, now: Clock) -> dict[str, Item]:
    """What lies in a quarantine, settled in memory alone: nothing is written.

    Raises JournalError when it cannot be read, or its log does not verify.
    """
    path = place.path
    with opened_quarantine(place) as folder:
        state = sweep_log.read(folder, str(path))
        if state.problems:
            raise sweep_log.broken(str(path), state.problems)
        try:
            found = items(state.entries)
        except ValueError as error:
            raise sweep_log.broken(str(path), (str(error),)) from error
        for item, kind, act in list(unsettled(found, folder, path)):
            found[item.item] = after(item, kind, act, now())
        return found


@contextmanager
def open_site(
    options: Options, live: Cluster, *, now: Clock, expected: str | None, for_restore: bool = False
) -> Iterator[Site]:
    """Open, prove and (to act) lock the log dirs. `expected` is the cluster of the verdicts.

    Raises RefusedError, LogDirError, ClusterError: nothing was touched.
    """
    with open_log_dirs(options.log_dirs) as log_dirs, ExitStack() as stack:
        cluster_id = prove_cluster(live, expected)
        alive = live.alive_brokers()
        broker_id = prove_identity(log_dirs, cluster_id, alive, may_be_down=for_restore)
        runs = broker_id in alive
        answer = broker_log_dirs(live, broker_id) if runs else None
        if answer is not None:
            prove_log_dirs(answer, log_dirs)
            if options.day is not None:
                prove_all_named(answer, log_dirs)
        if options.apply:
            for found in log_dirs:
                lock(found.folder, found.path)
        places = _places(log_dirs, options.quarantine_dirs, answer)
        yield Site(
            log_dirs, cluster_id, broker_id, runs, answer,
            LiveCheck(live, broker_id, cluster_id), now,
            places, _beside(log_dirs, places, answer), stack, options.apply, options.day,
        )  # fmt: skip


def _beside(
    log_dirs: tuple[LogDir, ...],
    places: Mapping[str, Place | Refusal],
    answer: LogDirsAnswer | None,
) -> dict[str, Place]:
    """The default quarantines that are none of `places`, of log dirs that may have one."""
    named = {place.path for place in places.values() if isinstance(place, Place)}
    default = _places(log_dirs, (), answer)
    return {
        path: place
        for path, place in default.items()
        if isinstance(place, Place) and place.path not in named
    }


def _places(
    log_dirs: tuple[LogDir, ...], quarantine_dirs: tuple[str, ...], answer: LogDirsAnswer | None
) -> dict[str, Place | Refusal]:
    of_broker = [found.log_dir for found in answer.log_dirs] if answer else []
    found: dict[str, Place | Refusal] = {}
    for log_dir in log_dirs:
        try:
            found[log_dir.path] = quarantine_of(
                log_dir, quarantine_dirs, [*of_broker, *(str(d.real) for d in log_dirs)]
            )
        except Refusal as refusal:
            found[log_dir.path] = refusal
    return found


# Checks the chains of the logs that sweeps have written beside a broker's log dirs.


@dataclass(frozen=True, slots=True)
class Checked:
    """One log, and each place where its chain does not hold."""

    path: Path
    entries: int
    problems: tuple[str, ...]
    torn_bytes: int

    def to_json(self) -> dict[str, Any]:
        """`ok` is whether the chain holds; a torn last line is the mark of a killed sweep."""
        return {
            "log": str(self.path),
            "ok": not self.problems,
            "entries": self.entries,
            "problems": list(self.problems),
            "torn_bytes": self.torn_bytes,
        }

    @property
    def text(self) -> str:
        """One line for people."""
        torn = f", {self.torn_bytes} bytes torn off by a killed sweep" if self.torn_bytes else ""
        said = "; ".join(self.problems) or "verified"
        return f"{self.path}: {self.entries} entries{torn}: {said}"


def verify(options: Options) -> list[Checked]:
    """Each quarantine's log; those of log dirs without one are left out."""
    return [_checked(place.path / sweep_log.NAME, state) for place, state in read_logs(options)]


def read_logs(options: Options) -> list[tuple[Place, LogState]]:
    """What each quarantine's log holds, sound or not. Raises LogDirError, JournalError."""
    places: dict[Path, Place] = {}
    with open_log_dirs(options.log_dirs) as log_dirs:
        reals = [str(log_dir.real) for log_dir in log_dirs]
        for log_dir in log_dirs:
            try:
                place = quarantine_of(log_dir, options.quarantine_dirs, reals)
                places[place.path] = place
            except Refusal:
                continue
    return [(places[path], _read(places[path])) for path in sorted(places) if os.path.lexists(path)]


def broken_error(found: Sequence[Checked]) -> JournalError | None:
    """The error for the first log that does not verify."""
    bad = next((log for log in found if log.problems), None)
    return None if bad is None else sweep_log.broken(str(bad.path.parent), bad.problems)


def _read(place: Place) -> LogState:
    with opened_quarantine(place) as folder:
        return sweep_log.read(folder, str(place.path))


def _checked(log: Path, state: LogState) -> Checked:
    return Checked(log, len(state.entries), state.problems, state.torn_bytes)
