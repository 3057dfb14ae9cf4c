"""A triage as the object that `lowwater triage --json` prints."""

from __future__ import annotations

from dashboard.core.clock import format_time
from dashboard.triage.answer import Triage
from dashboard.triage.offers import Offer, instead
from dashboard.triage.pieces import Here, Piece, total
from dashboard.triage.selection import Chosen
from dashboard.triage.timing import helps
from dashboard.triage.words import TIERS, sentences


def to_json(answer: Triage) -> dict[str, object]:
    """Sizes in bytes on the disk in need, times in seconds; null where something is not known."""
    question, disk = answer.question, answer.disk
    return {
        "cluster_name": answer.cluster_name,
        "analysis_id": answer.analysis_id,
        "analysis_at": format_time(answer.analysis_at),
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
        "time": _time(answer),
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


def _time(answer: Triage) -> dict[str, object] | None:
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
