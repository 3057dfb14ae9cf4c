"""First answers of a kind that come side by side are decoded all the same."""

from __future__ import annotations

import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dashboard.cluster.protocol import messages


@pytest.mark.parametrize("theirs", [True, False])
def test_a_decoder_that_two_threads_make_at_once_is_whole(
    monkeypatch: pytest.MonkeyPatch, theirs: bool
) -> None:
    """As each process makes it, of three brokers that answer its first question."""
    response: Any = messages.DescribeLogDirsResponse
    kind, struct = response[4], response._struct
    sent = kind(throttle_time_ms=0, error_code=0, results=[])
    sent.with_header(correlation_id=7)
    answer = memoryview(bytes(sent.encode(header=True)))
    make, waits = struct.emit_decode_from, [0.05, 0.1]

    def slowly(*given: Any, **named: Any) -> None:
        if waits:
            time.sleep(waits.pop(0))
        make(*given, **named)

    monkeypatch.setattr(struct, "emit_decode_from", slowly)
    monkeypatch.setattr(struct, "_compiled_encoders", {})
    if theirs:
        monkeypatch.setattr(struct, "_data_class", weakref.proxy(response))

    def outcome() -> str:
        try:
            return str(kind.decode(answer, header=True).error_code)
        except TypeError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(outcome)
        time.sleep(0.02)
        second = pool.submit(outcome)
        told = [first.result(), second.result(), outcome()]
    assert (told == ["0", "0", "0"]) is not theirs, "kafka-python mends it: leave it alone"
