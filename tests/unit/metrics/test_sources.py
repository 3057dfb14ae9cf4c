"""Metrics from files and servers: what answers is read, what does not costs only itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dashboard.broker_metrics import exposition
from dashboard.broker_metrics.sources import Sources, read
from dashboard.collect.tables import columns, table_of
from dashboard.core.errors import BrokerError, SettingsError
from dashboard.domain.metric_names import BYTES_OUT
from dashboard.settings.metric_addresses import parse_sources

SOON = timedelta(seconds=120)
LINE = b'kafka_server_brokertopicmetrics_bytesout_total{topic="t"} 7\n'
BODY = b"# TYPE jvm_x gauge\njvm_x 1\n" + LINE


class Exporter(BaseHTTPRequestHandler):
    """Answers by path; counts nothing, logs nothing."""

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        if self.path.startswith("/elsewhere"):
            self.send_response(302)
            self.send_header("Location", "/metrics")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        if self.path == "/endless":
            for _ in range(600):  # a minute at most, should nobody hang up
                self.wfile.write(b"# more\n")
                time.sleep(0.1)
        self.wfile.write(b"<html></html>" if self.path == "/page" else BODY)

    def log_message(self, *_words: object) -> None:
        return


@pytest.fixture
def exporter() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    server.daemon_threads = True
    server.seen = []  # type: ignore[attr-defined]
    server.handle_error = lambda *_words: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def address(server: ThreadingHTTPServer, path: str = "/metrics", user: str = "") -> str:
    return f"http://{user}127.0.0.1:{server.server_port}{path}"


def refused(source: str, timeout: timedelta = SOON) -> BrokerError:
    with pytest.raises(BrokerError) as error:
        read(2, source, timeout)
    assert error.value.broker_id == 2
    assert "broker 2" in error.value.message
    return error.value


def test_a_file_and_an_address_are_read_and_a_silent_broker_is_named(
    exporter: ThreadingHTTPServer, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.txt"
    file.write_bytes(BODY)
    sources = {1: str(file), 2: address(exporter), 3: "http://127.0.0.1:1/metrics"}
    found = Sources(sources, SOON).read()
    assert [(m.broker_id, m.name, m.value) for m in found.samples] == [
        (1, BYTES_OUT, 7.0),
        (2, BYTES_OUT, 7.0),
    ]
    assert (found.errors[1], found.errors[2]) == (None, None)
    assert str(found.errors[3]).startswith("METRICS_UNREACHABLE: the metrics of broker 3")


def test_a_password_reaches_the_exporter_and_nobody_else(exporter: ThreadingHTTPServer) -> None:
    read(2, address(exporter, user="ann:s%40cret@"), SOON)
    assert exporter.seen == ["Basic YW5uOnNAY3JldA=="]  # type: ignore[attr-defined]
    error = refused(address(exporter, "/elsewhere?token=s3", user="ann:s%40cret@"))
    assert error.code == "METRICS_REFUSED"
    assert "/elsewhere" in error.message
    assert not any(secret in error.message for secret in ("ann:", "cret", "token"))


@pytest.mark.parametrize(
    ("path", "code"), [("/elsewhere", "METRICS_REFUSED"), ("/page", "METRICS_MISSING")]
)
def test_another_answer_is_an_error_by_name(
    exporter: ThreadingHTTPServer, path: str, code: str
) -> None:
    assert refused(address(exporter, path)).code == code


def test_an_exporter_that_never_ends_is_left_when_its_time_is_up(
    exporter: ThreadingHTTPServer,
) -> None:
    error = refused(address(exporter, "/endless"), timedelta(seconds=0.5))
    assert error.code == "METRICS_TOO_SLOW"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"kafka_server_brokertopicmetrics_bytesout_total{topic=", "METRICS_INVALID"),
        (b"kafka_server_brokertopicmetrics_\xff_total 1\n", "METRICS_INVALID"),
        (b"x" * 3_000_000, "METRICS_INVALID"),
        (LINE.replace(b'"}', b'", ="b"}'), "METRICS_INVALID"),
        (LINE.replace(b"7", b"9" * 400), "METRICS_INVALID"),
        (LINE.replace(b"7", b"7 " + b"9" * 400), "METRICS_INVALID"),
        (b"jvm_x 1\n" * 300, "METRICS_TOO_LARGE"),
        (b"", "METRICS_MISSING"),
    ],
)
def test_a_file_that_is_no_exposition_is_an_error_by_name(
    body: bytes, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == "METRICS_TOO_LARGE":
        monkeypatch.setattr(exposition, "MOST_BYTES", 2000)
    file = tmp_path / "metrics.txt"
    file.write_bytes(body)
    assert refused(str(file)).code == code


def test_a_whole_number_that_no_double_holds_is_written_as_the_nearest(tmp_path: Path) -> None:
    """Ten petabytes that one broker sent: Prometheus' parser makes whole numbers of them."""
    file = tmp_path / "metrics.txt"
    file.write_bytes(LINE.replace(b"7", b"9007199254740993"))
    found = Sources({1: str(file)}, SOON).read()
    values = table_of("broker_metrics", **columns(found.samples, "broker_id", "name", "value"))
    assert values["value"].to_pylist() == [9007199254740992.0]


