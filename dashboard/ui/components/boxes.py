"""A box in which a time or a size is typed as people say it: it then shows what that is read as.

Only what the strict words of plans and settings refuse is read here. A command line takes the
strict words alone: nobody looks at it in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.core.clock import format_time, parse_duration
from dashboard.core.errors import UsageError
from dashboard.core.words import parse_size

Settled = Callable[[str], str | None]


def typed_in(
    place: DeltaGenerator,
    label: str,
    key: str,
    settled: Settled,
    *,
    value: str = "",
    placeholder: str | None = None,
) -> str:
    """What stands in the box. Where `settled` reads what was typed as something, that replaces it:
    a plan is of the very time or size that its reader sees, and "2 hours ago" is another one at
    each look.
    """
    st.session_state.setdefault(key, value)
    return place.text_input(
        label, key=key, placeholder=placeholder, on_change=_settle, args=(key, settled)
    ).strip()


def _settle(key: str, settled: Settled) -> None:
    read = settled(str(st.session_state[key]))
    if read is not None:
        st.session_state[key] = read


# What people type, in the strict words.

_LENGTH = re.compile(r"([0-9]{1,9})\s*([a-z]+)", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]{1,15})(?:[.,]([0-9]{1,2}))?\s*([kmgtp]?)(i?)b", re.IGNORECASE)
_UNITS = {
    "s": ("s", 1), "sec": ("s", 1), "second": ("s", 1),
    "m": ("m", 1), "min": ("m", 1), "minute": ("m", 1),
    "h": ("h", 1), "hr": ("h", 1), "hour": ("h", 1),
    "d": ("d", 1), "day": ("d", 1), "w": ("d", 7), "week": ("d", 7),
}  # fmt: skip
_POWERS = ("", "k", "m", "g", "t", "p")


def moment(text: str, now: datetime) -> str | None:
    """`2 hours ago`, `90 min ago` or a time without a zone, which is UTC, as
    `2026-03-01T04:00:00Z`; None for anything else. A day alone is none: nobody says when it begins.
    """
    if (ago := re.fullmatch(r"(.+?)\s+ago", text.strip(), re.IGNORECASE)) is not None:
        back = _length(ago[1])
        try:
            return None if back is None else _whole(now - back)
        except OverflowError:  # before the year 1
            return None
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    with_time = re.search(r"[0-9][T ][0-9]{2}:", text) is not None
    return _whole(read.replace(tzinfo=UTC)) if with_time and read.tzinfo is None else None


def length(text: str) -> str | None:
    """`1 hour`, `90 minutes`, `2 weeks` as `1h`, `90m`, `14d`; None for anything else."""
    found = _LENGTH.fullmatch(text.strip())
    unit = _unit(found[2]) if found else None
    if found is None or unit is None:
        return None
    name, times = unit
    return f"{int(found[1]) * times}{name}"


def size(text: str) -> str | None:
    """`10 GiB` and `1.5GiB` as `10GiB` and `1536MiB`; `10GB`, by thousands as disks are sold, as
    `10000000000B`. None for anything else, and without a unit; for `1,500 GiB`, too, which are
    thousands to some and a fraction to others.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    whole, part, power, binary = found[1], found[2] or "", found[3].lower(), bool(found[4])
    unit = (1024 if binary else 1000) ** _POWERS.index(power)
    exact, rest = divmod(int(whole + part) * unit, 10 ** len(part))
    if rest or (binary and not power):
        return None
    fitting = [at for at in range(1, len(_POWERS)) if binary and exact and exact % 1024**at == 0]
    if not fitting:
        return _known(f"{exact}B")
    return _known(f"{exact // 1024 ** fitting[-1]}{_POWERS[fitting[-1]].upper()}iB")


def keep(text: str) -> str | None:
    """Either of both."""
    return length(text) or size(text)


def _known(text: str) -> str | None:
    return text if parse_size(text) else None


def _length(text: str) -> timedelta | None:
    words = length(text)
    try:
        return parse_duration(words) if words else None
    except UsageError:  # more than a century
        return None


def _unit(word: str) -> tuple[str, int] | None:
    """500M are megabytes to many, and `ms` is no plural."""
    lower = word.lower()
    if len(word) < 3:
        return _UNITS.get(lower) if word != "M" else None
    return _UNITS.get(lower) or _UNITS.get(lower.removesuffix("s"))


def _whole(at: datetime) -> str:
    """To the second: what is shown is what is planned."""
    return format_time(at.replace(microsecond=0)).replace(".000Z", "Z")
