"""Sweeps one broker's orphans into quarantine, and empties the quarantine when its time is up.
Before a folder is touched the disk is asked first, then the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.domain import acts
from dashboard.orphans.sweep.aside import (
    HELD,
    Stopped,
    delete_if_due,
    not_stopped,
    put_back_at,
)
from dashboard.orphans.sweep.folder import (
    Measured,
    changed_at,
    hidden_processes,
    measure,
    opened,
    records_of,
    refuse_if_open,
    same_as_judged,
    told_by_name,
    topic_id,
)
from dashboard.orphans.sweep.items import Item
from dashboard.orphans.sweep.live import Cluster, LiveCheck, sizes
from dashboard.orphans.sweep.places import LogDir
from dashboard.orphans.sweep.quarantine import Clock, new_item_name
from dashboard.orphans.sweep.report import Outcome, Refusal, Report, over_share
from dashboard.orphans.sweep.site import Options, Site, open_site
from dashboard.orphans.verdicts import Verdict, Verdicts


@dataclass(frozen=True, slots=True)
class Checked:
    """A folder that may go: what it is, and whether the broker itself still holds its files."""

    found: Measured
    held_by_broker: bool
    folder: int
    log_dir: LogDir
    is_stray: bool
    topic_lives: bool  # the cluster has its topic; not so, one that comes back is a revival

    def still_so(self) -> None:
        """Raises Refusal `changed` or `open-file` when somebody came in between."""
        if measure(self.folder, self.log_dir.device) != self.found:
            raise Refusal("changed", "it changed while it was moved: put back")
        refuse_if_open(self.found, broker=self.log_dir.broker, is_stray=self.is_stray)


_CLOCKS_APART = timedelta(minutes=5)
ANEW = "take a new inventory, collect, analyze and write new verdicts"


def unchanged_since(row: Verdict, verdicts: Verdicts) -> datetime:
    """Before when a folder must have been touched last, so that the verdict's facts show it.

    Its scan tells that: an inventory may be older than the snapshot that took it in. The clocks of
    scan and snapshot may each be off by as much as clocks that agree. Raises Refusal `touched`.
    """
    if row.scanned_at is None:
        raise Refusal(
            "touched",
            "the verdicts do not tell when its log dir was scanned: analyze and write new ones",
        )
    return min(row.scanned_at, verdicts.taken_at) - 2 * CLOCKS_AGREE


def refuse_touched(folder: int, row: Verdict, verdicts: Verdicts) -> None:
    """Raises Refusal `touched` where an open folder may have been put back after it was seen.

    Whatever became of the logs that tell of it: a sweep that was killed wrote nothing, another
    quarantine is not looked into, a copy has an inode of its own.
    """
    at = changed_at(folder)
    if at >= unchanged_since(row, verdicts):
        raise Refusal(
            "touched",
            f"it was put back, renamed or changed at {format_time(at)}, and {seen(row)}: "
            f"if it may go after all, {ANEW}",
        )


def seen(row: Verdict) -> str:
    """When the facts of a row were seen, in words."""
    at = "an unknown time" if row.scanned_at is None else format_time(row.scanned_at)
    return f"its verdict is of what an inventory saw at {at}"


def refuse_wrong_clock(verdicts: Verdicts, now: datetime) -> None:
    """Raises RefusedError when they are, or what they are of was seen, at a time still to come."""
    for at, what in (
        (verdicts.created_at, "the verdicts were made at"),
        (verdicts.taken_at, "the verdicts are of a snapshot that was taken at"),
    ):
        if at > now + _CLOCKS_APART:
            raise RefusedError(
                f"{what} {format_time(at)}; this host's clock says {format_time(now)}",
                "Correct the clock that is wrong, collect and analyze again: ages and the "
                "quarantine are judged by it.",
                code="VERDICTS_FROM_THE_FUTURE",
            )


def refuse_by_verdict(row: Verdict) -> None:
    """Raises Refusal `verdict` unless the row says that its folder may go."""
    if row.verdict != acts.REMOVABLE:
        raise Refusal("verdict", f"{row.verdict}: {row.reason}")
    if row.topic_id is None:
        raise Refusal("topic-id", "without a topic id nobody can tell whose it was")


@contextmanager
def checked(
    row: Verdict, verdicts: Verdicts, log_dir: LogDir, live: LiveCheck, now: datetime
) -> Iterator[Checked]:
    """Opens the folder and asks everything. Raises Refusal with the first thing against it."""
    refuse_by_verdict(row)
    folder = told_by_name(row)
    with opened(log_dir.folder, folder.directory) as found:
        measured = measure(found, log_dir.device)
        its_id = topic_id(found)
        if its_id != row.topic_id:
            raise Refusal("topic-id", f"its topic id is {its_id}, judged was {row.topic_id}")
        same_as_judged(row, measured)
        refuse_touched(found, row, verdicts)
        is_stray = folder.kind == "stray"
        held = refuse_if_open(measured, broker=log_dir.broker, is_stray=is_stray)
        records = records_of(found, measured)
        lives = live.may_go(row, folder, log_dir.names, records=records, now=now)
        log_dir.still_so()
        yield Checked(measured, held, found, log_dir, is_stray, lives)


Progress = Callable[[str], None]
_ENDED = ("deleted", "gone")  # nothing of it lies in quarantine any more


def sweep(
    verdicts: Verdicts | None,
    options: Options,
    live: Cluster,
    *,
    now: Clock,
    progress: Progress,
    stopped: Stopped,
) -> Report:
    """Tell, or with `apply` do, what the verdicts allow; without them only empty the quarantine.

    Raises RefusedError, LogDirError, ClusterError before anything was touched; JournalError when
    the quarantine's log cannot be written: what was done until then stands in it.
    """
    if options.apply:
        refuse_if_stopped(stopped)
    expected = None
    if verdicts is not None:
        expected = verdicts.cluster_id
        refuse_wrong_clock(verdicts, now())
    with open_site(options, live, now=now, expected=expected) as site:
        return _Sweep(site, verdicts, options, progress, stopped).run()


def refuse_if_stopped(stopped: Stopped) -> None:
    """Raises RefusedError READ_ONLY when the read-only switch is on."""
    reason = stopped()
    if reason is not None:
        raise RefusedError(reason, "Switch read_only off first.", code="READ_ONLY")


class _Sweep:
    def __init__(
        self,
        site: Site,
        verdicts: Verdicts | None,
        options: Options,
        progress: Progress,
        stopped: Stopped,
    ) -> None:
        self._site = site
        self._verdicts = verdicts
        self._sha256 = verdicts.sha256 if verdicts else ""
        self._options = options
        self._progress = progress
        self._stopped = stopped
        self._outcomes: list[Outcome] = []

    def run(self) -> Report:
        """Each folder's outcome. What ends it early stands beside those that were dealt with."""
        site, error = self._site, None
        try:
            self._empty_quarantine()
            self._set_aside()
        except LowwaterError as ending:
            if not self._outcomes:
                raise
            error = ending
        return Report(
            site.cluster_id, site.broker_id, self._options.apply, tuple(self._outcomes),
            self._notes(), error,
        )  # fmt: skip

    def _empty_quarantine(self) -> None:
        site = self._site
        for place, item in site.aside():
            if item.broker_id == site.broker_id and not self._is_stopped():
                self._tell(delete_if_due(site, place, item, self._options.keep, self._stopped))

    def _set_aside(self) -> None:
        lying = {(o.log_dir, o.directory) for o in self._outcomes if o.state not in _ENDED}
        rows = [row for row in self._rows() if not _lies_there(row, lying, self._site)]
        over = self._over_share(rows)
        for row in rows:
            self._tell(self._row(row, over))

    def _rows(self) -> list[Verdict]:
        every = self._verdicts.rows if self._verdicts else ()
        found = [row for row in every if row.broker_id == self._site.broker_id]
        return sorted(found, key=lambda r: (r.log_dir, r.directory or "", r.topic, r.partition))

    def _row(self, row: Verdict, over: Refusal | None) -> Outcome:
        try:
            refuse_by_verdict(row)
            log_dir = self._site.log_dir(row.log_dir)
            place = self._site.place(log_dir)
            if over is not None:
                raise over
            if self._verdicts is None or self._site.now() >= self._verdicts.expires_at:
                raise Refusal("expired", "the verdicts have expired meanwhile")
            proved = self._site.live.tells_the_time(self._site.now())
            self._refuse_put_back(row, log_dir, cluster_tells=proved)
            with checked(row, self._verdicts, log_dir, self._site.live, self._site.now()) as found:
                reason = HELD if found.held_by_broker else None
                allocated = found.found.allocated_bytes
                if not self._options.apply:
                    return _outcome(row, "would_move", str(place), allocated, reason)
                self._site.refuse_over_day("moved", allocated)
                not_stopped(self._stopped)
                begun = self._begun(row, found)
                quarantine = self._site.quarantine(place)
                item = quarantine.move(
                    log_dir, begun, found.found, found.still_so, clock_proved=proved
                )
                return _outcome(row, "moved", str(item.path(place)), allocated, reason)
        except Refusal as refusal:
            size = row.size_bytes if row.allocated_bytes is None else row.allocated_bytes
            return Outcome(
                row.broker_id, row.log_dir, row.directory, "none", "refused", None, size,
                refusal.reason, refusal.code,
            )  # fmt: skip

    def _refuse_put_back(self, row: Verdict, log_dir: LogDir, *, cluster_tells: bool) -> None:
        """What was seen before somebody put a folder back says nothing of why they did.

        Nobody can tell when they put back what the script had moved: its log, and a folder's own
        time, are by a clock that nothing proves.
        """
        assert self._verdicts is not None and row.directory is not None
        if self._options.put_back_stays and self._site.brought_back(row, log_dir):
            raise Refusal(
                "restored",
                "somebody put it back: no service sets it aside again. If it may go after all, "
                "sweep it by hand",
            )
        for place, item in self._site.put_back(row.log_dir, row.directory):
            at = put_back_at(self._site, place, item, cluster_tells=cluster_tells)
            if item.verdicts == self._sha256 or at >= unchanged_since(row, self._verdicts):
                raise Refusal(
                    "restored",
                    f"somebody put it back, at {format_time(at)} at the latest, and {seen(row)}: "
                    f"if it may go after all, {ANEW}",
                )
        if script_log := self._site.moved_by_script(log_dir, row.directory):
            raise Refusal(
                "restored",
                "a script set it aside, and somebody put it back, nobody can tell when: if it may "
                f"go after all, take its lines out of {script_log}",
            )

    def _begun(self, row: Verdict, found: Checked) -> Item:
        assert self._verdicts is not None
        assert row.directory is not None and row.topic_id is not None
        return Item(
            item=new_item_name(self._site.now()),
            directory=row.directory,
            log_dir=row.log_dir,
            inode=found.found.inode,
            cluster_id=self._verdicts.cluster_id,
            cluster_name=self._verdicts.cluster_name,
            broker_id=row.broker_id,
            topic=row.topic,
            partition=row.partition,
            topic_id=row.topic_id,
            log_bytes=found.found.log_bytes,
            allocated_bytes=found.found.allocated_bytes,
            verdicts=self._sha256,
            directory_id=found.log_dir.directory_id,
            topic_lived=found.topic_lives,
        )

    def _over_share(self, rows: Sequence[Verdict]) -> Refusal | None:
        """The refusal of all when too much would leave at once, what lies in quarantine included.

        The whole is what is named: fewer log dirs make it smaller, never larger.
        """
        site = self._site
        assert site.answer is not None
        lying = site.lying_bytes()
        there = {(d.path, name) for d in site.log_dirs for name in d.names()}
        leaving = [
            row for row in rows
            if row.verdict == acts.REMOVABLE and (row.log_dir, row.directory) in there
        ]  # fmt: skip
        gone = sum(r.size_bytes or 0 for r in leaving) + sum(lying)
        hosted = sum(sizes(site.answer, site.log_dirs).values())
        folders, every = len(leaving) + len(lying), len(there) + len(lying)
        return over_share((folders, every), (gone, hosted + gone), self._options.most_share)

    def _notes(self) -> tuple[str, ...]:
        site, notes = self._site, []
        every = self._verdicts.rows if self._verdicts else ()
        others = sum(row.broker_id != site.broker_id for row in every)
        if others:
            notes.append(f"{others} verdicts are for other brokers: sweep them on their hosts")
        hidden = hidden_processes()
        if hidden:
            notes.append(
                f"{hidden} processes could not be looked into for open files: that needs root; the "
                "broker's own were seen"
            )
        notes += [f"a quarantine that is not looked into: {why}" for why in site.refused_places()]
        return tuple(notes)

    def _tell(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if self._options.apply and outcome.state in ("moved", "deleted", "gone", "refused"):
            why = f": {outcome.reason}" if outcome.reason else ""
            self._progress(f"{outcome.state} {outcome.log_dir}/{outcome.directory}{why}")

    def _is_stopped(self) -> bool:
        return self._options.apply and self._stopped() is not None


def _lies_there(row: Verdict, aside: set[tuple[str, str | None]], site: Site) -> bool:
    """Whether this row's folder lies in quarantine, and no new one under its old name."""
    if (row.log_dir, row.directory) not in aside:
        return False
    return all(row.directory not in d.names() for d in site.log_dirs if d.path == row.log_dir)


def _outcome(row: Verdict, state: str, place: str, allocated: int, reason: str | None) -> Outcome:
    return Outcome(
        row.broker_id, row.log_dir, row.directory, "move", state, place, allocated, reason
    )