@pytest.mark.parametrize("written", [None, b"", LINE])
def test_a_named_pipe_that_nobody_writes_into_or_ends_is_left_when_its_time_is_up(
    written: bytes | None, tmp_path: Path
) -> None:
    pipe = tmp_path / "metrics"
    os.mkfifo(pipe)
    found: list[BrokerError] = []

    def ask() -> None:
        found.append(refused(str(pipe), timedelta(seconds=0.5)))

    writer = None if written is None else os.open(pipe, os.O_RDWR)
    if writer is not None and written:
        os.write(writer, written)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(10)
    if writer is not None:
        os.close(writer)
    assert [error.code for error in found] == ["METRICS_TOO_SLOW"]


def test_a_named_pipe_is_read_until_its_writer_ends(tmp_path: Path) -> None:
    pipe = tmp_path / "metrics"
    os.mkfifo(pipe)

    def write() -> None:
        time.sleep(0.2)  # it comes after the reader
        with pipe.open("wb", buffering=0) as file:
            for line in (BODY, b"# " + b"x" * 200_000 + b"\n", LINE):
                file.write(line)
                time.sleep(0.05)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    (metric,) = read(1, str(pipe), SOON)
    assert (metric.name, metric.value) == (BYTES_OUT, 7.0)
    writing.join()
    reader, writer = os.pipe()  # as of a shell's <(…), whose command has ended already
    os.write(writer, BODY)
    os.close(writer)
    assert len(read(1, f"/dev/fd/{reader}", SOON)) == 1
    os.close(reader)


def test_a_file_that_nobody_fills_any_more_is_no_answer_of_now(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text('kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 12\n')
    for minutes, code in ((80, None), (100, "METRICS_STALE")):
        at = time.time() - 60 * minutes
        os.utime(file, (at, at))
        error = Sources({1: str(file)}, timedelta(seconds=5)).read().errors[1]
        assert (error and error.split(":")[0]) == code
    assert "it was written 100 min ago" in str(error)


def test_a_file_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    assert refused(str(tmp_path / "none")).code == "METRICS_UNREACHABLE"


def test_sources_are_spelt_with_broker_ids() -> None:
    found = parse_sources(["1=http://h:7071/metrics?a=b", "20=/var/metrics.prom"], "--metrics")
    assert found == {1: "http://h:7071/metrics?a=b", 20: "/var/metrics.prom"}


@pytest.mark.parametrize(
    "texts",
    [
        ["http://h/metrics"], ["1="], ["x=http://h"], ["1=ftp://h/m"], ["1=http:///m"],
        ["1=http://ann:secret@[h/m"], ["1=a", "1=b"], ["2147483648=http://h/m"],
    ],
)  # fmt: skip
def test_another_spelling_is_refused_without_showing_a_secret(texts: list[str]) -> None:
    with pytest.raises(SettingsError) as error:
        parse_sources(texts, "--metrics")
    assert error.value.code == "METRICS_SOURCE_INVALID"
    assert "--metrics" in error.value.message
    assert "secret" not in error.value.message
