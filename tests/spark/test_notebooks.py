"""The notebooks run, on a store that tests build: their code here, whole kernels by nbmake."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from plotly.graph_objects import Figure
from pyspark.sql import SparkSession

from dashboard.core.clock import utc_now
from tests.support import archives, sample_store
from tests.support.sample_plan import sample_plan

pytestmark = [pytest.mark.spark, pytest.mark.further]
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
Rows = Callable[[str], list[dict[str, Any]]]


def environ(folder: Path, variant: str) -> dict[str, str]:
    """Where notebooks find a sample store and a plan of it."""
    plan = folder / "plan.json"
    sample_store.write(folder / "data", variant)
    plan.write_text(sample_plan(utc_now()).to_json_text(), "utf-8")
    archive = archives.orders(folder / "kept")
    return {"LOWWATER_DATA": str(folder / "data"), "PLAN": str(plan), "ARCHIVE": str(archive)}


def executed(path: Path) -> dict[str, Any]:
    """The names that a notebook's cells leave when they run here; `shown` are its figures."""
    shown: list[Figure] = []

    def show(figure: Figure) -> None:
        shown.append(figure)

    names: dict[str, Any] = {"shown": shown}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "show", show)
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, path.name, "exec"), names)
    return names


def reclaim(names: dict[str, Any], rows: Rows) -> None:
    """What is drawn is what the findings say, and bars of one topic are all of its bytes."""
    known = [r for r in rows("reclaimable") if r["target"] == "committed"]
    drawn = names["table"].groupby("share")["bytes"].sum()
    free = [r for r in known if not r["guards"]]
    assert drawn["at once"] == sum(r["bytes_at_once"] or 0 for r in free) > 0
    guarded = [r for r in known if r["guards"]]
    assert drawn["behind a guard"] == sum(r["bytes_likely"] or 0 for r in guarded)
    assert drawn["held by a group"] == sum(r["held_bytes"] or 0 for r in known)
    flows = names["traffic"].groupby("way")["bytes"].sum()
    of_topics = [r for r in rows("traffic") if r["topic"] is not None]
    assert flows["producers send"] == sum(r["bytes_in_per_hour"] for r in of_topics) > 0
    assert flows["consumers fetch"] == sum(r["bytes_out_per_hour"] for r in of_topics) > 0
    quiet = {r["topic"]: r for r in rows("idle_topics")}
    assert quiet.keys() == {*names["idle"].index}
    for topic, told in names["idle"].iterrows():
        assert told["verdict"] == quiet[topic]["verdict"]
        guards = dict.fromkeys(guard["name"] for guard in quiet[topic]["guards"])
        assert told["wanted_by"] == ", ".join(guards)


def followers(names: dict[str, Any], rows: Rows) -> None:
    slow = [r for r in rows("slow_followers") if r["slow"]]
    assert sum(row.replicas for row in names["causes"].collect()) == len(slow) > 0


def orphans(names: dict[str, Any], rows: Rows) -> None:
    drawn = names["table"].groupby("kind")["bytes"].sum()
    assert drawn["live"] == sum(r["live_bytes"] or 0 for r in rows("disks")) > 0
    assert names["orphans"].count() == len(rows("orphans")) > 0


def purge_preview(names: dict[str, Any], rows: Rows) -> None:
    """The waived group no longer counts, the other one has passed the target."""
    (row,) = names["drift"].collect()
    holds = {(r["topic"], r["partition"], r["group_id"]): r for r in rows("holds")}
    assert row.committed_now == holds["orders", 0, "billing"]["committed_offset"]
    assert (row.target, row.still_free) == (846_000, row.committed_now >= 846_000)
    assert list(names["groups"].query("loss_if_latest > 0").index) == ["billing-replay"]


def what_did_we_delete(names: dict[str, Any], rows: Rows) -> None:
    """Every archived record is counted once; who stood below the last one had not read them."""
    whole = names["whole"].set_index("partition")
    assert list(whole["records"]) == [290, 290, 290]
    assert names["written"]["count"].sum() == 870
    last = 120_000 + 2_500 * 289
    assert list(whole["last_offset"]) == [last] * 3
    below = {
        (r["partition"], r["group_id"]): last + 1 - max(r["committed_offset"], 120_000)
        for r in rows("holds")
        if r["topic"] == "orders"
        and r["partition"] < 3
        and r["group_id"]
        and r["committed_offset"] <= last
    }
    told = {(r.partition, r.group_id): r.offsets for r in names["unread"].collect()}
    assert told == below and any(group == "billing-replay" for _, group in below)
    (first, *_) = names["keys"].collect()
    assert (first.topic, first.key.startswith("customer-")) == ("orders", True)


TOLD = {
    check.__name__: check
    for check in (reclaim, followers, orphans, purge_preview, what_did_we_delete)
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_tell_what_the_findings_say(
    path: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process and its session: starting one for each notebook takes most of their time."""
    for name, value in environ(tmp_path, "rich").items():
        monkeypatch.setenv(name, value)
    names = executed(path)
    assert names["cluster"].spark is spark
    assert all(figure.data for figure in names["shown"])
    store = names["cluster"].store
    TOLD[path.stem](
        names, lambda table: store.read("findings", store.latest_analysis(), table).to_pylist()
    )


def test_findings_without_traffic_and_idle_topics_are_shown_without(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker has a source of metrics, or an older release analyzed."""
    for name, value in environ(tmp_path, "older").items():
        monkeypatch.setenv(name, value)
    names = executed(ROOT / "notebooks" / "reclaim.ipynb")
    assert names["cluster"].spark is spark
    assert names["traffic"].empty
    assert names["idle"].empty
    assert [bool(figure.data) for figure in names["shown"]] == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["nothing", "calm", "broker-missing", "large"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_other_clusters_are_drawn_too(
    path: Path, variant: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that hold nothing, no slow follower, a broker that is down, many topics."""
    for name, value in environ(tmp_path, variant).items():
        monkeypatch.setenv(name, value)
    assert executed(path)["shown"]


def headless(path: Path, where: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "nbmake", "--nbmake", "-q", str(path)],
        cwd=ROOT, env={**os.environ, **where},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "path",
    [p if p.stem == "orphans" else pytest.param(p, marks=pytest.mark.slow) for p in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_it_runs_headless_in_a_kernel_of_its_own(path: Path, tmp_path: Path) -> None:
    where = environ(tmp_path, "rich")
    done = headless(path, where)
    # A kernel's ports are chosen before it listens on them: another process may take one.
    if any(told in done.stdout for told in ("Address already in use", "Kernel didn't respond")):
        done = headless(path, where)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
