"""Fleet: a row per cluster, whose numbers are those of the cluster's own pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.ui import making_room
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests, queued
from tests.support import sample_store

OTHER = "aNoTheRCLusTer000000x2"
_CONSUMED = r"<strong[^>]*>(<abbr[^>]*>[0-9.]+ [KMG]iB</abbr>)</strong> are consumed by every known"
_BARE = r">([0-9.]+ [KMG]iB)</a>"


def rows(text: str) -> dict[str, str]:
    """Each cluster's row as HTML, in order."""
    table = text.split('<div class="lw lw-fleet">')[1]
    found = re.findall(r"<tr>(<td><b><a [^>]*>(.*?)</a>.*?)</tr>", table)
    return {name: row for row, name in found}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    sample_store.write(tmp_path / "data")
    sample_store.write(tmp_path / "data", "broker-missing", cluster_id=OTHER, name="staging")
    return tmp_path


def test_what_a_row_says_is_what_the_clusters_own_page_says(open_page: Open, two: Path) -> None:
    fleet = rows(said(open_page("fleet", None)))
    assert list(fleet) == ["staging", "prod-eu"]  # a broker is away there
    for name, row in fleet.items():
        own = said(open_page("overview", None, cluster=name))
        size = re.findall(r">([0-9.]+ [KMG]iB)<", re.findall(_CONSUMED, own)[0])
        assert re.findall(_BARE, row) == size
        brokers = re.findall(r"[0-9] of [0-9] brokers", row)
        assert brokers and brokers[0] in own
        assert f'href="reclaimable?cluster={name}"' in row
    assert "⚠ broker 3 did not answer" in fleet["staging"]
    assert "⚠" not in fleet["prod-eu"]


@pytest.mark.further
def test_a_disk_that_needs_room_comes_first_and_is_said_in_overviews_words(
    open_page: Open, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making_room, "FULL", 0.6)
    text = said(open_page("fleet", None))
    own = said(open_page("overview", None, cluster="prod-eu"))
    name = re.findall(r"⚠ (broker [0-9] · \S+) needs room", own)[0]
    assert f">{name}, " in rows(text)["prod-eu"] and "⚠ needs room" in rows(text)["prod-eu"]
    assert re.search(r"Look at .*<b>prod-eu</b>", text)


def test_one_that_cannot_be_read_says_so_and_hides_no_other(open_page: Open, two: Path) -> None:
    (manifest,) = (two / "data" / OTHER / "findings").glob("*/manifest.json")
    manifest.write_text("{")
    found = rows(said(open_page("fleet", None)))
    assert "✖" in found["staging"] and "STORE_UNREADABLE" in found["staging"]
    assert re.findall(_BARE, found["prod-eu"])


@pytest.mark.further
def test_purges_of_each_cluster_are_its_own(
    open_page: Open, two: Path, requests: Requests, journal: Journal
) -> None:
    queued(lambda page, **query: open_page(page, None, cluster="prod-eu", **query), journal)
    found = rows(said(open_page("fleet", None)))
    assert "<b>1 running</b>" in found["prod-eu"] and ">1 today</a>" in found["prod-eu"]
    assert "none running" in found["staging"] and ">0 today</a>" in found["staging"]


def test_a_cluster_of_the_settings_that_was_never_collected_is_named(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text('[clusters.prod-us]\n"bootstrap.servers" = "h:9"\n[clusters.prod-eu]\n'
                    '"bootstrap.servers" = "h:9"\n')  # fmt: skip
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    text = said(open_page("fleet"))
    assert "<b>prod-us</b> stands in the settings and was never collected" in text
    assert "watch --cluster prod-us" in text and "--cluster prod-eu" not in text


def test_what_a_cluster_costs_stands_beside_its_bytes(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text("[price]\nper_gib_month = 0.08\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    row = rows(said(open_page("fleet")))["prod-eu"]
    cost = re.findall(r"[0-9.]+ EUR a month", row)
    assert cost and f"costs about {cost[0]}" in said(open_page("overview", None))


def test_an_empty_folder_says_what_to_do(open_page: Open) -> None:
    assert "No snapshot yet (NO_SNAPSHOT)" in said(open_page("fleet", None))


def test_all_purges_stopped_is_told(open_page: Open, journal: Journal) -> None:
    journal.set_read_only(True, "ada", utc_now())
    assert "every purge is stopped" in said(open_page("fleet"))


def test_it_redraws_itself(open_page: Open, redrawn: list[float]) -> None:
    open_page("fleet")
    assert 5 in redrawn
