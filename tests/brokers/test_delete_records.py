"""`delete-records` on real brokers: a yes covers the records that were shown, and no other."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.calls import DeletedRecords, delete_records
from dashboard.cli.main import main
from dashboard.demo.kafka.brokers import LocalCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.workload import ANSWERS_WITHIN

Meanwhile = Callable[[], None]


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("delete-records"))
    yield made
    made.close()


class _Person(io.StringIO):
    """A terminal whose yes comes after something happened on the cluster."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        super().__init__("yes\n")
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        self._meanwhile()
        return super().readline() if size is None else super().readline(size)


@pytest.fixture
def delete_all(
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[[str, Meanwhile], tuple[int, dict[str, Any], str]]:
    """Deletes a topic's partition 0 up to a typed -1, with a yes at the question."""

    def delete(topic: str, meanwhile: Meanwhile) -> tuple[int, dict[str, Any], str]:
        file = tmp_path / "offsets.json"
        rows = [{"topic": topic, "partition": 0, "offset": -1}]
        file.write_text(json.dumps({"partitions": rows, "version": 1}))
        monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
        monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
        monkeypatch.setattr("sys.stdin", _Person(meanwhile))
        capsys.readouterr()
        code = main(
            ["delete-records", "--bootstrap-server", bench.bootstrap, "--offset-json-file",
             str(file), "--data", bench.settings.data, "--cluster", "test", "--json"]
        )  # fmt: skip
        said = capsys.readouterr()
        return code, json.loads(said.out), said.err

    return delete


@pytest.mark.further
def test_the_python_call_tells_per_partition_what_became_of_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    topic, held = bench.topic(100), bench.topic(100)
    bench.commit("reads-on", topic, {0: 90})
    bench.commit("far-behind", held, {0: 5})
    said: list[str] = []

    def delete(offset: int, **more: Any) -> dict[tuple[str, int], DeletedRecords]:
        return delete_records(
            {(topic, 0): offset, (held, 0): offset}, bootstrap_servers=bench.bootstrap,
            cluster="test", progress=said.append, **more,
        )  # fmt: skip

    guarded = delete(60)
    assert {d.error for d in guarded.values()} == {"readers-undeclared", "unread-by-group"}
    assert len(bench.offsets(topic, 0)) == len(bench.offsets(held, 0)) == 100
    assert said == [], "nothing was free: nothing was queued"
    lifted = dict.fromkeys(("readers-undeclared", "no-history"), "a test's own topics")
    done = delete(60, override=lifted)
    assert done == {
        (topic, 0): DeletedRecords(60, 60, None),
        (held, 0): DeletedRecords(None, None, "unread-by-group"),
    }
    assert bench.offsets(topic, 0) == list(range(60, 100))
    assert len(bench.offsets(held, 0)) == 100
    only = delete(70, override=lifted, leader_only=True)[topic, 0]
    assert (only.low_watermark, only.error) == (None, "UNSUPPORTED_VERSION"), "no v3 here"
    assert bench.journal.verify().ok


Delete = Callable[[str, Meanwhile], tuple[int, dict[str, Any], str]]


def test_what_is_written_while_the_question_stands_is_not_deleted(
    bench: Bench, delete_all: Delete
) -> None:
    topic = bench.topic(100)
    bench.commit("asked", topic, {0: 99})
    code, told, said = delete_all(topic, lambda: bench.produce(topic, 0, 5000))
    assert "1 records below the target 100" in said
    assert (code, [p["low_watermark"] for p in told["partitions"]]) == (0, [100])
    assert bench.offsets(topic, 0) == list(range(100, 5100))
    assert bench.journal.run(told["run_id"]).partitions[0].target_offset == 100


@pytest.mark.further_but("came-below")
@pytest.mark.parametrize(
    ("group", "offset"), [("asked", 20), ("late", 20), ("late", 100)],
    ids=["moved-back", "came-below", "came-at-the-target"],
)  # fmt: skip
def test_a_reader_that_changed_while_the_question_stands_refuses(
    bench: Bench, delete_all: Delete, group: str, offset: int
) -> None:
    topic = bench.topic(100)
    bench.commit("asked", topic, {0: 99})
    code, told, _ = delete_all(topic, lambda: bench.commit(group, topic, {0: offset}))
    assert (code, told["error"]["code"]) == (3, "READERS_CHANGED")
    assert group in told["error"]["message"]
    assert bench.offsets(topic, 0) == list(range(100))


@pytest.mark.further
def test_a_yes_for_a_topic_that_was_made_anew_deletes_nothing(
    bench: Bench, delete_all: Delete
) -> None:
    topic = bench.topic(100)

    def made_anew() -> None:
        bench.admin.delete_topics([topic])[topic].result(ANSWERS_WITHIN)
        time.sleep(0.5)
        bench.topic(300, name=topic)

    code, told, _ = delete_all(topic, made_anew)
    assert (code, told["error"]["code"]) == (3, "READERS_CHANGED")
    assert bench.offsets(topic, 0) == list(range(300))


@pytest.mark.further
def test_a_folder_that_knows_nothing_of_the_cluster_is_said_before_the_yes(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Another working directory has another ./data: nothing is declared or remembered there."""
    topic = bench.topic(100)
    bench.commit("reads", topic, {0: 100})
    file = tmp_path / "offsets.json"
    rows = [{"topic": topic, "partition": 0, "offset": 50}]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    call = ["delete-records", "--bootstrap-server", bench.bootstrap, "--offset-json-file",
            str(file), "--data", str(tmp_path / "data")]  # fmt: skip
    capsys.readouterr()
    assert main(call) == 1
    assert "a yes lifts no-history" in capsys.readouterr().err
    assert main([*call, "--yes", "--json"]) == 0
    assert bench.offsets(topic, 0) == list(range(50, 100))
