"""Every attempt to collect leaves a trace, also one that gives no snapshot."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError, StoreError
from dashboard.store import attempts
from dashboard.store.attempts import Attempt, Failure, Seen
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.fake_live import FakeLive, unreachable

AT = datetime(2026, 3, 1, 4, tzinfo=UTC)
EVERY = timedelta(seconds=30)
BOTH = (Seen(1, True), Seen(2, True))
FAILURE = Failure("CLUSTER_UNREACHABLE", "127.0.0.1:1 could not be reached: refused", "Start it.")


def silent(_: str) -> None:
    """Progress that nobody reads."""


def store_at(root: str) -> ClusterStore:
    return ClusterStore(Store(root), "fake")


def made(cluster: ClusterStore, live: FakeLive, every: timedelta | None = EVERY) -> None:
    collect(live, cluster, now=lambda: AT, progress=silent, every=every)  # type: ignore[arg-type]


def read(cluster: ClusterStore) -> Attempt:
    found = attempts.read(cluster)
    assert found is not None
    return found


@pytest.fixture(params=["local", "url"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> ClusterStore:
    return store_at(str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}")


def test_a_store_without_a_trace_has_none(cluster: ClusterStore) -> None:
    assert attempts.read(cluster) is None


def test_a_snapshot_is_an_attempt_that_went_well(cluster: ClusterStore) -> None:
    made(cluster, FakeLive())
    assert read(cluster) == Attempt(AT, None, BOTH, None, EVERY)


def test_a_failed_attempt_is_kept_with_its_error(cluster: ClusterStore) -> None:
    live = FakeLive()
    made(cluster, live)
    live.failing["topics"] = unreachable()
    with pytest.raises(ClusterError):
        made(cluster, live, None)
    assert read(cluster) == Attempt(AT, FAILURE, (), None, None)


def test_a_defect_is_told_by_its_kind_alone(tmp_path: Path) -> None:
    cluster, live = store_at(str(tmp_path)), FakeLive()
    live.failing["topics"] = KeyError("a secret")
    with pytest.raises(KeyError):
        made(cluster, live)
    assert "an unexpected KeyError" in str(read(cluster).failure)
    assert "secret" not in (tmp_path / "fake" / "attempt.json").read_text()


def test_the_brokers_are_known_where_the_writing_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = store_at(str(tmp_path))

    def full(*_: object) -> object:
        raise StoreError("the disk is full", "Free it.", code="STORE_UNWRITABLE")

    monkeypatch.setattr(ClusterStore, "begin", full)
    with pytest.raises(StoreError):
        made(cluster, FakeLive())
    found = read(cluster)
    assert found.failure == Failure("STORE_UNWRITABLE", "the disk is full", "Free it.")
    assert found.brokers == BOTH


def test_while_it_tries_the_last_outcome_stays_and_ctrl_c_is_no_failure(tmp_path: Path) -> None:
    cluster, live = store_at(str(tmp_path)), FakeLive()
    made(cluster, live)
    seen: list[Attempt] = []

    def interrupted(_: Any) -> Any:
        seen.append(read(cluster))
        raise KeyboardInterrupt

    live.topics = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        made(cluster, live)
    assert seen == [Attempt(AT, None, BOTH, AT, EVERY)]
    assert read(cluster) == Attempt(AT, None, BOTH, None, EVERY)


def test_a_watch_that_ends_says_so(tmp_path: Path) -> None:
    cluster = store_at(str(tmp_path))
    made(cluster, FakeLive())
    attempts.left(cluster, AT + EVERY, silent)
    assert read(cluster).left_at == AT + EVERY
    made(cluster, FakeLive())
    assert read(cluster).left_at is None


def refused(
    cluster: ClusterStore, known: Callable[[ClusterStore], bool], *, again: bool = False
) -> None:
    with (
        pytest.raises(ClusterError),
        attempts.connecting(cluster.store, known, lambda: AT + EVERY, silent, again=again),
    ):
        raise unreachable()


def test_a_cluster_that_never_answered_is_known_by_what_the_store_remembers(
    tmp_path: Path,
) -> None:
    cluster = store_at(str(tmp_path))
    made(cluster, FakeLive())
    other = ClusterStore(cluster.store, "other")
    other.write_connection("h:2", None, "other")

    refused(cluster, lambda one: one.cluster_id in ("fake", "other"))
    assert read(cluster).failure is None  # which of them it was nobody knows
    refused(cluster, lambda one: one.cluster_id == "fake")
    assert read(cluster) == Attempt(AT + EVERY, FAILURE, (), None, EVERY)
    assert attempts.read(other) is None


def test_the_first_attempt_of_all_is_kept_for_whoever_waits_for_a_snapshot(
    cluster: ClusterStore,
) -> None:
    refused(cluster, lambda _: False)
    assert attempts.first(cluster.store) is None  # a typing error makes no folder
    refused(cluster, lambda _: False, again=True)
    first = attempts.first(cluster.store)
    assert first is not None
    assert (first.failure, first.ended_at) == (FAILURE, AT + EVERY)
    assert cluster.store.clusters() == []  # the trace is no cluster
    late = ClusterError("no DESCRIBE", "Grant it.")
    with (
        pytest.raises(ClusterError),
        attempts.attempt(cluster, lambda: AT + 2 * EVERY, silent, EVERY),
    ):
        raise late  # the cluster told its id, and nothing else
    first = attempts.first(cluster.store)
    assert first is not None
    assert first.failure == Failure("CLUSTER_UNREACHABLE", "no DESCRIBE", "Grant it.")


@pytest.mark.parametrize(
    "body", ["{", "[]", "{}", '{"at": "yesterday", "error": null}', '{"brokers": 5}']
)
def test_a_damaged_trace_is_named_and_the_next_attempt_replaces_it(
    tmp_path: Path, body: str
) -> None:
    cluster = store_at(str(tmp_path))
    path = tmp_path / "fake" / "attempt.json"
    path.parent.mkdir()
    path.write_text(body)
    with pytest.raises(StoreError, match=r"attempt\.json"):
        attempts.read(cluster)
    made(cluster, FakeLive())
    assert read(cluster).brokers == BOTH


def test_a_trace_that_cannot_be_written_stops_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full", "Free it.")

    monkeypatch.setattr(ClusterStore, "write_record", full)
    told: list[str] = []
    cluster = store_at(str(tmp_path))
    collect(FakeLive(), cluster, now=utc_now, progress=told.append)  # type: ignore[arg-type]
    assert cluster.latest("snapshots")
    assert "no trace of this attempt is kept: the disk is full" in told


def test_the_file_says_in_json_what_others_may_read(tmp_path: Path) -> None:
    made(store_at(str(tmp_path)), FakeLive())
    assert json.loads((tmp_path / "fake" / "attempt.json").read_text()) == {
        "version": 1,
        "ok": True,
        "at": "2026-03-01T04:00:00.000Z",
        "error": None,
        "brokers": [
            {"broker_id": 1, "reachable": True, "error": None},
            {"broker_id": 2, "reachable": True, "error": None},
        ],
        "trying_since": None,
        "every_seconds": 30.0,
        "left_at": None,
    }
