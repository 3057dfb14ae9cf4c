"""What the purge journal's chain is told of orphans: who lets a service act, what sweeps did.

Records of their own, since the room that sweeps and the room that keeps the journal stand side by
side and may not import each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dashboard.core.canonical import LATER


@dataclass(frozen=True, slots=True)
class SweepsTold:
    """Lines of one sweep's log about one broker: those up to `to_seq`, whose hash is `hash`."""

    kind: ClassVar[str] = "orphans"

    cluster_id: str
    broker_id: int
    log: str
    from_seq: int
    to_seq: int
    hash: str
    acts: tuple[tuple[str, str, str, int], ...]  # act, log dir, directory, bytes of disk
    log_replaced: bool = field(default=False, metadata=LATER)  # it is not the log told of before


@dataclass(frozen=True, slots=True)
class RemovalOn:
    """Who let a service remove the orphans of a broker, by which sentence, from which host."""

    kind: ClassVar[str] = "orphans-on"

    cluster_id: str
    broker_id: int
    who: str
    typed: str | None
    from_where: str
    log_dirs: tuple[str, ...]
