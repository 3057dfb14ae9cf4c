"""The documentation that a release carries: every page by its title, readable by itself."""

from __future__ import annotations

import re

import pytest

from dashboard.ui.components import glossary


def test_every_page_has_a_title_of_its_own() -> None:
    names = {path.stem for path in glossary.FOLDER.glob("*.md")}
    assert set(glossary.titles().values()) == names
    assert glossary.titles()["Purging safely"] == "purging"


@pytest.mark.parametrize("name", sorted(glossary.titles().values()))
def test_no_link_of_a_page_leads_to_a_file(name: str) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", glossary.page(name), flags=re.DOTALL)
    assert re.findall(r"\]\((?!https?:)", text) == []
    assert "![" not in text
    assert "$" not in text  # the pages would set it as a formula


def test_a_link_becomes_the_title_of_where_it_leads() -> None:
    assert "*Guards" in glossary.page("purging")
