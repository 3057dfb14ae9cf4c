"""Runs notebooks and keeps what they show, each plot with a picture for readers without scripts.

`make notebooks` does it for all of them, with the data that LOWWATER_DATA names, the plan
that PLAN names and the archive that ARCHIVE names. GitHub shows stored outputs only, and of a plot
only a PNG: Chromium draws it from the plot's own data, within a time limit and without any network.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

if TYPE_CHECKING:  # slow to import; who only looks at stored outputs needs none of it
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent.parent / "notebooks"
PLOT, PICTURE = "application/vnd.plotly.v1+json", "image/png"
_CELL_SECONDS, _PICTURE_SECONDS = 300, 60
_WIDTH, _HEIGHT, _SCALE = 960, 440, 1.5
_ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
# A path of the machine that ran it says nothing to a reader, and may say too much.
_MACHINE_PATH = re.compile(r"/(?:home|root|tmp|work|opt|private|Users|mnt|srv)/[^\s'\"<]*")
_DRAW = """async ([plot, width, height, scale]) => {
  const place = document.body.appendChild(document.createElement("div"));
  const layout = {...plot.layout, width, height, margin: {t: 16, r: 16, b: 48, l: 48}};
  await Plotly.newPlot(place, plot.data, layout);
  window.picture = await Plotly.toImage(place, {format: "png", width, height, scale});
}"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named notebooks (all by default) and store their outputs; 1 if one cannot be kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    chosen = parser.parse_args(argv).notebooks or sorted(FOLDER.glob("*.ipynb"))
    for path in chosen:
        notebook = run(nbformat.read(path, as_version=4))
        if found := machine_paths(notebook):
            print(f"{path.name} shows a path of this machine: {found[0]}", file=sys.stderr)
            return 1
        nbformat.write(notebook, path)
        print(f"{path.name}: {len(pictures(notebook))} pictures", file=sys.stderr)
    return 0


def run(notebook: Any) -> Any:
    """The notebook with the outputs of a run in a kernel of its own. Raises CellExecutionError."""
    _executed(notebook)
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        # What Java says when it starts is no result.
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    with _browser() as page:
        for data in _bundles(notebook):
            if PLOT in data:
                data[PICTURE] = _drawn(page, data[PLOT])
    notebook.metadata["language_info"] = {"name": "python"}  # not this machine's own version
    notebook.metadata["ran"] = {"code_sha256": code_sha256(notebook)}
    return notebook


def _executed(notebook: Any) -> None:
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient

    environ = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"}
    # Sockets in a folder of our own: by default the kernel listens on TCP without encryption.
    with tempfile.TemporaryDirectory() as folder:
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        client = NotebookClient(notebook, manager, timeout=_CELL_SECONDS, record_timing=False)
        client.execute(env=environ)


def code_sha256(notebook: Any) -> str:
    """The digest of all code cells: stored outputs are of this code, or stale."""
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256("\0".join(cells).encode()).hexdigest()


def pictures(notebook: Any) -> list[str]:
    """The stored PNGs, base64."""
    return [data[PICTURE] for data in _bundles(notebook) if PICTURE in data]


def texts(notebook: Any) -> list[str]:
    """All text of the stored outputs, plots' data among it, without the pictures."""
    found = [str(o.get("text", "")) for o in _outputs(notebook)]
    bundles = [{k: v for k, v in data.items() if k != PICTURE} for data in _bundles(notebook)]
    return found + [str(value) for data in bundles for value in data.values()]


def machine_paths(notebook: Any) -> list[str]:
    """Absolute paths in the stored outputs."""
    return [match for text in texts(notebook) for match in _MACHINE_PATH.findall(text)]


def _outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from cell.get("outputs", ())


def _bundles(notebook: Any) -> Iterator[dict[str, Any]]:
    return (output["data"] for output in _outputs(notebook) if "data" in output)


@contextmanager
def _browser() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright
    from plotly.offline import get_plotlyjs

    executable = shutil.which("chromium")
    if executable is None:
        raise SystemExit("Chromium draws the pictures and is missing: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=_ARGUMENTS, timeout=_PICTURE_SECONDS * 1000
        )
        try:
            page = browser.new_page(offline=True)
            page.add_script_tag(content=get_plotlyjs())
            yield page
        finally:
            browser.close()


def _drawn(page: Page, plot: Any) -> str:
    """A plot as a PNG in base64. Raises playwright's TimeoutError when it takes too long."""
    page.evaluate("([draw, given]) => { window.picture = null; eval(draw)(given) }",
                  [_DRAW, [plot, _WIDTH, _HEIGHT, _SCALE]])  # fmt: skip
    page.wait_for_function("window.picture", timeout=_PICTURE_SECONDS * 1000)
    return str(page.evaluate("window.picture")).partition(",")[2]


if __name__ == "__main__":
    sys.exit(main())
