"""The service that removes one broker's orphans by itself: sweeps again and again, by the verdicts
of the store, and says in metrics what it does. What may go, and when, `sweep` says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dashboard.core.clock import format_time
from dashboard.core.errors import (
    JournalError,
    LogDirError,
    LowwaterError,
    RefusedError,
    StoreError,
    unexpected,
)
from dashboard.core.words import binary, unit
from dashboard.inventory.names import META
from dashboard.orphans.removal_story import ACTS, Chain, Story, read_stories, tell
from dashboard.orphans.sweep.aside import Stopped
from dashboard.orphans.sweep.items import Item
from dashboard.orphans.sweep.live import Cluster
from dashboard.orphans.sweep.quarantine import Clock, lock
from dashboard.orphans.sweep.report import Report
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.sweep.sweep import sweep
from dashboard.orphans.verdicts import Verdicts

ON, OFF, STANDBY, FAILED = "on", "off", "standby", "failed"
_SOON = timedelta(seconds=1)
_AFTER_ERROR = timedelta(minutes=1)


def confirmation(called: str, options: Options) -> str:
    """The sentence that switches it on in the cluster that is `called` so: what it may do, on every
    host that runs it so. Nothing in it is rounded: other flags are another sentence.
    """
    assert options.day is not None
    most = options.day.bytes
    size = f"{most} B" if most % unit(most)[1] else binary(most)
    return (
        f"remove orphans of {called}, at most {options.day.folders} folders and {size} a day "
        f"of each broker, {options.most_share * 100:.12g} % of it at once, deleted after "
        f"{options.keep / timedelta(hours=1):.12g} h"
        + (f", set aside in {', '.join(places)}" if (places := options.quarantine_dirs) else "")
    )


@dataclass(frozen=True, slots=True)
class Round:
    """One look. `waiting` is why no verdict counts now; `next_at` when it looks again."""

    at: datetime
    state: str  # on, off (it only tells), standby (another service acts), failed
    next_at: datetime
    report: Report | None = None
    waiting: str | None = None
    error: LowwaterError | None = None
    stories: tuple[Story, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The event of this round."""
        report = self.report
        return {
            "event": "round",
            "at": format_time(self.at),
            "state": self.state,
            "waiting": self.waiting,
            "next_at": format_time(self.next_at),
            "broker_id": report.broker_id if report else None,
            "rows": [row.to_json() for row in report.rows] if report else [],
            "totals": report.to_json()["totals"] if report else {},
            **(self.error.to_json() if self.error else {}),
        }


