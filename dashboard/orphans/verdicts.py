"""The VERDICTS file: what an analysis said of each orphan, sealed, for a sweep on a broker's host;
and which brokers' disks nobody took stock of, so that nothing is said of theirs.

Canonical JSON with a sha256 over all but itself, as a plan has: what a person looked at is what a
sweep reads. It permits nothing by itself; a sweep checks each folder again, live.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from dashboard.core.canonical import LATER, Count, Moment, SealedKind, Text, seal
from dashboard.core.clock import format_time
from dashboard.core.errors import RefusedError, VerdictsError
from dashboard.core.sums import whole_sum
from dashboard.core.words import binary
from dashboard.domain.acts import (
    CHECKPOINT_ENTRY,
    KINDS,
    NEVER,
    REMOVABLE,
    SCHEDULED,
    TWO_LOG_DIRS,
    VERDICTS,
)
from dashboard.inventory.listing import shell_line
from dashboard.store.snapshots import Connection

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.store.snapshot_files import Manifest
    from dashboard.store.snapshots import ClusterStore

VALID_FOR = timedelta(hours=24)

# One name inside a log dir: never `.`, `..`, a path, or a character that Kafka does not use.
Directory = Annotated[str, Meta(pattern=r"\A(?!\.\.?\Z)[A-Za-z0-9._+-]{1,255}\Z")]
LogDirPath = Annotated[str, Meta(pattern=r"\A/[^\x00-\x1f\x7f]*\Z")]
TopicId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{22}\Z")]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One orphan. `directory` is its name in `log_dir`; None where no inventory named it.

    `size_bytes` are those of its `.log` files, `allocated_bytes` what the disk gave for all of it
    (None: no inventory). `newest_at` is the later of its last time-index entry and its mtime.
    `check_at`: when a scheduled one is worth another look; None for the others. `log_end_offset`:
    the one after its last record; None: no scan told, as in files of earlier releases.
    `scanned_at`: when its host began the scan that showed it, which may be long before the
    snapshot; None in files of earlier releases.
    """

    broker_id: Count
    log_dir: LogDirPath
    directory: Directory | None
    topic: Text
    partition: Count
    topic_id: TopicId | None
    kind: str
    size_bytes: Count | None
    allocated_bytes: Count | None
    newest_at: Moment | None
    verdict: str
    reason: Text
    check_at: Moment | None
    log_end_offset: Count | None = None
    scanned_at: Moment | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All orphans of one analysis; `taken_at` is its snapshot's time."""

    cluster_id: Text
    cluster_name: Text
    analysis_id: Text
    snapshot_id: Text
    taken_at: Moment
    created_at: Moment
    expires_at: Moment
    rows: tuple[Verdict, ...]

    @property
    def sha256(self) -> str:
        """Hex sha256 of the canonical JSON without its own `sha256` key."""
        return seal(_KIND.document(self))[0]


def of_analysis(cluster: ClusterStore, analysis_id: str, *, now: datetime) -> Verdicts:
    """The orphans of a committed analysis, to be written at `now`. Raises StoreError."""
    manifest = cluster.manifest("findings", analysis_id)
    return of_table(cluster, manifest, cluster.read("findings", analysis_id, "orphans"), now=now)


def of_table(
    cluster: ClusterStore, manifest: Manifest, orphans: pa.Table, *, now: datetime
) -> Verdicts:
    """The same from the findings table `orphans` of that analysis, as it was read."""
    snapshot_id = str(manifest.details["snapshot_id"])
    names = [field.name for field in fields(Verdict)]
    rows = orphans.select([*names, "taken_at"]).to_pylist()
    # A snapshot may be pruned while its findings are kept; each of their rows has its time.
    taken_at = rows[0]["taken_at"] if rows else manifest.taken_at
    return Verdicts(
        cluster.cluster_id, cluster.name, manifest.id, snapshot_id, taken_at, now,
        # What it saw may have changed since then, however late it is written down.
        min(now, taken_at) + VALID_FOR,
        tuple(Verdict(**{name: row[name] for name in names}) for row in rows),
    )  # fmt: skip


def write(found: Verdicts) -> str:
    """The file's text."""
    return seal(_KIND.document(found))[1]


def parse(text: str, where: str, *, now: datetime) -> Verdicts:
    """Read, verify and decode the text of the file that `where` names.

    Raises VerdictsError VERDICTS_INVALID; RefusedError VERDICTS_CHANGED when its sha256 is not its
    own, VERDICTS_EXPIRED when what it is of was seen over a day before `now`.
    """
    found = _KIND.parse(text, where)
    # Files of earlier versions say a day from when they were written, whatever they are of.
    until = min(found.expires_at, found.taken_at + VALID_FOR)
    if now >= until:
        raise RefusedError(
            f"{where} expired at {format_time(until)}, a day after what it is of was seen",
            "Collect, analyze and write it again: what it saw may have changed.",
            code="VERDICTS_EXPIRED",
        )
    return found


