"""`make notebooks` on a small one: a kernel runs it, Chromium draws what it plots."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import notebooks

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PLOT = """
import sys
import plotly.graph_objects as go
print("noise", file=sys.stderr)
go.Figure(go.Bar(x=[1, 2], y=["a", "b"])).show()
"""


def written(path: Path, *sources: str) -> Path:
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    return path


def stored(path: Path) -> subprocess.CompletedProcess[str]:
    """As make does it; nbclient leaves sockets to the end of its process."""
    program = notebooks.FOLDER.parent / "tools" / "notebooks.py"
    return subprocess.run(
        [sys.executable, str(program), str(path)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def outputs(path: Path) -> list[Any]:
    return [o for cell in nbformat.read(path, as_version=4).cells for o in cell.outputs]


def test_a_plot_is_stored_as_data_and_as_a_picture(tmp_path: Path) -> None:
    path = written(tmp_path / "plots.ipynb", PLOT, "41 + 1")
    done = stored(path)
    assert done.returncode == 0, done.stderr
    plot, number = outputs(path)
    assert set(plot.data) == {notebooks.PLOT, notebooks.PICTURE}
    png = base64.b64decode(plot.data[notebooks.PICTURE])
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 1440  # its width, after the signature and IHDR
    assert number.data == {"text/plain": "42"}
    again = nbformat.read(path, as_version=4)
    assert again.metadata["ran"]["code_sha256"] == notebooks.code_sha256(again)


def test_a_path_of_the_machine_is_not_stored(tmp_path: Path) -> None:
    path = written(tmp_path / "paths.ipynb", "print('/home/ann/data')")
    done = stored(path)
    assert done.returncode == 1
    assert "/home/ann/data" in done.stderr
    assert outputs(path) == []
