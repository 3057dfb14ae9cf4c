"""Builds the container image `lowwater:VERSION` of the commit that is checked out.

Usage: python -m tools.image [FLAG…]   FLAGS go to the builder: buildah, podman or docker, the first
that is there. What is not committed is not in it; packages are those of requirements.txt that are
needed to run, held to their hashes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools import sbom, wheel

BUILDERS = ("buildah", "podman", "docker")
CONTAINERFILE = wheel.ROOT / "deploy" / "container" / "Containerfile"


def name() -> str:
    """The image's name and tag: the version of the package."""
    project = tomllib.loads((wheel.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return f"lowwater:{project['project']['version']}"


def lay(folder: Path) -> None:
    """Put into `folder` all that the image is built from."""
    wheel.build(folder)
    (folder / "run.txt").write_text(sbom.run_pins(), encoding="utf-8")
    shutil.copy(CONTAINERFILE, folder / "Containerfile")


def main(flags: Sequence[str]) -> str | None:
    """What went wrong; None when the image is there."""
    builder = next((each for each in BUILDERS if shutil.which(each)), None)
    if builder is None:
        return f"none of {', '.join(BUILDERS)} is installed; on Debian: apt-get install buildah"
    with tempfile.TemporaryDirectory() as folder:
        lay(Path(folder))
        words = [builder, "build", "--file", f"{folder}/Containerfile", "--tag", name()]
        subprocess.run([*words, *flags, folder], check=True)
    print(name())
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
