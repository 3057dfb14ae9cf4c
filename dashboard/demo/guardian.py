"""A process that outlives a killed supervisor by as long as it takes to clear what that left.

Children of the supervisor die with it; their own children (Spark's Java, purge workers that
run on by design) would not, and nobody would remove the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dashboard.demo import state


def start(folder: Path, state_dir: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts the guardian: it waits for the end of its standard input, which our end closes."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "dashboard.demo.guardian", str(folder), str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )


def stop(guardian: subprocess.Popen[bytes]) -> None:
    """Closes its input and waits: what was left of the room is cleared when this returns."""
    if guardian.stdin is not None:
        guardian.stdin.close()
    guardian.wait()


def main(folder: str, state_dir: str) -> None:
    """Blocks until the supervisor's end of the pipe is closed, then clears the room."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    state.clear(folder)
    state.remove(Path(state_dir), folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
