"""What travels to workers: our packages, under a name that changes with their content."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import analytics
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


_LACKING = """
import sys
from importlib.metadata import packages_distributions

# pandas is asked for by pyarrow, which goes without it where it cannot be imported.
there = {"numpy", "pyarrow", "pandas", "pyspark", "py4j", "analytics", "dashboard"}
lacking = {*packages_distributions()} - there - {*sys.stdlib_module_names}
sys.modules.update(dict.fromkeys(lacking))
from analytics import archived, kernels, tasks
print({"dateutil", "msgspec", "platformdirs"} <= lacking, "pandas.core" in sys.modules)
"""


def test_tasks_need_numpy_and_pyarrow_and_nothing_else() -> None:
    """Whoever adds executors installs these two, as docs/spark-cluster.md says."""
    root = Path(str(analytics.__file__)).parents[1]
    words = [sys.executable, "-c", _LACKING]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True False"), done.stderr
