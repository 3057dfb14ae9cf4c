"""What Help opens: the words, and the documentation of this very release."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.pages.conftest import said


def panel() -> None:
    from dashboard.ui.components import glossary

    glossary.panel()


def test_help_finds_a_word_and_opens_a_page_of_the_documentation() -> None:
    app = AppTest.from_function(panel, default_timeout=280).run()
    app.text_input(key="lw-word").set_value("waiver").run()
    assert "<b>waiver</b>" in said(app)
    app.text_input(key="lw-word").set_value("no such word").run()
    assert "<b>waiver</b>" not in said(app)
    app.selectbox(key="lw-docs").set_value("Purging safely").run()
    assert "Deleting records cannot be undone" in said(app)
