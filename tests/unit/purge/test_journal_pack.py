"""Long texts are kept small, read back to the letter, and a change in one is still found."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError, LowwaterError
from dashboard.purge.journal.pack import pack, pack_row, unpack
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room

# The most that one partition of a policy's run may cost, all that the journal keeps of it
# together; the offsets of a real cluster are less alike, and cost about half as much again.
_BYTES_A_PARTITION = 600


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    long = canonical({"text": text * 2000})
    assert unpack(pack(long)) == long
    assert unpack(pack_row(canonical({"t": text}))) == canonical({"t": text})


def test_short_and_earlier_texts_are_plain() -> None:
    short = '{"state":"done"}'
    assert pack(short) == short
    assert unpack(canonical({"x": "y" * 9000})) == canonical({"x": "y" * 9000})


@pytest.mark.parametrize("cut", [4, 40, 43, -1])
def test_a_changed_packed_text_is_an_error(cut: int) -> None:
    stored = pack(canonical({"x": list(range(3000))}))
    with pytest.raises(JournalError):
        unpack(stored[:cut])
    with pytest.raises(JournalError):
        unpack(stored[:50] + ("A" if stored[50] != "A" else "B") + stored[51:])


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path, 100)
    made.carry_out(partitions_per_request=500)
    return made


@pytest.mark.further
def test_a_run_of_a_hundred_partitions_is_small(room: Room) -> None:
    (run,) = room.journal.runs()
    room.watch(room.journal.run(run.run_id))
    room.journal.close()
    path = room.journal.file.path
    with sqlite3.connect(path) as db:
        db.execute("VACUUM INTO ?", (str(path.with_name("small")),))
    db.close()
    empty = Room(path.parent / "empty").journal
    empty.close()
    grown = path.with_name("small").stat().st_size - empty.file.path.stat().st_size
    assert grown / 100 < _BYTES_A_PARTITION


def test_a_change_in_a_packed_entry_is_found(room: Room) -> None:
    (seq,) = room.journal.file.rows(
        "SELECT max(seq) FROM entries WHERE body LIKE 'z1:%' AND kind='answer'"
    )[0]
    text = unpack(room.journal.file.rows("SELECT body FROM entries WHERE seq=?", seq)[0]["body"])
    assert room.journal.verify().ok
    changed = json.loads(text)
    changed["partitions"][0]["low_watermark"] = 7
    for body in (pack(canonical(changed)), "z1:AAAA", "z1:", "{"):
        room.journal.file.rows("UPDATE entries SET body=? WHERE seq=?", body, seq)
        told = room.journal.verify().problems
        assert told == (f"entry {seq} was changed after it was written",)
    room.journal.file.rows("UPDATE entries SET body=? WHERE seq=?", text, seq)  # plain is the same
    assert room.journal.verify().ok
    room.journal.close()


def test_a_changed_packed_plan_is_refused(room: Room) -> None:
    (run,) = room.journal.runs()
    stored = room.journal.file.rows("SELECT plan FROM runs")[0]["plan"]
    assert stored.startswith("z1:")
    assert room.journal.plan(run.run_id).sha256 == run.plan_sha256
    for plan in (pack(unpack(stored).replace('"ann"', '"eve"')), stored[:-8], "z1:" + "A" * 64):
        room.journal.file.rows("UPDATE runs SET plan=?", plan)
        with pytest.raises(LowwaterError):
            room.journal.plan(run.run_id)
    room.journal.close()


def test_a_sent_time_is_kept_in_a_packed_row(room: Room) -> None:
    (row, *_) = room.journal.partitions(room.journal.runs()[0].run_id)
    assert row.sent_at is not None
    assert format_time(row.sent_at) == format_time(NOW)
    room.journal.close()
