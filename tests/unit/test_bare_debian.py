"""Where the bare Debian cannot be made, that is said aloud, and CI does not take it for a pass."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "tools" / "bare_debian.sh"
# What each stands in for: another user, a package list out of reach, a package that is nowhere.
LACKS = {
    "root": {"id": "echo 1000"},
    "apt-get update": {"id": "echo 0", "apt-get": "exit 100"},
    "debootstrap": {"id": "echo 0", "apt-get": 'case "$*" in *install*) exit 100;; esac'},
}


def run(
    tmp_path: Path, programs: dict[str, str], **environ: str
) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (folder / "dirname").symlink_to("/usr/bin/dirname")
    return subprocess.run(
        ["/bin/sh", SCRIPT], env={"PATH": str(folder), **environ}, check=False,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("lacking", LACKS)
def test_what_cannot_be_tried_is_told_and_fails_in_ci(tmp_path: Path, lacking: str) -> None:
    for name, environ, code in (("own", {}, 0), ("ci", {"CI": "true"}, 1)):
        (tmp_path / name).mkdir()
        done = run(tmp_path / name, LACKS[lacking], **environ)

        assert done.returncode == code
        first, second = done.stderr.splitlines()
        assert first.startswith("bare Debian: NOT RUN: ")
        assert lacking in first
        assert second == (
            "bare Debian: NOT RUN: README's two commands were not tried on a bare Debian 12"
        )
