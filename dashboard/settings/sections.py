"""The short sections of the settings file: [alerts], where they are sent, and which (the address is
a secret); [snapshots], how long these and analyses are kept; [price], what a GiB on the brokers'
disks costs a month, by cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dashboard.core.errors import SettingsError
from dashboard.settings.policies.policy import parse_disk_share
from dashboard.settings.values import MAY_BE_ZERO, is_loopback, path, section

# [alerts]

# Besides these, `disk-above:90%` may be named once.
ALERT_NAMES = ("reverted", "stalled", "new-stray", "policy-refused")


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """What is sent where; without an address nothing is. `on` keeps the file's order.

    `webhook` is left out of every repr: whoever knows the address can write to its channel.
    """

    webhook: str | None = field(default=None, repr=False)
    webhook_file: Path | None = None
    on: tuple[str, ...] = ()

    @property
    def disk_above(self) -> float | None:
        """The share of a disk above which `disk-above:90%` alerts, 0.9; None: it is not named."""
        return next((s for name in self.on if (s := parse_disk_share(name)) is not None), None)

    def address(self) -> str | None:
        """Where to send, read each time from the file so that it may be renewed; None: nowhere.

        Raises SettingsError when the file cannot be read or holds no address that may be used.
        """
        if self.webhook_file is None:
            return self.webhook
        try:
            found = self.webhook_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError(
                f"the webhook_file {self.webhook_file} of [alerts] cannot be read: {why}",
                "Check its path and rights; the address stands in it alone, on one line.",
                code="WEBHOOK_UNREADABLE",
            ) from None  # the cause may quote what the file holds
        return _checked(found, str(self.webhook_file))


def alert_settings(table: Any, where: str) -> AlertSettings:
    """The section out of a settings file. Raises SettingsError, which never shows an address."""
    own = section(table, "alerts", AlertSettings, where)
    place = own.where
    if "webhook" in own and "webhook_file" in own:
        raise SettingsError(
            f"{place}: both 'webhook' and 'webhook_file'",
            "Keep one of them; a file keeps the address out of the settings.",
        )
    webhook, file = own.filled_or_none("webhook"), own.filled_or_none("webhook_file")
    on = own.texts("on", '["reverted", "stalled"]') if "on" in own else ()
    _check_names(on, place)
    address = None if webhook is None else _checked(webhook, place)
    where_in = None if file is None else path(file, "webhook_file", place)
    return AlertSettings(address, where_in, on)


def _check_names(on: tuple[str, ...], where: str) -> None:
    disks = [name for name in on if parse_disk_share(name) is not None]
    for name in on:
        if name not in ALERT_NAMES and name not in disks:
            raise SettingsError(
                f"{where}: on names '{name}', which is no alert",
                f"Known: {', '.join(ALERT_NAMES)}, and disk-above:90% with a share of yours.",
            )
    if len(disks) > 1:
        raise SettingsError(
            f"{where}: on names {' and '.join(disks)}", "Keep one of them: one share for all disks."
        )


def _checked(address: str, where: str) -> str:
    """An https address, or http to this machine. Raises SettingsError without showing it."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in address):
        raise SettingsError(
            f"{where}: webhook is no https address (not shown, it is a secret)",
            'Write webhook = "https://HOST/PATH", as the chat or pager gives it.',
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise SettingsError(
            f"{where}: webhook is plain http to another machine: anybody on the way could read it",
            "Write it with https://; plain http is for a relay on 127.0.0.1 or localhost.",
        )
    return address


# [snapshots]

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


# [price]

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
