"""What the page server holds before anybody looks, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SERVED = """
import gc, sys
import dashboard.web
print(gc.get_freeze_count() > 100_000, "fontTools" in sys.modules)
"""


def test_modules_are_passed_over_when_garbage_is_looked_for_and_fonts_are_cut_elsewhere(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _SERVED], capture_output=True, text=True, check=True,
        env={**os.environ, "LOWWATER_DATA": str(tmp_path)}, timeout=240,
    )  # fmt: skip
    assert ended.stdout.split() == ["True", "False"]
