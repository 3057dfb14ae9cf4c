"""What the stored notebooks show on GitHub: their own results, pictures, nothing of a machine."""

from __future__ import annotations

import base64
from typing import Any

import nbformat
import pytest

from tools import notebooks

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    return nbformat.read(request.param, as_version=4)


def outputs(notebook: Any) -> list[Any]:
    return [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]


def test_there_is_one_for_each_question() -> None:
    assert [path.stem for path in PATHS] == [
        "followers", "orphans", "purge_preview", "reclaim", "what_did_we_delete",
    ]  # fmt: skip


def test_every_plot_has_a_picture_and_nothing_that_github_would_prefer(notebook: Any) -> None:
    plots = [o.data for o in outputs(notebook) if notebooks.PLOT in o.get("data", {})]
    assert plots
    for data in plots:
        assert base64.b64decode(data[notebooks.PICTURE]).startswith(PNG)
        assert set(data) == {notebooks.PLOT, notebooks.PICTURE}


def test_outputs_are_those_of_the_code_beside_them(notebook: Any) -> None:
    assert notebook.metadata["ran"]["code_sha256"] == notebooks.code_sha256(notebook), (
        "the code has changed since it ran: make notebooks"
    )
    ran = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert ran == list(range(1, len(ran) + 1))


def test_outputs_hold_no_path_no_error_and_no_noise(notebook: Any) -> None:
    assert notebooks.machine_paths(notebook) == []
    assert {o.output_type for o in outputs(notebook)} <= {"display_data", "execute_result"}
    assert not any("object at 0x" in text for text in notebooks.texts(notebook))


def test_three_lines_open_the_tables(notebook: Any) -> None:
    nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert code[1] == "import analytics as lw\n\ncluster = lw.open(DATA)\ncluster"


def test_a_changed_cell_is_stale(notebook: Any) -> None:
    before = notebooks.code_sha256(notebook)
    text = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    text.source += " more"
    assert notebooks.code_sha256(notebook) == before
    notebook.cells[-2].source += "\n1"
    assert notebooks.code_sha256(notebook) != before


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("['/tmp/room/broker-1/logs']", ["/tmp/room/broker-1/logs"]),
        ("file:///home/ann/data", ["/home/ann/data"]),
        ("broker-1/logs of ../docs/work", []),
    ],
)
def test_paths_of_a_machine_are_found(text: str, found: list[str]) -> None:
    shown = nbformat.v4.new_output("display_data", {"text/html": text})
    one = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[shown])])
    assert notebooks.machine_paths(one) == found
    said = nbformat.v4.new_output("stream", text=text)
    two = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[said])])
    assert notebooks.machine_paths(two) == found
