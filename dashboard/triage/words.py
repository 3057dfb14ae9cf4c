"""A triage in sentences, the same on the command line, in JSON and on the page; and that JSON."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.clock import format_time
from dashboard.core.visible import pair
from dashboard.core.words import binary, days_ahead, duration, first_letter_up, plural
from dashboard.triage.answer import Triage
from dashboard.triage.pieces import DECLARED, NONE, UNDECLARED, WAIVED, Here, Piece, total
from dashboard.triage.selection import LIKELY, POSSIBLE, SURE, Chosen, Offer, instead, why
from dashboard.triage.timing import WAIT_ALL, helps

TIERS = {
    DECLARED: "consumed by every known group, readers declared",
    UNDECLARED: "consumed by every known group, readers not declared",
    WAIVED: "freed by waiving a dead group",
}
_SURE = {
    SURE: "Surely enough",
    LIKELY: "Likely enough, not surely",
    POSSIBLE: "Hardly enough",
}


@dataclass(frozen=True, slots=True)
class Ways:
    """How an operator allows more, or asks for another disk, where the sentences are read."""

    accept: str
    waive: str  # with {group}, or {pair} as a word of a command line
    log_dir: str  # with {log_dir} as such a word


FLAGS = Ways(
    '--accept-undeclared "why" takes them',
    "--waive {pair} allows it",
    "--log-dir {log_dir} says what does",
)


def sentences(answer: Triage, ways: Ways = FLAGS) -> list[str]:
    """All of it, in the order in which an operator asks."""
    if answer.disk.obstacle:
        return [need(answer), why(answer.disk)]
    said = [*known_by(answer), need(answer), *disk(answer, ways), verdict(answer)]
    said += exactness(answer)
    said += [*by_tier(answer), *not_taken(answer, ways)]
    return [*said, *time(answer), *follow(answer)]


def known_by(answer: Triage) -> list[str]:
    """Of when the bytes are; why what goes on since is not told where findings are too old."""
    age = answer.age
    by = f"{age.said[:1].lower()}{age.said[1:]}"
    said = [f"Bytes are known {by}; offsets are read now."]
    if age.unusable:
        said.append(
            f"{first_letter_up(age.unusable)}. What they tell of growth and of slow followers does "
            "not count."
        )
    return said


def need(answer: Triage) -> str:
    """What was asked for, and what is written until then."""
    question, written = answer.question, answer.written_bytes
    said = (
        f"Broker {question.broker_id} needs {binary(question.need_bytes)} on "
        f"{answer.disk.log_dir} within {_time(question.within)}."
    )
    if answer.disk.obstacle:
        return said
    if written is None:
        return (
            f"{said} How fast that disk fills is not known{'' if answer.age.unusable else ' yet'}: "
            "nothing is added for what is written meanwhile."
        )
    if not written:
        return f"{said} The disk does not grow just now."
    return (
        f"{said} It grows by {binary(answer.disk.grows_by or 0)} an hour: with what is written "
        f"meanwhile {binary(answer.needed_bytes)} are needed."
    )


def disk(answer: Triage, ways: Ways = FLAGS) -> list[str]:
    """How full it is, until when it lasts, and which other disks of the broker are offline."""
    found, said = answer.disk, []
    if found.used_share is not None and found.usable_bytes is not None:
        left = f"It is {found.used_share:.0%} full, {binary(found.usable_bytes)} are left"
        said.append(f"{left}{_lasts(answer)}.")
    if found.error:
        said.append(
            f"The broker does not list its log dirs ({found.error}): what lies there is as the "
            "newest analysis knows it."
        )
    for other in found.offline:
        said.append(
            f"Its log dir {other} is offline: no purge frees anything there "
            f"({ways.log_dir.format(log_dir=shlex.quote(other))})."
        )
    return said


def verdict(answer: Triage) -> str:
    """Whether it is enough, how surely, and how much it is."""
    if not answer.chosen or answer.plan is None:
        return "Nothing there can be purged safely: no partition on it is free to."
    here = answer.here
    topics = {c.key.topic for c in answer.chosen}
    what = (
        f"{plural(len(answer.chosen), 'partition')} of {plural(len(topics), 'topic')} "
        f"free{'s' if len(answer.chosen) == 1 else ''} {spread(here)} on this disk"
        f"{_elsewhere(answer)}"
    )
    if answer.sure in _SURE:
        return f"{_SURE[answer.sure]}: {what}."
    missing = binary(answer.needed_bytes - here.likely)
    return f"Not enough: {what}; about {missing} are missing."


def exactness(answer: Triage) -> list[str]:
    """What would make it surer, where the estimates are far apart and not surely enough."""
    here = answer.here
    if answer.sure == SURE or here.low == here.high:
        return []
    return [
        "An inventory of that disk would make these bytes exact to the segment: lowwater "
        "inventory scan on the broker's host, collect --inventory, analyze, and ask again."
    ]


def spread(here: Here) -> str:
    """`41.2 GiB`, or `at least 40.8 GiB, likely 41.2 GiB, at most 41.9 GiB`."""
    if here.low == here.high:
        return binary(here.likely)
    most = "with no bound known" if here.high is None else f"at most {binary(here.high)}"
    return f"at least {binary(here.low)}, likely {binary(here.likely)}, {most}"


def by_tier(answer: Triage) -> list[str]:
    """How the plan's bytes divide by loss risk, where it is not all of the safest kind."""
    found: dict[int, Here] = defaultdict(lambda: NONE)
    count: dict[int, int] = defaultdict(int)
    for chosen in answer.chosen:
        found[chosen.tier] += chosen.here
        count[chosen.tier] += 1
    return [
        f"{plural(count[tier], 'partition')}: {TIERS[tier]}, {binary(found[tier].likely)}."
        for tier in sorted(found)
    ]


