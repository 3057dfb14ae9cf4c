"""Where a soak lives: its folder, two small disks if they can be mounted, and its diary."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.brokers.starved_worker import BALLAST

DISKS_MB = {"state": 64, "data": 384}


@dataclass(slots=True)
class Place:
    """The soak's folder. `disks` are those of `state` and `data` that are mounts of their own."""

    folder: Path
    disks: dict[str, Path] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def seconds(self) -> float:
        """Since the clock was set to zero."""
        return time.monotonic() - self.began

    def environ(self) -> dict[str, str]:
        """What the demo and every command of the soak see."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LOWWATER_")}
        for name in ("LOWWATER_CACHE_DIR", "LOWWATER_KAFKA_VERSION"):
            if name in os.environ:
                kept[name] = os.environ[name]
        own = {"LOWWATER_STATE_DIR": str(self.state), "TMPDIR": str(self.folder / "tmp")}
        return {**kept, **own, "LOWWATER_DATA": str(self.data)}

    def note(self, kind: str, **what: Any) -> None:
        """Add one line to the diary (`diary.jsonl`), from any thread."""
        line = json.dumps({"at": round(self.seconds, 1), "kind": kind, **what}, allow_nan=False)
        with self._lock, (self.folder / "diary.jsonl").open("a") as diary:
            diary.write(line + "\n")

    def diary(self, *kinds: str) -> list[dict[str, Any]]:
        """The diary's lines of these kinds, in order."""
        file = self.folder / "diary.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [line for line in lines if line["kind"] in kinds]


def furnish(folder: Path, ending: ExitStack) -> Place:
    """Make the folders; `state` and `data` become small disks where this machine allows it."""
    place = Place(folder.resolve())
    for name in ("state", "data", "tmp", "plans", "logs"):
        (place.folder / name).mkdir(parents=True)
    for name, size in DISKS_MB.items():
        target = place.folder / name
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(target)]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            place.disks[name] = target
            ending.callback(_unmount, place, name)
    return place


def free(disk: Path) -> None:
    """Remove what filled a disk."""
    (disk / BALLAST).unlink(missing_ok=True)


def _unmount(place: Place, name: str) -> None:
    """Keep the journal beside the mount, then let the disk go."""
    disk = place.disks[name]
    free(disk)
    if name == "state":
        kept = place.folder / "kept-state"
        subprocess.run(["cp", "-a", str(disk), str(kept)], check=False)
    subprocess.run(["umount", "--lazy", str(disk)], check=False)
