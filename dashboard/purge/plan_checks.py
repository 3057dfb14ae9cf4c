"""What every value of a plan's document must be, before it becomes a plan that may be sent.

A plan sealed again by hand has a right hash; only its values tell that no planner wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.known_since import is_told

_LARGEST = 2**63 - 1
_LARGEST_PARTITION = 2**31 - 1
_SEEN = (
    "leader_id", "leader_epoch", "log_start_offset", "last_stable_offset", "high_watermark",
)  # fmt: skip
_TEXTS = {
    "waivers": ("group_id", "reason"),
    "overrides": ("name", "reason"),
    "declarations": ("topic", "readers"),
    "unseen_readers": ("topic",),
    "rights_missing": ("topic",),
}
_MAYBE_EMPTY = {
    "waivers": ("by",),
    "overrides": ("by",),
    "declarations": ("owner", "declared_by", "declared_at"),
}
_COUNTS = {
    "declarations": ("replay_window_ms",),
    "unseen_readers": ("bytes_out", "explained_bytes", "window_ms", "partitions"),
}


def check(document: Mapping[str, Any]) -> None:
    """Raises ValueError or TypeError that names the first value which no plan has."""
    _texts(document, ("cluster_id", "cluster_name", "target"), "")
    _texts(document, ("created_by",), "", empty=True)
    _text_or_null(document["analysis_id"], "analysis_id")
    _known_since(document.get("known_since"))
    for group in document["chosen_groups"]:
        _text(group, "chosen_groups")
    for section, rows in document.items():
        if section in _TEXTS:
            _rows(section, rows)
    seen: set[tuple[str, int]] = set()
    for number, row in enumerate(document["partitions"]):
        _partition(row, f"partitions[{number}].")
        seen.add((row["topic"], row["partition"]))
        if len(seen) == number:
            raise ValueError(f"{row['topic']}-{row['partition']} stands in it twice")


def _rows(section: str, rows: Iterable[Mapping[str, Any]]) -> None:
    for number, row in enumerate(rows):
        where = f"{section}[{number}]."
        _texts(row, _TEXTS[section], where)
        _texts(row, _MAYBE_EMPTY.get(section, ()), where, empty=True)
        for name in _COUNTS.get(section, ()):
            _number(row[name], where + name, least=0)
        for name in ("group_id", "why", "until", "principal"):
            if name in row:
                _text_or_null(row[name], where + name)


def _partition(row: Mapping[str, Any], where: str) -> None:
    _text(row["topic"], where + "topic")
    if row["partition"] is None:
        raise ValueError(f"{where}partition is null")
    _number(row["partition"], where + "partition", least=0, most=_LARGEST_PARTITION)
    _number(row["target_offset"], where + "target_offset", least=0)
    for name in _SEEN:
        _number(row[name], where + name)
    for name in ("topic_id", "capped_by"):
        _text_or_null(row[name], where + name)
    for guard in row["guards"]:
        _texts(guard, ("name", "reason", "lift"), where + "guards.")
    for claim in row["groups"]:
        _text(claim["group_id"], where + "group_id")
        _number(claim["committed_offset"], where + "committed_offset")
        _number(claim.get("leader_epoch"), where + "leader_epoch", least=0)
        if type(claim["remembered"]) is not bool:
            raise ValueError(f"{where}remembered is {claim['remembered']!r}")
    for offset in row.get("waived", {}).values():
        _number(offset, where + "waived", least=0)
    for end in row.get("epoch_ends", {}).values():
        _number(end, where + "epoch_ends", least=0)
    for found in row.get("lifted", ()):
        _text(found["name"], where + "lifted.name")
        _text_or_null(found["group_id"], where + "lifted.group_id")
        _text_or_null(found.get("fact"), where + "lifted.fact")
    if row["estimate"] is not None:
        _estimate(row["estimate"], where + "estimate.")


def _estimate(row: Mapping[str, Any], where: str) -> None:
    _text(row["method"], where + "method")
    for size in row["replicas"].values():
        _number(size, where + "replicas", least=0)
    for size in row.get("cleaned_high", {}).values():
        _number(size, where + "cleaned_high", least=0)
    for name, value in row.items():
        if name.startswith("bytes_"):
            _number(value, where + name, least=0)


def _texts(
    row: Mapping[str, Any], names: Iterable[str], where: str, *, empty: bool = False
) -> None:
    for name in names:
        if not (empty and row[name] == ""):
            _text(row[name], where + name)


def _text_or_null(value: Any, name: str) -> None:
    if value is not None:
        _text(value, name)


def _text(value: Any, name: str) -> None:
    if type(value) is not str or not value:
        raise ValueError(f"{name} is {value!r}")


def _known_since(value: Any) -> None:
    if value is not None and not (type(value) is str and is_told(value)):
        raise ValueError(f"known_since is {value!r}, which names no snapshot")


def _number(value: Any, name: str, *, least: int = -1, most: int = _LARGEST) -> None:
    """A whole number, or null where it is not known; a bool or 5.0 compares alike, and is none."""
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise ValueError(f"{name} is {value!r}")
