"""The settings section [retention]: how far above the longest lag a shorter retention stays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.values import section

MOST_MARGIN = 1000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """A retention that fits is at least so many times the longest lag that was seen."""

    margin: float = 2.0


def retention_settings(table: Any, where: str) -> RetentionSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    place = section(table, "retention", RetentionSettings.__dataclass_fields__, where)
    margin = table.get("margin", RetentionSettings().margin)
    number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if not number or not math.isfinite(margin) or not 1 <= margin <= MOST_MARGIN:
        raise SettingsError(
            f"{place}: 'margin' = {margin!r}", f"Write a number from 1 to {MOST_MARGIN}."
        )
    return RetentionSettings(float(margin))
