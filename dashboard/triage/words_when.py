"""When a triage's bytes have left, and who would hold them up, in sentences."""

from __future__ import annotations

from dashboard.purge.words import duration
from dashboard.triage.answer import Triage
from dashboard.triage.followers import WAIT_ALL
from dashboard.triage.timing import helps


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
        when = "When the bytes have left cannot be said: the broker itself follows slowly"
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
