"""What the page server holds of an analysis: once for all sessions, and no more than is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.estimate import curve_tables
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, STAMPS
from dashboard.ui.session.context import Tables
from dashboard.views.facts import COMMITTED, partition_facts
from tests.support import sample_store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    return sample_store.write(Path(tmp_path_factory.mktemp("store")))


@pytest.fixture
def found(cluster: ClusterStore) -> Tables:
    return Tables(cluster, "findings", cluster.latest_analysis())


def test_who_asks_while_a_table_is_read_waits_for_that_one(found: Tables) -> None:
    begun, go_on = threading.Event(), threading.Event()
    made = []

    def slowly() -> list[int]:
        begun.set()
        assert go_on.wait(60)
        made.append(1)
        return made

    def told(how: Callable[[str, Callable[[], list[int]]], list[int]], key: str) -> None:
        begun.clear(), go_on.clear(), made.clear()
        with ThreadPoolExecutor(3) as sessions:
            first = sessions.submit(how, key, slowly)
            assert begun.wait(60)
            rest = [sessions.submit(how, key, slowly) for _ in range(2)]
            assert not any(one.done() for one in rest)
            go_on.set()
            assert all(one.result() is first.result() for one in rest)
        assert made == [1]

    told(found.derived, "slow units")
    told(found.lately, "a filter")


def test_one_that_fails_is_made_anew(found: Tables) -> None:
    with pytest.raises(ZeroDivisionError):
        found.derived("odd", lambda: 1 // 0)
    assert found.derived("odd", lambda: 7) == 7


def test_of_what_readers_choose_the_newest_few_stay(found: Tables) -> None:
    made = []

    def chosen(number: int) -> int:
        return found.lately(number, lambda: made.append(number) or number)

    for number in (*range(16), 0, 16, 0, 1):  # 0 was looked at again before 16 came, 1 was not
        assert chosen(number) == number
    assert made == [*range(17), 1]


def test_long_tables_are_held_without_what_no_page_shows(found: Tables) -> None:
    assert "topic_id" not in found.table("holds").column_names
    assert found.whole("holds").schema == FINDING_TABLES["holds"].schema
    assert found.table("holds").num_rows == found.whole("holds").num_rows > 0


def test_facts_out_of_one_file_after_the_other_are_those_of_the_whole_table(
    cluster: ClusterStore, found: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = partition_facts(cluster.read("findings", found.id, "reclaimable", only=COMMITTED))
    (rows,) = cluster.parts("findings", found.id, "reclaimable", only=COMMITTED)
    odd = [index % 2 == 1 for index in range(rows.num_rows)]
    files = [rows.filter(pa.array(odd)), rows.filter(pa.array([not one for one in odd]))]
    monkeypatch.setattr(cluster, "parts", lambda *_, **__: iter(files))
    facts = found.facts().select([n for n in found.facts().column_names if n not in STAMPS])

    assert set(whole.column_names) - set(facts.column_names) == {
        "snapshot_id", "taken_at", "target",
    }  # fmt: skip
    assert facts.to_pylist() == whole.select(facts.column_names).to_pylist()


def test_curves_of_a_page_free_what_whole_ones_do(cluster: ClusterStore, found: Tables) -> None:
    whole, shown = curve_tables.read(cluster, found.id), found.curves()
    ends = whole.curves.offset[whole.curves.last]

    assert shown.places.equals(whole.places.select(curve_tables.PLACE))
    assert shown.curves.above is None
    ours, theirs = (each.freed(ends // 4, ends // 2) for each in (shown.curves, whole.curves))
    assert ours.likely.tolist() == theirs.likely.tolist()
    assert (ours.low.tolist(), ours.high.tolist()) == (theirs.low.tolist(), theirs.high.tolist())
