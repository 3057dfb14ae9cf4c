"""An offset is moved on a look that counts, and proved only on the topic that was planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import BrokerError
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.guards import Waiver
from tests.unit.purge.facts_of import KEY, NOW
from tests.unit.purge.room import Room, with_a_dead_group

GONE, OUTDATED = "UNKNOWN_TOPIC_ID", "LAST_LOOK_OUTDATED"
COUNTS = 5  # seconds, of a look that takes none


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with with_a_dead_group(tmp_path) as made:
        yield made


def queue(room: Room, *groups: str, **change: Any) -> str:
    waived = tuple(Waiver(g, "gone", "ann", NOW, move=True) for g in groups or ("dead",))
    return room.queue(room.plan(waivers=waived), **change)


def carry_out(room: Room, run_id: str) -> RunView:
    room.execution(run_id).execute()
    return room.journal.run(run_id)


def move(view: RunView) -> tuple[str, str | None]:
    return view.moves[-1].state, view.moves[-1].error


def kinds(room: Room) -> list[str]:
    return [e.kind for e in room.journal.entries() if e.kind.startswith("move")]


def around_commits(
    room: Room,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> None:
    """What happens while each connection to a coordinator is made, and when it has answered."""
    commit = room.live.commit_offsets

    def commit_offsets(*words: Any, **named: Any) -> Any:
        before()
        answer = commit(*words, **named)
        after()
        return answer

    room.live.commit_offsets = commit_offsets  # type: ignore[method-assign]


def journal_holds(room: Room, meanwhile: Callable[[], object]) -> None:
    """Others hold the journal whenever the intent of a move is to be written."""
    record = room.journal.record_moves

    def record_moves(run: str, kind: str, *rest: Any, **details: Any) -> None:
        if kind == "move-intent":
            meanwhile()
        record(run, kind, *rest, **details)

    room.journal.record_moves = record_moves  # type: ignore[method-assign]


def made_anew(room: Room) -> None:
    """The topic is deleted, and made again under its name."""
    room.live.topic_id = "id-2"
    room.live.parts[KEY].starts = {1: 0, 2: 0, 3: 0}


def stands_at(offset: int) -> Callable[[Room], None]:
    return lambda room: room.live.offsets_of["dead"].update({0: offset})


def records_come_back(room: Room) -> None:
    room.live.parts[KEY].starts = {1: 60, 2: 7, 3: 60}
    room.live.elect(2)


@pytest.mark.parametrize("moment", ["the journal is held", "the connection is made"])
@pytest.mark.parametrize(
    ("happens", "found"),
    [
        (made_anew, ("refused", GONE)),
        (stands_at(30), ("refused", "OFFSET_CHANGED")),  # it came, read on and went
        (stands_at(75), ("moved", None)),  # so it did, and is where the move was to bring it
        (stands_at(4), ("refused", "OFFSET_MOVED_BACK")),
        (records_come_back, ("refused", "RECORDS_CAME_BACK")),
    ],
    ids=["made anew", "read on", "read past", "went back", "records back"],
)
def test_what_changes_while_a_move_waits_is_seen_before_it_leaves(
    room: Room, moment: str, happens: Callable[[Room], None], found: tuple[str, str | None]
) -> None:
    run_id, there = queue(room), []

    def meanwhile() -> None:
        room.clock.sleep(COUNTS)
        happens(room)
        there.append(room.live.offsets_of["dead"][0])

    if moment == "the journal is held":
        journal_holds(room, meanwhile)
    else:
        around_commits(room, before=meanwhile)
    view = carry_out(room, run_id)
    assert (move(view), view.moves[0].attempts) == (found, 0)
    assert (room.live.commits, room.live.offsets_of["dead"][0]) == ([], there[0])
    assert kinds(room) == ["move-intent", "move-not-sent", "moves-read"]


def test_a_move_whose_look_is_outdated_leaves_on_the_next_one(room: Room) -> None:
    run_id, waits = queue(room), [COUNTS, COUNTS, COUNTS]
    around_commits(room, before=lambda: room.clock.sleep(waits.pop() if waits else 0))
    view = carry_out(room, run_id)
    assert (move(view), view.moves[0].attempts) == (("moved", None), 1)
    assert kinds(room) == [*["move-intent", "move-not-sent"] * 3, *["move-intent", "move-answer"],
                           "moves-read"]  # fmt: skip


def test_a_look_at_moves_is_as_old_as_it_is_though_the_wall_clock_was_set_back(room: Room) -> None:
    run_id = queue(room)

    def meanwhile() -> None:
        room.clock.sleep(COUNTS)
        room.clock.now -= timedelta(minutes=5)
        stands_at(30)(room)

    journal_holds(room, meanwhile)
    assert move(carry_out(room, run_id)) == ("refused", "OFFSET_CHANGED")


@pytest.mark.parametrize("slow", ["looks", "journal", "connection"])
def test_moves_that_no_look_is_quick_enough_for_are_refused_and_say_so(
    room: Room, slow: str
) -> None:
    run_id, groups = queue(room, timeout_ms=60_000), room.live.groups

    def read(topics: Any) -> Any:
        room.clock.sleep(31 if room.live.sent else 0)
        return groups(topics)

    if slow == "looks":
        room.live.groups = read  # type: ignore[method-assign]
    elif slow == "journal":
        journal_holds(room, lambda: room.clock.sleep(9))
    else:
        around_commits(room, before=lambda: room.clock.sleep(9))
    view = carry_out(room, run_id)
    assert (view.partitions[0].state, move(view)) == ("done", ("refused", OUTDATED))
    assert "no longer counts" in str(view.moves[0].message)
    assert room.live.commits == []
    assert ("move-intent" in kinds(room)) == (slow != "looks")


def test_the_last_of_many_groups_leaves_on_a_fresh_look_though_coordinators_hang(
    room: Room,
) -> None:
    hanging = [f"d{n}" for n in range(4)]
    waived = [*hanging, "last", "later"]
    room.live.offsets_of = {"a": {0: 60}} | {group: {0: 10} for group in waived}
    run_id = queue(room, *waived, timeout_ms=60_000)
    groups, commit = room.live.groups, room.live.commit_offsets
    looked, ages, asked = [NOW], [], []

    def read(topics: Any) -> Any:
        looked.append(room.clock.now)
        return groups(topics)

    def commit_offsets(group_id: str, offsets: Any, **named: Any) -> Any:
        asked.append(group_id)
        ages.append((room.clock.now - looked[-1]).total_seconds())
        if group_id in hanging and len(asked) <= len(hanging):
            room.clock.sleep(10)
            if group_id == hanging[-1]:
                room.live.offsets_of["later"] = {0: 30}
            raise BrokerError(1, "silent", "wait", code="BROKER_UNREACHABLE")
        return commit(group_id, offsets, **named)

    room.live.groups = read  # type: ignore[method-assign]
    room.live.commit_offsets = commit_offsets  # type: ignore[method-assign]
    view = carry_out(room, run_id)
    assert max(ages) < COUNTS
    assert asked == [*hanging, "last", *hanging], "in one round, though others hang"
    assert {m.group_id: (m.state, m.error) for m in view.moves} == {
        **dict.fromkeys([*hanging, "last"], ("moved", None)),
        "later": ("refused", "OFFSET_CHANGED"),
    }


@pytest.mark.parametrize("answer", [None, "lost"])
@pytest.mark.parametrize("moment", ["before it arrives", "before it is read back"])
def test_a_move_is_not_proved_by_another_topic_of_that_name(
    room: Room, moment: str, answer: str | None
) -> None:
    run_id = queue(room)
    room.live.commit_answers = [answer]
    commit = room.live.commit_offsets

    def commit_offsets(*words: Any, **named: Any) -> Any:
        if moment == "before it arrives":
            made_anew(room)
        try:
            return commit(*words, **named)
        finally:
            made_anew(room)

    room.live.commit_offsets = commit_offsets  # type: ignore[method-assign]
    view = carry_out(room, run_id)
    assert room.live.offsets_of["dead"][0] == 60
    assert (view.exit_code, move(view), len(room.live.commits)) == (2, ("unknown", GONE), 1)
    assert view.moves[0].message == (
        "topic orders is not the planned one any more, so nobody can tell where the request moved "
        "the group; under that name it stands at 60, and may skip what is below"
    )


def test_a_group_that_stands_at_the_target_of_another_topic_stood_nowhere(room: Room) -> None:
    """The worker comes back when the topic was made anew, and nothing was sent as yet."""
    run_id, sleep = queue(room), room.clock.sleep
    room.live.on_send = [lambda: room.journal.set_wish(run_id, "pause", "ann", NOW)]
    execution = room.execution(run_id)

    def anew(seconds: float) -> None:
        made_anew(room)
        stands_at(60)(room)
        room.journal.set_wish(run_id, None, "ann", room.clock.now)
        sleep(seconds)

    execution.sleep = anew
    execution.execute()
    view = room.journal.run(run_id)
    assert (move(view), view.moves[0].message) == (
        ("refused", GONE), "topic orders is not the planned one any more"
    )  # fmt: skip
    assert kinds(room) == ["moves-read"]


def test_a_move_is_proved_once_its_leader_tells_which_topic_it_has(room: Room) -> None:
    run_id, slept = queue(room), room.clock.sleep

    def doubted() -> None:
        room.live.leaders_say = "id-2"

    def sleep(seconds: float) -> None:
        slept(seconds)
        states.append(move(room.journal.run(run_id)))
        if len(states) == 3:
            room.live.leaders_say = None

    states: list[tuple[str, str | None]] = []
    around_commits(room, after=doubted)
    execution = room.execution(run_id)
    execution.sleep = sleep
    execution.execute()
    assert states == [("unknown", "TOPIC_ID_UNCERTAIN")] * 3
    assert move(room.journal.run(run_id)) == ("moved", None)
    assert len(room.live.commits) == 1


def test_a_move_whose_leader_never_tells_stays_unknown(room: Room) -> None:
    run_id = queue(room)
    around_commits(room, after=lambda: room.live.elect(None))
    view = carry_out(room, run_id)
    assert (view.exit_code, move(view)) == (2, ("unknown", "LEADER_NOT_AVAILABLE"))
