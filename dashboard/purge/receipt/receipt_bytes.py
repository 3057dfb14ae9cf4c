"""What left one replica between two looks at it, although producers went on writing. Pure.

Where a size did not fall, what it grew by is what was written: exact. Where it fell, records that
were written meanwhile hide a part of what left: they are in doubt, and count as many bytes as those
that were seen coming, before or after, so a later look makes an earlier one truer.

A purge frees the segments that it made deletable, which brokers delete all at once. The one that
its target lies in is not among them: it leaves with whatever moves the log start past its end.

Not all that leaves is the purge's. What leaves while a log start is below the target is
retention's: a purge moves the log start first, and segments leave later. Of a topic that is
compacted, too, the log cleaner takes from the same logs: what leaves beyond the most that the purge
can free is not counted. Nor is what a replica is without that begins anew, as on a disk that was
replaced: its log end goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

# A record that is a batch of its own has a header of 61 bytes (DefaultRecordBatch.RECORD_BATCH_
# OVERHEAD) that one among many in a batch has not.
BATCH_HEADER_BYTES = 61


def begun(
    replica: Mapping[str, Any],
    predicted_bytes: int | None,
    earlier_bytes: int = 0,
    cleaned: Mapping[str, int | None] = MappingProxyType({}),
    planned_start: int | None = None,
) -> dict[str, Any]:
    """A replica's part of a receipt, from its entry in the sample before its request.

    `fallen_bytes`: by how much its size fell; `seen_bytes` of `seen_records`: written where it did
    not; `doubt_records`: written where it did. `below_…`: the same, and its log start, by the last
    look before the log start was `past` the target. `first_offset`: what it has below that, no
    lower than the plan's log start, is an earlier purge's; `offsets` (`receipt.start`) up to its
    target. `own_bytes`: what left by the last look that saw the log start no further than the
    target; `fell`: some of it after a look that saw it there. The others follow, in `looked`.
    `earlier_bytes` of what leaves belong to an earlier purge (`receipt_earlier`). `cleaned`:
    `most_bytes` of a replica of a compacted topic, the most that the purge frees; None: unknown.
    """
    sums = (
        "dropped_bytes", "freed_bytes", "retention_bytes", "cleaner_bytes", "produced_bytes",
        "fallen_bytes", "seen_bytes", "seen_records", "doubt_records", "unsure_bytes",
        "below_fallen_bytes", "below_doubt_records", "own_bytes",
    )  # fmt: skip
    first = _later(replica["log_start_offset"], planned_start)
    return {
        **{name: value for name, value in replica.items() if name != "taken_at"},
        "before_bytes": replica["size_bytes"],
        "start_before": replica["log_start_offset"],
        "end_before": replica["log_end_offset"],
        "predicted_bytes": predicted_bytes,
        "earlier_bytes": earlier_bytes,
        "first_offset": first,
        "below_start": first,
        "past": False,
        "fell": False,
        **cleaned,
        **dict.fromkeys(sums, 0),
    }


def looked(
    old: Mapping[str, Any],
    new: Mapping[str, Any] | None,
    target: int,
    *,
    undone: bool = False,
    later: Collection[int] = (),
) -> dict[str, Any]:
    """The replica's part after one more look; `new` is None where its broker gave no answer.

    `freed_bytes` are sure to `unsure_bytes`. A log that has `restarted` is not counted any more,
    nor is one that the purge had not reached when it was `undone`: another purge will have to.
    `later` are the targets of later purges, which leave to this one what it made deletable.
    """
    if old.get("undone") or (undone and not _reached(old, new, target)):
        return {**old, "undone": True}
    if new is None or _unplaced(old, new):  # what it holds is not known now
        return dict(old)
    told = {name: new[name] for name in ("size_bytes", "log_start_offset", "log_end_offset")}
    if old.get("restarted") or _went_back(old, new):
        return {**old, **told, "restarted": True}
    body = {**old, **counted(old, new), **told}
    body |= _below(body, target)
    dropped = max(0, fallen_bytes(body) - body.get("earlier_bytes", 0))
    below = body["below_fallen_bytes"] + round(body["below_doubt_records"] * record_bytes(body))
    early = min(dropped, max(0, below - body.get("earlier_bytes", 0)))
    body |= _attributed(old, body, dropped - early, target, later)
    retention = dropped - _own(body, dropped - early, target)
    unsure = _unsure(body)
    cleaner = _beyond(body, dropped - retention - unsure)
    return {
        **body,
        "dropped_bytes": dropped,
        "retention_bytes": retention,
        "freed_bytes": dropped - retention - cleaner,
        "produced_bytes": body["seen_bytes"] + fallen_bytes(body) - body["fallen_bytes"],
        "unsure_bytes": unsure,
        "cleaner_bytes": cleaner,
    }


def due_bytes(part: Mapping[str, Any]) -> int:
    """What the purge made deletable: all that was seen leaving, as brokers delete at once. Before
    that by its estimate, less what left since the plan; without one by its offsets.
    """
    if part.get("fell"):
        return int(part["own_bytes"])
    told, size = part["predicted_bytes"], record_bytes(part)
    if told is None:  # older releases kept no offsets
        return round(int(part.get("offsets", 0)) * size)
    return max(0, int(told) - round(int(part.get("moved_before", 0)) * size))


def _attributed(
    old: Mapping[str, Any],
    body: Mapping[str, Any],
    left: int,
    target: int,
    later: Collection[int],
) -> dict[str, Any]:
    """`own_bytes` and `fell`; as they were once the log start has moved on, by retention."""
    fell, start = bool(old.get("fell")), body["log_start_offset"]
    if start is None or start <= target:
        # The cleaner's work tells nothing of whether what is due has left.
        drop = old.get("past") and body["size_bytes"] < old["size_bytes"]
        return {"own_bytes": left, "fell": fell or bool(drop and "most_bytes" not in body)}
    own = int(old.get("own_bytes", old["freed_bytes"]))
    if start in later:
        own = max(own, min(left, due_bytes(body)))
    return {"own_bytes": own, "fell": fell}


def _own(body: Mapping[str, Any], left: int, target: int) -> int:
    """The purge's part of what left at or past the target: its share of the offsets, and no more
    than it made deletable, once retention or a later purge moved the log start on.
    """
    start = body["log_start_offset"]
    if start is None or start <= target:
        return left
    own, due = int(body["own_bytes"]), due_bytes(body)
    share = left - round(left * _retention_share(body, target))
    return min(left, max(own, min(share, due)))


def _reached(old: Mapping[str, Any], new: Mapping[str, Any] | None, target: int) -> bool:
    start = None if new is None else new["log_start_offset"]
    return bool(old.get("past")) or (start is not None and start >= target)


def _unplaced(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a size came without the log end that tells which log it is of."""
    return new["log_end_offset"] is None and old["log_end_offset"] is not None


