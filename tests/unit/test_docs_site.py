"""The site has every page once, and its first hour says nothing that the command line refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.settings import settings
from tests.support import first_hour
from tests.support.command_lines import parsed
from tools import docs_site

ROOT = Path(__file__).parents[2]
TOUR = Path("tests/e2e/test_tour_in_browser.py")


class _Plain(yaml.SafeLoader):
    """YAML whose tags of Python are left alone."""


_Plain.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages(part)


def test_the_navigation_has_every_page_once() -> None:
    site = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Plain)
    there = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert sorted(pages(site["nav"])) == there
    assert site["strict"] is True
    assert site["theme"]["font"] is False  # else every reader asks somebody else for letters


def test_the_site_has_the_icon_of_the_pages() -> None:
    here = (ROOT / "docs" / "images" / "icon.svg").read_bytes()
    assert here == (ROOT / "dashboard" / "ui" / "icon.svg").read_bytes()


def test_each_picture_is_shown_and_made_by_a_test() -> None:
    there = {path.stem for path in (ROOT / "docs" / "images").glob("*.png")}
    texts = [path.read_text("utf-8") for path in (*ROOT.glob("docs/*.md"), ROOT / "README.md")]
    assert {name for text in texts for name in re.findall(r"images/(\w+)\.png", text)} == there
    made = re.findall(r'"tour-([a-z]+)"', (ROOT / TOUR).read_text("utf-8"))
    (taken,) = re.findall(r"for name in ([a-z ]+); do", (ROOT / "Makefile").read_text("utf-8"))
    assert set(made) == set(taken.split()) == there


@pytest.mark.parametrize(
    ("on_github", "on_the_site"),
    [
        ("see [the rules](../deploy/x.yaml) and [a](b.md)", "see the rules and [a](b.md)"),
        ("It:\n- one\n- two", "It:\n\n- one\n- two"),
        ("It:\n| a |\n|---|", "It:\n\n| a |\n|---|"),
        ("- one\n  more\n- two", "- one\n  more\n- two"),
        ("# It\n| a |", "# It\n| a |"),
        ("```\nx\n- y [z](../w)\n```\ntext", "```\nx\n- y [z](../w)\n```\ntext"),
    ],
)
def test_what_github_shows_otherwise(on_github: str, on_the_site: str) -> None:
    assert docs_site.on_page_markdown(on_github) == on_the_site + "\n"


def test_every_command_of_the_first_hour_is_one() -> None:
    verbs = [parsed(words).verb for words in first_hour.commands()]
    assert verbs == [
        "doctor", "collect", "analyze", "findings", "findings", "watch", "dashboard", "plan",
        "preview", "apply", "runs",
    ]  # fmt: skip


def test_the_settings_of_the_first_hour_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text(first_hour.settings())
    declared = settings.load(file, environ={}).declaration("orders")
    assert declared is not None
    assert declared.readers == "groups"
