"""Restoring into a topic in memory: order, going on after a death, strangers, what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.archive.manifest import ArchivedTopic
from dashboard.archive.opened import open_archive
from dashboard.archive.restore import Goal, Progress, Restore, Restored
from dashboard.archive.restored_topic import Notes, new_topic
from dashboard.cluster.live import LiveCluster
from dashboard.cluster.produce import RecordProducer, rows_of
from dashboard.core.errors import ClusterError, LowwaterError, RefusedError, UsageError
from dashboard.domain.model import (
    OffsetAtTime,
    TopicPartition,
    TopicState,
)
from dashboard.domain.records import Row
from tests.support import archives
from tests.support.cluster import FakeCluster, FakePartition

NEW = "orders-restored"
KEEPS = {"message.timestamp.type": "CreateTime", "retention.ms": "-1", "retention.bytes": "-1"}
STRANGER: Row = (b"s", b"of somebody else", 7, None)


class Memory(FakeCluster):
    """A cluster whose topics are lists of records; both the live questions and the client."""

    def __init__(self) -> None:
        self.logs: dict[str, list[list[Row]]] = {}
        super().__init__(0)
        self.ids: dict[str, str] = {}
        self.topic_configs = {}
        self.dies_after: int | None = None  # so many records more, the next one raises

    @property
    def parts(self) -> dict[TopicPartition, FakePartition]:  # type: ignore[override]
        return {
            TopicPartition(name, n): FakePartition({1: 0}, 1, 0, len(log), len(log), isr=(1,))
            for name, logs in self.logs.items()
            for n, log in enumerate(logs)
        }

    @parts.setter
    def parts(self, _: object) -> None:
        """They are what the logs make them."""

    def id_of(self, topic: str) -> str:
        return self.ids[topic]

    def make(self, topic: str, partitions: int = 2, **config: str) -> None:
        self.logs[topic] = [[] for _ in range(partitions)]
        self.ids[topic] = f"id-{len(self.ids)}"
        given = {name.replace("_", "."): value for name, value in config.items()}
        self.configs_of[topic] = {**KEEPS, **given}

    def create_topic(self, topic: str, *, partitions: int, configs: Any, **_: Any) -> TopicState:
        self.make(topic, partitions)
        self.configs_of[topic] |= configs
        return self.topics([topic])[topic]

    def own_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None]]:
        return {topic: self.configs_of[topic] for topic in topics}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        ms = int(at.timestamp() * 1000)
        return {
            key: OffsetAtTime(*key, next((n for n, row in enumerate(log) if row[2] >= ms), None))
            for key in partitions for log in [self.logs[key.topic][key.partition]]
        }  # fmt: skip

    def producer(self, topic: str, _: int | None) -> RecordProducer:
        return cast(RecordProducer, _Producer(self, topic))

    def read(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[list[int], list[Row]]]:
        log = self.logs[topic][partition]
        for at in range(start, end, 7):
            to = min(at + 7, end)
            yield list(range(at, to)), log[at:to]


@dataclass
class _Producer:
    memory: Memory
    topic: str

    def __enter__(self) -> _Producer:
        return self

    def __exit__(self, *_: object) -> None: ...
    def finish(self) -> None: ...

    def send(self, partition: int, batch: pa.RecordBatch) -> None:
        for row in rows_of(batch):
            if self.memory.dies_after == 0:
                raise ClusterError("the machine is gone", "Come back.", code="RESTORE_STALLED")
            if self.memory.dies_after is not None:
                self.memory.dies_after -= 1
            self.memory.logs[self.topic][partition].append(row)


ORDERS = {
    0: archives.records(130, first=1000, step=2),
    1: archives.records(57, first=3),
}


@dataclass
class Scene:
    folder: Path
    cluster: Memory
    told: list[Progress] = field(default_factory=list)

    def restore(self, goal: Goal, **other: Any) -> Restored:
        archive = open_archive(str(other.get("archive", self.folder)))
        made = Restore(
            archive, archive.topic("orders"), cast(LiveCluster, self.cluster), self.cluster,
            Notes(other.get("notes", self.folder.parent / "restores")), 0.0, self.told.append,
        )  # fmt: skip
        return made.run(goal, archives.CREATED, self.folder.parent / "map.parquet")

    def asked(self) -> Mapping[str, str]:
        """The settings that a new topic is made with."""
        return new_topic(NEW, open_archive(str(self.folder)).topic("orders"), 3).config

    def lies(self, topic: str = NEW) -> list[list[Row]]:
        return self.cluster.logs[topic]


WHOLE = [[row for _, row in ORDERS[number]] for number in (0, 1)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    config = {"cleanup.policy": "compact", "retention.ms": "1000", "segment.ms": "5000"}
    return Scene(archives.write(tmp_path / "all", {"orders": ORDERS}, config=config), Memory())


def test_records_come_back_in_order_and_the_map_tells_each_ones_new_offset(scene: Scene) -> None:
    done = scene.restore(Goal(NEW))
    assert done.whole
    assert scene.lies() == WHOLE
    assert [(p.records, p.first_offset, p.next_offset, p.resumed_at) for p in done.partitions] == [
        (130, 0, 130, 0), (57, 0, 57, 0),
    ]  # fmt: skip
    table = pq.read_table(done.offsets_file).to_pylist()
    assert len(table) == 187
    assert table[129] == {"topic": "orders", "partition": 0, "old_offset": 1258, "new_offset": 129}
    assert (table[130]["partition"], table[130]["old_offset"], table[130]["new_offset"]) == (
        1,
        3,
        0,
    )
    last = scene.told[-1]
    assert (last.step, last.records, last.of_records) == ("compared", 187, 187)
    assert last.raw_bytes <= last.of_raw_bytes and last.of_raw_bytes > 0


def test_a_new_topic_keeps_what_is_restored_and_says_what_differs(scene: Scene) -> None:
    done = scene.restore(Goal(NEW))
    made = scene.cluster.configs_of[NEW]
    assert (made["cleanup.policy"], made["retention.ms"], made["segment.ms"]) == (
        "delete", "-1", "5000",
    )  # fmt: skip
    assert made["message.timestamp.type"] == "CreateTime"
    assert done.new is not None
    differ = {one.name: (one.was, one.now) for one in done.new.changed}
    assert differ["cleanup.policy"] == ("compact", "delete")
    assert differ["retention.bytes"] == (None, "-1")
    line = done.new.line("k:9092")
    assert "--add-config cleanup.policy=compact,retention.ms=1000" in line
    assert "--delete-config max.message.bytes,message.timestamp.type,retention.bytes" in line


@pytest.mark.parametrize("deaths", [[0], [1], [60, 0, 25], [130, 40], [186]])
def test_a_restore_that_died_goes_on_behind_what_is_there(scene: Scene, deaths: list[int]) -> None:
    for count in deaths:
        scene.cluster.dies_after = count
        with pytest.raises(ClusterError):
            scene.restore(Goal(NEW))
    scene.cluster.dies_after = None
    done = scene.restore(Goal(NEW))
    assert (done.whole, scene.lies()) == (True, WHOLE)
    assert sum(p.resumed_at for p in done.partitions) == sum(deaths)
    again = scene.restore(Goal(NEW))
    assert (again.whole, scene.lies()) == (True, WHOLE), "once more compares, and writes nothing"


def test_another_machine_goes_on_where_the_topic_holds_the_archives_records(scene: Scene) -> None:
    scene.cluster.dies_after = 60
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW))
    scene.cluster.dies_after = None
    done = scene.restore(Goal(NEW), notes=scene.folder.parent / "elsewhere")
    assert (done.whole, scene.lies()) == (True, WHOLE)


def make_unheard(scene: Scene, error: LowwaterError, *, made: bool) -> None:
    """A restore that asks for its topic, and is answered by `error`."""
    make = scene.cluster.make

    def lost(topic: str, partitions: int = 2, **config: str) -> None:
        if made:
            make(topic, partitions, **scene.asked(), **config)
        raise error

    scene.cluster.make = lost  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        scene.restore(Goal(NEW))
    scene.cluster.make = make  # type: ignore[method-assign]


LOST = ClusterError("the answer was lost", "Look again.", code="ANSWER_LOST")


def test_a_topic_whose_making_was_not_answered_is_gone_on_with(scene: Scene) -> None:
    make_unheard(scene, LOST, made=True)
    done = scene.restore(Goal(NEW))
    assert (done.whole, scene.lies()) == (True, WHOLE)
    assert done.new is not None


@pytest.mark.parametrize(
    ("partitions", "also"), [(2, {}), (2, {"cleanup.policy": "delete"}), (3, None)]
)
def test_a_topic_that_somebody_made_instead_is_not_taken_for_its_own(
    scene: Scene, partitions: int, also: dict[str, str] | None
) -> None:
    make_unheard(scene, LOST, made=False)
    config = scene.asked() if also is None else also
    scene.cluster.make(NEW, partitions, **config)
    with pytest.raises(RefusedError) as others:
        scene.restore(Goal(NEW))
    assert (others.value.code, scene.lies()) == ("TOPIC_EXISTS", [[]] * partitions)


def test_what_was_refused_leaves_no_note_by_which_a_topic_is_its_own(scene: Scene) -> None:
    refused = UsageError("segment.ms is no number", "Correct it.", code="TOPIC_INVALID")
    make_unheard(scene, refused, made=True)
    with pytest.raises(RefusedError) as others:
        scene.restore(Goal(NEW))
    assert (others.value.code, scene.lies()) == ("TOPIC_EXISTS", [[], []])


def test_a_setting_that_brokers_take_no_more_has_a_way_around_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 4 takes no segments below 1 MiB."""
    refused = UsageError("segment.bytes must be at least 1048576", "Correct it.")

    def create_topic(*_: Any, **__: Any) -> TopicState:
        raise refused

    monkeypatch.setattr(scene.cluster, "create_topic", create_topic)
    with pytest.raises(UsageError, match=r"segment\.bytes") as wrong:
        scene.restore(Goal(NEW))
    line = wrong.value.next_step.partition("--existing: ")[2]
    given = dict(pair.split("=") for pair in line.split()[line.split().index("--config") + 1 :: 2])
    assert "--partitions 2" in line and given["cleanup.policy"] == "delete"
    scene.cluster.make(NEW, **{name.replace(".", "_"): value for name, value in given.items()})
    assert scene.restore(Goal(NEW, existing=True)).whole


