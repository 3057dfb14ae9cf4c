"""`lowwater` in a process of its own that SIGKILL ends at a named point: `POINT WORD …`."""

from __future__ import annotations

import sys

from dashboard.cli.main import main
from tests.unit.orphans.dying_sweep import arm

if __name__ == "__main__":
    arm(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