def not_taken(answer: Triage, ways: Ways) -> list[str]:
    """What more there would be, and what it takes: an operator's word, never a default."""
    said = []
    plain = [piece for piece in answer.unaccepted if piece.tier == UNDECLARED]
    if plain:
        topics = len({piece.key.topic for piece in plain})
        said.append(
            f"Not planned: {binary(total(plain).likely)} in {plural(topics, 'topic')} that every "
            "known group has consumed but whose readers nobody declared: "
            f"{ways.accept}."
        )
    for offer in answer.offers:
        allows = ways.waive.format(group=offer.group_id, pair=pair(offer.group_id, "why"))
        said.append(
            f"Not planned: waiving {offer.group_id}, which has no members, would free "
            f"{binary(offer.here.likely)} more: {allows}"
            + (
                f" ({plural(offer.undeclared, 'partition')} of it in undeclared topics)."
                if offer.undeclared
                else "."
            )
        )
    if answer.blocked:
        said.append(
            f"Not offered: {binary(total(answer.blocked).likely)} behind other guards "
            f"({', '.join(_guards(answer))})."
        )
    if answer.unread:
        said.append(
            f"Not read, so not weighed: {_listed(answer.unread)} (their metadata or configs; "
            "lowwater doctor tells which right is missing)."
        )
    if answer.incomplete:
        said.append(f"Nothing is safe while groups may be hidden: {'; '.join(answer.incomplete)}.")
    return said


def _elsewhere(answer: Triage) -> str:
    """The bonus on other disks, from the plan's estimates over all replicas."""
    sizes = (
        [p.estimate.bytes_at_once for p in answer.plan.partitions if p.estimate]
        if (answer.plan)
        else []
    )
    rest = sum(size for size in sizes if size is not None) - answer.here.likely
    return f", and {binary(rest)} on other disks" if rest > 0 else ""


def _lasts(answer: Triage) -> str:
    full, found = answer.disk.full_in, answer.timing
    if full is None:
        return ""
    said = f"; at that pace it is full in {days_ahead(full / timedelta(days=1))}"
    late = found is not None and (
        found.worst_seconds is None or full.total_seconds() < found.worst_seconds
    )
    if late:
        said += ", which is before the bytes leave: slow producers down with quotas, or extend it"
    return said


def _guards(answer: Triage) -> Iterable[str]:
    count: dict[str, int] = defaultdict(int)
    for blocked in answer.blocked:
        for name in blocked.guards:
            count[name] += 1
    return (f"{name}: {plural(count[name], 'partition')}" for name in sorted(count))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _time(time: timedelta) -> str:
    return duration(time.total_seconds())


# When a triage's bytes have left, and who would hold them up, in sentences.


def time(answer: Triage) -> list[str]:
    """When the bytes have left at the latest, of what that is made, and what would help."""
    found = answer.timing
    if found is None:
        return []
    parts = (
        f"purge {duration(found.purge_seconds)}, retention check every "
        f"{duration(found.check_seconds)}, file delete delay {duration(found.delay_seconds)}"
    )
    if found.worst_seconds is None:
        own = any(risk.broker_id == answer.question.broker_id for risk in answer.risks)
        why = "the broker itself follows slowly" if own else "who follows slowly was not told"
        when = f"When the bytes have left cannot be said: {why}"
    else:
        if found.follower_seconds:
            parts = f"catching up {duration(found.follower_seconds)}, {parts}"
        late = "in time" if answer.in_time else "too late"
        when = (
            f"The bytes have left {duration(found.worst_seconds)} after the purge begins at the "
            f"latest: {late}"
        )
    assumed = f"; {', '.join(found.assumed)} could not be read" if found.assumed else ""
    return [f"{when} ({parts}{assumed}).", *helps(found, answer.question.within)]


