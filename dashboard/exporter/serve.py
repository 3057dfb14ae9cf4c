"""Serves our own metrics over HTTP: every GET of /metrics reads what is newest."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dashboard.core.errors import UsageError
from dashboard.exporter.own import CONTENT_TYPE_LATEST

# A client that asks and never reads must not keep its thread for long; nor may one whose turn does
# not come while the store hangs: it has given up by then, as Prometheus does by default.
_PATIENCE_SECONDS = 10
_TEXT = "text/plain; charset=utf-8"
_BUSY = b"an earlier request is not answered yet: the data folder or the journal is slow or hangs\n"


class MetricsServer(ThreadingHTTPServer):
    """Answers GET and HEAD of `/metrics` with what `render` gives; requests wait for each other,
    and one that waits for long is refused with 503.
    """

    daemon_threads = True
    # A port that another program listens on is an error, also where the system would share it.
    allow_reuse_port = False

    def __init__(
        self,
        host: str,
        port: int,
        render: Callable[[], bytes],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Listens at once; `tell` gets a line when a request has no answer.

        Raises UsageError PORT_TAKEN or PORT_INVALID.
        """
        self._render, self._tell, self._lock = render, tell, threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OverflowError as error:
            raise UsageError(
                f"{port} is not a port", "Choose one from 1024 to 65535.", code="PORT_INVALID"
            ) from error
        except OSError as error:
            raise UsageError(
                f"port {port} of {host} cannot be listened on: {error.strerror or error}",
                "Choose another with --port, or end the program that uses it.",
                code="PORT_TAKEN",
            ) from error

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def page(self) -> bytes | None:
        """The text, made by one request at a time: a reader's tables are its own. None: its turn
        did not come.
        """
        if not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            return None
        try:
            return self._render()
        finally:
            self._lock.release()

    def handle_error(self, *_who: object) -> None:
        """A scraper that went away is no news; anything else is."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            self._tell(f"a request for metrics has no answer: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _PATIENCE_SECONDS
    server_version = "lowwater"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        status, kind, body = self._page()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _page(self) -> tuple[int, str, bytes]:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            page = self.server.page()
            return (503, _TEXT, _BUSY) if page is None else (200, CONTENT_TYPE_LATEST, page)
        if path == "/":
            return 200, _TEXT, b"lowwater: the metrics are at /metrics\n"
        return 404, _TEXT, b"only /metrics is here\n"

    def log_message(self, *_words: object) -> None:
        """A line per scrape would fill a log with nothing."""
