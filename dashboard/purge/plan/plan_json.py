"""A plan as canonical JSON and back: the same bytes, the same sha256; what its values may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dashboard.core.canonical import SealedKind
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import PlanError, RefusedError, UsageError
from dashboard.domain.model import Guard
from dashboard.history.known_since import is_told
from dashboard.purge.evidence.rights_needed import MissingRight
from dashboard.purge.plan.facts import GroupClaim
from dashboard.purge.plan.lifting import Lifted, Override, Waiver
from dashboard.safety.unseen_readers import TopicReading

if TYPE_CHECKING:
    from dashboard.purge.plan.plan import Declared, Estimate, Plan, PlannedPartition

FORMAT_VERSION = 1
INTERVAL = (
    "bytes_at_once_low", "bytes_at_once_high", "bytes_later_low", "bytes_later", "bytes_later_high",
)  # fmt: skip


def encode(plan: Plan) -> dict[str, object]:
    """The plan's document without `sha256`."""
    return {
        "version": FORMAT_VERSION,
        "cluster_id": plan.cluster_id,
        "cluster_name": plan.cluster_name,
        "target": plan.target,
        "created_at": format_time(plan.created_at),
        "expires_at": format_time(plan.expires_at),
        "created_by": plan.created_by,
        "analysis_id": plan.analysis_id,
        "chosen_groups": list(plan.chosen_groups),
        "partitions": [_encode_partition(p) for p in plan.partitions],
        **decisions(plan),
        **_encode_readings(plan.readings),
        **_encode_rights(plan.rights_missing),
        **({} if plan.known_since is None else {"known_since": plan.known_since}),
    }


def _encode_readings(readings: Iterable[TopicReading]) -> dict[str, object]:
    """Plans that older journals keep have no such key, or none in it for what is not told."""
    rows = [
        {key: value for key, value in asdict(found).items() if key != "until" or value is not None}
        for found in readings
    ]
    return {"unseen_readers": rows} if rows else {}


def decisions(plan: Plan) -> dict[str, object]:
    """What people decided, each with who, when and why: waivers, overrides, declarations."""
    return {
        "waivers": [_encode_waiver(w) for w in plan.waivers],
        "overrides": [
            {
                "name": o.name,
                "group_id": o.group_id,
                "reason": o.reason,
                "by": o.by,
                "at": format_time(o.at),
            }
            for o in plan.overrides
        ],
        "declarations": [_encode_declared(d) for d in plan.declarations],
    }


def parse(text: str, where: str) -> Plan:
    """Read, verify the hash and decode. Raises PlanError PLAN_INVALID, RefusedError PLAN_EDITED."""
    return _KIND.parse(text, where)


# Any: a JSON value as it was read, until `check` has passed it.


def _decode(document: Any) -> Plan:
    from dashboard.purge.plan.plan import Declared, Plan

    check(document)
    return Plan(
        cluster_id=document["cluster_id"],
        cluster_name=document["cluster_name"],
        target=document["target"],
        created_at=_time(document, "created_at"),
        expires_at=_time(document, "expires_at"),
        created_by=document["created_by"],
        analysis_id=document["analysis_id"],
        chosen_groups=tuple(document["chosen_groups"]),
        partitions=tuple(_decode_partition(p) for p in document["partitions"]),
        waivers=tuple(_decode_waiver(w) for w in document["waivers"]),
        overrides=tuple(Override(**{**o, "at": _time(o, "at")}) for o in document["overrides"]),
        declarations=tuple(Declared(**d) for d in document["declarations"]),
        readings=tuple(TopicReading(**r) for r in document.get("unseen_readers", ())),
        rights_missing=_decode_rights(document),
        known_since=document.get("known_since"),
    )


def _encode_rights(missing: tuple[MissingRight, ...] | None) -> dict[str, object]:
    # Only where somebody told: plans that older journals keep have no such key.
    return {} if missing is None else {"rights_missing": [asdict(right) for right in missing]}


def _decode_rights(document: Any) -> tuple[MissingRight, ...] | None:
    rows = document.get("rights_missing")
    return None if rows is None else tuple(MissingRight(**row) for row in rows)


def _time(row: Any, name: str) -> datetime:
    try:
        return parse_time(row[name])
    except (AttributeError, UsageError) as error:
        raise ValueError(f"{name} is {row[name]!r}") from error


_FLAGS = ("move", "alive", "gone")  # of a waiver


def _encode_waiver(w: Waiver) -> dict[str, object]:
    row = {"group_id": w.group_id, "reason": w.reason, "by": w.by, "at": format_time(w.at)}
    # Only where they hold: plans that older journals keep have no such keys.
    return {**row, **{name: True for name in _FLAGS if getattr(w, name)}}


def _decode_waiver(row: Any) -> Waiver:
    for name in _FLAGS:
        if row.get(name, True) is not True:
            raise TypeError(f"{name} is {row[name]!r}")
    return Waiver(**{**row, "at": _time(row, "at")})


def _encode_declared(declared: Declared) -> dict[str, object]:
    # As with a waiver's flags: older plans have neither a reason here nor state_restore.
    optional = {"reason": "", "state_restore": "unknown"}
    return {n: v for n, v in asdict(declared).items() if n not in optional or v != optional[n]}


