from __future__ import annotations

import subprocess
import sys
import threading
import time

from dashboard.core.processes import Stop

# The signal comes while the main thread does nothing but begin to wait.
_STORM = """
import os, signal, sys, threading, time
from dashboard.core.processes import Stop

stop = Stop()
told = 0

def handler(number, frame):
    global told
    told += 1
    stop.set()
    if told < 300:
        stop._told = False

signal.signal(signal.SIGUSR1, handler)

def storm():
    while told < 300:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0)

threading.Thread(target=storm, daemon=True).start()
while not stop.is_set():
    stop.wait(0.0)
print("ended")
"""


def test_a_handler_may_set_it_while_its_own_thread_begins_to_wait() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STORM], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "ended\n", ended.stderr


def test_who_waits_is_woken_and_nobody_waits_afterwards() -> None:
    stop = Stop()
    assert not stop.wait(0.0)
    assert not stop.wait(-1.0)
    threading.Timer(0.05, stop.set).start()
    began = time.monotonic()
    assert stop.wait(30.0)
    assert time.monotonic() - began < 20
    assert stop.is_set()
    assert stop.wait(30.0)
