"""The sweep's log: what was altered is told, and nothing is done by it."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest

from dashboard.core.errors import LowwaterError
from dashboard.orphans.sweep import log as sweep_log
from tests.unit.orphans.sweep_host import STRAY, Host

DAY = timedelta(hours=24)


def test_an_altered_log_stops_everything_and_is_told(host: Host) -> None:
    host.one()
    log = host.quarantine / "sweep.log"
    lines = log.read_text().splitlines()
    entry = json.loads(lines[0])
    entry["body"]["log_dir"] = "/elsewhere"
    log.write_text("\n".join([json.dumps(entry), *lines[1:]]) + "\n")
    for apply in (False, True):
        with pytest.raises(LowwaterError) as caught:
            host.sweep(apply=apply)
        assert caught.value.code == "SWEEP_LOG_BROKEN"
        assert "entry 1 was changed" in caught.value.message
    log.write_text(lines[1] + "\n")
    with pytest.raises(LowwaterError, match="lines are missing"):
        host.sweep()


def test_a_log_that_points_outside_is_no_log_of_ours(host: Host) -> None:
    """Its chain may hold: who writes it can hash. Names in it would become paths to delete."""
    host.one()
    victim = host.folder / "victim" / STRAY
    victim.mkdir(parents=True)
    log = host.quarantine / "sweep.log"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for changed in ({"item": "../victim"}, {"directory": "../../victim"}):
        log.write_text("")
        folder = os.open(host.quarantine, os.O_RDONLY)
        made = sweep_log.SweepLog(folder, "here", host.now)
        made.append("moving", {**entries[0]["body"], **changed}, host.now)
        made.append("moved", {"item": changed.get("item", entries[0]["body"]["item"])}, host.now)
        made.close()
        os.close(folder)
        host.now += 2 * DAY
        for apply in (False, True):
            with pytest.raises(LowwaterError) as caught:
                host.sweep(apply=apply)
            assert caught.value.code == "SWEEP_LOG_BROKEN"
    assert victim.is_dir()
