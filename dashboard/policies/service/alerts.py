"""Tells a webhook what an operator should know, each event once; failures never stop purging."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dashboard.core.canonical import written
from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import SettingsError, StoreError
from dashboard.core.words import binary
from dashboard.history.findings_age import analysed_at, unusable
from dashboard.policies.matching import Newest, read
from dashboard.purge.journal.alerts import AlertRow, Event
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.purge.receipt.alerts import reverted
from dashboard.settings.settings import Settings
from dashboard.store.finding_rows import DiskRow, OrphanRow
from dashboard.store.snapshots import ClusterStore, Store

# Sends one JSON object to a webhook; its address is a secret that no error shows.


class NotTold(Exception):
    """The webhook did not take it; the message says why, never where."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What a webhook is sent goes to the address that was chosen, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(address: str, body: Mapping[str, Any], timeout_seconds: float) -> None:
    """POST `body` as JSON; any 2xx is success. Raises NotTold."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    head = {"Content-Type": "application/json", "User-Agent": "lowwater"}
    why: str | None = None
    try:
        request = urllib.request.Request(address, data=text, headers=head, method="POST")
        with _OPENER.open(request, timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        why = f"the webhook answered {error.code}"
        error.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = _reason(error)
    # Outside of the handlers: the cause quotes the address, and a traceback would show it.
    raise NotTold(why)


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "the webhook did not answer in time"
    if isinstance(cause, socket.gaierror):
        return "the webhook's host is not known to this machine's DNS"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "the webhook's certificate is not one that this machine trusts"
    if isinstance(cause, ConnectionRefusedError):
        return "the webhook's host refused the connection"
    return f"the webhook could not be reached ({type(cause).__name__})"


TIMEOUT_SECONDS = 10.0
_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=10), timedelta(hours=1)
# So long another process leaves a message alone that this one is sending.
_SENDING = timedelta(seconds=3 * TIMEOUT_SECONDS)
# What flickers is one event: it is told again only when it was gone for so long.
_QUIET = timedelta(hours=1)
_IN_TEXT = 3
# Told to whoever asked for something that findings tell; no name of its own in the settings.
_UNUSABLE = "findings-unusable"
_NO_DISK = (
    "no broker tells how full its disks are (DescribeLogDirs v4, of Kafka 3.3; it takes Describe "
    "on the cluster)"
)


@dataclass(frozen=True, slots=True)
class Told:
    """One message that was tried: `error` is None when the webhook took it."""

    event: str
    text: str
    events: int
    error: str | None


@dataclass
class Alerts:
    """The alerts of one cluster. `look` may be called by several services: each event goes once.

    An event is sent again after a failure, ever more slowly, until the webhook takes it. A process
    that dies between the webhook's answer and writing it down has it told twice.
    """

    settings: Settings
    journal: Journal
    cluster_id: str
    cluster_name: str
    send: Callable[[str, Mapping[str, Any], float], None] = post
    _analysis: str | None = None
    _taken_at: datetime | None = None  # the snapshot that was analysed
    _findings: Newest = field(default_factory=Newest)

    def look(self, now: datetime) -> list[Told]:
        """See what is new, and tell what is due; the messages tried. Raises JournalError.

        Takes as long as the webhook: at most 10 s for each kind of event. Call it from a thread of
        its own.
        """
        alerts = self.settings.alerts
        if not alerts.on or (alerts.webhook is None and alerts.webhook_file is None):
            return []
        self._read()
        kinds = [*alerts.on, *([_UNUSABLE] if self._by_findings else [])]
        ends = {k for k in kinds if k not in ("reverted", "new-stray")}
        if self._unusable(now) or not self._disks_told:
            ends -= {k for k in alerts.on if k.startswith("disk-above:")}
        self.journal.see_alerts(
            self.cluster_id, self._found(now), ending=ends, quiet=_QUIET, now=now
        )
        due = self.journal.claim_alerts(
            self.cluster_id, kinds, until=now + _SENDING, longest=_LAST_RETRY, now=now
        )
        told = sorted({row.event.kind for row in due}, key=kinds.index)
        return [self._tell([r for r in due if r.event.kind == k], now) for k in told]

    @property
    def _by_findings(self) -> bool:
        """Whether anything is to be told that only findings tell."""
        return any(k == "new-stray" or k.startswith("disk-above:") for k in self.settings.alerts.on)

    def _found(self, now: datetime) -> list[Event]:
        alerts, found = self.settings.alerts, list[Event]()
        if "reverted" in alerts.on:
            found += records_back(self.journal, self.cluster_id)
        if "stalled" in alerts.on:
            found += stalled(self.journal, self.cluster_id, now)
        if "policy-refused" in alerts.on:
            found += refused(self.journal, self.cluster_id)
        if why := self._unusable(now):
            return found + self._silent("findings", "full disks and new strays", why)
        if "new-stray" in alerts.on:
            found += strays(self._findings.orphans)
        for name in alerts.on:
            if name.startswith("disk-above:") and alerts.disk_above is not None:
                if not self._disks_told:
                    found += self._silent("disks", "full disks", _NO_DISK)
                found += full_disks(self._findings.disks, alerts.disk_above, name)
        return found

    def _unusable(self, now: datetime) -> str:
        """Why there are no findings, or none that tell of now; "": there are."""
        if self._taken_at is None:
            return "there are no findings yet"
        found = self._findings
        return unusable(self._taken_at, found.clock, now, self.settings.every, found.every)

    @property
    def _disks_told(self) -> bool:
        """Whether any broker tells how full a disk is. Where all refuse, orphans may be found all
        the same, by inventories.
        """
        return any(row.used_share is not None for row in self._findings.disks)

    def _silent(self, subject: str, what: str, why: str) -> list[Event]:
        """That nothing is told of disks or folders, where findings were ever made."""
        if not self._by_findings or self._taken_at is None:
            return []
        return [Event(_UNUSABLE, subject, f"{what} are not told: {why}", {"reason": why})]

    def _read(self) -> None:
        """The findings of the newest analysis, each read once."""
        try:
            store = ClusterStore(Store(self.settings.data), self.cluster_id)
            newest = store.latest("findings")
            if newest is not None and newest != self._analysis:
                self._taken_at = analysed_at(store, store.manifest("findings", newest))
                self._findings = read(store, newest, ("orphans", "disks"))
                self._analysis = newest
        except StoreError:  # being pruned, or not there yet: the next look reads again
            self._analysis, self._taken_at, self._findings = None, None, Newest()

    def _tell(self, rows: Sequence[AlertRow], now: datetime) -> Told:
        events = [row.event for row in rows]
        text = _text(events)
        error = self._send(events, text, now)
        if error is None:
            self.journal.alerts_told(self.cluster_id, events, now)
        else:
            tried = max(row.attempts for row in rows)
            wait = min(_FIRST_RETRY * 2 ** min(tried, 20), _LAST_RETRY)
            self.journal.alerts_failed(self.cluster_id, events, error=error, retry_at=now + wait)
        return Told(events[0].kind, text, len(events), error)

    def _send(self, events: Sequence[Event], text: str, now: datetime) -> str | None:
        """Why the webhook did not take it; None: it did."""
        details = [dict(e.details) for e in events[:MOST_NAMED]]
        body = {
            "event": events[0].kind, "cluster": self.cluster_name, "at": format_time(now),
            "text": f"{self.cluster_name}: {text}",
            "details": {"cluster_id": self.cluster_id, "count": len(events), "items": details},
        }  # fmt: skip
        try:
            address = self.settings.alerts.address()
            if address is not None:
                self.send(address, body, TIMEOUT_SECONDS)
        except NotTold as error:
            return str(error)
        except SettingsError as error:
            return error.message
        return None


def _text(events: Sequence[Event]) -> str:
    told = "; ".join(event.text for event in events[:_IN_TEXT])
    more = len(events) - _IN_TEXT
    return f"{told}; and {more:,} more" if more > 0 else told


# What is worth an alert now, out of the journal and the newest findings.

MOST_NAMED = 100
# A watch that ended is looked at for so long: a service that was down a moment misses none.
_ENDED_WITHIN = timedelta(minutes=10)
_AWAITED = ("sent", "unknown", "leader_done")


def records_back(journal: Journal, cluster_id: str) -> list[Event]:
    """`reverted`: a later leader starts below the target of a purge, one event for each run."""
    return [
        Event(
            "reverted",
            found.run_id,
            f"records came back in {_many(found.partitions, 'partition')} of "
            f"{_names(found.topics)}, purged by run {found.run_id}: plan again",
            {"run_id": found.run_id, "topics": dict(sorted(found.topics.items()))},
        )
        for found in reverted(journal, cluster_id)
    ]


def stalled(journal: Journal, cluster_id: str, now: datetime) -> list[Event]:
    """`stalled`: partitions of a run in flight that nobody can prove, or that no follower nears.

    A partition is stalled when it is `unknown` for longer than its request may take, or when its
    run was watched to the end and a living follower is behind without an end in sight.
    """
    runs = journal.stalling_runs(cluster_id, now - _ENDED_WITHIN, now)
    found = []
    for run_id in runs:
        run = journal.head(run_id)
        rows = [r for r in journal.partitions(run_id, _AWAITED) if _is_stalled(run, r, now)]
        if rows:
            found.append(_stalled_run(run, rows))
    return found


def refused(journal: Journal, cluster_id: str) -> list[Event]:
    """`policy-refused`: guards, an error or a silence of its service keep a policy from purging."""
    found = []
    for name, (_, status) in journal.policy_statuses(cluster_id).items():
        state, blocked = status.state, status.blocked[:MOST_NAMED]
        if state not in ("refused", "held"):
            continue
        guards = sorted({guard.name for each in status.blocked for guard in each.guards})
        details = {"policy": name, "reason": status.reason, "guards": guards}
        found.append(
            Event(
                "policy-refused",
                " ".join([name, *guards, *(["held"] if state == "held" else [])]),
                f"policy {name} is {state}: {status.reason}",
                {**details, "blocked": written(blocked)},
            )
        )
    return found


_OF_A_STRAY = (
    "broker_id", "log_dir", "directory", "topic", "partition", "kind", "size_bytes", "verdict",
)  # fmt: skip


def strays(orphans: Iterable[OrphanRow]) -> list[Event]:
    """`new-stray`: a folder on a broker's disk that no assignment explains; rows of `orphans`."""
    found = []
    for row in orphans:
        if row.directory is None:
            continue  # a checkpoint entry takes no room
        size = "unknown size" if row.size_bytes is None else binary(row.size_bytes)
        where = f"{row.log_dir}/{row.directory} on broker {row.broker_id}"
        found.append(
            Event(
                "new-stray",
                f"{row.broker_id}:{row.log_dir}/{row.directory}",
                f"{where} is an orphan ({row.kind}, {size}, {row.verdict})",
                {name: getattr(row, name) for name in _OF_A_STRAY},
            )
        )
    return found


