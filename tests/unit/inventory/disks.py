"""Hand-made log dirs, and both ways to take stock of them."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from dashboard.inventory import listing, loading, scan
from dashboard.inventory.listing import shell_line
from dashboard.inventory.recorder import Recorder

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
TOPIC_ID = "abcdefghijklmnopqrstuv"


class Disk:
    """One log dir of broker 1 of cluster C."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        (path / "meta.properties").write_text(
            "#a comment\nversion=1\ncluster.id=C\nnode.id=1\ndirectory.id=D\n"
        )

    def folder(self, name: str, topic_id: str | None = TOPIC_ID) -> Path:
        folder = self.path / name
        folder.mkdir()
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        return folder

    def segment(self, folder: Path, base_offset: int, size: int = 100) -> Path:
        """A `.log` of `size` bytes beside empty index files; returns the time index.

        It holds one batch of ten records, or what is none where that does not fit.
        """
        found = batch(base_offset, 10, size) if size >= 61 else b"x" * size
        (folder / f"{base_offset:020}.log").write_bytes(found)
        (folder / f"{base_offset:020}.index").touch()
        (folder / f"{base_offset:020}.timeindex").touch()
        return folder / f"{base_offset:020}.timeindex"


def batch(first: int, records: int, size: int = 100, magic: int = 2) -> bytes:
    """The bytes of one record batch, whose records nobody reads."""
    offset = first if magic == 2 else first + records - 1  # a compressed one of old bears its last
    head = struct.pack(">qiibIhi", offset, size - 12, 0, magic, 0, 0, records - 1)
    return head.ljust(size, b"x")


def scanned(out: Path, *disks: Path, broker: int = 1) -> loading.Inventory:
    log_dirs = [str(disk) for disk in disks]
    with Recorder(str(out), broker, log_dirs, newest_from=scan.NEWEST_FROM) as recorder:
        scan.scan(log_dirs, recorder, now=lambda: NOW)
        recorder.finish()
    return loading.load(str(out))


def listed(log_dirs: Sequence[str | Path], **options: Any) -> bytes:
    """What the shell line prints, run by sh."""
    line = shell_line([str(log_dir) for log_dir in log_dirs])
    done = subprocess.run(
        ["sh"], input=line.encode(), capture_output=True, check=True, timeout=60, **options
    )
    return done.stdout


def read(out: Path, text: bytes, broker: int = 1) -> loading.Inventory:
    lines = listing.Lines(BytesIO(text))
    log_dirs = listing.read_header(lines)
    with Recorder(str(out), broker, log_dirs, newest_from=listing.NEWEST_FROM) as recorder:
        listing.read(lines, log_dirs, recorder)
        recorder.finish()
    return loading.load(str(out))


def segments(inventory: loading.Inventory) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = inventory.tables["segments"].to_pylist()
    return sorted(rows, key=lambda r: (r["log_dir"], r["directory"], r["base_offset"] or -1))


def comparable(inventory: loading.Inventory) -> list[Any]:
    """All rows without what may differ: when, how newest is known, and what only a scan reads."""
    differing = ("newest_at", "scanned_at", "log_end_offset")
    rows = [{k: v for k, v in row.items() if k not in differing} for row in segments(inventory)]
    return rows + sorted(map(str, inventory.tables["checkpoints"].to_pylist()))


def gaps(inventory: loading.Inventory) -> dict[str, str]:
    """Path -> reason."""
    return {gap.path: gap.reason for gap in inventory.summary.gaps}