def _went_back(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = old["log_end_offset"], new["log_end_offset"]
    return before is not None and after is not None and after < before


def _beyond(body: Mapping[str, Any], surely_freed: int) -> int:
    """What left beyond the most that the purge frees, where the cleaner may have taken it."""
    most = body.get("most_bytes")
    return 0 if most is None else max(0, surely_freed - int(most))


def counted(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, int]:
    """By how much the size fell, and what was written, with one more look.

    Parts that older releases left open have none of these counts, but the sums they gave.
    """
    fallen = old.get("fallen_bytes", old["dropped_bytes"])
    seen, records = old.get("seen_bytes", old["produced_bytes"]), old.get("seen_records", 0)
    doubt, written = old.get("doubt_records", 0), _written(old, new)
    change = new["size_bytes"] - old["size_bytes"]
    if change < 0:
        fallen, doubt = fallen - change, doubt + written
    else:
        seen, records = seen + change, records + written
    return {"fallen_bytes": fallen, "seen_bytes": seen, "seen_records": records,
            "doubt_records": doubt}  # fmt: skip


def fallen_bytes(body: Mapping[str, Any]) -> int:
    """What left the replica, with what records in doubt hid of it."""
    return int(body["fallen_bytes"]) + round(int(body["doubt_records"]) * record_bytes(body))


def _below(body: Mapping[str, Any], target: int) -> dict[str, Any]:
    """What left by the last look that saw the log start below the target.

    Parts that older releases left open do not tell; what is past its target now counts as before.
    """
    start, past = body["log_start_offset"], bool(body.get("past"))
    if start is None or start >= target or past:
        return {
            "past": past or (start is not None and start >= target),
            "below_start": body.get("below_start", body["start_before"]),
            "below_fallen_bytes": body.get("below_fallen_bytes", 0),
            "below_doubt_records": body.get("below_doubt_records", 0),
        }
    return {
        "past": False,
        "below_start": _later(start, body.get("below_start")),
        "below_fallen_bytes": body["fallen_bytes"],
        "below_doubt_records": body["doubt_records"],
    }


def _later(start: int | None, than: int | None) -> int | None:
    return start if start is None or than is None else max(start, than)


def _written(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    before, after = old["log_end_offset"], new["log_end_offset"]
    return 0 if before is None or after is None else max(0, int(after) - int(before))


def record_bytes(body: Mapping[str, Any]) -> float:
    """Bytes of a record: of those that were seen coming, else of those the replica held before.

    The log start of a later look has moved, but its segments may still be there.
    """
    if body["seen_records"] and body["seen_bytes"]:
        return float(body["seen_bytes"] / body["seen_records"])
    first, then = body.get("first_offset", body["start_before"]), body.get("end_before")
    if first is None or then is None or then <= first:
        return 0.0
    # Below the first one lie segments that an earlier purge waits for.
    return float(max(0, body["before_bytes"] - body.get("earlier_bytes", 0)) / (then - first))


def _unsure(body: Mapping[str, Any]) -> int:
    """By how much the freed bytes may be off: nothing where nobody writes.

    A size and a log end are read moments apart: one record more may lie between the two.
    """
    if not body["fallen_bytes"] or not body["doubt_records"] + body["seen_records"]:
        return 0
    records = int(body["doubt_records"]) + 1
    return round(records * (record_bytes(body) + BATCH_HEADER_BYTES))


def _retention_share(body: Mapping[str, Any], target: int) -> float:
    """The share of what left that lay above the target: retention took that."""
    start, first = body["log_start_offset"], body["below_start"]
    if start is None or first is None or start <= target or start <= first:
        return 0.0
    return float(start - max(target, first)) / float(start - first)
