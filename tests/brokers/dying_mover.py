"""A purge worker that is killed by SIGKILL around the request that moves a group's offset."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from dashboard.cluster.live import LiveCluster
from dashboard.purge.jobs import worker

_commit = LiveCluster.commit_offsets


def _die_around(live: LiveCluster, *args: Any, **named: Any) -> Any:
    if sys.argv[1] == "after-the-answer":
        _commit(live, *args, **named)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    LiveCluster.commit_offsets = _die_around  # type: ignore[method-assign]
    sys.exit(worker.main(sys.argv[2:]))