def _check(found: Verdicts) -> None:
    folders = [(r.broker_id, r.log_dir, r.directory) for r in found.rows if r.directory is not None]
    if len(set(folders)) != len(folders):
        raise ValueError("a folder stands in it twice")
    if found.expires_at - found.created_at > VALID_FOR:
        raise ValueError("expires_at is over a day after created_at")
    for row in found.rows:
        _check_row(row)


def _check_row(row: Verdict) -> None:
    if ".." in row.log_dir.split("/"):
        raise ValueError(f"log_dir is {row.log_dir!r}")
    if row.kind not in KINDS or row.verdict not in VERDICTS:
        raise ValueError(f"{row.kind} {row.verdict} is no verdict")
    if (row.verdict == SCHEDULED) != (row.check_at is not None):
        raise ValueError(f"check_at of a {row.verdict} folder is {row.check_at}")
    facts = (row.directory, row.topic_id, row.newest_at, row.allocated_bytes)
    if row.verdict != NEVER and row.kind == CHECKPOINT_ENTRY:
        raise ValueError("a checkpoint entry is no folder")
    if row.verdict == REMOVABLE and None in facts:
        raise ValueError("a removable folder needs directory, topic_id, newest_at and bytes")


def _invalid(where: str, what: str) -> VerdictsError:
    return VerdictsError(f"{where} {what}", "Write one with: lowwater orphans --out FILE.")


def _changed(where: str, actual: str, claimed: object) -> RefusedError:
    return RefusedError(
        f"{where} was changed after it was written: its sha256 is {actual}, it says {claimed}",
        "Write it again with: lowwater orphans --out FILE. It is never edited by hand.",
        code="VERDICTS_CHANGED",
    )


_KIND = SealedKind(Verdicts, "file of verdicts", _invalid, _changed, _check)


@dataclass(frozen=True, slots=True)
class MissingInventory:
    """One broker without an inventory of all its log dirs.

    `unexplained_bytes` are those of the log dirs that none covers; None: not told by the broker.
    `line` is for `sh` on its host.
    """

    broker_id: int
    log_dirs: tuple[str, ...]
    unexplained_bytes: int | None
    line: str

    @property
    def said(self) -> str:
        """What an operator is told; the line itself follows."""
        size = self.unexplained_bytes
        known = "an unknown part of the disk" if size is None else binary(size)
        return f"unexplained: {known} on broker {self.broker_id}; run this line there"

    def to_json(self) -> dict[str, Any]:
        return {"broker_id": self.broker_id, "log_dirs": list(self.log_dirs),
                "unexplained_bytes": self.unexplained_bytes, "line": self.line}  # fmt: skip


class Disk(TypedDict):
    """A row of the findings table `disks`, as far as it is read here."""

    broker_id: int
    log_dir: str | None
    unexplained_bytes: int | None
    inventory_at: datetime | None


def missing_inventories(disks: Iterable[Disk]) -> list[MissingInventory]:
    """From the rows of the findings table `disks`, by broker."""
    by_broker: dict[int, dict[str, Disk]] = {}
    for row in disks:
        if row["log_dir"] is not None:
            by_broker.setdefault(row["broker_id"], {})[row["log_dir"]] = row
    found = []
    for broker, rows in sorted(by_broker.items()):
        bare = [row["unexplained_bytes"] for row in rows.values() if row["inventory_at"] is None]
        if bare:
            log_dirs = tuple(sorted(rows))
            size = whole_sum(bare)
            found.append(MissingInventory(broker, log_dirs, size, shell_line(log_dirs)))
    return found


# The line that sweeps one broker's orphans, for a person to run on its host.

VERDICTS_FILE = "verdicts.json"
# Which folder of two holds the records, and what a checkpoint entry is for, no sweep can tell.
NEVER_SWEPT = (TWO_LOG_DIRS, CHECKPOINT_ENTRY)


def sweep_line(log_dirs: Sequence[str], connection: Connection) -> str:
    """What tells, and with `--apply` does; `connection` is `ClusterStore.connection`.

    `--client-config` stands in it where the cluster was reached with one: its path is this
    machine's, the host needs a file of its own there.
    """
    words = ["lowwater", "orphans", "sweep", "--log-dirs", ",".join(log_dirs)]
    words += ["--bootstrap-server", str(connection.bootstrap_servers or "HOST:PORT")]
    if connection.client_config:
        words += ["--client-config", connection.client_config]
    return shlex.join([*words, "--verdicts", VERDICTS_FILE])
