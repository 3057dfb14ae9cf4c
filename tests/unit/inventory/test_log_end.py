"""Where a segment's records end is read from its batches' headers, and unknown where they break."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.inventory import contents as reader
from dashboard.inventory.contents import log_end
from tests.unit.inventory.disks import batch

BASE = 1000
# Records of each batch, the offsets that a cleaner left out before it, its bytes and its magic.
BATCHES = st.lists(
    st.tuples(
        st.integers(1, 50), st.integers(0, 9), st.integers(61, 200), st.sampled_from((0, 1, 2))
    ),
    max_size=12,
)


def end_of(log: bytes, index: bytes | None = None) -> int | None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / f"{BASE:020}.log").write_bytes(log)
        if index is not None:
            (Path(name) / f"{BASE:020}.index").write_bytes(index)
        folder = os.open(name, os.O_RDONLY)
        try:
            return log_end(folder, BASE)
        finally:
            os.close(folder)


def written(batches: list[tuple[int, int, int, int]]) -> tuple[list[bytes], list[int]]:
    """The batches, and the offset after each."""
    found, ends, end = [], [], BASE
    for records, hole, size, magic in batches:
        found.append(batch(end + hole, records, size, magic))
        end += hole + records
        ends.append(end)
    return found, ends


@given(BATCHES, st.data())
def test_the_end_is_that_of_the_last_batch_with_and_without_an_index(
    batches: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    found, ends = written(batches)
    end = ends[-1] if ends else BASE
    assert end_of(b"".join(found)) == end
    named = data.draw(st.sets(st.integers(1, max(1, len(found) - 1))))
    entries = b"".join(
        struct.pack(">ii", ends[n] - 1 - BASE, len(b"".join(found[:n])))
        for n in sorted(named)
        if n < len(found)
    )
    assert end_of(b"".join(found), entries + bytes(8 * 50)) == end
    assert end_of(b"".join(found), data.draw(st.binary(max_size=64))) == end


@given(BATCHES.filter(bool), st.data())
def test_what_is_cut_short_or_goes_on_with_anything_else_has_no_known_end(
    batches: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    found, ends = written(batches)
    log = b"".join(found)
    cut = data.draw(st.integers(1, len(found[-1]) - 1))
    assert end_of(log[:-cut]) is None
    assert end_of(log + bytes(100)) is None
    assert end_of(log + b"x" * 100) is None
    assert end_of(log + batch(ends[-1] - 1, 1)) is None


def test_a_log_that_cannot_be_opened_or_is_too_long_to_walk_has_no_known_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert log_end(folder, BASE) is None
        (tmp_path / f"{BASE:020}.log").symlink_to("/dev/null")
        assert log_end(folder, BASE) is None
    finally:
        os.close(folder)
    found, ends = written([(1, 0, 61, 2)] * 9)
    monkeypatch.setattr(reader, "_MOST_BATCHES", 5)
    assert end_of(b"".join(found)) is None
    entry = struct.pack(">ii", ends[6] - 1 - BASE, 61 * 6)
    assert end_of(b"".join(found), entry) == ends[-1]
