"""The retention that fits a topic's declared readers: the rule, and the change as text.

Nothing here changes a topic, and nothing of ours does: it gives what to copy.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.core.clock import format_time
from dashboard.core.csv_cells import rows_as_csv
from dashboard.core.words import binary
from dashboard.settings.sections import Price, beside

SHORTER, KEEP, TOO_SHORT, UNKNOWN = "shorter", "keep", "too-short", "unknown"
FORMS = ("kafka-configs", "terraform", "strimzi")
CAUTION = (
    "Lowwater changes no topic. Older records leave within minutes, for good, by their own time: "
    "producers may set it (message.timestamp.type), and a mirror that was down brings old ones. "
    "Readers without a group show in brokers' metrics alone."
)
LEAST_SEEN = timedelta(days=7)  # so that a job of each week was seen once
_HOUR, _DAY = 3_600_000, 86_400_000
# Who was never late yet may stand still from Friday evening until somebody is back on Monday.
_LEAST_KEPT = 3 * _DAY
_ROUND = [n * _DAY for n in (3, 5, 7, 10, 14, 21, 30)]
_ORDER = (SHORTER, TOO_SHORT, KEEP, UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFit:
    """A row of `retention_fit`: a topic whose readers are declared, how far behind they were, and
    which retention fits; None is unknown. Bytes are of all replicas, freed by the shorter one.
    """

    snapshot_id: str = ""
    taken_at: datetime
    topic: str
    topic_id: str | None = None
    owner: str | None = None
    partitions: int
    unknown_partitions: int
    lag_since: datetime | None
    lag_low_ms: int | None
    lag_high_ms: int | None
    margin: float
    replay_window_ms: int | None
    retention_ms: int | None
    size_bytes: int | None = None
    guards: Sequence[str]
    gone_groups: Sequence[str] | None
    groups_since: datetime | None
    freed_low_bytes: int | None = None
    freed_likely_bytes: int | None = None
    freed_high_bytes: int | None = None
    fits_ms: int | None = None
    verdict: str = UNKNOWN
    reason: str = ""

    def judged(self) -> RetentionFit:
        """With fits_ms (None: not known), verdict and reason."""
        why = _unknown(self)
        if why is not None:
            return replace(self, fits_ms=None, verdict=UNKNOWN, reason=why)
        since = self.lag_since or self.taken_at  # it is known: `_unknown` had nothing to say
        now, low, lag = self.retention_ms or 0, self.lag_low_ms or 0, self.lag_high_ms or 0
        fits = fitting_ms(lag, self.margin, self.replay_window_ms or 0)
        lagged = f"its readers were at most {span(lag)} behind since {format_time(since)}"
        if now >= 0 and low >= now:
            reason = f"readers were {span(low)} behind or more: records may go unread"
            return replace(self, fits_ms=fits, verdict=TOO_SHORT, reason=reason)
        verdict = KEEP if 0 <= now <= fits else SHORTER
        return replace(self, fits_ms=fits, verdict=verdict, reason=lagged)


def in_order(rows: Iterable[RetentionFit]) -> list[RetentionFit]:
    """Rows of `retention_fit`: those that may be shorter first, by what that frees."""

    def place(row: RetentionFit) -> tuple[int, int, str]:
        return _ORDER.index(row.verdict), -(row.freed_likely_bytes or 0), row.topic

    return sorted(rows, key=place)


def fitting_ms(lag_high_ms: int, margin: float, replay_window_ms: int) -> int:
    """The retention of `margin` times that lag, not below the replay window nor three days,
    rounded up to what people write: 5 d, 14 d, above 30 days whole days.
    """
    least = max(math.ceil(lag_high_ms * margin), replay_window_ms, _LEAST_KEPT)
    whole_days = -(-least // _DAY) * _DAY
    return next((size for size in _ROUND if size >= least), whole_days)


def named(groups: Sequence[str]) -> str:
    """The first of these groups, and how many more there are."""
    return groups[0] + (f" and {len(groups) - 1} more" if len(groups) > 1 else "")


def _unknown(row: RetentionFit) -> str | None:
    if row.guards:
        return f"its readers are not all known: {', '.join(row.guards)}"
    if gone := row.gone_groups:
        return f"group {named(gone)} read it and is gone: it may come back for what it has not read"
    since, came = row.lag_since, row.groups_since
    if row.unknown_partitions or since is None or came is None or row.lag_high_ms is None:
        return (
            f"how far its readers are behind is not known on {row.unknown_partitions} of "
            f"{row.partitions} partitions"
        )
    if row.retention_ms is None:
        return "its retention.ms could not be read"
    return _too_new(since, came, row.taken_at)


def _too_new(since: datetime, came: datetime, taken_at: datetime) -> str | None:
    """Whether a job of each week may not have been seen: of any group, or of the last that came."""
    if taken_at - since < LEAST_SEEN:
        return f"not known for long enough: since {format_time(since)}, 7 days are needed"
    if taken_at - came < LEAST_SEEN:
        return (
            f"a group reads it since {format_time(came)} only: 7 days are needed to see when it "
            "comes again"
        )
    return None


def span(length_ms: int | None) -> str:
    """`36 h`, `7 d`, `4 min`; below 0 is for ever, None unknown."""
    if length_ms is None:
        return "unknown"
    if length_ms < 0:
        return "for ever"
    for one, name in ((_DAY, "d"), (_HOUR, "h"), (60_000, "min"), (1000, "s")):
        if length_ms >= 2 * one or (length_ms >= one and length_ms % one == 0):
            return f"{round(length_ms / one, 1):g} {name}"
    return f"{length_ms} ms"


def headline(rows: Sequence[RetentionFit], price: Price | None = None) -> str:
    """How many topics may keep records for less, and what that frees, with its bounds; `price`
    tells what those bytes cost.
    """
    shorter = [row for row in rows if row.verdict == SHORTER]
    unknown = sum(row.verdict == UNKNOWN for row in rows)
    said = f"{len(shorter)} of {len(rows)} topics with declared readers may keep records for less"
    known = [row for row in shorter if row.freed_likely_bytes is not None]
    if known:
        low, likely, high = (
            binary(sum(getattr(row, f"freed_{end}_bytes") for row in known))
            for end in ("low", "likely", "high")
        )
        cost = beside(price, sum(row.freed_likely_bytes or 0 for row in known))
        said += f"; that frees {likely}{cost} on all replicas ({low} to {high})"
    if len(known) < len(shorter):
        said += f"; of {len(shorter) - len(known)} the bytes are not known"
    return said + (f"; of {unknown} it is not known" if unknown else "") + "."


def change(
    row: RetentionFit, form: str, bootstrap_servers: str | None, unusable: str
) -> str | None:
    """The shorter retention as text in one of FORMS, to be copied; None where none is proposed.

    `unusable`: why none is given all the same, by the age of the findings or by who else may want
    the records (`findings_age`, `purge/evidence/standards.py`); "": it is given.
    """
    if row.verdict != SHORTER or unusable:
        return None
    topic, fits = row.topic, row.fits_ms or 0
    if form == "terraform":
        return _terraform(topic, fits)
    if form == "strimzi":
        return _strimzi(topic, fits)
    servers = shlex.quote(bootstrap_servers or "BROKER:9092")
    return (
        f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics "
        f"--entity-name {shlex.quote(topic)} --add-config retention.ms={fits}"
    )


def changes(
    rows: Sequence[RetentionFit],
    form: str,
    bootstrap_servers: str | None,
    unusable: str,
    doubts: Mapping[str, str],
) -> str:
    """The shorter retention of every topic that has one, as one text of the form; a comment says
    why of those to which none is given. `doubts`: per topic who else may want its records.
    """
    parts = [_comment(CAUTION)]
    for row in (row for row in rows if row.verdict == SHORTER):
        why = unusable or doubts.get(row.topic, "")
        text = change(row, form, bootstrap_servers, why)
        parts.append(text or _comment(f"{row.topic}: no change is given: {why}"))
    return ("\n---\n" if form == "strimzi" else "\n\n").join(parts) + "\n"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in text.splitlines())


_CSV = ("topic", "verdict", "reason", "owner", "lag_high_ms", "retention_ms", "fits_ms",
        "freed_low_bytes", "freed_likely_bytes", "freed_high_bytes")  # fmt: skip


def as_csv(rows: Sequence[RetentionFit]) -> str:
    """A line a topic, under the columns' own names."""
    return rows_as_csv(_CSV, ([getattr(row, name) for name in _CSV] for row in rows))


def _terraform(topic: str, fits: int) -> str:
    """A resource of the provider Mongey/kafka."""
    label = re.sub(r"[^A-Za-z0-9_-]", "_", topic)
    label = label if label[:1].isalpha() else f"_{label}"
    return (
        f'resource "kafka_topic" "{label}" {{\n'
        f"  name = {json.dumps(topic).replace('${', '$${')}\n"
        "  # partitions, replication_factor and other config stay as they are\n"
        "  config = {\n"
        f'    "retention.ms" = "{fits}"\n'
        "  }\n"
        "}"
    )


def _strimzi(topic: str, fits: int) -> str:
    """A KafkaTopic of Strimzi; its name is the one that the resource has today."""
    name = re.sub(r"[^a-z0-9.-]+", "-", topic.lower()).strip("-.") or "topic"
    return (
        "apiVersion: kafka.strimzi.io/v1beta2\n"
        "kind: KafkaTopic\n"
        "metadata:\n"
        f"  name: {json.dumps(name)}  # as your resource is called\n"
        "spec:\n"
        f"  topicName: {json.dumps(topic)}\n"
        "  # partitions, replicas and other config stay as they are\n"
        "  config:\n"
        f"    retention.ms: {fits}"
    )
