"""Which topics a regular expression that a group subscribes by matches (KIP-848, RE2/J)."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def matching(patterns: Iterable[str], topics: Collection[str]) -> frozenset[str]:
    """Those of `topics` whose whole name one of the patterns matches.

    The whole name: the coordinator asks `Matcher.matches` (GroupMetadataManager), so that
    `^orders` is no `orders-eu`. A pattern that cannot be compiled here matches every topic: who
    may be a reader counts as one.
    """
    found: set[str] = set()
    for pattern in patterns:
        found |= _matching(pattern, list(topics))
    return frozenset(found)


def _matching(pattern: str, topics: list[str]) -> set[str]:
    # RE2 itself, by way of Arrow: Python's `re` means other things by some patterns that RE2/J
    # takes, and needs hours for some that RE2 matches in linear time. Loaded on first use: few
    # groups subscribe by a pattern.
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(topics, pa.string())
    try:
        matched = pc.match_substring_regex(names, pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return set(topics)
    return set(names.filter(matched).to_pylist())
