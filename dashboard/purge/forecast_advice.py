"""What to do about partitions that would time out: fix whom first, wait until when, which mode."""

from __future__ import annotations

from datetime import timedelta

from dashboard.purge.forecast import Forecast
from dashboard.purge.holdups import Holdup, holdups
from dashboard.purge.stalls import UNUSABLE
from dashboard.purge.words import brokers, plural

_WHY = {
    "silent": "it does not answer",
    "behind": "its fetcher stands still",
    "unreadable": "it gives no offsets",
}


def advice(forecast: Forecast, leader_mode: str) -> list[str]:
    """Sentences, the most useful first; empty where waiting for all is quick.

    `leader_mode` is the name of the leader mode that every leader of the plan speaks.
    """
    if not forecast.timing_out:
        return []
    held = [h for h in holdups(forecast.stalls) if not h.fetching and h.cause not in UNUSABLE]
    found = [_move(h, forecast) if h.cause == "log-dir-move" else _fix(h, forecast) for h in held]
    return [
        *found,
        f"Or choose '{leader_mode}': the leaders delete at once, and followers are watched until "
        "they arrive.",
    ]


def _fix(h: Holdup, forecast: Forecast) -> str:
    known = forecast.slow.get(h.broker_id or 0)
    told = f" (the newest analysis says: {known.cause})" if known and known.cause else ""
    fix = (
        f"Fix {brokers([h.broker_id or 0])} first: {_WHY[h.cause]}{told}, and "
        f"{plural(h.partitions, 'partition')} would wait for it."
    )
    at = known.caught_up_at if known and h.cause == "behind" else None
    if at is None or at <= forecast.read_at:
        return fix
    return (
        f"{fix} Or wait until about {at:%H:%M} UTC: by the snapshots' pace it has caught up then."
    )


def _move(h: Holdup, forecast: Forecast) -> str:
    who = f"{brokers([h.broker_id or 0])} moves logs to another log dir"
    if h.seconds_to_go is None:
        return f"Wait until {who} no longer: how long that takes is not known."
    at = forecast.read_at + timedelta(seconds=h.seconds_to_go)
    return f"Wait until about {at:%H:%M} UTC: {who}, and has caught up by then at its present pace."
