"""A forecast in words: who holds a purge up, what each mode would take and risk, what to choose."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.clock import format_time
from dashboard.core.words import brokers, duration, first_letter_up, number, plural
from dashboard.domain.model import LEADER_ONLY_SINCE
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.forecast.stalls import UNUSABLE, Holdup, holdups

_CAN_COME_BACK = (
    "A leader that dies before its followers have fetched can bring records back; the run then "
    "says reverted."
)


@dataclass(frozen=True, slots=True)
class ModeForecast:
    """One mode: what it would take just now, and its risk. `refused`: by every leader, for sure."""

    mode: str
    predicted: str
    risk: str
    refused: bool = False


def headline(forecast: Forecast) -> str:
    """What to know before choosing, with a recommendation; nothing is chosen by it."""
    timeout = duration(forecast.timeout_seconds)
    if not forecast.partitions:
        return "No partition to ask for."
    if not forecast.stalls:
        return "Every live replica keeps up: waiting for all is quick, and the safest."
    if not forecast.waiting and not forecast.timing_out:
        return f"{plural(forecast.unusable, 'partition')} cannot be purged just now in any mode."
    worst = next(h for h in holdups(forecast.stalls) if h.cause not in UNUSABLE)
    first = first_letter_up(f"{worst.short}; waiting for all replicas would ")
    would = f"time out after {timeout} for {plural(forecast.timing_out, 'partition')}"
    if not forecast.timing_out:
        return f"{first}take until its next fetch, a second or two: still the safest."
    choice = "leader only" if native_for_all(forecast) else "leader only, verified"
    return (
        f"{first}{would}. The leaders delete at once in every mode; '{choice}' does not wait for "
        "the proof."
    )


def modes(forecast: Forecast) -> list[ModeForecast]:
    """Each mode with its predicted time and its risk, in the order of caution."""
    requests = "A few milliseconds a request"
    native = native_said(forecast)
    return [
        ModeForecast("wait-all", _wait_all(forecast), _wait_all_risk(forecast)),
        ModeForecast(
            "leader-only",
            f"{requests}. {native}" if native_for_all(forecast) else native,
            _CAN_COME_BACK,
            refused=_native_for_none(forecast),
        ),
        ModeForecast(
            "leader-only-verified",
            f"{requests}, then each leader is read back. Any broker version will do.",
            "The same risk as leader only.",
        ),
    ]


def native_for_all(forecast: Forecast) -> bool:
    """Whether every leader speaks DeleteRecords v3."""
    return bool(forecast.leaders) and all(
        forecast.versions.get(b, 0) >= LEADER_ONLY_SINCE for b in forecast.leaders
    )


def _native_for_none(forecast: Forecast) -> bool:
    """Whether every leader told that it does not; one that told nothing may."""
    told = [forecast.versions.get(broker_id) for broker_id in forecast.leaders]
    return bool(told) and all(v is not None and v < LEADER_ONLY_SINCE for v in told)


def native_said(forecast: Forecast) -> str:
    """Which leaders support native leader-only, by their own ApiVersions."""
    if native_for_all(forecast):
        count = len(forecast.leaders)
        return "The leader supports it." if count == 1 else f"All {count} leaders support it."
    by_version: dict[int | None, list[int]] = defaultdict(list)
    for broker_id in forecast.leaders:
        version = forecast.versions.get(broker_id)
        if version is None or version < LEADER_ONLY_SINCE:
            by_version[version].append(broker_id)
    parts = [
        f"{brokers(ids)} {'speaks' if len(ids) == 1 else 'speak'} v{version}: "
        f"{'its' if len(ids) == 1 else 'their'} partitions would be refused with "
        "UNSUPPORTED_VERSION; choose 'leader only, verified'."
        for version, ids in sorted(by_version.items(), key=lambda item: item[0] or 0)
        if version is not None
    ]
    silent = by_version.get(None, [])
    if silent:
        parts.append(f"{brokers(silent)} did not say which version it speaks.")
    return " ".join(first_letter_up(part) for part in parts) or "No partition has a leader."


def notes(forecast: Forecast) -> list[str]:
    """What the forecast cannot promise: brokers that are down, moves that cannot be seen."""
    found = []
    if forecast.not_alive:
        one = len(forecast.not_alive) == 1
        found.append(
            f"{first_letter_up(brokers(forecast.not_alive))} {'is' if one else 'are'} down and not "
            f"waited for: {'it deletes' if one else 'they delete'} after coming back; elected "
            f"uncleanly, {'it brings' if one else 'they bring'} records back."
        )
    silent = {s.broker_id for s in forecast.stalls if s.cause == "leader-silent"}
    unlisted = [b for b in forecast.moves_unknown if b not in silent]
    if unlisted:
        found.append(
            f"{first_letter_up(brokers(unlisted))} did not list log dirs: a move there, which "
            "waiting for all waits for, would not be seen."
        )
    return found


def details(forecast: Forecast) -> list[str]:
    """One line per holdup that the headline does not tell in full, then the notes."""
    listed = holdups(forecast.stalls)
    told = [h for h in listed[:1] if h.cause == "silent"]
    return [h.said for h in listed if h not in told] + notes(forecast)


def advised(forecast: Forecast) -> list[str]:
    """What to do where partitions would time out: whom to fix, until when to wait, which mode."""
    return advice(forecast, "leader only" if native_for_all(forecast) else "leader only, verified")


def waits_json(forecast: Forecast) -> list[dict[str, object]]:
    """Every partition's own wait from its request to the answer; null: nothing can be said."""
    return [
        {
            "topic": wait.key.topic,
            "partition": wait.key.partition,
            "cause": wait.cause,
            "broker_id": wait.broker_id,
            "low_seconds": wait.low_seconds,
            "likely_seconds": wait.likely_seconds,
            "high_seconds": wait.high_seconds,
            "times_out": wait.times_out,
        }
        for wait in forecast.waits
    ]


