"""Lets a function be the worker process of a test's runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dashboard.purge.jobs import queue, worker_process
from dashboard.settings.settings import Settings


def start_with(monkeypatch: pytest.MonkeyPatch, start: Callable[[Settings, str], int]) -> None:
    """Call `start` where a worker would be started, and where a waiting one is told its run."""

    class Ready:
        def __init__(self, settings: Settings) -> None:
            self.settings = settings

        def take(self, run_id: str) -> None:
            start(self.settings, run_id)

        def close(self) -> None:
            return

    monkeypatch.setattr(queue, "spawn", lambda settings, run_id, **_: start(settings, run_id))
    monkeypatch.setattr(worker_process, "ReadyWorker", Ready)
