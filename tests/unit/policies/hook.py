"""A webhook on this machine: answers as it is told, or hangs, and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "T0pS3cretPath"


class Hook:
    """`answers` are taken one per request, 200 after them: a status, or `hang`."""

    def __init__(self) -> None:
        self.answers: list[int | str] = []
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.over = threading.Event()
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{SECRET}?token={SECRET}"


@contextmanager
def hook() -> Iterator[Hook]:
    """One that listens while the block runs."""
    seen = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = seen.answers.pop(0) if seen.answers else 200
            seen.paths.append(self.path)
            seen.got.append(json.loads(body))
            if answer == "hang":
                seen.over.wait(30)
                return
            self.send_response(int(answer))
            if answer == 302:
                self.send_header("Location", f"http://127.0.0.1:{seen.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield seen
    finally:
        seen.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