def _encode_partition(p: PlannedPartition) -> dict[str, object]:
    return {
        "topic": p.topic,
        "partition": p.partition,
        "topic_id": p.topic_id,
        "leader_id": p.leader_id,
        "leader_epoch": p.leader_epoch,
        "log_start_offset": p.log_start_offset,
        "last_stable_offset": p.last_stable_offset,
        "high_watermark": p.high_watermark,
        "target_offset": p.target_offset,
        "capped_by": p.capped_by,
        "guards": [g.to_json() for g in p.guards],
        "groups": [
            {
                "group_id": c.group_id,
                "committed_offset": c.committed_offset,
                "remembered": c.remembered,
                # Plans that older journals keep have no such key.
                **({} if c.leader_epoch is None else {"leader_epoch": c.leader_epoch}),
            }
            for c in p.groups
        ],
        "estimate": _encode_estimate(p.estimate),
        # Plans that older journals keep have no such key.
        **({"lifted": [_encode_lifted(found) for found in p.lifted]} if p.lifted else {}),
        **_encode_ends(p.epoch_ends),
        **({"waived": dict(p.waived)} if p.waived else {}),
    }


def _encode_ends(ends: Mapping[int, int]) -> dict[str, object]:
    # Few partitions have lost records since somebody committed.
    return {"epoch_ends": {str(e): end for e, end in sorted(ends.items())}} if ends else {}


def _encode_lifted(lifted: Lifted) -> dict[str, object]:
    # Of a guard with one fact there is nothing to tell.
    return {name: v for name, v in asdict(lifted).items() if name != "fact" or v is not None}


def _encode_estimate(estimate: Estimate | None) -> dict[str, object] | None:
    if estimate is None:
        return None
    return {
        "bytes_at_once": estimate.bytes_at_once,
        "method": estimate.method,
        "replicas": {str(b): size for b, size in sorted(estimate.replicas.items())},
        # Plans that older journals keep have no such keys.
        **{name: size for name in INTERVAL if (size := getattr(estimate, name)) is not None},
        **_encode_cleaned(estimate.cleaned_high),
    }


def _encode_cleaned(most: Mapping[int, int | None]) -> dict[str, object]:
    # Few topics are compacted and deleted from.
    return {"cleaned_high": {str(b): size for b, size in sorted(most.items())}} if most else {}


def _decode_partition(row: Any) -> PlannedPartition:
    from dashboard.purge.plan.plan import Estimate, PlannedPartition

    estimate = row["estimate"]
    return PlannedPartition(
        **{
            **row,
            "guards": tuple(Guard(**g) for g in row["guards"]),
            "groups": tuple(GroupClaim(**c) for c in row["groups"]),
            "lifted": tuple(Lifted(**found) for found in row.get("lifted", ())),
            "epoch_ends": {int(e): end for e, end in row.get("epoch_ends", {}).items()},
            "estimate": None
            if estimate is None
            else Estimate(
                estimate["bytes_at_once"],
                estimate["method"],
                {int(b): size for b, size in estimate["replicas"].items()},
                **{name: estimate[name] for name in INTERVAL if name in estimate},
                cleaned_high={int(b): size for b, size in estimate.get("cleaned_high", {}).items()},
            ),
        }
    )


def _invalid(where: str, what: str) -> PlanError:
    return PlanError(f"{where} {what}", "Make one with: lowwater plan … --out plan.json.")


def _edited(where: str, actual: str, claimed: object) -> RefusedError:
    return RefusedError(
        f"{where} was changed after it was planned: its sha256 is {actual}, it says {claimed}",
        "Plan again; a plan is never edited by hand.",
        code="PLAN_EDITED",
    )


_KIND = SealedKind(
    version=FORMAT_VERSION,
    noun="plan",
    no_such="is not a plan",
    no_hash="is not a plan",
    decode=_decode,
    encode=encode,
    invalid=_invalid,
    changed=_edited,
)


# What every value of a plan's document must be, before it becomes a plan that may be sent.
#
# A plan sealed again by hand has a right hash; only its values tell that no planner wrote it.

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


def check(document: Any) -> None:
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


def _rows(section: str, rows: Any) -> None:
    for number, row in enumerate(rows):
        where = f"{section}[{number}]."
        _texts(row, _TEXTS[section], where)
        _texts(row, _MAYBE_EMPTY.get(section, ()), where, empty=True)
        for name in _COUNTS.get(section, ()):
            _number(row[name], where + name, least=0)
        for name in ("group_id", "why", "until", "principal"):
            if name in row:
                _text_or_null(row[name], where + name)


def _partition(row: Any, where: str) -> None:
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


def _estimate(row: Any, where: str) -> None:
    _text(row["method"], where + "method")
    for size in row["replicas"].values():
        _number(size, where + "replicas", least=0)
    for size in row.get("cleaned_high", {}).values():
        _number(size, where + "cleaned_high", least=0)
    for name, value in row.items():
        if name.startswith("bytes_"):
            _number(value, where + name, least=0)


def _texts(row: Any, names: Iterable[str], where: str, *, empty: bool = False) -> None:
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
