"""The help panel's words are the documentation's; times are the reader's, with UTC beside them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st

from dashboard.ui.components import glossary, markup

DOCS = Path(__file__).parents[3] / "docs" / "glossary.md"
AT = datetime(2026, 3, 1, 4, tzinfo=UTC)
NEEDED = (  # the terms of which a review said that no page explains them
    "waiver", "low watermark", "freed at once", "freed later", "guard", "snapshot", "findings",
    "inventory", "estimator", "blocker",
)  # fmt: skip


def test_the_panel_has_every_row_of_the_documents_tables() -> None:
    rows = re.findall(r"^\| (?!term |--)", DOCS.read_text("utf-8"), re.MULTILINE)
    assert len(glossary.terms()) == len(rows) > 30
    assert not [t for t in glossary.terms() if re.search(r"[`*\]]\(?", t.means + t.word)]


@pytest.mark.parametrize("word", NEEDED)
def test_a_term_tells_on_hover_what_it_means(word: str) -> None:
    assert re.search('<abbr title="[^"]{20,}">shown</abbr>', glossary.term("shown", word))


def test_a_part_of_a_word_or_of_its_meaning_finds_it() -> None:
    assert [t.word for t in glossary.matching(" Waive")] == ["dead group", "gone", "waiver"]
    assert glossary.matching("no such word") == []
    assert glossary.matching("") == [*glossary.terms()]


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berlin", "2026-03-01 05:00:00 CET, 2026-03-01 04:00:00 UTC"),
        ("America/New_York", "2026-02-28 23:00:00 EST, 2026-03-01 04:00:00 UTC"),
        ("Africa/Abidjan", "2026-03-01 04:00:00 UTC"),
        (None, "2026-03-01 04:00:00 UTC"),
        ("No/Such/Zone", "2026-03-01 04:00:00 UTC"),
    ],
)
def test_a_time_is_told_in_the_readers_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str | None, said: str
) -> None:
    monkeypatch.setattr(st, "context", SimpleNamespace(timezone=zone))
    assert markup.exact(AT) == said
    assert said in markup.ago(AT, AT)