def follow(answer: Triage) -> list[str]:
    """Who is slow, what that means for this disk, and the mode to apply with."""
    said = [risk.said for risk in answer.risks]
    mine = any(risk.broker_id == answer.question.broker_id for risk in answer.risks)
    if mine:
        said.append(
            f"Broker {answer.question.broker_id} is itself behind: it moves its log starts only "
            "when it fetches from the leaders, so its bytes leave late."
        )
    if answer.plan is not None and answer.mode != WAIT_ALL:
        said.append(
            f"Apply with --mode {answer.mode}: waiting for all replicas would stall until the "
            "slow ones come. A leader that dies before its followers fetched can bring records "
            "back; the run then says reverted."
        )
    return said


# A triage as the object that `lowwater triage --json` prints.


def triage_json(answer: Triage) -> dict[str, object]:
    """Sizes in bytes on the disk in need, times in seconds; null where something is not known."""
    question, disk = answer.question, answer.disk
    return {
        "cluster_name": answer.cluster_name,
        "analysis_id": answer.analysis_id,
        "analysis_at": format_time(answer.analysis_at),
        **answer.age.to_json(),
        "broker_id": question.broker_id,
        "log_dir": disk.log_dir,
        "need_bytes": question.need_bytes,
        "within_seconds": question.within.total_seconds(),
        "written_bytes": answer.written_bytes,
        "needed_bytes": answer.needed_bytes,
        "met": answer.met,
        "sure": answer.sure,
        "in_time": answer.in_time,
        **_here(answer.here),
        "disk": _disk(answer),
        "tiers": [_tier(answer, tier) for tier in TIERS],
        "partitions": [_partition(chosen) for chosen in answer.chosen],
        "waivers": [_offer(offer) for offer in answer.offers],
        "blocked": [
            {"topic": b.key.topic, "partition": b.key.partition, "guards": list(b.guards),
             **_here(b.here)}
            for b in answer.blocked
        ],
        "unread_topics": list(answer.unread),
        "groups_incomplete": list(answer.incomplete),
        "time": _time_json(answer),
        "followers": [
            {"broker_id": r.broker_id, "partitions": r.partitions, "said": r.said,
             "catch_up_seconds": r.catch_up_seconds, "in_need": r.broker_id == question.broker_id}
            for r in answer.risks
        ],
        "mode": answer.mode,
        "instead": instead(disk),
        "said": sentences(answer),
    }  # fmt: skip


def _here(here: Here) -> dict[str, int | None]:
    return {"bytes_low": here.low, "bytes_likely": here.likely, "bytes_high": here.high}


def _disk(answer: Triage) -> dict[str, object]:
    disk = answer.disk
    return {
        "total_bytes": disk.total_bytes,
        "usable_bytes": disk.usable_bytes,
        "used_share": disk.used_share,
        "growth_per_hour": disk.grows_by,
        "full_in_seconds": disk.full_in.total_seconds() if disk.full_in is not None else None,
        "error": disk.error,
        "obstacle": disk.obstacle,
        "offline_log_dirs": list(disk.offline),
    }


def _tier(answer: Triage, tier: int) -> dict[str, object]:
    """What is planned of a tier, and what the operator's word would add to it."""
    planned = [c for c in answer.chosen if c.tier == tier]
    rest: list[Piece] = [piece for piece in answer.unaccepted if piece.tier == tier]
    return {
        "tier": tier,
        "meaning": TIERS[tier],
        "partitions": len(planned),
        **_here(sum((c.here for c in planned), Here(0, 0, 0))),
        "not_accepted": {"partitions": len(rest), **_here(total(rest))},
    }


def _partition(chosen: Chosen) -> dict[str, object]:
    key = chosen.key
    return {"topic": key.topic, "partition": key.partition, "tier": chosen.tier,
            "undeclared": chosen.undeclared, **_here(chosen.here)}  # fmt: skip


def _offer(offer: Offer) -> dict[str, object]:
    return {
        "group_id": offer.group_id,
        "partitions": offer.partitions,
        "undeclared_partitions": offer.undeclared,
        "last_commit_at": format_time(offer.last_commit_at) if offer.last_commit_at else None,
        **_here(offer.here),
    }


def _time_json(answer: Triage) -> dict[str, object] | None:
    found = answer.timing
    if found is None:
        return None
    return {
        "purge_seconds": found.purge_seconds,
        "follower_seconds": found.follower_seconds,
        "retention_check_seconds": found.check_seconds,
        "file_delete_delay_seconds": found.delay_seconds,
        "worst_seconds": found.worst_seconds,
        "assumed": list(found.assumed),
        "helps": helps(found, answer.question.within),
    }
