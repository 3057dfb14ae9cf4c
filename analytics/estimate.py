"""How many bytes of a replica lie below an offset, and how many of them go at once.

Estimator `proportional`, used when only a replica's size, log start and log end are known:

- likely: size times the share of offsets below the target; right when records keep their size.
- low, high: record sizes change over a topic's life, so the true share may be far off. The
  interval allows the bytes per offset below the target to be up to SKEW times smaller or larger
  than those above it: with p the share of offsets, low = p / (p + SKEW (1 - p)) and
  high = SKEW p / (SKEW p + 1 - p) of the size. Both are 0 at the log start and the whole size at
  the log end, where nothing is left to guess. SKEW 16 covers a topic that went from records of
  100 bytes to records of 1,500.
- at once: Kafka deletes whole segments, and one goes only when its successor's base offset is at
  or below the log start (UnifiedLog.deleteLogStartOffsetBreachedSegments), so the active segment
  stays. Segments are taken to be full (`segment.bytes`), which is the rule for topics that roll
  by size; where they roll by time this says too little, never too much of a small log.
"""

from __future__ import annotations

SKEW = 16
METHOD = "proportional"


def share(name: str) -> str:
    """SQL: NAME_share of a replica's offsets below NAME_target, 0 to 1; 0 without any record.

    Null when the target, start_offset or end_offset is.
    """
    inside = f"greatest(least({name}_target, end_offset), start_offset) - start_offset"
    return (
        f"if({name}_target is null or start_offset is null or end_offset is null, null, "
        f"coalesce(({inside}) / nullif(end_offset - start_offset, 0), 0d)) as {name}_share"
    )


def interval(name: str) -> str:
    """SQL: NAME_low, NAME_likely, NAME_high in bytes, from NAME_share."""
    p = f"{name}_share"
    shares = {
        "low": f"{p} / ({p} + {SKEW} * (1 - {p}))",
        "likely": p,
        "high": f"{SKEW} * {p} / ({SKEW} * {p} + 1 - {p})",
    }
    return ", ".join(
        f"cast(round(size_bytes * ({part})) as bigint) as {name}_{end}"
        for end, part in shares.items()
    )


def at_once(name: str) -> str:
    """SQL: NAME_at_once, whole segments below the target, from NAME_likely.

    Of S bytes at least one segment, the active one, stays.
    """
    segment = "greatest(segment_bytes, 1)"
    closed = f"greatest((size_bytes + {segment} - 1) div {segment} - 1, 0)"
    return (
        f"if({name}_likely is null, null, "
        f"{segment} * least({name}_likely div {segment}, {closed})) as {name}_at_once"
    )
