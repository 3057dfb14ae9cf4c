"""A live forecast as people read it under a preview: what holds a purge up, and each mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.core.visible import in_lines


def describe(found: Mapping[str, Any]) -> str:
    """Text for the `forecast` object of `preview --live`."""
    lines = [f"read live in {found['seconds']:.1f} s: {found['said']}"]
    lines += [f"- {detail}" for detail in found["details"]]
    lines += [f"advice: {said}" for said in found["advice"]]
    lines += [f"{m['mode']}: {m['predicted']} {m['risk']}" for m in found["modes"]]
    return in_lines(lines)
