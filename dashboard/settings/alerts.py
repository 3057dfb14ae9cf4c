"""The settings section [alerts]: where alerts are sent, and which; the address is a secret."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dashboard.core.errors import SettingsError
from dashboard.settings.policies.words import parse_disk_share
from dashboard.settings.values import path, section

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
    if parts.scheme == "http" and not _is_loopback(host):
        raise SettingsError(
            f"{where}: webhook is plain http to another machine: anybody on the way could read it",
            "Write it with https://; plain http is for a relay on 127.0.0.1 or localhost.",
        )
    return address


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
