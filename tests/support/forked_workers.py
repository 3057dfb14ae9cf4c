"""Workers of purges, each forked from one process that has imported what all of them need.

A worker imports the product for longer than it works for a small topic, and the broker tests start
a hundred. Each is a process of its own all the same: in a session of its own, with the arguments,
variables and open files that it was to be started with. The one that forks has no threads.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from dashboard.purge.jobs import worker_process

WORKER = "dashboard.purge.jobs.worker"
STARTED = os.posix_spawn  # what starts whatever is no worker
_MOST_BYTES = 2**17  # of arguments and variables; a message of such a socket is whole
_STARTS_WITHIN = 240  # seconds


class Forker:
    """The process that forks, started with the first worker and ended with us."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def spawn(
        self,
        path: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        file_actions: Sequence[tuple[int, ...]] = (),
        **named: bool,
    ) -> int:
        """As `os.posix_spawn`."""
        if [*argv[1:3]] != ["-m", WORKER]:
            return STARTED(path, argv, env, file_actions=file_actions, **named)
        with _opened(file_actions) as files:
            told = json.dumps([argv[3:], dict(env), str(Path.cwd())]).encode()
            assert len(told) < _MOST_BYTES
            with self._one_at_a_time:  # the answer is to this message
                forks = self._forks()
                socket.send_fds(forks, [told], files)
                return int(forks.recv(32))

    def _forks(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.settimeout(_STARTS_WITHIN)
            with theirs:
                number = theirs.fileno()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(number)], pass_fds=[number],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                )  # fmt: skip
        return self._socket

    def close(self) -> None:
        """End the process that forks; workers go on."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait(60)


@contextmanager
def forked_workers() -> Iterator[None]:
    """Workers that this process starts within the block are forked."""
    forker = Forker()
    with mock.patch.object(worker_process.os, "posix_spawn", forker.spawn):
        yield
    forker.close()


@contextmanager
def _opened(actions: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """What becomes standard input and output, opened here; what goes to 2 is what goes to 1."""
    files: dict[int, int] = {}
    try:
        for kind, *given in actions:
            if kind == os.POSIX_SPAWN_OPEN:
                number, path, flags, mode = given
                files[number] = os.open(path, flags, mode)
            elif given[0] not in files:
                files[given[1]] = os.dup(given[0])
        yield [files[0], files[1]]
    finally:
        for file in files.values():
            os.close(file)


def _serve(forks: socket.socket) -> None:
    """Fork a worker for each message, until whoever asks for them is gone."""
    importlib.import_module(WORKER)
    del sys.modules[WORKER]  # it is to run as the program that it is
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        told, files, _, _ = socket.recv_fds(forks, _MOST_BYTES, 2)
        if not told:
            return
        if os.fork() == 0:
            _become_worker(json.loads(told), files, forks)
        for file in files:
            os.close(file)


def _become_worker(
    told: tuple[list[str], dict[str, str], str], files: Sequence[int], forks: socket.socket
) -> None:
    """Take the place, then tell the process id: whoever asked acts on a session that exists."""
    arguments, variables, folder = told
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for source, target in ((files[0], 0), (files[1], 1), (files[1], 2)):
        os.dup2(source, target)
    for file in files:
        os.close(file)
    os.chdir(folder)
    with forks, suppress(BrokenPipeError):
        forks.send(str(os.getpid()).encode())
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [WORKER, *arguments]
    runpy.run_module(WORKER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