class Removal:
    """One service of one broker; `turn` is one round of it.

    `options.apply` says whether it is switched on. `judge` gives the verdicts of the newest
    analysis; `admit` raises where whoever runs it may not any more; `before` makes what the next
    verdicts need (an inventory). It may die between any two steps: all that it knows stands in the
    sweeps' logs, and what `chain` was not told then is told by the next.
    """

    def __init__(
        self,
        options: Options,
        judge: Callable[[datetime], Verdicts],
        reach: Callable[[], AbstractContextManager[Cluster]],
        *,
        every: timedelta,
        now: Clock,
        stopped: Stopped,
        progress: Callable[[str], None],
        chain: Chain | None = None,
        admit: Callable[[], None] = lambda: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = replace(options, put_back_stays=True)
        self._judge, self._reach = judge, reach
        self._every, self._now = every, now
        self._stopped, self._progress = stopped, progress
        self._chain = chain
        self._admit, self._before = admit, before
        self._lead = Lead(options.log_dirs)
        self._said: set[str] = set()

    def turn(self) -> Round:
        """One round. What fails is told in it, and tried again."""
        now = self._now()
        try:
            return self._round(now)
        except Exception as error:
            self.close()  # one that cannot act keeps no other from it
            return Round(now, FAILED, now + min(self._every, _AFTER_ERROR), error=_known(error))

    def close(self) -> None:
        """Let another service of this host act."""
        self._lead.release()

    def _round(self, now: datetime) -> Round:
        acts = self._options.apply
        if acts and not self._lead.take():
            return Round(now, STANDBY, now + min(self._every, _AFTER_ERROR))
        self._admit()
        if self._chain is not None:
            self._tell()  # while the chain cannot be written nothing more is done
        self._before()
        verdicts, waiting = self._verdicts(now)
        said: set[str] = set()
        with self._reach() as live:
            report = sweep(
                verdicts, self._options, live, now=self._now,
                progress=lambda text: self._once(text, said), stopped=self._stopped,
            )  # fmt: skip
        self._said = said
        error = report.error
        stories: tuple[Story, ...] = ()
        try:
            stories = self._tell()
        except Exception as untold:  # what was done is told all the same
            error = error or _known(untold)
        next_at = self._next(self._now(), verdicts, report, stories)
        state = FAILED if error else ON if acts else OFF
        return Round(now, state, next_at, report, waiting, error, stories)

    def _tell(self) -> tuple[Story, ...]:
        stories = read_stories(self._options)
        if self._chain is not None:
            tell(self._chain, stories, self._now)
        return stories

    def _once(self, text: str, said: set[str]) -> None:
        """What is refused round after round is told once."""
        said.add(text)
        if text not in self._said:
            self._progress(text)

    def _verdicts(self, now: datetime) -> tuple[Verdicts | None, str | None]:
        """Those of the newest analysis, or why none count: the quarantine is emptied all the
        same, by what the live cluster says.
        """
        try:
            found = self._judge(now)
        except StoreError as error:
            return None, f"{error.message}. {error.next_step}"
        if now < found.expires_at:
            return found, None
        return None, (
            f"the newest analysis is of what was seen at {format_time(found.taken_at)}, over a day "
            "ago. Collect and analyze again"
        )

    def _next(
        self, now: datetime, found: Verdicts | None, report: Report, stories: tuple[Story, ...]
    ) -> datetime:
        """When a scheduled verdict is worth another look, or a folder's time in quarantine ends."""
        rows = found.rows if found else ()
        again = [r.check_at for r in rows if r.broker_id == report.broker_id and r.check_at]
        again += [since + self._options.keep for story in stories for since in story.lying_since]
        return max(now + _SOON, min([now + self._every, *(at for at in again if at > now)]))


def _known(error: Exception) -> LowwaterError:
    return error if isinstance(error, LowwaterError) else unexpected(error)


class Lead:
    """Which of several services of a host acts: the one that holds its log dirs' meta.properties.

    Not the log dirs themselves: who sweeps or restores by hand may come between two rounds. A
    broker that writes the file anew lets go of it; two services then sweep in turn, never at once.
    """

    def __init__(self, log_dirs: tuple[str, ...]) -> None:
        self._paths = tuple(Path(log_dir, META) for log_dir in log_dirs)
        self._held: list[int] = []

    def take(self) -> bool:
        """Whether this service acts. Raises LogDirError, JournalError SWEEP_LOCK_FAILED."""
        if self._held and all(map(_is_of, self._held, self._paths)):
            return True
        self.release()
        try:
            for path in self._paths:
                self._held.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
                lock(self._held[-1], str(path.parent))
        except RefusedError:
            self.release()
            return False
        except OSError as error:
            self.release()
            raise LogDirError(
                f"{error.filename} cannot be opened: {error.strerror or error}",
                "Write --log-dirs as the broker's log.dirs does, and run as root or its user.",
                code="LOG_DIR_UNREADABLE",
            ) from error
        except JournalError:  # an open file that is not locked leads nobody
            self.release()
            raise
        return True

    def release(self) -> None:
        """Let go of them all."""
        for file in self._held:
            os.close(file)
        self._held = []


def _is_of(file: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(file), path.lstat())
    return False


def described(round_: Round, cluster_name: str) -> str:
    """One line for people."""
    head = f"{format_time(round_.at)} {cluster_name}"
    until = f"next at {format_time(round_.next_at)}"
    if round_.state == STANDBY:
        return f"{head}: standby: another service of this host acts; {until}"
    if round_.report is None:
        assert round_.error is not None
        return f"{head}: {round_.error.message}; {until}"
    totals: Mapping[str, Mapping[str, int]] = round_.report.to_json()["totals"]
    counted = [f"{n['folders']} {state} ({binary(n['bytes'])})" for state, n in totals.items()]
    parts = [", ".join(counted) or "no folder to deal with", until]
    if round_.waiting:
        parts.insert(0, f"no verdict counts: {round_.waiting.rstrip('.')}")
    if round_.error:
        parts.insert(0, round_.error.message)
    switched = "" if round_.state != OFF else " (off: nothing is changed)"
    return f"{head}: broker {round_.report.broker_id}{switched}: {'; '.join(parts)}"


# What a service that removes orphans says of itself, as Prometheus families.

_LABEL = ["broker_id"]


def removal_families(last: Round | None) -> list[Metric]:
    """Of the last round; totals are of the sweeps' logs, so that no restart begins them anew."""
    if last is None:
        return []
    acting = GaugeMetricFamily(
        "lowwater_orphan_service_state",
        "1 for what the last round was: on, off (it only tells), standby (another acts), failed.",
        labels=["state"],
    )
    for state in (ON, "off", STANDBY, FAILED):
        acting.add_metric([state], int(last.state == state))
    at = GaugeMetricFamily(
        "lowwater_orphan_service_round_timestamp_seconds", "Unix time of the last round."
    )
    at.add_metric([], last.at.timestamp())
    return [acting, at, *_refused(last), *_acts(last.stories), *_lying(last.stories)]


def _refused(last: Round) -> list[Metric]:
    found = GaugeMetricFamily(
        "lowwater_orphan_service_refused_folders",
        "Folders that the last round left where they are, by the code of the reason.",
        labels=[*_LABEL, "code"],
    )
    report = last.report
    codes = [row.code or "" for row in report.rows if row.state == "refused"] if report else []
    for code in sorted(set(codes)):
        assert report is not None
        found.add_metric([str(report.broker_id), code], codes.count(code))
    return [found]


def _acts(stories: Sequence[Story]) -> list[Metric]:
    folders = CounterMetricFamily(
        "lowwater_orphan_acts_folders",
        "Folders that sweeps of this broker moved, put back, restored, deleted, or found lost.",
        labels=[*_LABEL, "act"],
    )
    size = CounterMetricFamily(
        "lowwater_orphan_acts_bytes", "Bytes of disk of these folders.", labels=[*_LABEL, "act"]
    )
    done: dict[tuple[str, str], list[Item]] = {}
    for story in stories:
        of_broker: dict[str, list[Item]] = {act: [] for act in ACTS}
        for act, item in story.acts():
            of_broker[act].append(item)
        for act, found in of_broker.items():
            done.setdefault((str(story.broker_id), act), []).extend(found)
    for key, found in sorted(done.items()):
        folders.add_metric(list(key), len(found))
        size.add_metric(list(key), sum(item.allocated_bytes for item in found))
    return [folders, size]


def _lying(stories: Sequence[Story]) -> list[Metric]:
    folders = GaugeMetricFamily(
        "lowwater_orphan_quarantined_folders", "Folders that lie in quarantine.", labels=_LABEL
    )
    size = GaugeMetricFamily(
        "lowwater_orphan_quarantined_bytes", "Bytes of disk of these folders.", labels=_LABEL
    )
    for broker in sorted({str(story.broker_id) for story in stories}):
        found = [i for s in stories if str(s.broker_id) == broker for i in s.lying]
        folders.add_metric([broker], len(found))
        size.add_metric([broker], sum(item.allocated_bytes for item in found))
    return [folders, size]
