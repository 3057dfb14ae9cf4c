"""What the demo's verbs decide before anything runs: ports, settings file, what runs already."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.core.errors import DemoError, UsageError
from dashboard.demo import children, processes, state, supervisor, verbs
from dashboard.demo.children import Place
from dashboard.demo.kafka.brokers import free_ports, kafka_uuid, server_properties
from dashboard.demo.state import DemoState, ProcessId
from dashboard.demo.truth import TOPICS
from dashboard.settings import settings
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")


def never(_: object) -> None:
    raise AssertionError("not expected to be called")


def note(chosen: Settings, supervisor_id: ProcessId) -> None:
    found = DemoState(supervisor_id, "/tmp/lowwater-demo-x", "running", "4.3.1", "d", "s")
    state.write(chosen.state_dir, found)


def test_a_port_asked_for_and_taken_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DemoError, match=f"port {port} ") as caught:
            supervisor.choose_port(port)
    assert caught.value.code == "PORT_TAKEN"


def test_the_default_port_taken_means_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(supervisor, "DEFAULT_PORT", taken.getsockname()[1])
        assert supervisor.choose_port(None) != taken.getsockname()[1]


def test_the_settings_file_names_the_cluster_and_declares_all_but_two_topics(
    chosen: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "lowwater.toml"
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    place = Place(tmp_path / "room", "/data 'x' \"y\"", file, 8501)
    file.write_text(children.settings_text(chosen, place, "127.0.0.1:1", now))
    read = settings.load(file, environ={})
    assert read.clusters == {"demo": {"bootstrap.servers": "127.0.0.1:1"}}
    assert read.data == "/data 'x' \"y\""
    assert read.state_dir == place.state_dir == tmp_path / "room" / "state"  # not the caller's
    assert read.cache_dir == chosen.cache_dir
    declared = read.declaration("clickstream")
    assert declared is not None
    assert (declared.owner, declared.readers) == ("web", "groups")
    assert (declared.replay_window, declared.declared_at) == (timedelta(0), "2026-03-01")
    assert read.declaration("app-logs") is None
    assert read.declaration("sensor-readings") is None
    (policy,) = read.policies
    assert [topic.name for topic in TOPICS if policy.matches(topic.name)] == [
        "orders-app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    ]
    assert policy.cluster == "demo"


def test_children_carry_the_mark_and_read_the_demo_s_settings() -> None:
    place = Place(Path("/tmp/lowwater-demo-x"), "/d", Path("/tmp/s.toml"), 8501)
    seen = children.environment(place, {"HOME": "/h", "LOWWATER_STATE_DIR": "relative"})
    assert seen["_LOWWATER_DEMO_ROOM"] == "/tmp/lowwater-demo-x"
    assert seen["LOWWATER_SETTINGS"] == "/tmp/s.toml"
    assert "LOWWATER_STATE_DIR" not in seen
    assert seen["HOME"] == "/h"
    assert seen["MALLOC_ARENA_MAX"] == "2"


def test_watch_gets_every_file_that_the_inventory_writes(tmp_path: Path) -> None:
    place = Place(tmp_path, "/d", tmp_path / "s.toml", 8501)
    disks = place.disks({1: [Path("/a"), Path("/b")], 2: [Path("/c")]})
    assert [disk.log_dirs for disk in disks] == ["/a,/b", "/c"]
    watching = children.watch("h:1", place, disks)
    given = [watching[i + 1] for i, word in enumerate(watching) if word == "--inventory"]
    assert (
        given
        == [disk.file for disk in disks]
        == [
            str(tmp_path / "broker-1.inventory"),
            str(tmp_path / "broker-2.inventory"),
        ]
    )
    assert not children.have_stock(disks)
    assert "--inventory" not in children.watch("h:1", place, [])


def test_a_second_demo_is_refused_and_the_first_named(chosen: Settings) -> None:
    note(chosen, ProcessId.of(os.getpid()))
    with pytest.raises(DemoError, match=f"process {os.getpid()}") as caught:
        verbs.up(chosen, never, never)
    assert caught.value.code == "DEMO_RUNNING"
    assert verbs.status(chosen).state is not None


def test_a_folder_that_holds_another_cluster_is_no_demos(chosen: Settings, tmp_path: Path) -> None:
    """Its pages, which know no people and no stop of the real journal, would purge that cluster."""
    folder = tmp_path / "data"
    ClusterStore(Store(str(folder)), "c1").write_connection("k:1", None, "prod-eu")
    with pytest.raises(UsageError, match="prod-eu") as caught:
        verbs.up(chosen, never, never, data=str(folder))
    assert caught.value.code == "FOLDER_TAKEN"
    assert state.read(chosen.state_dir) is None


def test_a_crashed_demo_is_not_running_and_down_clears_it(chosen: Settings) -> None:
    note(chosen, ProcessId(os.getpid(), 1))  # our id, but another process's start
    assert verbs.status(chosen) == verbs.Status(None, leftovers=True)
    assert verbs.down(chosen, never) == verbs.Ended(stopped=False, cleared=True)
    assert verbs.status(chosen) == verbs.Status(None)
    assert verbs.down(chosen, never) == verbs.Ended(stopped=False, cleared=False)


def test_loading_without_a_demo_says_how_to_start_one(chosen: Settings) -> None:
    with pytest.raises(DemoError, match="no demo runs") as caught:
        verbs.load(chosen, never)
    assert "lowwater demo up" in caught.value.next_step


def test_brokers_know_all_voters_and_listeners_have_their_own_properties() -> None:
    from dashboard.demo.kafka.brokers import Listener

    ports = {i: {"PLAINTEXT": 10 + i, "CONTROLLER": 20 + i, "SASL": 30 + i} for i in (1, 2, 3)}
    doors = [Listener("SASL", "SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "PLAIN"})]
    found = server_properties(2, ports, doors, "/logs")
    assert found["controller.quorum.voters"] == "1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23"
    assert "SASL://127.0.0.1:32" in found["listeners"].split(",")
    assert "SASL:SASL_PLAINTEXT" in found["listener.security.protocol.map"].split(",")
    assert found["listener.name.sasl.sasl.enabled.mechanisms"] == "PLAIN"
    assert found["offsets.topic.replication.factor"] == "3"


def test_free_ports_are_distinct_and_below_outgoing_ones() -> None:
    ports = free_ports(9)
    assert len(set(ports)) == 9
    assert all(15_000 <= port < 32_000 for port in ports)


def test_a_port_is_given_once_though_nothing_listens_on_it_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dashboard.demo.kafka.brokers.PORTS", range(15_000, 15_200))
    monkeypatch.setattr("dashboard.demo.kafka.brokers._given", set())
    first, second = free_ports(60), free_ports(60)
    assert not set(first) & set(second)


def test_cluster_ids_are_as_long_as_kafka_s_and_never_look_like_a_flag() -> None:
    ids = [kafka_uuid() for _ in range(500)]
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


def test_a_second_cluster_has_its_own_section_topics_and_watch(
    chosen: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "lowwater.toml"
    place = Place(tmp_path, "/data", file, 8501)
    text = children.settings_text(chosen, place, "127.0.0.1:1", datetime(2026, 3, 1, tzinfo=UTC))
    file.write_text(text + children.second_section("127.0.0.1:2"))
    found = settings.load(file, environ={}).clusters
    assert found == {name: {"bootstrap.servers": f"127.0.0.1:{port}"}
                     for name, port in (("demo", 1), ("demo-2", 2))}  # fmt: skip
    load = children.workload("h:2", place, load=True, only=children.SECOND_TOPICS)
    only = [load[at + 1] for at, word in enumerate(load) if word == "--only"]
    assert set(only) <= {topic.name for topic in TOPICS} and len(only) == 2
    assert "--load" in load and str(place.loaded_file) not in load
    watching = children.watch("h:2", place, [], children.SECOND, children.SECOND_EVERY)
    assert watching[watching.index("--name") + 1] == "demo-2"


def test_what_recorded_the_time_before_the_demo_is_collected_when_it_ends(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends minutes before the demo, and was a zombie for as long as that ran."""
    found = supervisor.Supervisor(chosen, never, never)
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as child:
        found._recording = child
        looks = iter(range(600))

        def sleep(_: float) -> None:
            time.sleep(0.05)
            if child.returncode is not None or next(looks) == 599:
                raise KeyboardInterrupt

        found._cluster = SimpleNamespace(broker_ids=[], pids=dict)  # type: ignore[assignment]
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(sleep=sleep))
        with pytest.raises(KeyboardInterrupt):
            found._watch_over()
        assert child.returncode == 0
        monkeypatch.setattr(processes, "stop", never)  # its id may be anybody's by now
        found._stop_recording()
