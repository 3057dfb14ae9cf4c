"""A service that is killed at any moment loses nothing, and the next one goes on."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from dashboard.purge.journal.journal import Journal
from tests.unit.orphans.dying_removal import KEEP, Scene, chance
from tests.unit.orphans.sweep_host import Host


@pytest.mark.parametrize(
    "kills",
    [
        3,
        pytest.param(10, marks=pytest.mark.further),
        pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_nothing_is_lost_however_often_it_is_killed(host: Host, kills: int) -> None:
    scene = Scene(host, 4)
    for life in chance(kills)[:kills]:
        scene.killed_after(life)
        assert scene.lost() == []
        scene.add()
        scene.add()
    last = scene.service()
    for _ in range(20):
        last.turn()
        if not scene.story().lying and len(done(scene)) == len(scene.rows):
            break
        time.sleep(KEEP.total_seconds())
    last.close()
    assert scene.lost() == []
    assert len(done(scene)) == len(scene.rows), "each is deleted in the end"
    counted = Counter(kind for kind, _ in scene.story().acts())
    assert counted["moved"] == len(scene.rows)
    # A kill between the last file and its line: the log cannot tell whether somebody took the rest.
    assert counted["deleted"] + counted["lost"] == len(scene.rows)
    settled = [e for e in scene.story().entries if e.body.get("seen_on_disk")]
    assert settled or kills < 100, "some of the kills came amid an act"
    journal = Journal(scene.journal)
    assert journal.verify().ok
    told = [entry.body for entry in journal.entries()]
    assert [b["from_seq"] for b in told[1:]] == [b["to_seq"] + 1 for b in told[:-1]]
    assert told[-1]["to_seq"] == len(scene.story().entries)
    journal.close()


def done(scene: Scene) -> set[str]:
    ended = ("deleted", "lost")
    return {item.directory for item in scene.story().items.values() if item.state in ended}