def test_a_part_that_is_missing_ends_it_and_what_was_written_stays(scene: Scene) -> None:
    (part,) = (scene.folder / "orders" / "0").glob("part-*1080-*.parquet")
    aside = part.rename(scene.folder / "aside")
    with pytest.raises(LowwaterError) as missing:
        scene.restore(Goal(NEW))
    assert missing.value.code == "ARCHIVE_PART_MISSING"
    first, second = scene.lies()
    assert (first, second) == (WHOLE[0][:40], WHOLE[1][: len(second)])
    aside.rename(part)
    done = scene.restore(Goal(NEW))
    assert (done.whole, done.partitions[0].resumed_at, scene.lies()) == (True, 40, WHOLE)


def test_a_topic_that_is_there_is_refused_unless_it_is_meant(scene: Scene) -> None:
    scene.cluster.make(NEW)
    with pytest.raises(RefusedError, match="is there already") as empty:
        scene.restore(Goal(NEW))
    assert (empty.value.code, "--existing" in empty.value.next_step) == ("TOPIC_EXISTS", True)
    scene.cluster.logs[NEW][0].append(STRANGER)
    with pytest.raises(RefusedError) as others:
        scene.restore(Goal(NEW))
    assert others.value.code == "TOPIC_EXISTS"
    assert scene.lies() == [[STRANGER], []], "nothing was written"
    done = scene.restore(Goal(NEW, existing=True))
    assert (done.whole, done.new) == (True, None)
    assert scene.lies() == [[STRANGER, *WHOLE[0]], WHOLE[1]]
    assert (done.partitions[0].first_offset, done.partitions[0].next_offset) == (1, 131)


