"""What README and docs point to is there: files, headings, commands with their options, rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dashboard.cli.main import VERBS

ROOT = Path(__file__).parents[2]
TEXTS = {
    path: path.read_text("utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
    if path.name != "CHANGELOG.md"  # it tells of what was there then
}
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_LED = r"(?:time |sudo |\$ |[A-Z_]+=\S+ )*"  # what may stand before a command


def _commands(name: str) -> Iterator[tuple[str, list[str]]]:
    """The text, and the words behind NAME, of each command line that begins with it."""
    for path, text in TEXTS.items():
        for block, span in _CODE.findall(text):
            for line in re.split(r"[\n;&|]+", (block or span).replace("\\\n", " ")):
                if found := re.match(rf"\s*{_LED}{name}\s+(.+)", line):
                    yield path.name, found[1].split("#")[0].split()


def _anchors(text: str) -> set[str]:
    """A heading's own link, as GitHub makes it, and places that were named by hand."""
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    named = re.findall(r'<a id="([^"]+)">', text)
    return {re.sub(r"[^\w\- ]", "", h).strip().replace(" ", "-") for h in plain} | {*named}


def test_a_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    links = [(p, *found) for p, text in TEXTS.items() for found in _LINK.findall(text)]
    assert sum(bool(anchor) for _, _, anchor in links) > 20
    wrong = []
    for path, to, anchor in links:
        if "://" in to:
            continue
        file = (path.parent / to).resolve() if to else path
        if not file.exists() or (anchor and anchor not in _anchors(file.read_text("utf-8"))):
            wrong.append(f"{path.name}: {to}#{anchor}")
    assert wrong == []


def test_a_target_of_make_is_one() -> None:
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = [(text, word) for text, words in _commands("make") for word in words[:1]]
    assert len(named) > 30
    assert [each for each in named if each[1] not in there] == []


def test_a_module_that_is_called_is_there_and_has_the_options() -> None:
    called = [found for found in _commands("(?:python|PYTHON) -m") if "." in found[1][0]]
    assert len(called) > 15
    wrong = []
    for text, (module, *words) in called:
        path = ROOT / module.replace(".", "/")
        files = [f for f in (path.with_suffix(".py"), path / "__main__.py") if f.is_file()]
        source = "".join(file.read_text("utf-8") for file in files)
        options = [word for word in words if word.startswith("--")]
        if not files or any(f'"{option}"' not in source for option in options):
            wrong.append((text, module, options))
    assert wrong == []


def test_a_verb_of_the_command_line_is_one() -> None:
    named = [(text, words[0]) for text, words in _commands("lowwater")]
    assert len(named) > 100
    assert [each for each in named if re.match(r"[a-z]", each[1]) and each[1] not in VERBS] == []


def test_the_picture_of_the_rooms_shows_all_and_none_that_is_gone() -> None:
    """A room that is new, or was renamed, stands in docs/architecture.md on the same day."""
    text = TEXTS[ROOT / "docs" / "architecture.md"]
    picture = text.partition("## Rooms")[2].partition("```")[2].partition("```")[0]
    drawn = set(re.findall(r"(\w+)/", picture))
    rooms = {init.parent.name for init in ROOT.glob("dashboard/*/__init__.py")}
    beside = {path.parent.name for path in ROOT.glob("analytics/*/__init__.py")}
    roots = {"dashboard", "analytics", "pages"}
    assert drawn == rooms | beside | roots
