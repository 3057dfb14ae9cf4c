"""Everything that is asked of one folder before it is touched: the disk first, then the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import RefusedError
from dashboard.orphans.sweep.sweep_folder import (
    Measured,
    changed_at,
    measure,
    opened,
    records_of,
    same_as_judged,
    told_by_name,
    topic_id,
)
from dashboard.orphans.sweep.sweep_live import LiveCheck
from dashboard.orphans.sweep.sweep_openers import refuse_if_open
from dashboard.orphans.sweep.sweep_places import LogDir
from dashboard.orphans.sweep.sweep_report import Refusal
from dashboard.orphans.verdicts import Verdict, Verdicts
from dashboard.safety import orphan_words as words


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
    if row.verdict != words.REMOVABLE:
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
