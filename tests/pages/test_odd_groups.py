"""A group of 255 odd characters: every page shows it as text, and none of it is markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.conftest import Open, said
from tests.support import odd_store


@pytest.mark.parametrize("page", ["overview", "reclaimable", "purge", "quality"])
def test_a_group_of_255_odd_characters_is_text_on_every_page(
    open_page: Open, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(odd_store.ODD) == 255
    odd_store.write(tmp_path / "data", monkeypatch)

    app = open_page(page, variant=None)

    text = said(app)
    html = "\n".join(str(block.value) for block in app.html)
    assert "</script><b>" not in html
    assert "failed" not in text
    if page == "overview":
        assert "💧" in text
