"""The doctor's sentences, one for each thing it finds or does not know, and a diagnosis of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from dashboard.core.visible import Lines, in_lines
from dashboard.core.words import binary, duration, first_letter_up, number, plural, span
from dashboard.policies.doctor import diagnosis as d
from dashboard.policies.doctor.case import Lag
from dashboard.policies.doctor.diagnosis import Rhythm

INTERVAL = "repartition.purge.interval.ms"
_MS = timedelta(milliseconds=1)
INTERVAL_DEFAULT_MS = 30_000  # StreamsConfig; KIP-811 called it min.repartition.purge.interval.ms
OLD_STREAMS = (
    "Streams before 3.2 knows no such setting and purges after every commit (commit.interval.ms: "
    "100 ms with exactly-once)."
)
LOST_UNREAD = (
    "Records that were not read yet are lost: the application goes on behind them, by its "
    "auto.offset.reset."
)
STRANGERS = (
    "not known: no group is named as the topic begins, and several groups commit there; which of "
    "them it belongs to decides"
)
CONTESTED = (
    "not known: the group that its name begins with is not at work there, and another one commits "
    "there, is assigned it or has a shorter beginning of the name; either may be its application"
)
NO_CONFIG = "not known: its retention settings could not be read (DESCRIBE_CONFIGS on the topic)"


def rhythm_said(found: Rhythm) -> str:
    """How an application purges, and what that tells of its setting."""
    high = found.interval_high / _MS
    if found.interval_low is None or found.every_low is None:
        return (
            f"{found.application} purges once in {duration(found.every_high.total_seconds())} at "
            f"least, so its {INTERVAL} is {high:.0f} or less; snapshots are too far apart to tell "
            "more"
        )
    low = found.interval_low / _MS
    every = f"{found.every_low.total_seconds():.1f} to {found.every_high.total_seconds():.1f} s"
    return (
        f"{found.application} purges every {every}, so its {INTERVAL} is {low:.0f} to {high:.0f}"
        f"{' (30000, the default, fits)' if low <= INTERVAL_DEFAULT_MS <= high else ''}"
    )


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def lag_said(lag: Lag | None) -> str:
    """The longest lag of the topic's application, as a warning about retention needs it."""
    if lag is None:
        return "how far its application was ever behind is not known from the snapshots kept"
    if lag.open_ended:
        return (
            f"its application was behind by {span(lag.longest)} or more in the snapshots kept: "
            "they do not reach further back"
        )
    if not lag.longest:
        return "no snapshot kept shows its application behind"
    return f"its application was behind by up to {span(lag.longest)} in the snapshots kept"


def retention_caution(lag: Lag | None) -> str:
    """Why a retention that is too short loses records of a repartition topic."""
    return (
        "retention deletes records whether they were read or not: a retention.ms shorter than "
        f"the application's longest outage loses data, and {lag_said(lag)}."
    )


def too_short(snapshots: int, seen: timedelta, rules: d.Rules) -> str:
    return (
        f"not enough history yet: {plural(snapshots, 'snapshot')} over {span(seen)}; it takes "
        f"{rules.least_snapshots} over {span(rules.least_span)}"
    )


def not_purged(partitions: int, of: int, since: datetime, commits: int) -> str:
    which = "" if partitions == of else f" of {number(partitions)} of its {of} partitions"
    return (
        f"nobody purges it: the log start{which} stands still since {at(since)} while commits "
        f"moved between {plural(commits, 'pair')} of snapshots, and retention is unlimited, so "
        "its bytes grow"
    )


def too_often(purges: int, freed: int, seen: timedelta) -> str:
    none = "no segment became free" if not freed else f"{plural(freed, 'segment')} became free"
    return (
        f"purged more often than useful: {plural(purges, 'purge')} seen at least, {none} (at most "
        f"{span(seen)} between two purges of a partition); until a segment rolls, a purge frees "
        "nothing"
    )


def never_there(since: datetime) -> str:
    return (
        "its application is gone: no group that its name begins with is known, and none commits "
        f"there since {at(since)} or longer"
    )


def gone(owner: str, state: str | None, since: datetime, seen_commit: bool) -> str:
    fate = "is not listed any more" if state is None else f"is {state} and has no members"
    return f"its application is gone: group {owner} {fate}, {_last_commit(since, seen_commit)}"


def left_behind(owner: str, since: datetime, seen_commit: bool) -> str:
    return (
        f"its application runs, but reads it no more: no member of group {owner} is assigned it, "
        f"{_last_commit(since, seen_commit)} (a changed topology names its topics anew)"
    )


def _last_commit(since: datetime, seen: bool) -> str:
    return f"last commit {at(since)}" if seen else f"no commit since {at(since)} or longer"


def two_purgers(policies: str, foreign: int, ours: int) -> str:
    mine = f"Lowwater sent {plural(ours, 'purge')}" if ours else f"policy {policies} is on"
    return (
        f"two purgers: {mine}, and the log start moved between {plural(foreign, 'pair')} of "
        "snapshots past all that any run of ours asked for; retention is unlimited, so another "
        f"purger is at work, as a rule Streams itself ({INTERVAL})"
    )


def purged_unread(times: int) -> str:
    return (
        f"another tool purges unread records: in {plural(times, 'snapshot')} the log start stood "
        "above what its application had committed even one snapshot later. Streams purges up to "
        "its commits and no further, retention is unlimited, and no run of ours asked for it"
    )


