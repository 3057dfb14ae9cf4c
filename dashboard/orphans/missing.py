"""Which brokers' disks nobody took stock of, and the shell line that would."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.core.words import binary
from dashboard.inventory.listing import shell_line
from dashboard.safety.orphan_words import CHECKPOINT_ENTRY, TWO_LOG_DIRS
from dashboard.store.snapshots import Connection


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


def missing_inventories(disks: Iterable[Mapping[str, Any]]) -> list[MissingInventory]:
    """From the rows of the findings table `disks`, by broker."""
    by_broker: dict[int, list[Mapping[str, Any]]] = {}
    for row in disks:
        if row["log_dir"] is not None:
            by_broker.setdefault(row["broker_id"], []).append(row)
    found = []
    for broker, rows in sorted(by_broker.items()):
        bare = [row["unexplained_bytes"] for row in rows if row["inventory_at"] is None]
        if bare:
            log_dirs = tuple(sorted(row["log_dir"] for row in rows))
            size = None if None in bare else sum(bare)
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
