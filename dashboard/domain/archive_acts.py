"""What the purge journal's chain is told of archives: that one was deleted, or restored.

Apart from the room of archives, since who opens a journal shall not wait for Parquet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Act = Literal["begun", "done"]


@dataclass(frozen=True, slots=True)
class Deletion:
    """What the chain is told before the first file goes, and once all are gone.

    `typed` is the sentence of who confirmed it; None: its time was over, by `keep_for`.
    """

    kind: ClassVar[str] = "archive-deleted"

    act: Act
    cluster_id: str
    run_id: str
    url: str
    records: int
    size_bytes: int
    who: str
    typed: str | None
    from_where: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """What the chain is told of a restore: that it begins, and how it ended."""

    kind: ClassVar[str] = "archive-restored"

    act: Act
    cluster_id: str
    run_id: str
    url: str
    topic: str
    to_cluster_id: str
    to_topic: str
    records: int
    whole: bool
    who: str
    from_where: str
