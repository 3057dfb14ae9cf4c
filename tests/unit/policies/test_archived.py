"""A policy's purge keeps its records first where the policy says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.purge.restore import purged_by
from dashboard.core.errors import SettingsError
from dashboard.policies.service import purging
from dashboard.settings.archive import ArchiveSettings
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom

T = "billing-sum-repartition"


@pytest.mark.parametrize(
    ("said", "url"),
    [("archive = true", "s3://bucket/kept"), ('archive = "s3://own/x"', "s3://own/x"), ("", None)],
)
def test_its_plan_and_its_run_name_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, url: str | None
) -> None:
    room = ServiceRoom(tmp_path, policy(f"{REPARTITION}\n{said}", "streams"))
    monkeypatch.setattr(purging, "carry_out", lambda *_, **__: None)
    service = room.service()
    settings = service.site.current.get()
    kept = replace(settings, archive=ArchiveSettings(url="s3://bucket/kept"))
    monkeypatch.setattr(type(service.site), "settings", property(lambda _: kept))
    room.live.topic(T)
    room.live.produce(T, 100)
    room.live.commit("billing", T)
    room.pass_time(service, 10)
    run = room.runs()[0]
    assert run.options.archive == url
    assert room.journal.plan(run.run_id).archive == url
    room.journal.close()


def test_who_restores_is_told_which_policies_take_the_records_again() -> None:
    """A glob for `orders*` is for `orders-restored`, whose records are old by their times."""
    all_of, other = (
        policy(f'topics = ["{glob}"]\ntarget = "keep:24h"', name)
        for glob, name in (("orders*", "tidy"), ("clicks", "other"))
    )
    assert purged_by([all_of, other], "orders-restored") == ["tidy"]
    assert purged_by([all_of, other], "restored-orders") == []


@pytest.mark.parametrize("said", ["archive = 5", 'archive = "s3://me:word@b"', 'archive = ""'])
def test_what_is_no_place_is_refused(said: Any) -> None:
    with pytest.raises(SettingsError, match="archive"):
        policy(f"{REPARTITION}\n{said}", "streams")
