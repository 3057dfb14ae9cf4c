"""A file that client properties name was replaced under its path: who stays connected notices."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.machine import watch as watch_verb
from dashboard.cli.policies.run import Opener
from dashboard.core.errors import ClusterError, SettingsError
from dashboard.policies.service.purging import Site
from dashboard.settings.client_properties import LastOpened
from dashboard.settings.current import CurrentSettings
from dashboard.settings.settings import load
from tests.support.fake_live import FakeLive
from tests.unit.policies.service_room import ServiceRoom

FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location")


def files_of(folder: Path) -> dict[str, str]:
    for key in FILES:
        (folder / key).write_text(f"{key} of today")
    return {"bootstrap.servers": "h:1"} | {key: str(folder / key) for key in FILES}


def opened(client: dict[str, str]) -> LastOpened:
    last = LastOpened()
    assert not last.outdated(client), "nothing is open yet"
    with last.opening(client):
        pass
    assert not last.outdated(client)
    return last


@pytest.mark.parametrize("key", FILES)
def test_each_file_counts_and_one_that_cannot_be_read_is_as_before(
    tmp_path: Path, key: str
) -> None:
    client, file = files_of(tmp_path), tmp_path / key
    last, before = opened(client), file.stat()
    file.write_text(f"{key} of TODAY")  # as long as before, and as old
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert last.outdated(client)
    file.unlink()
    assert not last.outdated(client)
    os.mkfifo(file)  # whoever opens it waits for good
    assert not last.outdated(client)
    assert last.outdated({**client, key: str(tmp_path / "another")})
    assert not opened({**client, key: str(tmp_path)}).outdated({**client, key: str(tmp_path)})


def test_what_changed_while_it_was_opened_or_could_not_be_opened_is_still_to_come(
    tmp_path: Path,
) -> None:
    client = files_of(tmp_path)
    last = opened(client)
    (tmp_path / FILES[1]).write_text("renewed, and its key not yet")
    with pytest.raises(SettingsError), last.opening(client):
        raise SettingsError("the key is of another certificate", "Wait.")
    assert last.outdated(client)
    with last.opening(client):
        (tmp_path / FILES[2]).write_text("its key")
    assert last.outdated(client)


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What connecting comes to, one after the other."""
    found: list[Any] = []

    def connect(*_: Any, **_named: Any) -> Any:
        door = found.pop(0)
        if isinstance(door, Exception):
            raise door
        return door

    monkeypatch.setattr("dashboard.cluster.live.connect", connect)
    return found


def test_watch_and_policies_run_would_connect_anew_for_a_renewed_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doors: list[Any]
) -> None:
    names = "".join(f'"{key}" = "{value}"\n' for key, value in files_of(tmp_path).items())
    room = ServiceRoom(tmp_path)
    file = room.write(tail=f"[clusters.prod]\n{names}")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    args = Namespace(
        bootstrap_server=None, client_config=None, cluster=None, name=None, data=None, every=None,
        metrics=None, inventory=[], json=True,
    )  # fmt: skip
    site = Site(
        CurrentSettings(load(file, {})), room.store, room.journal, room.clock, room.clock.sleep
    )
    opener = Opener(args, site)
    looks: list[Any] = [(opener, opener.outdated)]
    monkeypatch.setattr(
        "dashboard.collect.watch.run",
        lambda open_live, *_, outdated, **_named: looks.append((open_live, outdated)),
    )
    watch_verb.run(args)
    for open_live, outdated in looks:
        (tmp_path / FILES[1]).write_text("of today")
        lost = ClusterError("refused", "Wait.", code="TLS_FAILED")
        doors[:] = [FakeLive(), lost, FakeLive()]
        open_live()
        assert not outdated()
        (tmp_path / FILES[1]).write_text("of tomorrow")
        assert outdated()
        with pytest.raises(ClusterError):
            open_live()
        assert outdated(), "it is tried again"
        open_live()
        assert not outdated()
    room.journal.close()
