"""A diagnosis in words, in one place: the command line and the page say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dashboard.core.visible import Lines, in_lines
from dashboard.core.words import binary, number, plural
from dashboard.policies.doctor import diagnosis as d
from dashboard.policies.doctor.words import at

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
    return (
        f"{plural(evidence.snapshots, 'snapshot')}, {at(evidence.from_at)} to "
        f"{at(evidence.to_at)}; confidence {evidence.confidence}"
    )


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
