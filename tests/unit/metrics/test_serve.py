"""The metrics server: what it answers, many scrapers at once, and a port that is taken."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard.core.errors import UsageError
from dashboard.exporter.serve import MetricsServer

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


@pytest.fixture
def server(renderer: Renderer) -> Iterator[MetricsServer]:
    with MetricsServer("127.0.0.1", 0, renderer) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


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


def test_a_port_that_is_taken_or_none_is_an_error_by_name(server: MetricsServer) -> None:
    for port, code in ((server.server_address[1], "PORT_TAKEN"), (70_000, "PORT_INVALID")):
        with pytest.raises(UsageError) as error:
            MetricsServer("127.0.0.1", int(port), lambda: b"")
        assert error.value.code == code
        assert str(port) in error.value.message
