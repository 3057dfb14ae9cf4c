"""Runs `make demo` as a newcomer does: until its first findings are there, then Ctrl-C.

Usage: python3 tools/try_demo.py   (needs only what README asks for). Exits 1 with the reason
unless a finding came, the page answered, and the end left nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOWWATER = ROOT / ".venv" / "bin" / "lowwater"
PATIENCE_SECONDS = 1200  # all downloads of a first time, on a busy machine
END_SECONDS = 60


def main() -> str | None:
    """What went wrong; None when all was well."""
    # A shell that starts us in the background lets us ignore Ctrl-C, and so would the demo.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    demo = subprocess.Popen(["make", "demo"], cwd=ROOT, start_new_session=True)
    try:
        found = _first_finding(demo, began + PATIENCE_SECONDS)
        if found is None:
            return f"no finding after {time.monotonic() - began:.0f} s; exit code {demo.poll()}"
        print(f"finding after {time.monotonic() - began:.0f} s: {found}", flush=True)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to make and all that it started
        code = demo.wait(END_SECONDS)
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGTERM)
            demo.wait(END_SECONDS)
    left = _lowwater("demo", "status")
    # make itself ends by the signal, unless its child was faster.
    if code not in (0, -signal.SIGINT) or left != {"running": False, "leftovers": False}:
        return f"Ctrl-C: make demo ended with code {code} and left {left}"
    return None


def _first_finding(demo: subprocess.Popen[bytes], deadline: float) -> str | None:
    """What can be given back, once the page answers too; None if the demo ended or is late."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # to this machine
    while demo.poll() is None and time.monotonic() < deadline:
        time.sleep(2)
        status = _lowwater("demo", "status") if LOWWATER.exists() else None
        if status and status["running"] and status["url"]:
            found = _lowwater("findings", "reclaimable", "--data", status["data"])
            for row in found["rows"] if found else ():
                if row["bytes_likely"]:
                    with direct.open(status["url"], timeout=30):
                        return f"{row['topic']}-{row['partition']}: {row['bytes_likely']} bytes"
    return None


def _lowwater(*words: str) -> dict[str, Any] | None:
    done = subprocess.run([LOWWATER, *words, "--json"], capture_output=True, check=False)
    answer: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return answer


if __name__ == "__main__":
    sys.exit(main())
