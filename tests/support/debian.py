"""Programs of Debian's packages, unpacked into the cache folder: none is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from platformdirs import user_cache_path


def program(name: str, package: str, path: str) -> str:
    """`name` as this machine has it, else the file `path` of Debian's `package`.

    Skips the test where there is neither: another system, or no package list.
    """
    if found := shutil.which(name):
        return found
    folder = user_cache_path("lowwater") / "debian" / package
    unpacked = folder / path
    if unpacked.is_file():
        return str(unpacked)
    if not shutil.which("apt-get"):
        pytest.skip(f"{name} is not installed, and there is no apt-get to fetch it")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["apt-get", "download", package], cwd=folder, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    packed = sorted(Path(folder).glob("*.deb"))
    if done.returncode or not packed:
        pytest.skip(f"{package} cannot be fetched: {done.stderr.strip()[-200:]}")
    subprocess.run(["dpkg-deb", "--extract", packed[-1], folder], check=True, timeout=120)
    return str(unpacked)
