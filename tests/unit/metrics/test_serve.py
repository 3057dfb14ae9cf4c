"""The metrics server: what it answers, many scrapers at once, and a port that is taken."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import RemoteDisconnected
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.exporter import own, serve
from dashboard.exporter.own_reading import Reader
from dashboard.exporter.serve import MetricsServer
from tests.support import sample_store

BODY = b"# HELP x y\n# TYPE x gauge\nx 1.0\n"


class Renderer:
    """Counts how many render at the same time."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0

    def __call__(self) -> bytes:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.calls += 1
        threading.Event().wait(0.005)
        self.inside -= 1
        return BODY


@pytest.fixture
def renderer() -> Renderer:
    return Renderer()


@contextmanager
def serving(
    render: Callable[[], bytes], tell: Callable[[str], None] = lambda _: None
) -> Iterator[MetricsServer]:
    with MetricsServer("127.0.0.1", 0, render, tell) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server(renderer: Renderer) -> Iterator[MetricsServer]:
    with serving(renderer) as found:
        yield found


def get(url: str, method: str = "GET") -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def test_metrics_are_at_their_path_alone(server: MetricsServer, renderer: Renderer) -> None:
    assert get(server.url)[0::2] == (200, BODY)
    assert get(server.url + "?name=x")[1].startswith("text/plain; version=")
    assert get(server.url, "HEAD")[2] == b""
    assert renderer.calls == 3
    root = server.url.removesuffix("/metrics")
    assert get(root + "/")[0] == 200
    assert get(root + "/secrets")[0] == 404
    assert get(server.url, "POST")[0] == 501
    assert renderer.calls == 3


def test_scrapers_at_the_same_time_wait_for_each_other(
    server: MetricsServer, renderer: Renderer
) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(get, [server.url] * 48))
    assert {(status, body) for status, _, body in answers} == {(200, BODY)}
    assert (renderer.calls, renderer.most) == (48, 1)


def test_scrapes_beside_one_that_hangs_are_refused_and_never_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a store hangs each scrape would be kept, and all of them rendered once it answers."""
    monkeypatch.setattr(serve, "_PATIENCE_SECONDS", 0.05)
    hangs, answers, calls = threading.Event(), threading.Event(), []

    def render() -> bytes:
        calls.append(1)
        hangs.set()
        answers.wait(60)
        return BODY

    with serving(render) as server, ThreadPoolExecutor(5) as pool:
        first = pool.submit(get, server.url)
        assert hangs.wait(60)
        try:
            refused = [pool.submit(get, server.url) for _ in range(4)]
            assert {answer.result(20)[0] for answer in refused} == {503}
            assert b"is not answered yet" in refused[0].result()[2]
        finally:
            answers.set()
        assert first.result()[0::2] == (200, BODY)
        assert len(calls) == 1
        assert get(server.url)[0] == 200


def test_a_port_that_is_taken_or_none_is_an_error_by_name(server: MetricsServer) -> None:
    for port, code in ((server.server_address[1], "PORT_TAKEN"), (70_000, "PORT_INVALID")):
        with pytest.raises(UsageError) as error:
            MetricsServer("127.0.0.1", int(port), lambda: b"")
        assert error.value.code == code
        assert str(port) in error.value.message


@pytest.mark.parametrize("read_before", [True, False])
def test_a_store_that_cannot_be_read_costs_neither_the_answer_nor_the_journals_part(
    tmp_path: Path, read_before: bool
) -> None:
    """Without an answer, alerts on what the journal says would resolve themselves."""
    cluster = sample_store.write(tmp_path)
    name = cluster.name if read_before else cluster.cluster_id
    reader = Reader(cluster, lambda: None)
    if read_before:
        reader.read()
    (tmp_path / cluster.cluster_id / "connection.json").write_text("{")
    with serving(lambda: own.text(own.families(reader.read(), utc_now(), 5))) as server:
        status, _, body = get(server.url)
    lines = body.decode().splitlines()
    assert status == 200
    assert 'lowwater_readable{part="snapshot"} 0.0' in lines
    assert 'lowwater_readable{part="journal"} 1.0' in lines
    assert "lowwater_purge_reverted_partitions 0.0" in lines
    assert any(line.startswith("lowwater_snapshot_age_seconds") for line in lines), "it is read"
    labels = f'cluster="{name}",cluster_id="{cluster.cluster_id}"'
    assert f"lowwater_cluster_info{{{labels}}} 1.0" in lines


def test_a_request_without_an_answer_is_told_and_a_scraper_that_left_is_not() -> None:
    told: list[str] = []
    errors: list[Exception] = [BrokenPipeError("gone"), ValueError("a bug")]

    def render() -> bytes:
        raise errors.pop(0)

    with serving(render, told.append) as server:
        for _ in range(2):
            with pytest.raises((RemoteDisconnected, ConnectionError)):
                get(server.url)
    assert told == ["a request for metrics has no answer: ValueError: a bug"]
