"""The VERDICTS file: what an analysis said of each orphan, sealed, for a sweep on a broker's host.

Canonical JSON with a sha256 over all but itself, as a plan has: what a person looked at is what a
sweep reads. It permits nothing by itself; a sweep checks each folder again, live.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dashboard.core.canonical import SealedKind, seal
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError, VerdictsError
from dashboard.safety.orphan_words import (
    CHECKPOINT_ENTRY,
    KINDS,
    NEVER,
    REMOVABLE,
    SCHEDULED,
    VERDICTS,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.store.snapshot_files import Manifest
    from dashboard.store.snapshots import ClusterStore

FORMAT_VERSION = 1
VALID_FOR = timedelta(hours=24)

# One name inside a log dir: never `.`, `..`, a path, or a character that Kafka does not use.
_DIRECTORY = re.compile(r"(?!\.\.?$)[A-Za-z0-9._+-]{1,255}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_ROW_TIMES = ("newest_at", "check_at", "scanned_at")
_TIMES = ("taken_at", "created_at", "expires_at")


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

    broker_id: int
    log_dir: str
    directory: str | None
    topic: str
    partition: int
    topic_id: str | None
    kind: str
    size_bytes: int | None
    allocated_bytes: int | None
    newest_at: datetime | None
    verdict: str
    reason: str
    check_at: datetime | None
    log_end_offset: int | None = None
    scanned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All orphans of one analysis; `taken_at` is its snapshot's time."""

    cluster_id: str
    cluster_name: str
    analysis_id: str
    snapshot_id: str
    taken_at: datetime
    created_at: datetime
    expires_at: datetime
    rows: tuple[Verdict, ...]

    @property
    def sha256(self) -> str:
        """Hex sha256 of the canonical JSON without its own `sha256` key."""
        return seal(_encode(self))[0]

    def removable(self, broker_id: int) -> tuple[Verdict, ...]:
        """The orphans of one broker that may go."""
        return tuple(r for r in self.rows if (r.broker_id, r.verdict) == (broker_id, REMOVABLE))


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
    return seal(_encode(found))[1]


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


def _encode(found: Verdicts) -> dict[str, Any]:
    """The document without `sha256`."""
    rows = [_encode_row(row) for row in found.rows]
    plain = {name: getattr(found, name) for name in _PLAIN}
    times = {name: format_time(getattr(found, name)) for name in _TIMES}
    return {"version": FORMAT_VERSION, **plain, **times, "rows": rows}


_PLAIN = ("cluster_id", "cluster_name", "analysis_id", "snapshot_id")


def _encode_row(row: Verdict) -> dict[str, Any]:
    values = asdict(row)
    for name in _ROW_TIMES:
        values[name] = None if values[name] is None else format_time(values[name])
    if values["scanned_at"] is None:  # as in files of earlier releases
        del values["scanned_at"]
    return values


def _decode(document: Mapping[str, Any]) -> Verdicts:
    rows = tuple(_decode_row(row) for row in document["rows"])
    folders = [(r.broker_id, r.log_dir, r.directory) for r in rows if r.directory is not None]
    if len(set(folders)) != len(folders):
        raise ValueError("a folder stands in it twice")
    values: dict[str, Any] = {name: _text(document[name], name) for name in _PLAIN}
    values |= {name: parse_time(_text(document[name], name)) for name in _TIMES}
    found = Verdicts(**values, rows=rows)
    if found.expires_at - found.created_at > VALID_FOR:
        raise ValueError("expires_at is over a day after created_at")
    return found


def _decode_row(row: Mapping[str, Any]) -> Verdict:
    found = Verdict(
        **{
            **row,
            **{n: parse_time(_text(at, n)) for n in _ROW_TIMES if (at := row.get(n)) is not None},
        }
    )
    for name in ("broker_id", "partition"):
        _number(getattr(found, name), name)
    for name in ("size_bytes", "allocated_bytes", "log_end_offset"):
        if getattr(found, name) is not None:
            _number(getattr(found, name), name)
    _check_names(found)
    _check_verdict(found)
    return found


def _check_names(row: Verdict) -> None:
    log_dir = _text(row.log_dir, "log_dir")
    if not log_dir.startswith("/") or ".." in log_dir.split("/") or _CONTROL.search(log_dir):
        raise ValueError(f"log_dir is {log_dir!r}")
    if row.directory is not None and not _DIRECTORY.fullmatch(_text(row.directory, "directory")):
        raise ValueError(f"directory is {row.directory!r}")
    if row.topic_id is not None and not _TOPIC_ID.fullmatch(_text(row.topic_id, "topic_id")):
        raise ValueError(f"topic_id is {row.topic_id!r}")
    _text(row.topic, "topic")
    _text(row.reason, "reason")


def _check_verdict(row: Verdict) -> None:
    if row.kind not in KINDS or row.verdict not in VERDICTS:
        raise ValueError(f"{row.kind} {row.verdict} is no verdict")
    if (row.verdict == SCHEDULED) != (row.check_at is not None):
        raise ValueError(f"check_at of a {row.verdict} folder is {row.check_at}")
    facts = (row.directory, row.topic_id, row.newest_at, row.allocated_bytes)
    if row.verdict != NEVER and row.kind == CHECKPOINT_ENTRY:
        raise ValueError("a checkpoint entry is no folder")
    if row.verdict == REMOVABLE and None in facts:
        raise ValueError("a removable folder needs directory, topic_id, newest_at and bytes")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is {value!r}")
    return value


def _number(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError(f"{name} is {value!r}")


def _invalid(where: str, what: str) -> VerdictsError:
    return VerdictsError(f"{where} {what}", "Write one with: lowwater orphans --out FILE.")


def _changed(where: str, actual: str, claimed: object) -> RefusedError:
    return RefusedError(
        f"{where} was changed after it was written: its sha256 is {actual}, it says {claimed}",
        "Write it again with: lowwater orphans --out FILE. It is never edited by hand.",
        code="VERDICTS_CHANGED",
    )


_KIND = SealedKind(
    version=FORMAT_VERSION,
    noun="file of verdicts",
    no_such="is no file of verdicts",
    no_hash="cannot be hashed",
    decode=_decode,
    encode=_encode,
    invalid=_invalid,
    changed=_changed,
)
