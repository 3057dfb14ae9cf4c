"""Our Python packages as one file, for workers of a cluster that has none of them installed."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import dashboard
from dashboard.local_files import LocalFiles
from dashboard.snapshot_files import write_atomically

_PACKAGES = ("analytics", "dashboard")
_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # the file's name tells its content, and is the same again


def packed(folder: Path) -> Path:
    """A zip of our packages in `folder`, named for its content. Raises StoreError."""
    root = Path(str(dashboard.__file__)).parents[1]
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                entry = zipfile.ZipInfo(str(file.relative_to(root)), _SAME_TIME)
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    content = body.getvalue()
    path = folder / f"lowwater-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        write_atomically(LocalFiles(), str(path), content)
    return path
