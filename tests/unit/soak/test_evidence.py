"""What a soak reads of its demo besides samples."""

from __future__ import annotations

import os
from pathlib import Path

from dashboard.purge.execute.carrying import held
from tests.soak.evidence import holder
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room


def test_who_carries_a_run_out_is_known_by_its_lock(tmp_path: Path) -> None:
    """Its command line does not tell it of a worker that was started ahead."""
    room = Room(tmp_path)
    run_id = room.queue(room.plan())
    assert holder(tmp_path, run_id) is None
    with held(room.journal, tmp_path, run_id, lambda: NOW) as first:
        assert first and holder(tmp_path, run_id) == os.getpid()
    room.journal.close()
