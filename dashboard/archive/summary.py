"""What each archive holds, weighs and costs: a row for lists on the command line and on pages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.archive.manifest import PartitionArchive, Range
from dashboard.archive.opened import Archive, list_archives
from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError
from dashboard.domain.model import TopicPartition


@dataclass(frozen=True)
class Summary:
    """One run's archive. `found` has None for a partition without a commit; `error` says why the
    commits of those that it lacks could not be read.
    """

    archive: Archive
    found: dict[TopicPartition, PartitionArchive | None]
    error: LowwaterError | None = None

    @property
    def _whole(self) -> list[PartitionArchive]:
        return [one for one in self.found.values() if one is not None]

    @property
    def records(self) -> int:
        return sum(one.records for one in self._whole)

    @property
    def size_bytes(self) -> int:
        """What lies in the store, beside the small files of proofs."""
        return sum(one.size_bytes for one in self._whole)

    @property
    def raw_bytes(self) -> int:
        return sum(one.raw_bytes for one in self._whole)

    @property
    def state(self) -> str:
        """As its manifest says; `damaged`: what was kept is not all there any more."""
        if self.error is not None or self.archive.lost(self.found):
            return "damaged"
        return self.archive.run.state

    def expires_at(self, keep_for: timedelta | None) -> datetime | None:
        """From when on it may be deleted; None: it is kept."""
        return None if keep_for is None else self.archive.run.created_at + keep_for

    def restore_line(self, topic: str) -> str:
        """The line that restores one of its topics, to copy."""
        words = ["lowwater", "restore", self.archive.url]
        words += ["--topic", topic] if len(self.archive.run.topics) > 1 else []
        return shlex.join([*words, "--to-topic", f"{topic}-restored"])

    def to_json(self) -> dict[str, Any]:
        """The keys of the command line's contract."""
        run = self.archive.run
        return {
            "run_id": run.run_id, "cluster_id": run.cluster_id, "cluster_name": run.cluster_name,
            "url": self.archive.url, "state": self.state,
            "created_at": format_time(run.created_at),
            "key_id": run.encryption.key_id if run.encryption else None,
            "topics": sorted(topic.topic for topic in run.topics),
            "records": self.records, "size_bytes": self.size_bytes, "raw_bytes": self.raw_bytes,
            "partitions": [_row(one, self.found.get(one.key)) for one in run.partitions],
            **(self.error.to_json() if self.error else {}),
        }  # fmt: skip


def _row(one: Range, found: PartitionArchive | None) -> dict[str, Any]:
    return {
        "topic": one.topic, "partition": one.partition, "start": one.start, "target": one.target,
        "whole": found is not None, "records": found.records if found else None,
        "size_bytes": found.size_bytes if found else None,
    }  # fmt: skip


def summary(archive: Archive) -> Summary:
    """What an archive's commits tell; why one of them cannot be read stands in `error`."""
    try:
        return Summary(archive, *archive.readable())
    except LowwaterError as error:
        return Summary(archive, {}, error)


def summaries(url: str, cluster_id: str | None = None) -> Iterator[Summary | LowwaterError]:
    """Of every run below a URL, or of one cluster; of one whose manifest cannot be read its error.

    Raises ArchiveError ARCHIVE_UNREACHABLE and SettingsError.
    """
    for found in list_archives(url):
        if isinstance(found, LowwaterError):
            yield found
        elif cluster_id in (None, found.run.cluster_id):
            yield summary(found)


def expired(
    found: Iterable[Summary | LowwaterError], keep_for: timedelta, now: datetime
) -> list[Summary]:
    """Those that are older than they are kept."""
    readable = (one for one in found if isinstance(one, Summary))
    return [one for one in readable if (at := one.expires_at(keep_for)) and at <= now]
