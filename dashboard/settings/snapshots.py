"""The settings section [snapshots]: how long snapshots and analyses are kept, and how many."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.values import MAY_BE_ZERO, section

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Up to which age all snapshots stay, then one an hour, then one a day; 0 is none of them."""

    keep_all_for: timedelta = field(default=timedelta(hours=1), metadata=MAY_BE_ZERO)
    keep_hourly_for: timedelta = field(default=timedelta(days=7), metadata=MAY_BE_ZERO)
    keep_daily_for: timedelta = field(default=timedelta(days=90), metadata=MAY_BE_ZERO)

    @property
    def longest(self) -> timedelta:
        """Up to which age some of them stay."""
        return max(self.keep_all_for, self.keep_hourly_for, self.keep_daily_for)


def snapshot_settings(table: Any, where: str) -> SnapshotSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "snapshots", SnapshotSettings, where)
    keep = SnapshotSettings(**own.values(SnapshotSettings))
    _check_longer("keep_hourly_for", keep.keep_hourly_for, keep.keep_all_for, own.where)
    finer = max(keep.keep_all_for, keep.keep_hourly_for)
    _check_longer("keep_daily_for", keep.keep_daily_for, finer, own.where)
    return keep


def _check_longer(key: str, age: timedelta, before: timedelta, where: str) -> None:
    """A step that ends before the finer one would keep nothing, which is written as 0s."""
    if _NONE < age <= before:
        raise SettingsError(
            f"{where}: '{key}' = {_text(age)} ends no later than the finer step, {_text(before)}",
            f"Write {key} longer than that, or 0s for none. Defaults: 1h, 7d and 90d.",
        )


def _text(age: timedelta) -> str:
    seconds = age.total_seconds()
    return next((f"{seconds / n:g}{u}" for u, n in _UNITS if seconds % n == 0), f"{seconds:g}s")


_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))
