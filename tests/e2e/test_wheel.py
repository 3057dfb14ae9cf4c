"""The wheel, installed away from the clone: its own pages are served and an analysis runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_server

pytestmark = [pytest.mark.browser, pytest.mark.spark]
ROOT = Path(__file__).parent.parent.parent
PACKED = ("dashboard", "analytics", "pages", "docs")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; the packages it depends on are borrowed from ours."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    home = folder / "elsewhere"
    venv.create(home, with_pip=False)
    site = next((home / "lib").glob("python*")) / "site-packages"
    # A path file is not followed twice, so our own editable install stays out of sight.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install",
         "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)],
        check=True,
    )  # fmt: skip
    return home


def build_wheel(folder: Path) -> Path:
    """Built from a copy: setuptools leaves folders behind where it builds."""
    source = folder / "source"
    for name in PACKED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        cwd=source,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(folder.glob("lowwater-*.whl"))


@pytest.mark.slow
def test_the_installed_wheel_serves_its_own_pages(elsewhere: Path, tmp_path: Path) -> None:
    sample_store.write(tmp_path / "data")
    environ = {
        "LOWWATER_DATA": str(tmp_path / "data"),
        "LOWWATER_STATE_DIR": str(tmp_path / "state"),
    }
    lowwater = (str(elsewhere / "bin" / "lowwater"),)

    with dashboard_server(environ, lowwater, cwd=tmp_path) as url, browser_page() as page:
        for name in ("", "reclaimable", "purge", "audit"):
            page.goto(f"{url}/{name}")
            page.locator(".lw-head").first.wait_for()
            assert "INTERNAL" not in page.content()

    screens = subprocess.run(
        [elsewhere / "bin" / "python", "-c", "import dashboard.screens as s; print(s.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert str(elsewhere) in screens


@pytest.mark.slow
def test_the_installed_wheel_analyzes_a_snapshot(elsewhere: Path, tmp_path: Path) -> None:
    sample_store.write(tmp_path / "data", "no-analysis")

    done = subprocess.run(
        [elsewhere / "bin" / "lowwater", "analyze", "--data", str(tmp_path / "data"), "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tables"]["reclaimable"] > 0


@pytest.mark.slow
def test_the_installed_wheel_runs_the_demo(elsewhere: Path, tmp_path: Path) -> None:
    """Nothing of a clone is near: brokers, workload, analysis and pages come from the wheel."""
    environ = {**os.environ, "LOWWATER_STATE_DIR": str(tmp_path / "state")}
    lowwater = elsewhere / "bin" / "lowwater"
    demo = subprocess.Popen(
        [lowwater, "demo", "up", "--json"], cwd=tmp_path, env=environ, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        ready = json.loads(demo.stdout.readline())
        assert "data" in ready, ready
        found = subprocess.run(
            [lowwater, "findings", "reclaimable", "--data", ready["data"], "--json"],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert any(row["bytes_likely"] for row in json.loads(found.stdout)["rows"])
        with urllib.request.urlopen(ready["url"], timeout=30) as answer:
            assert answer.status == 200
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130
    finally:
        demo.kill()
        demo.communicate()
    assert not Path(ready["settings"]).parent.exists()


def test_the_installed_wheel_writes_a_report(elsewhere: Path, tmp_path: Path) -> None:
    sample_store.write(tmp_path / "data")

    done = subprocess.run(
        [elsewhere / "bin" / "lowwater", "report", "--format", "html", "--out", "storage.html",
         "--data", str(tmp_path / "data"), "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert (tmp_path / "storage.html").stat().st_size == json.loads(done.stdout)["bytes"]
