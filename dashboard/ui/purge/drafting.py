"""Steps 1 and 2 of a purge: what to purge up to where, and its plan, drafted live."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import streamlit as st

from dashboard.core.clock import parse_time, utc_now
from dashboard.core.errors import LowwaterError, UsageError
from dashboard.domain.system_topics import is_system_topic
from dashboard.people import people
from dashboard.purge.evidence.sampled import METHOD, MOST_PARTITIONS
from dashboard.purge.plan import drafts
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.targets import Target, parse_keep, read_offsets_json
from dashboard.settings.archive import chosen
from dashboard.ui.components import boxes, states
from dashboard.ui.components.grid import pick
from dashboard.ui.components.markup import exact, plain
from dashboard.ui.purge import looking
from dashboard.ui.session import access, routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.topic_rows import groups_of

# A plan for the page: drafted live in one call, kept as text, never changed after its preview.

_KEY = "lw-draft"
_HANDED = "lw-handed-request"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for in step 1; `reason` stands for every waiver and lifted guard.

    `origin` says in words where a request comes from that another page hands over.
    """

    topics: tuple[str, ...]
    target: Target
    waived: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    reason: str = ""
    move_waived: bool = False
    origin: str = ""
    archive: str | None = None

    @property
    def name(self) -> str:
        """Equal requests have equal names: a preview belongs to exactly one."""
        return repr(self)


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan as it was previewed. `token` identifies the one click that may queue it."""

    request_name: str
    plan: Plan
    token: str


@dataclass(frozen=True, slots=True)
class Handed:
    """What another page asks for, and in which cluster."""

    cluster_id: str
    request: Request


def draft(screen: Screen, request: Request, *, sample: bool = False) -> Draft:
    """Read the cluster and build the plan; nothing is changed. Raises LowwaterError.

    `sample` measures record sizes by reading a few batches. RefusedError ROLE_TOO_LOW for one who
    waives or lifts and may not.
    """
    who = access.actor()
    if request.waived or request.lifted:
        people.require(screen.settings, who, "operator", "waive groups or lift guards")
    plan = drafts.draft(
        screen.settings,
        screen.settings.data,
        screen.cluster.cluster_id,
        PlanRequest(
            topics=request.topics,
            target=request.target,
            waive=tuple(Waive(group, request.reason) for group in request.waived),
            override=tuple(Lift(name, request.reason) for name in request.lifted),
            move_waived=request.move_waived,
            archive=request.archive,
            sample=sample,
            by=who.name,
        ),
    )
    made = Draft(request.name, plan, secrets.token_hex(16))
    st.session_state[_KEY] = made
    return made


def current(screen: Screen, request: Request) -> Draft | None:
    """The draft that belongs to this request, in the cluster that is shown; None after any change
    of it.
    """
    found = st.session_state.get(_KEY)
    if not isinstance(found, Draft) or found.plan.cluster_id != screen.cluster.cluster_id:
        return None
    return found if found.request_name == request.name else None


def replaced(draft: Draft) -> bool:
    """Whether another plan is the one to be shown by now."""
    found = st.session_state.get(_KEY)
    return isinstance(found, Draft) and found.token != draft.token


def hand_over(request: Request, plan: Plan) -> None:
    """Give the purge page a request with the plan that was made for it moments ago."""
    st.session_state[_HANDED] = Handed(plan.cluster_id, request)
    st.session_state[_KEY] = Draft(request.name, plan, secrets.token_hex(16))


def handed(screen: Screen) -> Request | None:
    """The request that another page of this cluster handed over, until it is queued or dropped."""
    found = st.session_state.get(_HANDED)
    if not isinstance(found, Handed) or found.cluster_id != screen.cluster.cluster_id:
        return None
    return found.request


def forget() -> None:
    """Drop the draft and what was handed over, so that the next plan is read afresh."""
    st.session_state.pop(_KEY, None)
    st.session_state.pop(_HANDED, None)


# How the preview's bytes were found, and the offer to measure them by reading a few batches.

_ERROR = "refine-error"
_MEASURED = (METHOD, "segments")


def offer(screen: Screen, request: Request, draft: Draft) -> None:
    """A line with the estimators, and a button where sampling would tell more."""
    free = draft.plan.free_partitions
    if not free:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(said(free))
        if any(p.estimate is None or p.estimate.method not in _MEASURED for p in free):
            st.button(
                "Measure record sizes",
                key="refine",
                on_click=_refine,
                args=(screen, request),
                help="Plans again and reads up to 46 record batches of each of the "
                f"{MOST_PARTITIONS} largest partitions; needs READ on the topics. Tiered topics "
                "are left out.",
            )
    error = st.session_state.pop(_ERROR, None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def said(free: Iterable[PlannedPartition]) -> str:
    """How many partitions each estimator speaks for."""
    methods = Counter(p.estimate.method if p.estimate else "not measured" for p in free)
    told = ", ".join(f"{count} {method}" for method, count in sorted(methods.items()))
    return f"Bytes of {formats.plural(methods.total(), 'partition')}: {told}."


def _refine(screen: Screen, request: Request) -> None:
    try:
        draft(screen, request, sample=True)
    except LowwaterError as error:
        st.session_state[_ERROR] = error


# Step 1 of a purge: topics, up to where, and what is waived or lifted by name and reason.

_TIME_KEY = "target-time"
_AGO = ("1 h ago", "6 h ago", "24 h ago", "7 d ago")
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
    anew = bool(st.session_state.pop(routes.SENT, False))
    left, right = st.columns([1, 1], gap="medium")
    with left:
        topics = _topics(screen, anew)
    kind = right.radio("Delete up to", list(_MEANS), key="target-kind", horizontal=True)
    st.caption(_MEANS[kind or COMMITTED])
    target = _target(kind or COMMITTED)
    if kind == TIME and topics:
        looking.offer_oldest(screen, topics)
    decided = _decisions(screen, topics, anew)
    archive, known = _archive(screen)
    if not known or target is None or (not topics and target.kind != "file"):
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
        archive=archive,
    )


def _topics(screen: Screen, anew: bool) -> list[str]:
    table = screen.snapshot.table("topics")
    options = [t for t in table["topic"].to_pylist() if not is_system_topic(t)]
    asked = [topic for topic in routes.asked_topics() if topic in options]
    return pick(
        "Topics", options, "topic", "plan-topics", default=asked, placeholder="Part of a name",
        described="Topics of Kafka itself and of tools beside it are left out: they are never "
        "purged.", anew=anew,
    )  # fmt: skip


def _target(kind: str) -> Target | None:
    if kind == TIME:
        return _time()
    if kind == OFFSET:
        offset = st.number_input("Offset", min_value=0, step=1, value=None, key="target-offset")
        return None if offset is None else Target("offset", offset=int(offset))
    if kind == FILE:
        return _file()
    if kind == KEEP:
        return _typed(
            "Hours or bytes to keep", "target-keep", "24h or 10GiB", parse_keep, boxes.keep
        )
    if kind == RETENTION:
        return Target("retention")
    return Target("high-watermark" if kind == WATERMARK else "committed")


def _at_time(text: str) -> Target:
    return Target("timestamp", at=parse_time(text))


def _time() -> Target | None:
    """Typed, or by one click; and said again by the reader's own clock, for nobody at night reckons
    in UTC without a slip.
    """
    example = "2 hours ago, or 2026-03-01T04:00:00Z"
    target = _typed("Time in UTC", _TIME_KEY, example, _at_time, _settled_time)
    with st.container(horizontal=True, vertical_alignment="center"):
        for ago in _AGO:
            st.button(ago, key=f"time-{ago}", type="tertiary", on_click=_choose_time, args=(ago,))
        if target is not None:
            st.caption(plain(f"{formats.ago(target.at, utc_now())}: {exact(target.at)}"))
    return target


def _choose_time(ago: str) -> None:
    st.session_state[_TIME_KEY] = _settled_time(ago)


def _settled_time(text: str) -> str | None:
    return boxes.moment(text, utc_now())


def _typed(
    label: str,
    key: str,
    example: str,
    read: Callable[[str], Target],
    settled: boxes.Settled,
) -> Target | None:
    text = boxes.typed_in(st.container(), label, key, settled, placeholder=example)
    if not text:
        return None
    try:
        return read(text)
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


def _archive(screen: Screen) -> tuple[str | None, bool]:
    """The place of the settings, where the records are to be kept first; False: it cannot be used,
    and nothing is planned without. A page names no other: whoever does writes files as the service.
    """
    settings = screen.settings.archive
    if settings.url is None:
        return None, True
    wanted = st.checkbox(
        plain(f"Archive into {settings.url} first"),
        key="plan-archive",
        help="Each record below the targets is read, written there, read back and proved. What "
        "cannot be kept whole is not deleted.",
    )
    try:
        return chosen(settings, wanted), True
    except LowwaterError as error:
        st.caption(plain(f"⚠ {error.message}. {error.next_step}"))
        return None, False


class _Decided(NamedTuple):
    waived: tuple[str, ...]
    lifted: tuple[str, ...]
    reason: str
    move: bool


def _decisions(screen: Screen, topics: Sequence[str], anew: bool) -> _Decided:
    """Groups to waive and guards to lift; one reason for both, and whether offsets move."""
    asked = routes.asked_waivers()
    if not access.may("operator"):
        return _Decided((), (), "", False)
    with st.expander("Waive groups, lift guards", expanded=bool(asked)):
        groups = _groups(screen, topics, asked)
        left, right = st.columns(2)
        waived = pick(
            "Waive groups: their offsets no longer count", groups, "group", "plan-waive",
            place=left, default=asked, anew=anew,
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
    return sorted({*groups_of(screen.findings.table("holds"), topics or None), *asked})
