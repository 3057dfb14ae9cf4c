"""`lowwater policies` tells the webhook what guards refuse, and everyone when it could not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_policies import SENTENCE, SETTINGS, TOPIC, call, live
from tests.unit.policies.hook import SECRET, hook
from tests.unit.policies.service_room import Streams

__all__ = ["live"]  # a fixture


def test_a_refused_policy_is_told_and_while_it_is_not_check_says_why(
    live: Streams,
    capsys: pytest.CaptureFixture[str],
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    live.commit("audit", TOPIC, offset=3)
    with hook() as hooked:
        hooked.answers = [500]
        chosen = f'[alerts]\nwebhook = "{hooked.address}"\non = ["policy-refused"]\n'
        (alone / "lowwater.toml").write_text(SETTINGS + chosen)
        call(capsys, "on", "streams", "--confirm", SENTENCE)
        code, lines = call(capsys, "run", "--once")
        (alert,) = [line for line in lines if line["event"] == "alert"]
        assert (code, alert["failed"]) == (3, "the webhook answered 500")
        _, (value,) = call(capsys, "check")
    (waiting,) = value["alerts_waiting"]
    assert (waiting["alert"], waiting["failed"]) == ("policy-refused", "the webhook answered 500")
    (body,) = hooked.got
    assert body["details"]["items"][0]["guards"] == ["unread-by-group"]
    assert SECRET not in str([lines, value])
