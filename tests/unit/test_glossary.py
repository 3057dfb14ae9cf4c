"""The glossary has every word of the contract: states, modes, verdicts, kinds of orphans."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.domain import acts
from dashboard.domain.model import MODES
from dashboard.purge.journal import rows

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text("utf-8")
WORDS = (
    *rows.OPEN_RUN_STATES, *rows.CLOSED_RUN_STATES, *rows.OPEN_STATES, *rows.CLOSED_STATES,
    *acts.KINDS, *acts.VERDICTS, *MODES,
)  # fmt: skip


@pytest.mark.parametrize("word", sorted(set(WORDS)))
def test_a_word_of_the_contract_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE
