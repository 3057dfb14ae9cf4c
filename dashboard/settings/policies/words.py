"""What a policy's settings are written in: windows of the week, time zones, triggers, targets."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from dashboard.core.clock import parse_duration
from dashboard.core.errors import SettingsError, UsageError
from dashboard.core.words import parse_size

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"(\S+) (\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)
_DISK = re.compile(r"disk-above:(\d{1,2}(?:\.\d+)?)%", re.ASCII)
_GROWTH = re.compile(r"growth-above:(\w+)/h", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """Minutes of the day, on days of the week (0 is Monday), in the policy's time zone.

    `end_minute` is at most 1440 (24:00) and not part of it. One that ends at or before its start
    goes over midnight, and belongs to the day it begins.
    """

    days: frozenset[int]
    start_minute: int
    end_minute: int
    text: str

    @property
    def over_midnight(self) -> bool:
        return self.end_minute <= self.start_minute


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a policy purges at all; `share` is of a log dir's disk, `bytes_per_hour` of growth."""

    kind: Literal["always", "disk-above", "growth-above"] = "always"
    share: float | None = None
    bytes_per_hour: int | None = None
    text: str = "always"


ALWAYS = Trigger()


def parse_window(text: str, where: str) -> Window:
    """`Mon-Fri 22:00-06:00`, `Sat,Sun 00:00-24:00`. Raises SettingsError."""
    found = _WINDOW.fullmatch(text)
    days = _days(found[1]) if found else None
    if found is None or days is None:
        raise SettingsError(
            f"{where}: windows has '{text}', which is no window",
            'Write days and times, such as "Mon-Fri 22:00-06:00" or "Sat,Sun 00:00-24:00".',
        )
    start, end = (int(found[h]) * 60 + int(found[h + 1]) for h in (2, 4))
    if start >= _DAY_MINUTES or end > _DAY_MINUTES or int(found[3]) > 59 or int(found[5]) > 59:
        raise SettingsError(
            f"{where}: windows has '{text}', and no day has that time",
            "Begin from 00:00 to 23:59, end from 00:00 to 24:00.",
        )
    if start == end:
        raise SettingsError(
            f"{where}: windows has '{text}', which never opens: it ends when it begins",
            f'Write "{found[1]} 00:00-24:00" for whole days, or a later end.',
        )
    return Window(days, start, end, text)


def _days(text: str) -> frozenset[int] | None:
    """Days out of `Mon`, `Mon-Fri`, `Sat-Mon`, `Mon,Wed-Fri`; None for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            return None
        start = DAYS.index(first)
        count = (DAYS.index(last or first) - start) % 7 + 1
        found |= {(start + step) % 7 for step in range(count)}
    return frozenset(found)


def time_zone(name: Any, where: str) -> str:
    """The name of an IANA time zone that this machine knows. Raises SettingsError."""
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError, TypeError) as error:
        near = difflib.get_close_matches(str(name), available_timezones(), n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise SettingsError(
            f"{where}: timezone = {name!r} is no time zone known here",
            f'{hint}Write a name of the IANA list, such as "UTC" or "Europe/Berlin".',
        ) from error


def parse_trigger(text: str, where: str) -> Trigger:
    """`always`, `disk-above:80%` or `growth-above:5GiB/h`. Raises SettingsError."""
    if text == "always":
        return ALWAYS
    share = parse_disk_share(text)
    if share is not None:
        return Trigger("disk-above", share=share, text=text)
    found = _GROWTH.fullmatch(text)
    size = parse_size(found[1]) if found else None
    if size:
        return Trigger("growth-above", bytes_per_hour=size, text=text)
    raise SettingsError(
        f"{where}: trigger = '{text}' is no trigger",
        "Write always, disk-above:80% (above 0, below 100) or growth-above:5GiB/h.",
    )


def parse_disk_share(text: str) -> float | None:
    """0.8 of `disk-above:80%`; None for anything else, and for 0%."""
    found = _DISK.fullmatch(text)
    return float(found[1]) / 100 or None if found else None


def check_target(text: str, where: str) -> str:
    """`committed`, `retention`, `keep:3d` or `keep:10GiB`. Raises SettingsError.

    A target that names one moment or offset means other records at each purge, and the high
    watermark would take what nobody has read.
    """
    kind, _, value = text.partition(":")
    if text in ("committed", "retention") or (kind == "keep" and _is_keep(value)):
        return text
    why = {
        "high-watermark": "a policy would purge what no group has read yet",
        "offset": "one offset means other records each time",
        "timestamp": "one moment is past after the first purge",
    }.get(kind, "no policy has such a target")
    raise SettingsError(
        f"{where}: target = '{text}': {why}",
        "Write committed, keep:3d, keep:10GiB or retention; a plan by hand takes the others.",
    )


def _is_keep(value: str) -> bool:
    try:
        return bool(parse_size(value)) or parse_duration(value) > timedelta(0)
    except UsageError:
        return False
