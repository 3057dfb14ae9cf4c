"""The words of the pages: the documentation's own glossary, as a panel and on hover; and the
documentation that came with this very release, its pages by title, and their texts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dashboard.ui.components import markup

_PACKAGE = Path(__file__).parents[2]
# In a clone they stand beside the package; the wheel carries them as dashboard/docs.
FOLDER = next(
    f for f in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if (f / "index.md").is_file()
)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_INSIDE = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]*)\)")


@functools.cache
def titles() -> dict[str, str]:
    """Title to file name without `.md`, sorted by title."""
    found = {
        path.read_text("utf-8").splitlines()[0].removeprefix("# "): path.stem
        for path in FOLDER.glob("*.md")
    }
    return dict(sorted(found.items()))


def page(name: str) -> str:
    """A page as Markdown for reading here: a link to another page becomes that page's title."""
    raw = (FOLDER / f"{name}.md").read_text("utf-8")
    by_name = {stem: title for title, stem in titles().items()}

    def told(link: re.Match[str]) -> str:
        title = by_name.get(Path(link[2].partition("#")[0]).stem) if link[2] else None
        said = link[1].strip("`")
        return said if title is None or title.lower() == said.lower() else f"{said} (*{title}*)"

    return _INSIDE.sub(told, _IMAGE.sub("", raw))


_FILE = Path(__file__).parents[1] / "glossary.md"  # in a clone a link to the one in docs
_HOW = (
    "Every number is of the snapshot that the header names, over all replicas unless it says "
    "otherwise. Rest on one that is underlined with dots: it tells all digits, or the exact time "
    "in your zone and in UTC. Nothing on these pages changes the cluster but a purge whose "
    "sentence you typed; its plan shows first what would be lost, and by whom."
)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*`]")


class Term(NamedTuple):
    """A word, under which heading it stands, and what it means: plain text."""

    heading: str
    word: str
    means: str


@functools.cache
def terms() -> tuple[Term, ...]:
    """Every row of the glossary's tables, in its order."""
    found, heading = [], ""
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        cells = [_plain(cell) for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "term":
            found.append(Term(heading, *cells))
    return tuple(found)


def _plain(cell: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", cell)).strip()


def term(shown: str, word: str | None = None) -> str:
    """HTML: the word with what it means on hover. `word`: as the glossary has it, if otherwise."""
    wanted = word or shown
    return markup.hover(shown, next(t.means for t in terms() if wanted in t.word.split(", ")))


def matching(typed: str) -> list[Term]:
    """Those that hold the text, in any case, or whose meaning does."""
    wanted = typed.strip().lower()
    return [t for t in terms() if wanted in f"{t.word} {t.means}".lower()]


def rows_html(found: Sequence[Term]) -> str:
    """A table for each heading."""
    shown = []
    for heading in dict.fromkeys(t.heading for t in found):
        rows = [
            (f"<b>{markup.text(t.word)}</b>", markup.text(t.means))
            for t in found
            if t.heading == heading
        ]
        shown.append(f"<h3>{markup.text(heading)}</h3>{markup.table(('Word', 'Means'), rows)}")
    return f'<div class="lw">{"".join(shown)}</div>'


def panel() -> None:
    """How to read the pages, and every word; a box finds one."""
    st.html(f'<div class="lw"><p>{_HOW}</p></div>')
    typed = st.text_input("Find a word", key="lw-word", placeholder="such as: waiver")
    if found := matching(typed):
        st.html(rows_html(found))
    else:
        st.caption("No word like that. The documentation has a page for each subject: below.")
    read()


def read() -> None:
    """The documentation of this very release, a page at a time."""
    pages = titles()
    chosen = st.selectbox(
        "Read the documentation", list(pages), index=None, key="lw-docs",
        placeholder="such as: Purging safely",
    )  # fmt: skip
    if chosen is not None:
        with st.container(border=True):
            st.markdown(page(pages[chosen]))
