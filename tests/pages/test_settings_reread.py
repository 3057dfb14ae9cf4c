"""The pages obey a settings file that is edited while they are open, and say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.conftest import Open, said

POLICY = """
[policies.{name}]
topics = ["orders*"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "lowwater.toml"
    found.write_text(POLICY.format(name="early"))
    monkeypatch.setenv("LOWWATER_SETTINGS", str(found))
    return found


def test_a_policy_that_is_written_is_shown_by_the_next_look(open_page: Open, file: Path) -> None:
    app = open_page("policies")
    assert "switch on policy early on prod-eu" in said(app)
    file.write_text(POLICY.format(name="later"))
    text = said(app.run())
    assert "switch on policy later on prod-eu" in text
    assert "early" not in text


@pytest.mark.further_but("overview", "purge")
@pytest.mark.parametrize("page", ["overview", "purge", "policies", "audit"])
def test_a_file_that_is_wrong_by_now_is_what_every_page_shows(
    open_page: Open, file: Path, page: str
) -> None:
    app = open_page(page)
    whole = file.read_text()
    file.write_text(whole + "\n[purge]\nmost_partitions = 0\n")
    text = said(app.run())
    assert "A setting cannot be used" in text
    assert "most_partitions" in text
    assert str(file) in text
    assert not [button for button in app.button if not button.disabled]
    file.write_text(whole)
    assert "A setting cannot be used" not in said(app.run())
