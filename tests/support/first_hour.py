"""The commands of docs/first-hour.md, in their order, as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "first-hour.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The words behind `lowwater` of every command."""
    text = PAGE.read_text(encoding="utf-8")
    lines = [
        line for kind, block in _BLOCK.findall(text) if not kind for line in block.splitlines()
    ]
    return [shlex.split(line)[1:] for line in lines if line.startswith("lowwater ")]


def settings() -> str:
    """The TOML that a reader is told to write."""
    (found,) = (block for kind, block in _BLOCK.findall(PAGE.read_text("utf-8")) if kind == "toml")
    return str(found)
