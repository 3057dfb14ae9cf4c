"""The line that sweeps one broker's orphans, for a person to run on its host."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.safety.orphan_words import CHECKPOINT_ENTRY, TWO_LOG_DIRS

VERDICTS_FILE = "verdicts.json"
# Which folder of two holds the records, and what a checkpoint entry is for, no sweep can tell.
NEVER_SWEPT = (TWO_LOG_DIRS, CHECKPOINT_ENTRY)


def sweep_line(log_dirs: Sequence[str], connection: Mapping[str, Any]) -> str:
    """What tells, and with `--apply` does; `connection` is `ClusterStore.connection`.

    `--client-config` stands in it where the cluster was reached with one: its path is this
    machine's, the host needs a file of its own there.
    """
    words = ["lowwater", "orphans", "sweep", "--log-dirs", ",".join(log_dirs)]
    words += ["--bootstrap-server", str(connection.get("bootstrap_servers") or "HOST:PORT")]
    if connection.get("client_config"):
        words += ["--client-config", str(connection["client_config"])]
    return shlex.join([*words, "--verdicts", VERDICTS_FILE])
