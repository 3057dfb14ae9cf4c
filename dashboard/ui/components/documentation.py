"""The documentation that came with this very release: its pages by title, and their texts."""

from __future__ import annotations

import functools
import re
from pathlib import Path

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


def text(name: str) -> str:
    """A page as Markdown for reading here: a link to another page becomes that page's title."""
    raw = (FOLDER / f"{name}.md").read_text("utf-8")
    by_name = {stem: title for title, stem in titles().items()}

    def told(link: re.Match[str]) -> str:
        title = by_name.get(Path(link[2].partition("#")[0]).stem) if link[2] else None
        said = link[1].strip("`")
        return said if title is None or title.lower() == said.lower() else f"{said} (*{title}*)"

    return _INSIDE.sub(told, _IMAGE.sub("", raw))