def test_others_that_write_meanwhile_are_stepped_over_in_an_existing_topic(scene: Scene) -> None:
    scene.cluster.make(NEW)
    scene.cluster.logs[NEW][1].append(STRANGER)
    scene.cluster.dies_after = 100
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW, existing=True))
    scene.cluster.logs[NEW][0] += [STRANGER, STRANGER]
    scene.cluster.dies_after = None
    scene.restore(Goal(NEW, existing=True))
    scene.cluster.logs[NEW][0].append(STRANGER)
    scene.cluster.logs[NEW][1].append(STRANGER)
    done = scene.restore(Goal(NEW, existing=True))
    assert [(p.error, p.strangers) for p in done.partitions] == [(None, 3), (None, 1)]
    assert done.whole, "others may write behind the archive's last record, too"
    for number in (0, 1):
        assert [row for row in scene.lies()[number] if row != STRANGER] == WHOLE[number]
    assert done.partitions[0].next_offset == 132
    old_to_new = {
        row["old_offset"]: row["new_offset"]
        for row in pq.read_table(done.offsets_file).to_pylist()
        if row["partition"] == 0
    }
    assert {offset: scene.lies()[0][new] for offset, new in old_to_new.items()} == dict(ORDERS[0])


@pytest.mark.parametrize("late", [99, 120, 129])
def test_what_a_killed_producer_sent_late_is_no_stranger(scene: Scene, late: int) -> None:
    live: Row = (b"s", b"of somebody else", WHOLE[0][50][2], None)
    scene.cluster.make(NEW)
    scene.restore(Goal(NEW, existing=True))
    log = scene.lies()[0]
    log[late + 1 : late + 1] = [live, *WHOLE[0][90:100]]
    done = scene.restore(Goal(NEW, existing=True))
    assert not done.whole
    first, second = done.partitions
    assert (first.error, second.error) == ("10 records of the archive lie there once more", None)
    assert (first.records, first.strangers, first.doubled) == (130, 11, 10)
    del log[late + 1 : late + 12]
    log[late + 1 : late + 1] = [live] * 3
    done = scene.restore(Goal(NEW, existing=True))
    assert (done.whole, done.partitions[0].strangers, done.partitions[0].doubled) == (True, 3, 0)