def full_disks(disks: Iterable[DiskRow], share: float, name: str) -> list[Event]:
    """`disk-above:90%`: log dirs whose disk has more than that in use; unknown ones are left out.

    `name` is the event as the settings spell it.
    """
    found = []
    for row in disks:
        used = row.used_share
        if used is None or used <= share:
            continue
        found.append(
            Event(
                name,
                f"{row.broker_id}:{row.log_dir}",
                f"{row.log_dir} of broker {row.broker_id} is {used:.1%} full, "
                f"{binary(row.usable_bytes or 0)} left",
                {
                    "broker_id": row.broker_id,
                    "log_dir": row.log_dir,
                    "used_share": round(used, 4),
                    "total_bytes": row.total_bytes,
                    "usable_bytes": row.usable_bytes,
                },
            )
        )
    return found


def _is_stalled(run: RunRow, row: PartitionRow, now: datetime) -> bool:
    if row.sent_at is None:
        return False
    if row.state == "unknown":
        # Sent in the future: the clock stepped back, and nobody knows for how long it is unknown.
        age = now - row.sent_at
        return age > timedelta(milliseconds=run.options.timeout_ms) or age < -CLOCKS_AGREE
    watched = run.watched_until is not None and run.watched_until <= now
    return watched and any(f.behind and f.seconds_to_go is None for f in row.followers)


def _stalled_run(run: RunRow, rows: Sequence[PartitionRow]) -> Event:
    named = [
        {
            "topic": r.topic,
            "partition": r.partition,
            "state": r.state,
            "error": r.error,
            "followers_behind": [f.broker_id for f in r.followers if f.behind],
        }
        for r in rows
    ]
    brokers = sorted({f.broker_id for r in rows for f in r.followers if f.behind})
    unknown = sum(r.state == "unknown" for r in rows)
    why = [f"{unknown} without proof"] if unknown else []
    why += [f"broker {', '.join(map(str, brokers))} behind with no end in sight"] if brokers else []
    return Event(
        "stalled",
        run.run_id,
        f"run {run.run_id} by {run.who} stalls on {_many(len(rows), 'partition')} of "
        f"{_names({r.topic for r in rows})}: {'; '.join(why)}",
        {"run_id": run.run_id, "brokers": brokers, "partitions": named[:MOST_NAMED]},
    )


def _names(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
