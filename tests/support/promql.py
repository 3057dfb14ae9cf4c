"""Reads what a PromQL expression asks for: metrics, labels to select by and labels to group by.

No evaluation, and no more of the language than our own files use: an unknown function is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s+ | (?P<text>"(?:[^"\\]|\\.)*") | (?P<span>\[\d+[smhd]\])
    | (?P<number>\d+(?:\.\d+)?(?:e\d+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<sign>==|!=|>=|<=|=~|!~|[-+*/%^<>=(){},])""",
    re.VERBOSE,
)
_FUNCTIONS = {"absent", "increase", "sum", "max", "min", "count", "topk", "label_replace"}
_OPERATORS = {"and", "or", "unless", "bool"}
_GROUPINGS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric and the labels that select its series, with the values they are compared to."""

    metric: str
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """All selectors of an expression, in its order, and the labels that it groups or joins by."""

    selectors: list[Selector]
    grouped: set[str]


def read(expression: str) -> Asked:
    """What an expression asks for. Raises ValueError where it is none that we know."""
    tokens = list(_tokens(expression))
    asked = Asked([], set())
    depth, at = 0, 0
    while at < len(tokens):
        kind, token = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        at += 1
        if token in "()":
            depth += 1 if token == "(" else -1
            if depth < 0:
                raise ValueError(f"a bracket too many: {expression}")
        elif kind != "word" or token in _OPERATORS:
            continue
        elif token in _GROUPINGS:
            end = tokens.index(("sign", ")"), at)
            asked.grouped.update(token for kind, token in tokens[at:end] if kind == "word")
            at = end + 1
        elif following == "(" or (token in _FUNCTIONS and following in _GROUPINGS):
            if token not in _FUNCTIONS:
                raise ValueError(f"unknown function {token}: {expression}")
        elif following == "{":
            end = tokens.index(("sign", "}"), at)
            asked.selectors.append(Selector(token, _matchers(tokens[at + 1 : end])))
            at = end + 1
        else:
            asked.selectors.append(Selector(token))
    if depth or not asked.selectors:
        raise ValueError(f"no whole expression: {expression}")
    return asked


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ValueError(f"cannot be read from {expression[at:]!r}")
        if found.lastgroup:
            yield found.lastgroup, found[0]
        at = found.end()


def _matchers(tokens: list[tuple[str, str]]) -> dict[str, str]:
    """`label OP "value"`, with commas between them."""
    words = [token for token in tokens if token != ("sign", ",")]
    if len(words) % 3:
        raise ValueError(f"no label matchers: {tokens}")
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return {label[1]: value[1][1:-1] for label, _, value in triples}
