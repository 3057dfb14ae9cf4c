"""Builds the wheel of the commit that is checked out, byte for byte the same anywhere.

Usage: python tools/wheel.py [OUT]  (default dist/). What is not committed is not in it. Times come
from the commit, modes from us; the backend is the setuptools that requirements.txt pins.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(out: Path, revision: str = "HEAD") -> Path:
    """The wheel of a revision of this clone, in `out`. Raises subprocess.CalledProcessError."""
    out.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o022)  # modes of files travel in the wheel
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            # Not a tar: Python 3.11.4 was the first to filter those, and 3.12 warns without.
            with zipfile.ZipFile(io.BytesIO(_git("archive", "--format=zip", revision))) as files:
                files.extractall(source)
            built = Path(folder) / "built"
            subprocess.run(
                [sys.executable, "-m", "build", "--wheel", "--no-isolation",
                 "--outdir", str(built), str(source)],
                check=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct", revision)
                     .decode().strip()},
            )  # fmt: skip
            wheel = next(built.glob("*.whl"))
            return Path(shutil.copy(wheel, out))
    finally:
        os.umask(before)


def _git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True
    ).stdout


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")))