@pytest.mark.parametrize("live_time", [7, 1_900_000_000_000])
@pytest.mark.parametrize("note", ["elsewhere", "torn", "of another run"])
def test_existing_without_its_note_is_refused_where_a_restore_wrote_before(
    scene: Scene, note: str, live_time: int
) -> None:
    live: Row = (b"s", b"of somebody else", live_time, None)
    scene.cluster.make(NEW)
    scene.cluster.logs[NEW] = [[live, live], [live]]
    scene.cluster.dies_after = 60
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW, existing=True))
    scene.cluster.dies_after = None
    notes = scene.folder.parent / "restores"
    if note == "torn":
        (notes / f"{NEW}.json").write_text('{"cluster_id":')
    elif note == "of another run":
        scene.restore(Goal(NEW, existing=True))
        rows = {0: archives.records(3, tag="w"), 1: archives.records(3, tag="w")}
        other = archives.write(scene.folder.parent / "other", {"orders": rows}, run_id="another")
        assert scene.restore(Goal(NEW, existing=True), archive=other).whole
    before = [list(log) for log in scene.lies()]
    found = [log.index(WHOLE[number][0]) for number, log in enumerate(before) if len(log) > 2]
    with pytest.raises(RefusedError, match=f"at offset {found[0]} already") as twice:
        scene.restore(
            Goal(NEW, existing=True),
            notes=scene.folder.parent / note if note == "elsewhere" else notes,
        )
    assert (twice.value.code, scene.lies()) == ("RESTORED_ALREADY", before)


@pytest.mark.parametrize(
    ("partitions", "config", "said"),
    [
        (3, {}, "has 3 partitions, orders had 2"),
        (2, {"message_timestamp_type": "LogAppendTime"}, "times would be lost"),
        (2, {"cleanup_policy": "compact,delete"}, "compacted"),
        (2, {"retention_ms": "60000"}, "retention.ms 60000 and retention.bytes -1, not -1"),
        (2, {"retention_bytes": "1000"}, "retention.ms -1 and retention.bytes 1000, not -1"),
    ],
)
def test_an_existing_topic_that_would_change_records_is_refused(
    scene: Scene, partitions: int, config: Mapping[str, str], said: str
) -> None:
    scene.cluster.make(NEW, partitions, **config)
    with pytest.raises(RefusedError, match=said) as unfit:
        scene.restore(Goal(NEW, existing=True))
    assert unfit.value.code == "TOPIC_UNFIT"
    line = f"--entity-name {NEW} --add-config retention.ms=-1,retention.bytes=-1"
    assert (line in unfit.value.next_step) is ("retention" in said)
    assert scene.lies() == [[] for _ in range(partitions)]


def test_a_topic_that_keeps_all_no_more_is_compared_but_not_written_to(scene: Scene) -> None:
    scene.cluster.make(NEW)
    scene.cluster.dies_after = 60
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW, existing=True))
    scene.cluster.dies_after = None
    scene.cluster.configs_of[NEW]["retention.ms"] = "60000"
    with pytest.raises(RefusedError, match=r"retention\.ms 60000") as unfit:
        scene.restore(Goal(NEW, existing=True))
    assert (unfit.value.code, sum(map(len, scene.lies()))) == ("TOPIC_UNFIT", 60)
    scene.cluster.configs_of[NEW]["retention.ms"] = "-1"
    scene.restore(Goal(NEW, existing=True))
    scene.cluster.configs_of[NEW]["retention.ms"] = "60000"
    assert scene.restore(Goal(NEW, existing=True)).whole, "once all is there it may be set back"


