"""The settings section [price]: what a GiB on the brokers' disks costs a month, by cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.values import section

_GIB = 2**30
_CENT = 0.01


@dataclass(frozen=True, slots=True)
class Price:
    """Of one cluster."""

    per_gib_month: float
    currency: str

    def a_month(self, size_bytes: int | None) -> str:
        """`2.42 EUR a month` for these bytes, over all replicas; empty where they are unknown."""
        if size_bytes is None:
            return ""
        cost = size_bytes / _GIB * self.per_gib_month
        figure = "<0.01" if 0 < cost < _CENT / 2 else f"{cost:,.2f}".replace(",", "\u202f")
        return f"{figure} {self.currency} a month"


def beside(price: Price | None, size_bytes: int | None) -> str:
    """` (2.42 EUR a month)`, to stand behind these bytes; empty without a price, or any bytes."""
    return f" ({price.a_month(size_bytes)})" if price and size_bytes else ""


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """`clusters` maps a cluster's name or id to its price, where it is not that of the others."""

    per_gib_month: float | None = None
    currency: str = "EUR"
    clusters: Mapping[str, float] = field(default_factory=dict)

    def of(self, *names: str) -> Price | None:
        """Of the cluster of this name and id; None where nobody gave one."""
        own = next((self.clusters[n] for n in names if n in self.clusters), self.per_gib_month)
        return None if own is None else Price(own, self.currency)


def price_settings(table: Any, where: str) -> PriceSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "price", PriceSettings, where)
    clusters = section(own.get("clusters", {}), "price.clusters", None, where)
    return PriceSettings(
        per_gib_month(own.get(key), key, own.where) if (key := "per_gib_month") in own else None,
        own.text("currency", PriceSettings().currency),
        {
            name: per_gib_month(value, name, clusters.where)
            for name, value in clusters.entries.items()
        },
    )


def per_gib_month(value: Any, key: str, where: str) -> float:
    """What a GiB costs a month. Raises SettingsError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise SettingsError(
            f"{where}: '{key}' = {value!r}", f"Write {key} as a number, such as 0.08."
        )
    return float(value)
