"""No text of the repository holds what a merge left open."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
OPEN = re.compile(r"^(<{7}|>{7}|\|{7}) ", re.MULTILINE)


def test_no_text_holds_both_sides_of_a_merge() -> None:
    texts = [ROOT / "Makefile"]
    for kind in ("*.md", "docs/*.md", "tools/*.py", "tools/*.sh"):
        texts += ROOT.glob(kind)
    assert len(texts) > 30
    assert [path.name for path in texts if OPEN.search(path.read_text(encoding="utf-8"))] == []
