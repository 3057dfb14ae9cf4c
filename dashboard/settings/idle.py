"""The settings section [idle]: after how many quiet days a topic counts as idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.values import count, section

MOST_DAYS = 36_500  # a century: taken from any clock it still is a time


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """No write and no commit for so many days."""

    days: int = 7


def idle_settings(table: Any, where: str) -> IdleSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    place = section(table, "idle", IdleSettings.__dataclass_fields__, where)
    days = count(table.get("days", IdleSettings().days), "days", place)
    if days > MOST_DAYS:
        raise SettingsError(f"{place}: 'days' = {days}", f"Write {MOST_DAYS} or less.")
    return IdleSettings(days)
