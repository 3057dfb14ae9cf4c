"""Runs the shell script on a host whose path has nothing but the tools that it names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dashboard.orphans.sweep.script import Script, write_script
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.verdicts import Verdict
from tests.unit.orphans.sweep_host import Host

SHELL = shutil.which("dash") or "sh"
TOOLS = (
    "date", "find", "grep", "id", "ls", "mkdir", "mktemp", "mv", "rm", "rmdir", "sed", "stat",
    "sync", "touch", "tr",
)  # fmt: skip


def script(host: Host, *rows: Verdict) -> Script:
    options = Options((str(host.log_dir),))
    return write_script(host.verdicts(*rows), options, host.live, host.now)


def tools(host: Host) -> Path:
    """The folder of tools, each a link to the machine's own."""
    folder = host.folder.parent / "tools"
    if not folder.exists():
        folder.mkdir()
        for tool in TOOLS:
            (folder / tool).symlink_to(str(shutil.which(tool)))
    return folder


def hook(host: Host, tool: str, commands: str, *, after: bool = False) -> None:
    """Who waits for the moment a tool runs: `commands` of sh come before it or `after`, once."""
    real, folder = str(shutil.which(tool)), tools(host)
    done = folder / f"{tool}.done"
    acts = f"(PATH=/usr/bin:/bin; {commands})"
    once = f'{real} "$@"; code=$?; {acts}; exit $code' if after else acts
    (folder / tool).unlink()
    (folder / tool).write_text(
        f'#!/bin/sh\n[ -e {done} ] || {{ : >{done}; {once}; }}\nexec {real} "$@"\n'
    )
    (folder / tool).chmod(0o755)


def run(host: Host, text: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Nothing but these tools is on the path, as on a host with busybox alone."""
    return subprocess.run(
        [SHELL, "-s", "--", *words], input=text, capture_output=True, text=True, check=False,
        timeout=240, env={"PATH": str(tools(host)), **environ}, cwd=host.folder,
        start_new_session=True,
    )  # fmt: skip
