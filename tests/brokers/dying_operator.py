"""`lowwater` in a process of its own that SIGKILL ends at a named point: `POINT WORD …`."""

from __future__ import annotations

import sys
from datetime import timedelta

from dashboard.cli.findings import orphans_sweep
from dashboard.cli.main import main
from tests.unit.orphans.dying_sweep import arm

if __name__ == "__main__":
    arm(sys.argv[1])
    orphans_sweep.LEAST_QUARANTINE = timedelta(0)
    sys.exit(main(sys.argv[2:]))
