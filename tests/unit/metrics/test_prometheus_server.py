"""One Prometheus server in place of many endpoints: queries, sign-in, and what it lacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.broker_metrics import exposition
from dashboard.broker_metrics.sources import Sources
from dashboard.collect.tables import columns, table_of
from dashboard.core.errors import SettingsError
from dashboard.domain.metric_names import BYTES_OUT, PURGATORY_SIZE
from dashboard.settings.metric_addresses import PrometheusServer, parse_server

SOON = timedelta(seconds=120)
FILE = 'kafka_server_brokertopicmetrics_bytesout_total{topic="t"} 99\n'


def series(name: str, instance: str, value: str, **labels: str) -> dict[str, Any]:
    return {
        "metric": {"__name__": name, "instance": instance, "job": "kafka", **labels},
        "value": [1700000000.0, value],
    }


OUT = [series(BYTES_OUT, "kafka-1:7071", "7", topic="t"), series(BYTES_OUT, "kafka-2:7071", "8")]
WAITING = [series(PURGATORY_SIZE, "kafka-1:7071", "2", delayedOperation="DeleteRecords")]


class Answering(BaseHTTPRequestHandler):
    """Answers a query by the metric that it names; remembers queries and sign-ins."""

    def do_GET(self) -> None:
        (query,) = parse_qs(urlsplit(self.path).query)["query"]
        self.server.seen.append((self.path, query, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        rows = next((v for k, v in self.server.rows.items() if k in query), [])  # type: ignore[attr-defined]
        body = {"status": "success", "data": {"resultType": "vector", "result": rows}}
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(self.server.raw or json.dumps(body).encode())  # type: ignore[attr-defined]

    def log_message(self, *_words: object) -> None:
        return


@pytest.fixture
def prometheus() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    server.seen, server.raw, server.status = [], b"", 200
    server.rows = {"brokertopicmetrics": OUT, "delayedoperationpurgatory": WAITING}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def named(server: Any, **change: Any) -> PrometheusServer:
    brokers = {1: "kafka-1:7071", 2: "kafka-2:7071", 3: "kafka-3:7071"}
    return replace(
        PrometheusServer(f"http://127.0.0.1:{server.server_port}/prom/", brokers), **change
    )


def test_each_broker_has_the_series_of_its_label_and_one_without_any_is_named(
    prometheus: Any,
) -> None:
    found = Sources({}, SOON, named(prometheus, selector='cluster="eu"')).read()
    assert [(m.broker_id, m.name, m.labels, m.value) for m in found.samples] == [
        (1, BYTES_OUT, '{"topic":"t"}', 7.0),
        (1, PURGATORY_SIZE, '{"delayedOperation":"DeleteRecords"}', 2.0),
        (2, BYTES_OUT, "{}", 8.0),
    ]
    assert (found.errors[1], found.errors[2]) == (None, None)
    assert str(found.errors[3]).startswith("METRICS_MISSING: the metrics of broker 3")
    assert found.missing == {
        1: ("RequestMetrics",), 2: ("DelayedOperationPurgatory", "RequestMetrics"),
    }  # fmt: skip
    path, query, _ = prometheus.seen[0]
    assert path.startswith("/prom/api/v1/query?")
    assert query.startswith("{__name__=~") and query.endswith(',cluster="eu"}')


def test_an_endpoint_of_its_own_stands_above_the_server(prometheus: Any, tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(FILE)
    found = Sources({1: str(file)}, SOON, named(prometheus)).read()
    assert [m.value for m in found.samples if m.broker_id == 1] == [99.0]
    assert found.errors[2] is None


def test_the_token_reaches_the_server_and_nobody_else(prometheus: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0p-secret\n")
    for server in (
        named(prometheus, token="t0p-secret"),
        named(prometheus, token_file=str(file), token="another"),
    ):
        prometheus.seen.clear()
        Sources({}, SOON, server).read()
        assert {sign_in for _, _, sign_in in prometheus.seen} == {"Bearer t0p-secret"}
        assert "t0p-secret" not in repr(server)
    prometheus.status, prometheus.raw = 401, b"no"
    error = str(Sources({}, SOON, named(prometheus, token="t0p-secret")).read().errors[1])
    assert error.startswith("METRICS_REFUSED")
    assert "401" in error and "t0p-secret" not in error
    gone = named(prometheus, token_file=str(tmp_path / "none"))
    assert "none cannot be read" in str(Sources({}, SOON, gone).read().errors[2])


@pytest.mark.parametrize("text", ["t0p-secret\nof two lines", "t0p-\x00secret", "t0p-secr\u00e9t"])
def test_a_token_that_no_header_can_hold_costs_its_server_alone_and_is_not_shown(
    prometheus: Any, tmp_path: Path, text: str
) -> None:
    file, own = tmp_path / "token", tmp_path / "metrics.txt"
    file.write_text(text)
    own.write_text(FILE)
    for change in ({"token_file": str(file)}, {"token": text}):
        found = Sources({1: str(own)}, SOON, named(prometheus, **change)).read()
        assert found.errors[1] is None, "an endpoint of its own is read all the same"
        assert str(found.errors[2]).startswith("METRICS_REFUSED")
        assert "one line of ASCII" in str(found.errors[2]) and "t0p" not in str(found.errors)
    assert prometheus.seen == []


def test_what_http_refuses_to_send_is_not_shown_either(prometheus: Any) -> None:
    with pytest.raises(exposition.Unread) as refused:
        list(exposition.chunks(named(prometheus).url, SOON, "t0p-secret\n"))
    assert refused.value.code == "METRICS_REFUSED" and "t0p" not in refused.value.why


def test_a_topic_that_is_no_text_costs_every_broker_of_the_server_alone(prometheus: Any) -> None:
    prometheus.rows["brokertopicmetrics"] = [series(BYTES_OUT, "kafka-1:7071", "7", topic="\ud800")]
    found = Sources({}, SOON, named(prometheus)).read()
    table_of("broker_metrics", **columns(found.samples, "broker_id", "name", "labels", "value"))
    assert str(found.errors[1]).startswith("METRICS_INVALID")


@pytest.mark.parametrize("raw", [b"<html>", b'{"status":"success"}', b"[]", b'{"data":{}}'])
def test_another_answer_costs_every_broker_of_the_server_alone(prometheus: Any, raw: bytes) -> None:
    prometheus.raw = raw
    found = Sources({}, SOON, named(prometheus)).read()
    assert found.samples == ()
    assert {str(error).split(":")[0] for error in found.errors.values()} == {"METRICS_INVALID"}


def test_two_clusters_under_one_name_are_not_mixed(prometheus: Any) -> None:
    twice = series(BYTES_OUT, "kafka-1:7071", "1000", topic="t")
    twice["metric"]["job"] = "other"
    prometheus.rows["brokertopicmetrics"] = [*OUT, twice]
    found = Sources({}, SOON, named(prometheus)).read()
    assert "selector" in str(found.errors[1])
    assert found.errors[2] is None


def test_a_server_that_is_down_is_named_for_each_broker() -> None:
    server = PrometheusServer("http://ann:pw@127.0.0.1:1", {1: "a", 2: "b"})
    found = Sources({}, SOON, server).read()
    assert set(found.errors) == {1, 2}
    assert all(str(e).startswith("METRICS_UNREACHABLE") for e in found.errors.values())
    assert "pw" not in str(found.errors)


def test_settings_name_the_server_and_its_brokers() -> None:
    where = "lowwater.toml, [clusters.a]"
    keys = {
        "metrics.prometheus.url": "http://p:9090",
        "metrics.prometheus.brokers": "1=kafka-1:7071, 2=kafka-2:7071",
        "metrics.prometheus.selector": '{cluster="eu"}',
    }
    found = parse_server(keys, None, where)
    assert found == PrometheusServer(
        "http://p:9090", {1: "kafka-1:7071", 2: "kafka-2:7071"}, selector='cluster="eu"'
    )
    assert parse_server({}, "token", where) is None
    for change, code in (
        ({"metrics.prometheus.url": "p:9090"}, "METRICS_SOURCE_INVALID"),
        ({"metrics.prometheus.brokers": "kafka-1"}, "METRICS_BROKERS_MISSING"),
        ({"metrics.prometheus.brokers": ""}, "METRICS_BROKERS_MISSING"),
    ):
        with pytest.raises(SettingsError) as error:
            parse_server({**keys, **change}, None, where)
        assert error.value.code == code
        assert where in error.value.message
