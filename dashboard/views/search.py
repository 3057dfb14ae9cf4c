"""Which topics and groups are meant by what somebody typed? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["topic", "group"]


class Match(NamedTuple):
    """A topic or a group whose name holds what was typed."""

    kind: Kind
    name: str


def matches(typed: str, topics: Iterable[str], groups: Iterable[str]) -> list[Match]:
    """Whose names hold the text, in any case: the name itself first, then the shortest."""
    wanted = typed.strip().lower()
    if not wanted:
        return []
    found = [Match("topic", name) for name in topics if wanted in name.lower()]
    found += [Match("group", name) for name in groups if wanted in name.lower()]
    return sorted(found, key=lambda m: (m.name != typed.strip(), len(m.name), m.name, m.kind))


def meant(typed: str, found: list[Match]) -> Match | None:
    """The one that was meant for sure: named in full by the text alone, or the only match."""
    exact = [match for match in found if match.name == typed.strip()]
    certain = exact or found
    return certain[0] if len(certain) == 1 else None
