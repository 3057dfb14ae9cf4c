"""How collecting stands now: by the newest attempt, for a snapshot tells only of what went well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.core.errors import StoreError
from dashboard.store import attempts
from dashboard.store.attempts import STALE_AFTER_INTERVALS, Attempt, Failure, Seen
from dashboard.ui.components import markup
from dashboard.ui.session.context import Screen
from dashboard.views import formats

# Nobody answered at all; other failures (a login, a full disk) say nothing of the brokers.
_NOBODY = ("CLUSTER_UNREACHABLE", "BROKER_UNREACHABLE", "ANSWER_LOST")


@dataclass(frozen=True, slots=True)
class Standing:
    """`brokers` as in "2 of 3 brokers", what each said, what is wrong, and the last error."""

    brokers: str
    each_broker: str
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None
    failed_at: datetime | None = None


def standing(newest: Screen, now: datetime) -> Standing:
    """Of the newest snapshot's cluster. A trace that cannot be read is a warning."""
    made, unread = None, []
    try:
        made = attempts.read(newest.cluster)
    except StoreError as error:
        unread = [f"how collecting stands is not known: {error.message}"]
    taken_at, every = newest.manifest.taken_at, newest.settings.every
    found = judge(made, newest.brokers, taken_at, every, now)
    return replace(found, warnings=(*found.warnings, *unread))


def judge(
    made: Attempt | None,
    seen: Sequence[Seen],
    taken_at: datetime,
    every: timedelta,
    now: datetime,
) -> Standing:
    """`seen` are the brokers of the newest snapshot, of `taken_at`; `every` is that of settings."""
    ahead = formats.to_come(taken_at, now)
    odd = [_ahead("the newest snapshot", taken_at, now)] if ahead else []
    sign = made.newest_sign if made else None
    # A snapshot of a time to come tells nothing of what an attempt met before or after it.
    if made is None or sign is None or (sign < taken_at and not ahead):
        # An older release collects: snapshots are all that it leaves.
        stale = f"stale: no snapshot for over three intervals of {formats.duration(every)}; is "
        old = now - taken_at > STALE_AFTER_INTERVALS * every
        return _told(seen, odd, [f"{stale}watch running?"] if old else [])
    counts = made.ended_at is not None and (ahead or made.ended_at >= taken_at)
    failure = made.failure if counts else None
    if failure is None:
        return _told(made.brokers or seen, odd, _silence(made, every, now))
    if not made.brokers and failure.code in _NOBODY:
        brokers = [Seen(b.broker_id, reachable=False, error=failure.message) for b in seen]
    else:
        brokers = list(made.brokers)
    failed = f"the newest attempt to collect failed {formats.ago(made.ended_at, now)}"
    told = _told(brokers, [failed, *odd], _silence(made, every, now))
    return replace(told, failure=failure, failed_at=made.ended_at)


def failure_html(found: Standing, shown: datetime, now: datetime) -> str:
    """The collector's last error: what, since when the page is blind, and what to do."""
    failure = found.failure
    assert failure is not None
    return (
        '<div class="lw lw-state warn" role="alert"><h2>The cluster cannot be read '
        f"({markup.text(failure.code)})</h2><p>{markup.ago(found.failed_at, now)}: "
        f"{markup.text(failure.message)}. Every number here is of {markup.ago(shown, now)}.</p>"
        f"<p><b>Next:</b> {markup.text(failure.next)}</p></div>"
    )


def _told(
    brokers: Sequence[Seen], warnings: Sequence[str] = (), silence: Sequence[str] = ()
) -> Standing:
    away = [broker for broker in brokers if not broker.reachable]
    said = f"{len(brokers) - len(away)} of {formats.plural(len(brokers), 'broker')}"
    each = "; ".join(f"broker {b.broker_id}: {b.error or 'answered'}" for b in brokers)
    if not brokers:
        said, each = "brokers not known", "the newest attempt to collect did not come that far"
    missing = []
    if away:
        ids = ", ".join(str(broker.broker_id) for broker in away)
        every_one = len(away) == len(brokers)
        noun = "no broker" if every_one else f"broker {ids}" if len(away) == 1 else f"brokers {ids}"
        missing = [f"{noun} answered" if every_one else f"{noun} did not answer"]
    if silence:  # nobody looks any more: what they said is of the past
        said += " when last asked"
    return Standing(said, each, (*missing, *warnings, *silence))


def _ahead(what: str, moment: datetime, now: datetime) -> str:
    return (
        f"{what} bears a time to come ({formats.utc(moment)}, {formats.ago(moment, now)}): a clock "
        "is or was wrong, so nobody knows how old it is"
    )


def _silence(made: Attempt, every: timedelta, now: datetime) -> list[str]:
    """Whether the collector itself is away: ended in order, hanging, or gone without a word."""
    once_in = made.every or every
    if made.left_at is not None:
        return [f"nothing is collected: watch ended {formats.ago(made.left_at, now)}"]
    sign = made.newest_sign
    if sign is not None and formats.to_come(sign, now):
        return [_ahead("the newest attempt to collect", sign, now)]
    if sign is None or now - sign <= STALE_AFTER_INTERVALS * once_in:
        return []
    if made.trying_since == sign:
        return [
            f"an attempt to collect began {formats.ago(sign, now)} and has not ended: it hangs, or "
            "was killed"
        ]
    return [
        f"stale: nobody has tried to collect for {formats.duration(now - sign)}, over three "
        f"intervals of {formats.duration(once_in)}; is watch running?"
    ]
