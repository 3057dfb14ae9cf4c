"""Which topics, groups and brokers are meant by what somebody typed? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["topic", "group", "broker"]


class Match(NamedTuple):
    """A topic, a group or a broker whose name holds what was typed; a broker's is its id."""

    kind: Kind
    name: str


def matches(
    typed: str, topics: Iterable[str], groups: Iterable[str], brokers: Iterable[int] = ()
) -> list[Match]:
    """Whose names hold the text, in any case: the name itself first, then the shortest. A broker is
    meant by `3`, or by `broker 3`.
    """
    wanted = typed.strip().lower()
    if not wanted:
        return []
    found = [Match("topic", name) for name in topics if wanted in name.lower()]
    found += [Match("group", name) for name in groups if wanted in name.lower()]
    asked = wanted.removeprefix("broker").strip()
    found += [Match("broker", str(number)) for number in brokers if asked == str(number)]
    return sorted(found, key=lambda m: (m.name != typed.strip(), len(m.name), m.name, m.kind))


def meant(typed: str, found: list[Match]) -> Match | None:
    """The one that was meant for sure: named in full by the text alone, or the only match."""
    exact = [match for match in found if match.name == typed.strip()]
    if not exact and typed.strip().lower().startswith("broker"):
        exact = [match for match in found if match.kind == "broker"]
    certain = exact or found
    return certain[0] if len(certain) == 1 else None
