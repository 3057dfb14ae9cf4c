"""What travels to workers: our packages, under a name that changes with their content."""

from __future__ import annotations

import zipfile
from pathlib import Path

from analytics.session.session import packed


def test_the_same_packages_are_the_same_file(tmp_path: Path) -> None:
    found = packed(tmp_path / "python")
    written = found.stat().st_mtime_ns
    assert packed(tmp_path / "python") == found
    assert found.stat().st_mtime_ns == written
    assert [*found.parent.iterdir()] == [found]
    names = zipfile.ZipFile(found).namelist()
    assert {"analytics/__init__.py", "analytics/tasks.py", "dashboard/store/buckets.py"} <= {*names}
    assert {name.split("/")[0] for name in names} == {"analytics", "dashboard"}