def test_a_record_that_changed_meanwhile_is_found_and_ends_no_other_partition(scene: Scene) -> None:
    scene.restore(Goal(NEW))
    key, value, time, headers = scene.lies()[0][77]
    scene.lies()[0][77] = (key, (value or b"") + b"!", time + 1, headers)
    done = scene.restore(Goal(NEW))
    assert not done.whole
    first, second = done.partitions
    assert (first.records, second.error) == (77, None)
    assert first.error == (
        "the record at offset 77 has another value and time than the archive's of offset 1154"
    )


def test_what_is_none_of_the_archives_is_not_gone_on_with(scene: Scene) -> None:
    scene.cluster.dies_after = 60
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW))
    scene.cluster.dies_after = None
    scene.lies()[0].append(STRANGER)
    with pytest.raises(RefusedError) as differs:
        scene.restore(Goal(NEW))
    assert differs.value.code == "TARGET_DIFFERS"
    other = archives.write(
        scene.folder.parent / "other", {"orders": {0: archives.records(3)}}, run_id="another-run"
    )
    with pytest.raises(RefusedError, match=archives.RUN_ID) as unfinished:
        scene.restore(Goal(NEW), archive=other)
    assert unfinished.value.code == "RESTORE_UNFINISHED"


def test_two_restores_into_one_topic_do_not_run_at_once(scene: Scene) -> None:
    with (
        Notes(scene.folder.parent / "restores").alone(NEW),
        pytest.raises(RefusedError) as busy,
    ):
        scene.restore(Goal(NEW))
    assert busy.value.code == "RESTORE_BUSY"


def test_partitions_are_chosen_and_those_without_a_commit_are_named(tmp_path: Path) -> None:
    folder = archives.write(tmp_path / "all", {"orders": {**ORDERS, 2: []}}, state="incomplete")
    scene = Scene(folder, Memory())
    with pytest.raises(LowwaterError, match="commits partition 2") as part:
        scene.restore(Goal(NEW))
    assert part.value.code == "ARCHIVE_NOT_WHOLE"
    with pytest.raises(LowwaterError) as unknown:
        scene.restore(Goal(NEW, partitions=frozenset({1, 9})))
    assert unknown.value.code == "ARCHIVE_PARTITION_UNKNOWN"
    assert NEW not in scene.cluster.logs
    done = scene.restore(Goal(NEW, partitions=frozenset({1})))
    assert (done.whole, scene.lies()) == (True, [[], WHOLE[1], []])


def test_some_partitions_end_no_restore_of_all(scene: Scene) -> None:
    notes = Notes(scene.folder.parent / "restores")
    scene.cluster.dies_after = 50
    with pytest.raises(ClusterError):
        scene.restore(Goal(NEW))
    scene.cluster.dies_after = None
    for some, done in ((frozenset({0}), False), (None, True)):
        assert scene.restore(Goal(NEW, partitions=some)).whole
        begun = notes.of(NEW)
        assert begun is not None and begun.done == done


def test_a_topic_with_the_longest_name_is_restored_into(scene: Scene) -> None:
    """Files of a restore bear its name, and no file's name is longer than 255."""
    longest = "x" * 249
    scene.cluster.dies_after = 50
    with pytest.raises(ClusterError):
        scene.restore(Goal(longest))
    scene.cluster.dies_after = None
    assert scene.restore(Goal(longest)).whole
    notes = Notes(scene.folder.parent / "restores")
    assert notes.of(longest) is not None and notes.of(f"{longest[:-1]}y") is None
    assert len(notes.offsets_file(longest).name) < 220


def test_settings_that_newer_brokers_do_not_know_are_left_out() -> None:
    config = {"message.format.version": "2.8", "message.downconversion.enable": "false"}
    new = new_topic(NEW, ArchivedTopic("orders", "id-1", 2, 3, config), 3)
    assert not config.keys() & new.config.keys()
    assert config.keys() <= {one.name for one in new.changed}


def test_fewer_brokers_hold_fewer_replicas_and_vendors_settings_stay_away() -> None:
    config = {
        "min.insync.replicas": "3", "max.message.bytes": "99999999", "compression.type": "zstd",
        "remote.storage.enable": "true", "confluent.tier.enable": "true",
    }  # fmt: skip
    made = new_topic("n", ArchivedTopic("o", "id", 5, 3, config), 2)
    assert (made.partitions, made.replication_factor) == (5, 2)
    assert made.config["min.insync.replicas"] == "2"
    assert made.config["max.message.bytes"] == "99999999"
    assert made.config["compression.type"] == "zstd"
    assert not {"confluent.tier.enable", "remote.storage.enable"} & made.config.keys()
    assert {"confluent.tier.enable", "remote.storage.enable"} <= {s.name for s in made.changed}
