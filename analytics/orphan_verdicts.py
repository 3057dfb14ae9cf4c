"""Whether an orphan may go: KIP-370's reasons, as a pure function of what was seen.

A verdict permits nothing: the sweep asks the live cluster again before it touches a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.orphans.last_copy import Kept, Living, Records, kept, later
from dashboard.orphans.words import (
    CHECKPOINT_ENTRY,
    LEAST_SNAPSHOTS,
    NEVER,
    REMOVABLE,
    SCHEDULED,
    TOO_MANY,
)


class Verdict(NamedTuple):
    """`check_at`: when a scheduled orphan is worth another look; None for the others."""

    verdict: str
    reason: str
    check_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen of one orphan. None is unknown.

    `same_name`: the partition that has this name today, `healthy`, `under-replicated` or `offline`;
    None: there is none. `share`: the larger of its broker's shares of folders and of bytes that
    are orphans, 0 to 1. `retention`: the broker's default; negative: records are kept for ever.
    `log_bytes` and `log_end_offset`: what its records take, and the offset after the last one.
    `living`: the partition that has its topic id today; None: there is none.
    """

    kind: str
    directory: str | None
    topic_id: str | None
    assigned: bool
    answered: bool
    seen_now: bool
    same_name: str | None
    share: float | None
    first_seen_at: datetime
    last_seen_at: datetime
    snapshots_seen: int
    newest_at: datetime | None
    retention: timedelta | None
    log_bytes: int | None = None
    log_end_offset: int | None = None
    living: Living | None = None


def verdict(
    facts: Facts, *, now: datetime, delay: timedelta, most_share: float, clock: str = ""
) -> Verdict:
    """Removable, scheduled with the time of another look, or never, and why.

    `now` is the snapshot's time, `delay` how long every snapshot that could look must have shown
    the orphan, and `most_share` how much of a broker may be orphans before that smells of lost
    metadata. `clock`: by what clock the snapshot was taken, where wrong (`snapshot_clocks`).
    """
    wanted = _wanted(facts, now)
    return (
        _never(facts, most_share, wanted)
        or _untimed(facts, delay, clock)
        or _scheduled(facts, now, delay)
        or _awaited(wanted, now, delay)
        or _removable(facts, now)
    )


def _wanted(facts: Facts, now: datetime) -> Kept | None:
    if facts.living is None:
        return None
    records = Records(facts.log_bytes, facts.log_end_offset, facts.newest_at)
    return kept(records, facts.living, now)


def _never(facts: Facts, most_share: float, wanted: Kept | None) -> Verdict | None:
    reason = None
    if facts.kind == CHECKPOINT_ENTRY:
        reason = "an entry in a file that the broker rewrites: there is no folder to remove"
    elif facts.topic_id is None:
        reason = "no topic id: nothing tells this folder from the one of a topic of the same name"
    elif facts.directory is None:
        reason = "the name of its folder is not known: no inventory showed it"
    elif not facts.answered:
        reason = "its broker, or that log dir of it, did not answer: nobody can say what it needs"
    elif facts.assigned:
        reason = "the cluster assigns this topic id and partition to this broker"
    elif facts.same_name in ("under-replicated", "offline"):
        reason = f"the partition of the same name is {facts.same_name}: this may be its last copy"
    elif facts.share is None:
        reason = "how much of its broker is orphans is not known"
    elif facts.share > most_share:
        reason = (
            f"{facts.share * 100:.3g} % of the broker's folders or bytes are orphans, more than "
            f"{most_share * 100:.3g} %: {TOO_MANY}"
        )
    elif facts.retention is not None and facts.retention < timedelta(0):
        reason = "the broker's default retention is unlimited"
    elif wanted is not None and wanted.until is None:
        reason = wanted.reason
    return Verdict(NEVER, reason) if reason else None


def _untimed(facts: Facts, delay: timedelta, clock: str) -> Verdict | None:
    """Ages are counted to the snapshot's time: a wrong clock ends no interval."""
    if not clock:
        return None
    why = f"its snapshot was taken {clock}: nobody knows how old its records are"
    again = "set the clocks right, then collect and analyze again"
    return Verdict(SCHEDULED, f"{why}; {again}", later(facts.last_seen_at, delay))


def _seen_for(facts: Facts, now: datetime) -> timedelta:
    """Not to a time still to come, which some snapshot before bore whose clock ran ahead."""
    return min(facts.last_seen_at, now) - facts.first_seen_at


def _scheduled(facts: Facts, now: datetime, delay: timedelta) -> Verdict | None:
    seen_for = _seen_for(facts, now)
    again = later(now, delay)
    if not facts.seen_now:
        return Verdict(
            SCHEDULED, "no inventory of this snapshot covers its log dir: take a new one", again
        )
    if facts.newest_at is None:
        return Verdict(SCHEDULED, "the age of its newest record is not known", again)
    if facts.retention is None:
        return Verdict(SCHEDULED, "the broker's default retention is not known", again)
    old_at = later(facts.newest_at, facts.retention)
    proved_since = facts.first_seen_at if facts.snapshots_seen else now
    sure_at = later(proved_since, delay)
    due = max(sure_at, old_at, now)
    if facts.snapshots_seen < LEAST_SNAPSHOTS or seen_for < delay:
        times = f"{facts.snapshots_seen} snapshot{'s' * (facts.snapshots_seen != 1)}"
        reason = f"seen by {times} over {in_words(seen_for)}; {in_words(delay)} are asked for"
        return Verdict(SCHEDULED, reason, due)
    if old_at >= now:
        reason = (
            f"its newest record is {in_words(now - facts.newest_at)} old; the broker keeps records "
            f"for {in_words(facts.retention)}"
        )
        return Verdict(SCHEDULED, reason, due)
    return None


def _awaited(wanted: Kept | None, now: datetime, delay: timedelta) -> Verdict | None:
    """What its living partition's own retention has yet to let go of."""
    if wanted is None or wanted.until is None:
        return None
    return Verdict(SCHEDULED, wanted.reason, max(wanted.until, later(now, delay)))


def _removable(facts: Facts, now: datetime) -> Verdict:
    assert facts.newest_at is not None and facts.retention is not None
    let_go = ""
    if facts.living is not None and facts.log_bytes:
        let_go = (
            f" and its topic's own; the log of {facts.living.topic}-{facts.living.partition} "
            f"begins at {facts.living.log_start_offset}, past its end at {facts.log_end_offset}"
        )
    return Verdict(
        REMOVABLE,
        f"every snapshot of {in_words(_seen_for(facts, now))} that could look there shows it, "
        f"{facts.snapshots_seen} of them; no assignment names it; its newest record is "
        f"{in_words(now - facts.newest_at)} old, past the broker's "
        f"{in_words(facts.retention)} of retention{let_go}",
    )


def in_words(duration: timedelta) -> str:
    """A duration with its largest unit and the next: `9 d 4 h`, `30 s`, `0 s`."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return f"-{in_words(-duration)}"
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append((count, unit))
    first, rest = parts[0], parts[1:2]
    words = [first, *(part for part in rest if part[0])]
    return " ".join(f"{count} {unit}" for count, unit in words)