def incomplete(reasons: Sequence[str]) -> str:
    return f"not known: its group is not listed, but groups may be missing: {'; '.join(reasons)}"


def stopped(owner: str | None, since: datetime, seen_commit: bool, rules: d.Rules) -> str:
    who = f"group {owner} has no members now" if owner else "no group has the name it begins with"
    return (
        f"not known yet: {who}, {_last_commit(since, seen_commit)}; an application is called gone "
        f"after {span(rules.dead_after)} without a commit"
    )


def dead_caution(unread: int | None, lag: Lag | None) -> str:
    """What changing the retention of a dead application's topic costs if it was not dead."""
    if unread is None:
        left = "How many of its records were never read is not known. "
    else:
        were = f"{plural(unread, 'record')} {'was' if unread == 1 else 'were'}"
        left = f"{were} never read and would be lost. " if unread else ""
    back = "Before the application is started again, set retention.ms back. "
    return left + back + first_letter_up(retention_caution(lag))


def retention_does_it(policy: str, target: str, name: str) -> str:
    return (
        f"retention does it better: policy {policy} purges it to {target}, and {name} of the topic "
        "keeps the same without any request, and frees active segments too"
    )


def healthy(purges: int, freed: int | None, *, bounded: bool, busy: bool) -> str:
    if purges:
        went = "" if freed is None else f", {plural(freed, 'segment')} became free"
        return f"healthy: {plural(purges, 'purge')} seen at least{went}"
    if not busy:
        return "healthy: idle, no commit moved"
    if bounded:
        return "healthy: no purge is seen, but its retention keeps it from growing"
    return "healthy: nothing lies below its commits for long"


def bytes_said(size_bytes: int | None) -> str:
    return "its bytes, an unknown number," if size_bytes is None else f"its {binary(size_bytes)}"


# A diagnosis in words, in one place: the command line and the page say the same.

NO_TOPIC = "No topic of the newest snapshot is named *-repartition, or there is no snapshot yet."


def setting_said(setting: d.Setting) -> str:
    """`set retention.ms=86400000 on the topic (now -1): why`."""
    place = _PLACES[setting.where]
    now = "" if setting.now is None else f" (now {setting.now})"
    if setting.to is None:
        return f"{setting.name}{place}: {setting.why}"
    if setting.to in ("on", "off"):
        return f"switch {setting.to} {setting.name}: {setting.why}"
    return f"set {setting.name}={setting.to}{place}{now}: {setting.why}"


_PLACES = {
    "application": " in the application",
    "topic": " on the topic",
    "lowwater": " in lowwater.toml",
    "cluster": "",
}


def saves_said(diagnosis: d.Diagnosis) -> str:
    """What following the advice gives back; unknown is said, nothing is not."""
    parts = []
    if diagnosis.saves_bytes is None:
        parts.append("how many bytes is not known")
    elif diagnosis.saves_bytes:
        parts.append(f"{binary(diagnosis.saves_bytes)} over all replicas")
    if diagnosis.saves_requests_per_hour:
        rate = diagnosis.saves_requests_per_hour
        parts.append(f"{number(rate) if rate >= 10 else f'{rate:.1f}'} requests an hour or more")
    return ", ".join(parts)


def seen_said(evidence: d.Evidence) -> str:
    """From how many snapshots, over which time, and how sure that is."""
    if evidence.from_at is None or evidence.to_at is None:
        return ""
    said = (
        f"{plural(evidence.snapshots, 'snapshot')}, {at(evidence.from_at)} to "
        f"{at(evidence.to_at)}; confidence {evidence.confidence}"
    )
    if evidence.purges_at_least and evidence.others_at_least is not None:
        said += (
            f"; {plural(evidence.purges_at_least, 'purge')} at least, "
            f"{number(evidence.others_at_least)} of them not ours"
        )
    return said


def paragraph(diagnosis: d.Diagnosis) -> Lines:
    """One problem for the command line: topic, what is wrong, what to set, what it saves."""
    saves = saves_said(diagnosis)
    found = [
        diagnosis.sentence,
        setting_said(diagnosis.setting) if diagnosis.setting else "",
        f"saves: {saves}" if saves else "",
        f"caution: {diagnosis.caution}" if diagnosis.caution else "",
        f"seen: {seen_said(diagnosis.evidence)}",
    ]
    return in_lines([diagnosis.topic, *(f"  {line}" for line in found if line)])


def rhythms(found: Iterable[d.Diagnosis]) -> list[str]:
    """A line for each application whose purges show a rhythm, by its name."""
    by_name = {one.rhythm.application: one.rhythm for one in found if one.rhythm}
    return [rhythm_said(by_name[name]) for name in sorted(by_name)]


def summary(found: Sequence[d.Diagnosis]) -> str:
    """`12 repartition topics: 2 nobody purges, 1 whose application is gone, 9 healthy`."""
    counts = Counter(diagnosis.kind for diagnosis in found)
    topics = plural(len({diagnosis.topic for diagnosis in found}), "repartition topic")
    kinds = (f"{number(counts[kind])} {_COUNTED[kind]}" for kind in d.KINDS if counts[kind])
    return f"{topics}: {', '.join(kinds)}"


_COUNTED = {
    d.NOT_PURGED: "that nobody purges",
    d.DEAD: "whose application is gone",
    d.TWO_PURGERS: "with two purgers",
    d.TOO_OFTEN: "purged more often than useful",
    d.RETENTION: "where retention does it better",
    d.UNKNOWN: "not known yet",
    d.HEALTHY: "healthy",
}