def to_json(forecast: Forecast) -> dict[str, object]:
    """The `forecast` object of `preview --live`: numbers, and the same in words."""
    return {
        "read_at": format_time(forecast.read_at),
        "seconds": round(forecast.seconds, 3),
        "said": headline(forecast),
        "partitions": forecast.partitions,
        "quick": {"partitions": forecast.quick, "seconds": forecast.quick_seconds},
        "waiting": {"partitions": forecast.waiting},
        "timing_out": {
            "partitions": forecast.timing_out,
            "after_seconds": forecast.timeout_seconds,
        },
        "unusable": {"partitions": forecast.unusable},
        "held_up_by": [
            {
                "broker_id": h.broker_id,
                "cause": h.cause,
                "partitions": h.partitions,
                "error": h.error,
                "lag_records": h.lag_records,
                "lag_seconds": _rounded(h.lag_seconds),
                "closing_per_second": _rounded(h.closing_per_second),
                "seconds_to_go": _rounded(h.seconds_to_go),
                "fetching": h.fetching,
                "said": h.said,
            }
            for h in holdups(forecast.stalls)
        ],
        "not_alive": [
            {"broker_id": b, "partitions": count} for b, count in forecast.not_alive.items()
        ],
        "notes": notes(forecast),
        "details": details(forecast),
        "advice": advised(forecast),
        "waits": waits_json(forecast),
        "leaders": [
            {
                "broker_id": b,
                "partitions": count,
                "delete_records_version": forecast.versions.get(b),
            }
            for b, count in forecast.leaders.items()
        ],
        "modes": [
            {"mode": m.mode, "predicted": m.predicted, "risk": m.risk} for m in modes(forecast)
        ],
    }


def _wait_all(forecast: Forecast) -> str:
    parts = []
    if forecast.quick:
        parts.append(f"{plural(forecast.quick, 'partition')} {_quick(forecast.quick_seconds)}")
    if forecast.waiting:
        ids = {s.broker_id for s in forecast.stalls if s.fetching and s.broker_id is not None}
        parts.append(f"{number(forecast.waiting)} with the next fetch of {brokers(ids)}")
    if forecast.timing_out:
        parts.append(
            f"{number(forecast.timing_out)} would time out after "
            f"{duration(forecast.timeout_seconds)}"
            + (", in requests of their own" if forecast.quick or forecast.waiting else "")
        )
    if forecast.unusable:
        parts.append(f"{number(forecast.unusable)} have no leader that answers")
    return first_letter_up("; ".join(parts)) + "." if parts else "No partition to ask for."


def _quick(seconds: float | None) -> str:
    if seconds is None:
        return "soon (no broker told its followers' long poll)"
    return f"in at most about {duration(seconds)}" if seconds else "at once"


def _wait_all_risk(forecast: Forecast) -> str:
    if forecast.timing_out:
        return "What times out is watched: it stays leader done until its followers arrive."
    return "The safest, and the default: when it answers, every live replica has deleted."


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


# What to do about partitions that would time out: fix whom first, wait until when, which mode.

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
