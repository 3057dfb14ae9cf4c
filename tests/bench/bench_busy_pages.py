"""Pages of a large cluster, and under many eyes: first numbers, WebSocket, memory, 20 sessions.

`python -m tests.bench.bench_busy_pages [--partitions 100000] [--sessions 20]`. Findings of a
snapshot that Spark made; a real server and Debian's Chromium on one machine. Each session is a
WebSocket of its own that has a page drawn anew every second, as a browser does that is told to;
how long that takes is measured in all of them, the first number in a browser beside them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from analytics import job
from analytics.session.session import open_session
from dashboard.core.clock import utc_now
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench.bench_first_visit import first_and_second
from tests.bench.large_history import EVERY, Shape, write
from tests.bench.processes import peak_of, processes
from tests.support.browser import dashboard_process, launched

MIB = 1 << 20
PAGES = ("overview", "reclaimable", "growth", "followers")
COLD_SECONDS, MOST_MEMORY, MOST_PAYLOAD = 1.5, 500 * MIB, 300_000
WATCHED_SECONDS = 30
_FINISHED = (
    ForwardMsg.FINISHED_SUCCESSFULLY,
    ForwardMsg.FINISHED_EARLY_FOR_RERUN,
    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
)


class Session:
    """One visitor of a page: its WebSocket, the bytes of its last run, and how long each took."""

    def __init__(self, url: str, page: str) -> None:
        self.page, self.seconds, self.size_bytes = page, list[float](), 0
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(
                f"{url.replace('http', 'ws', 1)}/_stcore/stream",
                origin=url,  # type: ignore[arg-type]
                subprotocols=["streamlit"],  # type: ignore[list-item]
                max_size=None,
            )
        )

    def draw(self) -> None:
        """Have the page drawn, and wait until it is."""
        message = BackMsg()
        message.rerun_script.page_name = "" if self.page == "overview" else self.page
        began, self.size_bytes = time.monotonic(), 0
        self._socket.send(message.SerializeToString())
        while not self._drawn():
            pass
        self.seconds.append(time.monotonic() - began)

    def _drawn(self) -> bool:
        answer = self._socket.recv(timeout=120)
        assert isinstance(answer, bytes)
        self.size_bytes += len(answer)
        found = ForwardMsg.FromString(answer)
        return found.WhichOneof("type") == "script_finished" and found.script_finished in _FINISHED

    def close(self) -> None:
        """Leave."""
        self._open.close()


@contextmanager
def watched(sessions: list[Session], until: threading.Event) -> Iterator[None]:
    """Each session draws its page every second, beside what happens inside."""

    def watch(session: Session) -> None:
        while not until.is_set():
            began = time.monotonic()
            session.draw()
            until.wait(max(0.0, 1 - (time.monotonic() - began)))

    threads = [threading.Thread(target=watch, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        until.set()
        for thread in threads:
            thread.join()


def main() -> int:
    """Print what was measured; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=20)
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder, launched() as browser:
        analyzed(Path(folder) / "data", options.partitions)
        environ = {"LOWWATER_DATA": f"{folder}/data", "LOWWATER_STATE_DIR": f"{folder}/state"}
        with dashboard_process(environ) as (server, url):
            missed += alone(url, browser)
            print(f"the server's memory: {memory_of(server.pid) / MIB:,.0f} MiB", flush=True)
            missed += together(url, browser, options.sessions)
            memory = memory_of(server.pid)
            print(f"the server's memory, {options.sessions} sessions: {memory / MIB:,.0f} MiB")
            missed += ["memory"] if memory > MOST_MEMORY else []
    print(f"goals missed: {', '.join(missed)}" if missed else "every goal was reached")
    return int(bool(missed))


def memory_of(command: int) -> int:
    """Peak memory of the server, the largest of the processes that the command began; bytes."""
    return max(peak_of(process) for process in processes(command))


def analyzed(data: Path, partitions: int) -> None:
    """A store with two snapshots and the findings of the newer one."""
    cluster, settings = ClusterStore(Store(str(data)), "bench"), load()
    write(cluster, utc_now() - 2 * EVERY, Shape(partitions, partitions // 100, 2), range(2))
    spark = open_session(settings)
    job.analyze(spark, cluster, settings, now=utc_now, full=True)
    spark.stop()


def alone(url: str, browser: Browser) -> list[str]:
    """Each page by one visitor: first number in a browser, bytes of a run, seconds of a run."""
    missed = []
    print(f"{'page':12}{'cold s':>10}{'warm s':>10}{'run s':>10}{'run kB':>10}")
    for page in PAGES:
        address = f"{url}/{'' if page == 'overview' else page}"
        first_and_second(browser, address)
        found = [first_and_second(browser, address) for _ in range(3)]
        cold = statistics.median(first.seconds for first, _ in found)
        warm = statistics.median(second.seconds for _, second in found)
        session = Session(url, page)
        for _ in range(4):
            session.draw()
        session.close()
        run, size = statistics.median(session.seconds[1:]), session.size_bytes
        print(f"{page:12}{cold:>10.2f}{warm:>10.2f}{run:>10.2f}{size / 1000:>10.0f}", flush=True)
        missed += [f"{page}: first number"] if cold > COLD_SECONDS else []
        missed += [f"{page}: payload"] if size > MOST_PAYLOAD else []
    return missed


def together(url: str, browser: Browser, count: int) -> list[str]:
    """So many sessions of all pages, and a browser that comes in between."""
    sessions = [Session(url, PAGES[number % len(PAGES)]) for number in range(count)]
    until, began = threading.Event(), time.monotonic()
    with watched(sessions, until):
        time.sleep(WATCHED_SECONDS)
        cold, warm = first_and_second(browser, f"{url}/")
    lasted = time.monotonic() - began
    taken = sorted(seconds for session in sessions for seconds in session.seconds[1:])
    for session in sessions:
        session.close()
    print(
        f"{count} sessions that ask for a run a second: {len(taken) / count / lasted:.2f} a second "
        f"each, a run {statistics.median(taken):.2f} s, "
        f"95 of 100 within {taken[len(taken) * 95 // 100]:.2f} s; "
        f"a browser beside them: {cold.seconds:.2f} s cold, {warm.seconds:.2f} s warm"
    )
    return ["first number beside the sessions"] if cold.seconds > COLD_SECONDS else []


if __name__ == "__main__":
    sys.exit(main())
