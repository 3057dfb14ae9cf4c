"""A disk that runs full, from Overview: so many bytes, until when, and what that would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.errors import LowwaterError
from dashboard.core.words import binary, parse_size
from dashboard.people import people
from dashboard.purge.plan.guards import Waive
from dashboard.purge.plan.targets import Target
from dashboard.store.finding_rows import DiskRow, GrowthRow
from dashboard.triage import answer as triages
from dashboard.triage import words
from dashboard.triage.answer import Triage
from dashboard.triage.selection import Question, instead
from dashboard.ui.components import boxes, markup, states
from dashboard.ui.components.grid import pick
from dashboard.ui.components.markup import plain
from dashboard.ui.purge import drafting
from dashboard.ui.purge.drafting import Request
from dashboard.ui.session import access, routes
from dashboard.ui.session.context import CHOOSING, Screen
from dashboard.views import formats, headline

FULL = 0.85
_ROOM = 0.80  # how full a disk may be again: what is proposed brings it there
_SOON = 1.0  # days to full, below which nobody waits for the next morning
_SHARE = 0.10  # of a disk that has room: so much is proposed there
_WITHIN = {"15 min": 15, "30 min": 30, "1 hour": 60, "3 hours": 180, "12 hours": 720}
_GIB = 2**30
_ANSWER = "lw-triage"
_WAYS = words.Ways(
    "tick them beside this and say why",
    "choose {group} beside this and say why",
    "ask for that disk to see what does",
)
_EXPLAINED = (
    "Reads the cluster and changes nothing: the fewest partitions that free these bytes on that "
    "disk, the safest first, when the bytes have left, and what to do where no purge helps. What "
    "is written meanwhile is added."
)


@dataclass(frozen=True, slots=True)
class Room:
    """A log dir that may need room. `used_share` is None where it does not tell, as an offline one.

    `at_once_bytes` are whole segments there that every known group has passed; `growth` is its row
    of the findings table of that name.
    """

    broker_id: int
    log_dir: str | None
    used_share: float | None
    usable_bytes: int | None
    proposed_bytes: int
    at_once_bytes: int | None
    error: str | None
    growth: GrowthRow | None

    @property
    def label(self) -> str:
        known = "offline or unread" if self.used_share is None else f"{self.used_share:.0%} full"
        return f"broker {self.broker_id} · {self.log_dir or 'its log dirs'}, {known}"

    @property
    def urgent(self) -> bool:
        """In error, above FULL, or full within a day as it goes on."""
        if self.used_share is None:
            return self.error is not None
        return self.used_share > FULL or self._fills_soon

    @property
    def _fills_soon(self) -> bool:
        """A slope that may as well be flat alarms nobody: its latest day is not known."""
        growth = self.growth
        if growth is None or growth.days_to_full is None or growth.days_to_full_high is None:
            return False
        return growth.days_to_full <= _SOON


def rooms(disks: pa.Table, growth: pa.Table) -> list[Room]:
    """All log dirs of the findings table `disks`: urgent ones first, of them those in error, then
    the fullest.
    """
    rates = headline.of_disks(growth)
    found = [_room(row, rates.get((row.broker_id, row.log_dir))) for row in records(disks, DiskRow)]

    def order(room: Room) -> tuple[bool, bool, float, int, str]:
        share = room.used_share
        return (not room.urgent, share is not None, -(share or 0), room.broker_id, room.label)

    return sorted(found, key=order)


def _room(row: DiskRow, growth: GrowthRow | None) -> Room:
    total, usable = row.total_bytes, row.usable_bytes
    share, proposed = None, 10 * _GIB
    if total and usable is not None:
        share = 1 - usable / total
        over = total - usable - round(_ROOM * total)
        proposed = -(-(over if over > 0 else round(_SHARE * total)) // _GIB) * _GIB
    return Room(
        row.broker_id, row.log_dir, share, usable, proposed, row.reclaimable_bytes, row.error,
        growth,
    )  # fmt: skip


def offer(screen: Screen, found: Sequence[Room], blockers: pa.Table) -> None:
    """The panel, in which any of the `rooms` can be asked for: at least one."""
    title = f"⚠ Make room on {plain(found[0].label)}" if found[0].urgent else "Free up space"
    panel = st.expander(title, key=CHOOSING, on_change="rerun")
    if not panel.open:
        return
    with panel:
        left, right = st.columns([4, 7], gap="medium")
        with left:
            question = _ask(found, blockers)
            look = st.button(
                "See what can go", type="primary", key="triage-look", disabled=question is None
            )
        with right:
            if question is not None and look:
                _look(screen, question)
            if isinstance(said := st.session_state.get(_ANSWER), Triage):
                _show(said)
            else:
                st.caption(_EXPLAINED)


def alarm(found: Sequence[Room]) -> None:
    """Where a disk needs room now: three numbers, and the one button, which opens the panel."""
    urgent = [room for room in found if room.urgent]
    left, right = st.columns([7, 3], vertical_alignment="center")
    left.html(alarm_html(urgent))
    with right:
        label = f"Free up space on broker {urgent[0].broker_id}"
        if st.button(label, type="primary", width="stretch", key="triage-open"):
            st.session_state[CHOOSING] = True


def alarm_html(urgent: Sequence[Room]) -> str:
    """How full, when nothing is left, and what could leave there, of the first; how many more."""
    first = urgent[0]
    name = f"broker {first.broker_id} · {first.log_dir or 'its log dirs'}"
    figures = (
        (_share(first), f"{formats.size(first.usable_bytes)} free"),
        (headline.said(first.growth).removeprefix("full in "), _when(first)),
        (formats.size(first.at_once_bytes), "can leave there at once, read by every known group"),
    )
    told = "".join(
        f"<div><b>{markup.text(big)}</b>{markup.text(small)}</div>" for big, small in figures
    )
    why = f"<p>{markup.text(first.error)}</p>" if first.error else ""
    rest = len(urgent) - 1
    more = f"<p>and {formats.plural(rest, 'more disk')} like that</p>" if rest else ""
    return (
        f'<div class="lw lw-state danger" role="alert"><h2>⚠ {markup.text(name)} needs room</h2>'
        f'<div class="lw-counts">{told}</div>{why}{more}</div>'
    )


def _share(room: Room) -> str:
    return "offline" if room.used_share is None else f"{room.used_share:.0%} full"


def _when(room: Room) -> str:
    if room.growth is None or room.growth.used_bytes_per_hour is None:
        return "until it is full: not enough history yet"
    dated = headline.dated(room.growth)
    return "until nothing is left, as it goes on" if dated else "as it goes on now"


def _ask(found: Sequence[Room], blockers: pa.Table) -> Question | None:
    """The question as it stands, or None while its size or reason is missing."""
    disks = {(disk.broker_id, disk.log_dir): disk for disk in found}
    disk = found[0]
    if len(found) > 1:
        # By what does not change with each snapshot: a chosen disk stays chosen.
        named = st.selectbox(
            "Disk", list(disks), format_func=lambda one: disks[one].label, key="triage-disk"
        )
        disk = disks[named] if named else disk
    left, right = st.columns(2)
    # One field per disk: what is proposed depends on it.
    key = f"triage-need-{disk.broker_id}-{disk.log_dir}"
    proposed = f"{disk.proposed_bytes // _GIB}GiB"
    need = parse_size(boxes.typed_in(left, "Bytes needed there", key, boxes.size, value=proposed))
    within = right.selectbox("Within", list(_WITHIN), index=1, key="triage-within")
    accept, waived = _decided(blockers) if access.may("operator") else (False, [])
    reason = ""
    if accept or waived:
        said = f"Reason, kept in the journal with your name ({plain(access.name())})"
        reason = st.text_input(said, key="triage-reason").strip()
    if not need:
        st.caption("⚠ Write bytes such as 40GiB or 500MiB.")
        return None
    if (accept or waived) and not reason:
        st.caption("Give the reason for what is waived or accepted.")
        return None
    return Question(
        disk.broker_id,
        need,
        timedelta(minutes=_WITHIN[within or "30 min"]),
        disk.log_dir,
        reason if accept else None,
        tuple(Waive(group, reason) for group in waived),
        access.name(),
    )


def _decided(blockers: pa.Table) -> tuple[bool, list[str]]:
    """Whether undeclared topics may go, and which dead groups no longer count."""
    accept = st.checkbox(
        "Also topics whose readers nobody declared, where it takes them", key="triage-undeclared"
    )
    dead = blockers.filter(pc.equal(blockers["members"], 0))
    waived = pick(
        "Waive groups without members, where it takes them",
        pc.unique(dead["group_id"]).to_pylist(),
        "group",
        "triage-waive",
    )
    return accept, waived


def _look(screen: Screen, question: Question) -> None:
    st.session_state.pop(_ANSWER, None)
    try:
        if question.waive or question.accept_undeclared:
            who = access.actor()
            people.require(screen.settings, who, "operator", "waive groups or lift guards")
        with st.spinner("Reading the disk, offsets and groups from the cluster …"):
            st.session_state[_ANSWER] = triages.triage(
                screen.settings, screen.settings.data, screen.cluster.cluster_id, question
            )
    except LowwaterError as error:
        states.show_error(error)


def _show(said: Triage) -> None:
    """The same sentences as on the command line, and the way to the plan."""
    first = words.verdict(said) if not said.disk.obstacle else None
    lines = [f"<p><b>{markup.text(first)}</b></p>"] if first else []
    lines += [f"<p>{markup.text(s)}</p>" for s in words.sentences(said, _WAYS) if s != first]
    steps = "".join(f"<li>{markup.text(step)}</li>" for step in instead(said.disk))
    st.html(f'<div class="lw lw-triage">{"".join(lines)}{steps and f"<ol>{steps}</ol>"}</div>')
    if said.plan is None:
        return
    count = formats.plural(len(said.chosen), "partition")
    label = f"Plan these {count}: {binary(said.here.likely)} on that disk"
    if st.button(label, type="primary" if said.met else "secondary", key="triage-plan"):
        drafting.hand_over(request_of(said), said.plan)
        st.session_state.pop(_ANSWER)
        routes.go("purge")


def request_of(said: Triage) -> Request:
    """The triage's plan as step 1 of a purge asks for it: its partitions, each with its target."""
    question, plan = said.question, said.plan
    assert plan is not None
    return Request(
        topics=(),
        target=Target(
            "file",
            offsets={
                p.key: p.target_offset for p in plan.partitions if p.target_offset is not None
            },
        ),
        waived=tuple(w.group_id for w in plan.waivers),
        lifted=tuple(sorted({o.name for o in plan.overrides})),
        reason=question.accept_undeclared or next((w.reason for w in plan.waivers), ""),
        origin=f"Room on broker {question.broker_id}, {said.disk.log_dir}: "
        f"{formats.plural(len(plan.partitions), 'partition')} chosen by triage",
    )
