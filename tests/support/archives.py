"""Archives as a purge would leave them, made of given records by the product's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dashboard.archive import format as parts
from dashboard.archive.manifest import (
    PART,
    PARTITION,
    RUN,
    ArchivedTopic,
    Encryption,
    Gap,
    Part,
    PartitionArchive,
    Range,
    Reached,
    RunArchive,
    gaps_are,
    part_file,
    part_name,
    partition_name,
    proof_name,
    run_name,
    sealed,
)
from dashboard.archive.place import Place
from dashboard.archive.sealing import METHOD, Sealer
from dashboard.archive.summary import Summary
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Row

CLUSTER, RUN_ID = "cluster-id", "20261127T120000-1a2b3c4d"
CREATED = datetime(2026, 11, 27, 12, tzinfo=UTC)
Records = Mapping[int, Sequence[tuple[int, Row]]]  # partition -> offset and record


def proved_at(
    now: Callable[[], datetime],
) -> Callable[[object, object, Sequence[Summary]], dict[str, datetime]]:
    """In place of `proved_times`: what each cluster's controller proves."""
    return lambda _settings, _store, due: {one.archive.run.cluster_id: now() for one in due}


def records(count: int, first: int = 0, step: int = 1, tag: str = "v") -> list[tuple[int, Row]]:
    """Records at `first`, `first` + `step`, …; of every fourth one something is null or empty."""
    found: list[tuple[int, Row]] = []
    for at in range(count):
        key = (None, b"", b"k%d" % at, b"k")[at % 4]
        value = (b"%s%d" % (tag.encode(), at), None, b"", b"x" * (at % 300))[at % 4]
        headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("b", b"")]
        row: Row = (key, value, 1_700_000_000_000 + at, headers if at % 3 == 0 else None)
        found.append((first + at * step, row))
    return found


def orders(folder: Path, topic: str = "orders", partitions: int = 3) -> Path:
    """The archive of a purge of the sample cluster's orders: customers' JSON, over a day."""
    rows: dict[int, list[tuple[int, Row]]] = {}
    for number in range(partitions):
        rows[number] = [
            (
                120_000 + 2_500 * at,
                (
                    b"customer-%d" % ((at * 7 + number) % 23),
                    b'{"order": %d, "cents": %d}' % (1000 * number + at, 199 + 37 * at % 9000),
                    1_764_000_000_000 + at * 300_000 + number * 1000,
                    None,
                ),
            )
            for at in range(290)
        ]
    return write(folder, {topic: rows}, per_part=100, per_group=50)


def write(
    folder: Path | str,
    topics: Mapping[str, Records],
    *,
    config: Mapping[str, str] | None = None,
    per_part: int = 40,
    per_group: int = 16,
    state: str = "whole",
    key: Sealer | None = None,
    run_id: str = RUN_ID,
    created_at: datetime = CREATED,
    cluster_id: str = CLUSTER,
) -> Path:
    """The folder of a run's archive below `folder`, with `per_part` records in a part.

    A `folder` that is a URL is written to all the same. Offsets that no record has are gaps of
    markers. A partition without records has no commit.
    """
    place = Place(str(folder))
    if place.is_local:
        Path(folder, cluster_id, run_id).mkdir(parents=True, exist_ok=True)
    ranges, described = [], []
    for topic, partitions in topics.items():
        described.append(ArchivedTopic(topic, f"id-{topic}", len(partitions), 3, config or {}))
        for number, rows in partitions.items():
            at = TopicPartition(topic, number)
            first, target = (rows[0][0], rows[-1][0] + 1) if rows else (0, 1)
            ranges.append(Range(topic, number, first, target, kept=bool(rows)))
            if rows:
                found = tuple(
                    _part(
                        place,
                        (cluster_id, run_id),
                        at,
                        _split(rows, i, per_part),
                        key=key,
                        per_group=per_group,
                    )
                    for i in range(0, len(rows), per_part)
                )
                whole = PartitionArchive(topic, f"id-{topic}", number, first, target, found)
                place.put(partition_name(cluster_id, run_id, at), sealed(PARTITION, whole))
    run = RunArchive(
        cluster_id, "prod", run_id, "ab" * 32, created_at, state,  # type: ignore[arg-type]
        Encryption(METHOD, key.key_id) if key else None, tuple(described), tuple(ranges),
    )  # fmt: skip
    place.put(run_name(cluster_id, run_id), sealed(RUN, run))
    return Path(folder) / cluster_id / run_id


def _split(
    rows: Sequence[tuple[int, Row]], begin: int, count: int
) -> tuple[Sequence[tuple[int, Row]], int]:
    """The records of a part, and where the next one begins."""
    rest = rows[begin + count : begin + count + 1]
    return rows[begin : begin + count], rest[0][0] if rest else rows[-1][0] + 1


def _part(
    place: Place,
    of: tuple[str, str],
    at: TopicPartition,
    split: tuple[Sequence[tuple[int, Row]], int],
    *,
    key: Sealer | None,
    per_group: int,
) -> Part:
    rows, after = split
    writer = parts.PartWriter(1)
    for begin in range(0, len(rows), per_group):
        writer.add(parts.batch_of(_columns(rows[begin : begin + per_group])))
    body = writer.finish()
    first = rows[0][0]
    file = part_file(first, "0a1b2c3d")
    name = part_name(*of, at, file)
    stored = key.seal(body, name) if key else body
    offsets = [offset for offset, _ in rows]
    gaps = [
        Gap(one + 1, other, "control")
        for one, other in zip(offsets, [*offsets[1:], after], strict=True)
        if other > one + 1
    ]
    found = Part(
        first, after, file, len(rows), len(stored), writer.contents.raw_bytes,
        parts.stored_sha256(stored), (Reached(0, after),), *gaps_are(gaps, after), tuple(gaps),
    )  # fmt: skip
    place.put(name, stored)
    place.put(proof_name(*of, at, first), sealed(PART, found))
    return found.brief


def _columns(rows: Sequence[tuple[int, Row]]) -> dict[str, list[object]]:
    return {
        "offset": [offset for offset, _ in rows],
        "timestamp": [None if row[2] == -1 else row[2] for _, row in rows],
        "timestamp_type": [None if row[2] == -1 else "create" for _, row in rows],
        "key": [row[0] for _, row in rows],
        "value": [row[1] for _, row in rows],
        "headers": [row[3] or [] for _, row in rows],
    }
