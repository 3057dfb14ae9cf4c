"""Step 1 of a purge: topics, up to where, and what is waived or lifted by name and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.clock import parse_time
from dashboard.core.errors import LowwaterError, UsageError
from dashboard.domain.system_topics import is_system_topic
from dashboard.purge.plan.targets import Target, parse_keep, read_offsets_json
from dashboard.ui.components.markup import plain
from dashboard.ui.components.picking import pick
from dashboard.ui.purge.drafting import Request
from dashboard.ui.session import access, routes
from dashboard.ui.session.context import Screen

COMMITTED, TIME, KEEP, RETENTION, OFFSET, WATERMARK, FILE = (
    "Committed by all",
    "A time",
    "Keep the newest",
    "Retention",
    "An offset",
    "High watermark",
    "Offsets file",
)
_MEANS = {
    COMMITTED: "Per partition the lowest committed offset of every known group, or the start of "
    "the replay window if that is lower.",
    TIME: "The first record at or after this time stays; all before it goes.",
    KEEP: "What is younger than this, or the last bytes of each partition's log, stays; all before "
    "it goes. Bytes are those of the leader's log when it was last analyzed.",
    RETENTION: "What is too old or too much by the topic's own retention.ms and retention.bytes: "
    "the higher of the two per partition, nothing where both are unlimited.",
    OFFSET: "The same offset on every partition; the record at the offset stays.",
    WATERMARK: "Everything that is written and stable now. Groups behind it guard it.",
    FILE: "The JSON of Kafka's delete-records tool, an offset per partition; -1 means the high "
    "watermark seen while planning, and is never sent as such.",
}


def choose_target(screen: Screen) -> Request | None:
    """Draw the step; the request as it stands, or None while something is missing."""
    left, right = st.columns([1, 1], gap="medium")
    with left:
        topics = _topics(screen)
    kind = right.radio("Delete up to", list(_MEANS), key="target-kind", horizontal=True)
    st.caption(_MEANS[kind or COMMITTED])
    target = _target(kind or COMMITTED)
    decided = _decisions(screen, topics)
    if target is None or (not topics and target.kind != "file"):
        return None
    if (decided.waived or decided.lifted) and not decided.reason:
        st.caption("Give the reason for what is waived or lifted: it is kept in the journal.")
        return None
    return Request(
        tuple(topics),
        target,
        decided.waived,
        decided.lifted,
        decided.reason,
        decided.move,
    )


def _topics(screen: Screen) -> list[str]:
    table = screen.snapshot.table("topics")
    options = [t for t in table["topic"].to_pylist() if not is_system_topic(t)]
    asked = [topic for topic in routes.asked_topics() if topic in options]
    return pick(
        "Topics", options, "topic", "plan-topics", default=asked, placeholder="Part of a name",
        described="Topics of Kafka itself and of tools beside it are left out: they are never "
        "purged.",
    )  # fmt: skip


def _target(kind: str) -> Target | None:
    if kind == TIME:
        return _typed("Time in UTC", "target-time", "2026-03-01T04:00:00Z", _at_time)
    if kind == OFFSET:
        offset = st.number_input("Offset", min_value=0, step=1, value=None, key="target-offset")
        return None if offset is None else Target("offset", offset=int(offset))
    if kind == FILE:
        return _file()
    if kind == KEEP:
        return _typed("Hours or bytes to keep", "target-keep", "24h or 10GiB", parse_keep)
    if kind == RETENTION:
        return Target("retention")
    return Target("high-watermark" if kind == WATERMARK else "committed")


def _at_time(text: str) -> Target:
    return Target("timestamp", at=parse_time(text))


def _typed(label: str, key: str, example: str, read: Callable[[str], Target]) -> Target | None:
    typed = st.text_input(label, key=key, placeholder=example)
    if not typed:
        return None
    try:
        return read(typed)
    except UsageError as error:
        st.caption(plain(f"⚠ {error.message}. {error.next_step}"))
        return None


def _file() -> Target | None:
    found = st.file_uploader("Offsets file", type="json", key="target-file")
    if found is None:
        return None
    try:
        return read_offsets_json(found.getvalue().decode("utf-8", "replace"), found.name)
    except LowwaterError as error:
        st.caption(plain(f"⚠ {error.message}. {error.next_step}"))
        return None


class _Decided(NamedTuple):
    waived: tuple[str, ...]
    lifted: tuple[str, ...]
    reason: str
    move: bool


def _decisions(screen: Screen, topics: Sequence[str]) -> _Decided:
    """Groups to waive and guards to lift; one reason for both, and whether offsets move."""
    asked = routes.asked_waivers()
    if not access.may("operator"):
        return _Decided((), (), "", False)
    with st.expander("Waive groups, lift guards", expanded=bool(asked)):
        groups = _groups(screen, topics, asked)
        left, right = st.columns(2)
        waived = pick(
            "Waive groups: their offsets no longer count", groups, "group", "plan-waive",
            place=left, default=asked,
        )  # fmt: skip
        lifted = pick(
            "Lift guards (where the settings allow it)",
            screen.settings.purge.liftable_guards,
            "guard",
            "plan-lift",
            place=right,
        )
        move = bool(waived) and left.checkbox(
            "Move the waived groups' offsets to the target, so that they resume there",
            key="plan-move",
            help="Once the records below it are gone. Without it a waived group resumes as its "
            "own auto.offset.reset says. A group with members cannot be moved.",
        )
        said = f"Reason, kept in the journal with your name ({plain(access.name())})"
        reason = st.text_input(said, key="plan-reason")
    return _Decided(tuple(waived), tuple(lifted), (reason or "").strip(), move)


def _groups(screen: Screen, topics: Sequence[str], asked: Sequence[str]) -> list[str]:
    if screen.findings is None:
        return sorted(asked)
    holds = screen.findings.table("holds")
    if topics:
        holds = holds.filter(pc.is_in(holds["topic"], pa.array(list(topics), pa.string())))
    return sorted({*pc.unique(holds["group_id"]).to_pylist(), *asked})
