"""Declare who reads a topic: owner, whether its groups are all its readers, replay window."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import streamlit as st

from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import LowwaterError
from dashboard.purge.evidence import declaring
from dashboard.purge.evidence.declaring import Said, Standing
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import markup
from dashboard.ui.components.grid import pick
from dashboard.ui.components.markup import plain, text
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context
from dashboard.ui.session.context import Screen
from dashboard.views import formats

_WINDOWS = ("0s", "1h", "24h", "3d", "7d")
_PRESELECTED = 10
_NAMED = 5


def declare_readers(screen: Screen, label: str, topics: Sequence[str]) -> None:
    """A popover with the form; what was declared counts from the next analysis and plan on."""
    with st.popover(label, type="tertiary"):
        if not access.only("operator", "Declaring readers"):
            return
        st.html(
            '<div class="lw"><p>Committed by all groups is not yet wanted by nobody: mirrors, '
            "restores and stream checkpoints read without committing. Declare it where you "
            "know.</p></div>"
        )
        # Outside the form: what stands for the chosen topics is shown before anything is typed.
        chosen = pick(
            "Topics", topics, "topic", "declare-topics",
            default=topics if len(topics) <= _PRESELECTED else (),
        )  # fmt: skip
        try:
            shown = declaring.standing(screen.settings, screen.cluster, chosen)
        except LowwaterError as error:
            st.caption(plain(f"Nothing can be declared: {error.message}. {error.next_step}"))
            return
        if (refusal := shown.refusal()) is not None:
            st.caption(plain(f"{refusal.message}. {refusal.next_step}"))
        else:
            _form(screen.cluster, chosen, shown)
        message = st.session_state.pop("declare-message", None)
        if message:
            st.caption(plain(message))


def _form(cluster: ClusterStore, chosen: Sequence[str], shown: Standing) -> None:
    """What stands is the default of each field; of topics that differ, what keeps the most."""
    stand = [shown.by_topic.get(topic) for topic in chosen]
    markup.draw(standing_html(shown.by_topic))
    # A field shows its default once: what stands otherwise is another field.
    keys = {name: f"declare-{name}{_mark(stand)}" for name in ("window", "owner", "readers",
            "restore", "reason")}  # fmt: skip
    window = st.selectbox(
        "Replay window: keep what is younger, even when all have read it",
        *_windows(stand), format_func=_window_words, key=keys["window"],
    )  # fmt: skip
    with st.form("declare-form", border=False):
        owners = {declared.owner for declared in stand if declared}
        st.text_input(
            "Owner of the data", owners.pop() if len(owners) == 1 else "",
            key=keys["owner"], placeholder="team-checkout",
        )  # fmt: skip
        st.checkbox(
            "Its groups are all its readers", _all(stand, "readers", "groups"), key=keys["readers"]
        )
        st.checkbox(
            "No table of Kafka Streams is built from it", _all(stand, "state_restore", "none"),
            key=keys["restore"],
        )  # fmt: skip
        st.text_input(
            "Why you are sure", key=keys["reason"], placeholder="asked both teams on Monday"
        )
        access.ask_who(st.container(), "Your name", "declare-name")
        for line in shorter(shown.by_topic, parse_duration(window)):
            st.caption(f"⚠ {plain(line)}")
        st.form_submit_button("Declare", on_click=_save, args=(cluster, tuple(chosen), shown, keys))


def standing_html(by_topic: Mapping[str, TopicDeclaration]) -> str:
    """What was declared of the chosen topics, each declaration once with its topics."""
    found: dict[str, list[str]] = {}
    for topic, declared in sorted(by_topic.items()):
        readers = "its groups are all" if declared.readers == "groups" else "readers unknown"
        tables = ", no Streams table" if declared.state_restore == "none" else ""
        said = (
            f"{declared.owner or 'no owner'}, {readers}, replay window "
            f"{_length(declared.replay_window)}{tables}: {declared.declared_by or 'nobody named'}, "
            f"{declared.declared_at or 'at an unknown time'}"
        )
        found.setdefault(said, []).append(topic)
    lines = [
        f"<li><b>{text(_named(topics))}</b>: {text(said)}</li>" for said, topics in found.items()
    ]
    return f'<div class="lw"><p>What stands:</p><ul>{"".join(lines)}</ul></div>' if lines else ""


def shorter(by_topic: Mapping[str, TopicDeclaration], window: timedelta) -> list[str]:
    """Where `window` keeps less than what stands: `orders: replay window from 7 d to none`."""
    found: dict[timedelta, list[str]] = {}
    for topic, declared in sorted(by_topic.items()):
        if window < declared.replay_window:
            found.setdefault(declared.replay_window, []).append(topic)
    return [
        f"{_named(topics)}: replay window from {_length(before)} to {_length(window)}; what is "
        "older than that may be purged"
        for before, topics in sorted(found.items())
    ]


def _windows(stand: Sequence[TopicDeclaration | None]) -> tuple[list[str], int]:
    """The choices, and the place of the longest window that stands."""
    longest = max((d.replay_window for d in stand if d), default=timedelta(0))
    lengths = {parse_duration(choice): choice for choice in _WINDOWS}
    milliseconds = longest // timedelta(milliseconds=1)
    lengths.setdefault(longest, f"{milliseconds}ms")
    return [lengths[length] for length in sorted(lengths)], sorted(lengths).index(longest)


def _window_words(choice: str) -> str:
    return _length(parse_duration(choice))


def _length(window: timedelta) -> str:
    """`none`, `7 d`; a length that is no whole unit has all its parts."""
    if not window:
        return "none"
    short = formats.duration(window)
    count, unit = short.split(" ")
    whole = {"d": "d", "h": "h", "min": "m", "s": "s"}[unit]
    return short if parse_duration(f"{count}{whole}") == window else str(window)


def _all(stand: Sequence[TopicDeclaration | None], field: str, value: str) -> bool:
    return bool(stand) and all(d is not None and getattr(d, field) == value for d in stand)


def _mark(stand: Collection[TopicDeclaration | None]) -> str:
    known = sorted({repr(declared) for declared in stand if declared})
    if not known:
        return ""
    # One topic without any declaration takes back what only the others have.
    known.append(str(None in stand))
    return "-" + hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]


def _named(topics: Sequence[str]) -> str:
    more = len(topics) - _NAMED
    return ", ".join(topics[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _save(
    cluster: ClusterStore, topics: tuple[str, ...], shown: Standing, keys: Mapping[str, str]
) -> None:
    state = st.session_state
    if set(state["declare-topics"]) != set(topics):
        state["declare-message"] = "Not saved: the topics changed; look at what stands for them."
        return
    owner, reason = (state[keys[field]].strip() for field in ("owner", "reason"))
    name = state["declare-name"].strip()
    if not topics or not owner or not name or not reason:
        state["declare-message"] = (
            "Not saved: choose topics and give an owner, why you are sure and your name."
        )
        return
    said = Said(
        owner,
        "groups" if state[keys["readers"]] else "unknown",
        state[keys["window"]],
        "none" if state[keys["restore"]] else "unknown",
        reason,
    )
    try:
        declaring.declare(
            context.settings(), cluster, open_journal(), said,
            shown=shown,
            topics=topics,
            who=access.who("declare-name", name),
            from_where=f"dashboard on {socket.gethostname()}",
            now=utc_now(),
        )  # fmt: skip
    except LowwaterError as error:
        state["declare-message"] = f"Not saved: {error.message}. {error.next_step}"
        return
    count = formats.plural(len(topics), "topic")
    state["declare-message"] = f"Declared {count}; it counts from the next analysis and plan on."
