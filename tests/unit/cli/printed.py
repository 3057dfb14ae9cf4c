"""What a command prints as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.cli.main import main


def answer(capsys: pytest.CaptureFixture[str], *words: str, exit_code: int = 0) -> dict[str, Any]:
    """Run a command with `--json`; its object, and that it ended with this code."""
    assert main([*words, "--json"]) == exit_code
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value
