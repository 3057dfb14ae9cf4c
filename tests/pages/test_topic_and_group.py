"""The pages of a topic and of a group: addresses of their own, answers with bytes, the search."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core import demo_faults
from dashboard.core.clock import utc_now
from dashboard.demo import recorded
from dashboard.purge.journal.journal import Journal
from dashboard.store.snapshot_files import new_id
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from dashboard.ui import over_time
from tests.pages.conftest import Open, read, said
from tests.pages.purges import Requests, queued
from tests.support import sample_store


def links(app: AppTest) -> dict[str, str]:
    return {read(link.label): link.proto.query_string for link in app.page_link}


def test_a_topic_says_what_it_holds_who_holds_it_where_it_lies_and_how_it_is_set(
    open_page: Open,
) -> None:
    app = open_page("topic", name="orders")
    text = said(app)

    assert "<strong>orders</strong> has " in text and re.search(
        r"on disk in [0-9]+ partitions", text
    )
    assert "readers declared by" in text
    assert "**billing-replay** holds back" in read(text)
    assert "Where it lies" in text and "full in 40 h (32 h to 53 h)" in text
    assert "<td>cleanup.policy</td><td>delete</td>" in text.split("<details>")[0]
    assert "low watermark</abbr> of orders" in text
    (held,) = [label for label in links(app) if "billing-replay** holds back" in label]
    assert re.fullmatch(
        r"[*]{2}billing-replay[*]{2} holds back 6.8 GiB, 1 member, last commit [0-9]+ (s|min) ago",
        held,
    )
    assert "name=billing-replay" in links(app)[held]


def with_segments(store: ClusterStore, columns: dict[str, list[Any]]) -> None:
    """The newest snapshot once more, with segments that inventories counted."""
    now, newest = utc_now(), store.latest("snapshots")
    assert newest is not None
    manifest, writer = store.manifest("snapshots", newest), store.begin("snapshots", now)
    for table in manifest.tables:
        writer.write(table, store.read("snapshots", newest, table))
    count = len(columns["base_offset"])
    rows = {"topic": ["orders"] * count, "kind": ["live"] * count, "log_dir": ["/kafka"] * count,
            "directory": ["orders-0"] * count, "snapshot_id": [writer.id] * count,
            "taken_at": [now] * count, **columns}  # fmt: skip
    writer.write("segments", build(SNAPSHOT_TABLES["segments"], rows))
    writer.commit(1.0, manifest.details)


def test_a_topic_tells_which_segments_a_purge_can_take_whole(
    open_page: Open, tmp_path: Path
) -> None:
    store = sample_store.write(tmp_path / "data", now=utc_now() - timedelta(minutes=1))
    assert "Segments" not in said(open_page("topic", variant=None, name="orders"))
    old = utc_now() - timedelta(hours=5)
    with_segments(store, {
        "partition": [0, 0, 0, 1], "broker_id": [1, 1, 1, 2], "base_offset": [0, 100, 200, 0],
        "log_bytes": [1 << 30, 1 << 29, 1 << 20, 1 << 21], "newest_at": [old, old, old, old],
    })  # fmt: skip
    text = said(open_page("topic", variant=None, name="orders"))
    (section,) = re.findall("<h2>Segments .*?</table>", text)
    assert re.sub("<.*?>", "", section.split("</h2>")[0]) == (
        "Segments 1.5 GiB in closed ones, which go whole once a target is past them; 3.0 MiB in "
        "active ones, which go once they have rolled"
    )
    assert [
        [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?</td>", row)]
        for row in re.findall("<tr><td.*?</tr>", section)
    ] == [
        ["0", "1 · /kafka", "3", "1.5 GiB", "1.0 MiB", "5 h ago"],
        ["1", "2 · /kafka", "1", "0 B", "2.0 MiB", "5 h ago"],
    ]


@pytest.mark.further
def test_a_topic_of_which_no_inventory_tells_says_how_to_make_one(
    open_page: Open, tmp_path: Path
) -> None:
    store = sample_store.write(tmp_path / "data", now=utc_now() - timedelta(minutes=1))
    with_segments(store, {name: [] for name in ("partition", "broker_id", "base_offset")})
    assert "lowwater inventory scan" in said(open_page("topic", variant=None, name="orders"))


def test_a_topic_tells_of_a_reader_that_no_group_shows_as_the_guard_does(
    open_page: Open,
) -> None:
    text = said(open_page("topic", name="metrics-raw"))
    assert "A reader that no group shows?" in text
    assert "its groups explain" in text
    assert "A reader that no group shows?" not in said(open_page("topic", name="orders"))


@pytest.mark.further
def test_a_topics_bytes_are_read_once_a_snapshot_over_the_time_that_is_chosen(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = utc_now()
    for hours in (50, 3, 2, 0):
        store = sample_store.write(tmp_path / "data", now=now - timedelta(hours=hours))
    reads: list[str] = []
    whole = ClusterStore.read_files

    def counted(*args: Any, **rest: Any) -> Any:
        reads.extend([args[2].id] if args[3] == "replicas" and "only" in rest else [])
        return whole(*args, **rest)

    monkeypatch.setattr(ClusterStore, "read_files", counted)
    app = open_page("topic", variant=None, name="orders")
    ids = store.ids("snapshots")
    assert {ids[0], ids[-1]} <= {*reads} < {*ids}  # of some within hours the last of each slice
    assert "measured less than twice" not in said(app)
    app.segmented_control(key="topic-span").set_value("1 h").run()
    assert "measured less than twice in that time" in said(app)
    app.segmented_control(key="topic-span").set_value("24 h").run()
    assert "measured less than twice" not in said(app)
    assert sorted(reads) == ids


@pytest.mark.further
def test_a_brokers_fullest_disk_is_drawn_over_the_time_that_is_chosen(
    open_page: Open, tmp_path: Path
) -> None:
    now = utc_now()
    for hours in (30, 3, 0):
        sample_store.write(tmp_path / "data", now=now - timedelta(hours=hours))
    app = open_page("broker", variant=None, name="2")
    assert "measured less than twice" not in said(app)
    app.segmented_control(key="disk-span").set_value("1 h").run()
    assert "measured less than twice in that time" in said(app)


@pytest.mark.further
@pytest.mark.parametrize(
    ("page", "name"), [("topic", "clickstream"), ("broker", "2"), ("group", "billing-replay")]
)
def test_a_demo_draws_the_week_before_it_dashed_and_says_that_it_is_recorded(
    page: str, name: str, open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sample_store.write(tmp_path / "data")
    topics = store.read("snapshots", store.latest_snapshot(), "topics")["topic"].to_pylist()
    name = name if page != "topic" else topics[0]
    room = tmp_path / "room"
    recorded.write(
        store,
        ClusterStore(Store(str(room / demo_faults.RECORDED)), store.cluster_id),
        lambda: False,
    )
    assert "measured less than twice" in said(open_page(page, variant=None, name=name))
    monkeypatch.setenv(demo_faults.MARK, str(room))
    drawn: list[dict[str, Any]] = []
    monkeypatch.setattr(over_time.st, "echarts_chart", lambda option, **_: drawn.append(option))
    app = open_page(page, variant=None, name=name)
    assert "Dashed, recorded: the week before this demo" in said(app)
    now, before = drawn[0]["series"]
    assert (now["lineStyle"]["type"], before["lineStyle"]["type"]) == ("solid", "dashed")
    assert (len(now["data"]), 8 <= len(before["data"]) <= over_time.MOST + 1) == (1, True)
    assert before["data"][-1]["value"][0] < now["data"][0]["value"][0]
    assert all(it["tooltip"]["formatter"].endswith(", recorded") for it in before["data"])
    app.segmented_control(key=f"{'disk' if page == 'broker' else page}-span").set_value("1 h").run()
    assert "measured less than twice in that time" in said(app)


def test_slices_of_time_stay_where_they_are_and_each_has_its_newest_snapshot() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    ids = [new_id(start + timedelta(minutes=m)) for m in range(1000)]
    before, after = over_time.spread(ids[:-1]), over_time.spread(ids)
    assert 6 <= len(after) <= over_time.MOST + 1
    assert after[-1] == ids[-1] and len({*after} - {*before}) == 1
    assert over_time.spread(ids, start + timedelta(minutes=998)) == ids[-2:]
    assert over_time.spread([]) == []


def test_a_broker_says_how_full_it_is_what_fills_it_and_what_is_slow_there(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.ui.making_room.FULL", 0.6)
    app = open_page("broker", "rich", name="1")
    text = said(app)

    assert "broker 1 · /d1 needs room" in text
    assert "<strong>Broker 1</strong> has " in text and "can leave there at once" in text
    assert "What fills it" in text and '<a href="topic?name=orders" target="_self">' in text
    assert 'aria-label="broker 1 /d1: live and needed' in text
    assert 'aria-label="broker 2' not in text
    assert "Slow replicas here" in text and "Orphans here" in text
    app.button(key="triage-open").click().run()
    assert any("Make room on broker 1" in e.label for e in app.expander)


def test_a_broker_that_did_not_answer_has_nothing_that_is_known(open_page: Open) -> None:
    text = said(open_page("broker", "broker-missing", name="3"))
    assert "<strong>Broker 3</strong> did not answer: " in text
    assert "What fills it" not in text
    assert "No broker 9" in said(open_page("broker", "broker-missing", name="9"))


def test_a_topic_has_three_answers_with_bytes(open_page: Open) -> None:
    app = open_page("topic", name="orders")
    assert "Wait: " in said(app) and "until billing-replay has read on" in said(app)
    assert "6.8 GiB at once" in app.button(key="waive billing-replay").label
    app.selectbox(key="topic-keep-orders").select("6 hours").run()
    assert "Shorten retention to 6 hours: " in said(app)
    assert "unknown leave" not in said(app)

    app.button(key="waive billing-replay").click().run()
    assert app.multiselect(key="plan-topics").value == ["orders"]
    assert app.multiselect(key="plan-waive").value == ["billing-replay"]


def test_what_no_group_holds_back_is_not_said_to_wait_for_one(
    open_page: Open, tmp_path: Path
) -> None:
    """Of one partition the group is behind; of the others a window or a transaction decides."""
    store = sample_store.write(tmp_path / "data", now=utc_now() - timedelta(minutes=1))
    newest = store.latest("findings")
    assert newest is not None
    manifest, writer = store.manifest("findings", newest), store.begin("findings", utc_now())
    for name in manifest.tables:
        table = store.read("findings", newest, name)
        if name == "reclaimable":
            done = pc.and_(pc.equal(table["topic"], "orders"), pc.greater(table["partition"], 0))
            at = table.column_names.index("held_by")
            table = table.set_column(at, "held_by", pc.if_else(done, None, table["held_by"]))
        writer.write(name, table)
    writer.commit(1.0, manifest.details)
    text = read(said(open_page("topic", variant=None, name="orders")))
    assert re.search(r"iB are held back until billing-replay has read on\.", text)
    assert re.search(r"iB are held back by a replay window or an open transaction, until", text)


def test_a_retention_that_fits_its_readers_is_an_answer_with_bytes(open_page: Open) -> None:
    text = said(open_page("topic", "rich", name="orders"))
    assert "<b>Shorten retention: </b>3 d fit its declared readers, it is 7 d; 6.0 GiB" in text
    assert "fit its declared readers" not in said(open_page("topic", variant=None, name="skewed"))


def test_what_no_retention_deletes_has_no_retention_to_shorten(open_page: Open) -> None:
    assert "it is compacted, so retention deletes nothing" in said(
        open_page("topic", name="inventory")
    )


def test_a_guarded_topic_names_its_guards_and_their_bytes(open_page: Open) -> None:
    text = said(open_page("topic", "broker-away", name="orders"))
    assert "are held by guards: under-replicated." in read(text)
    assert "⊘ under-replicated" in text
    assert "Plan a purge" not in text


@pytest.mark.further
def test_a_topic_shows_its_purges(open_page: Open, requests: Requests, journal: Journal) -> None:
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    journal.record(run_id, "read", [replace(row, state="done")], utc_now())
    journal.set_run(run_id, "done", utc_now())
    assert any(run_id in query for query in links(open_page("topic", name="orders")).values())
    assert not any(run_id in query for query in links(open_page("topic", name="payments")).values())


def test_a_group_says_what_it_holds_back_and_where(open_page: Open) -> None:
    app = open_page("group", name="billing-replay")
    text = said(app)

    assert "<strong>billing-replay</strong> holds back" in text
    assert re.search(r"Stable: 1 member, last commit [0-9]+ (s|min) ago\.", text)
    assert '<a href="topic?name=orders" target="_self">orders</a>' in said(app)

    app.button(key="group-waive").click().run()
    assert app.multiselect(key="plan-waive").value == ["billing-replay"]
    assert "orders" in app.multiselect(key="plan-topics").value


@pytest.mark.parametrize(("page", "said_there"), [("topic", "No topic"), ("group", "No group")])
def test_a_name_that_is_not_there_is_a_message_and_is_text(
    open_page: Open, page: str, said_there: str
) -> None:
    text = said(open_page(page, name="<b>nobody"))
    assert f"{said_there} &lt;b&gt;nobody" in text


@pytest.mark.further
def test_the_search_leads_to_what_is_meant_and_lists_what_may_be(open_page: Open) -> None:
    app = open_page("quality")
    app.text_input(key="lw-find").set_value("orders").run()
    assert "<strong>orders</strong> has " in said(app)
    assert app.query_params["name"] == "orders"

    app = open_page("purge")
    app.text_input(key="lw-find").set_value("billing-re").run()
    assert "<strong>billing-replay</strong> holds back" in said(app)

    app = open_page("growth")
    app.text_input(key="lw-find").set_value("Broker 2").run()
    assert "<strong>Broker 2</strong> has" in said(app)

    app = open_page("overview")
    app.text_input(key="lw-find").set_value("BILL").run()
    found = links(app)
    assert {"group billing", "group billing-replay"} <= found.keys()
    app.text_input(key="lw-find").set_value("nothing-like-it").run()
    assert "No topic, group or broker of that name." in said(app)


@pytest.mark.further
def test_overview_and_reclaimable_lead_to_both(open_page: Open) -> None:
    overview = links(open_page())
    (query,) = [q for label, q in overview.items() if label.startswith("**billing-replay**")]
    assert query == "name=billing-replay"
    reclaimable = open_page("reclaimable", topic="payments")
    assert links(reclaimable)["Everything about payments"] == "name=payments"


@pytest.mark.further
def test_what_a_group_holds_back_is_drawn_over_kept_analyses(
    open_page: Open, tmp_path: Path
) -> None:
    now = utc_now()
    for hours in (30, 3, 0):
        sample_store.write(tmp_path / "data", now=now - timedelta(hours=hours))
    app = open_page("group", variant=None, name="billing-replay")
    assert "measured less than twice" not in said(app)
    app.segmented_control(key="group-span").set_value("1 h").run()
    assert "measured less than twice in that time" in said(app)


@pytest.mark.further_but(
    "Gone-0-gone, silent for- It counts at its last known offsets until it is waived."
)
@pytest.mark.parametrize(
    ("state", "members", "alive", "on_its_page"),
    [
        ("Stable", 2, "2 members, last commit", "Stable: 2 members, last commit "),
        ("Empty", 0, "no member, silent for", "Empty: no member, silent for "),
        ("Gone", 0, "gone, silent for", " It counts at its last known offsets until it is waived."),
        ("Unknown", None, "members unknown, last commit", "told of them, so it may be alive."),
    ],
)
def test_whether_anybody_reads_on_for_a_group_is_said_wherever_it_stands(  # noqa: PLR0917 a table's columns
    open_page: Open, tmp_path: Path, state: str, members: int | None, alive: str, on_its_page: str
) -> None:
    sample_store.write(tmp_path / "data")
    (file,) = (tmp_path / "data").glob("*/findings/*/blockers*.parquet")
    table = pq.read_table(file)
    mine = pc.equal(table["group_id"], "billing-replay")
    for name, value in (("group_state", state), ("members", members)):
        at = table.schema.get_field_index(name)
        kind = table.schema.field(name)
        changed = pc.if_else(mine, pa.scalar(value, kind.type), table[name])
        table = table.set_column(at, kind, changed)
    pq.write_table(table, file)

    label = f"**billing-replay** holds back 6.8 GiB, {alive} "
    assert label in read(said(open_page(variant=None)))
    assert label in read(said(open_page("topic", None, name="orders")))
    box = open_page("reclaimable", None).checkbox(key="waive billing-replay")
    brief = alive.partition(", last")[0]
    assert f"**billing-replay** · 6.8 GiB :small[{brief}" in read(box.label)
    own = said(open_page("group", None, name="billing-replay"))
    assert on_its_page in own and alive.lower() in own.lower()


def test_bytes_without_those_of_some_partitions_are_called_the_least(
    open_page: Open, tmp_path: Path
) -> None:
    sample_store.write(tmp_path / "data")
    (file,) = (tmp_path / "data").glob("*/findings/*/blockers*.parquet")
    table = pq.read_table(file)
    mine = pc.equal(table["group_id"], "billing-replay")
    column = table.schema.get_field_index("unmeasured")
    missed = pc.if_else(mine, pa.scalar(2, pa.int64()), table["unmeasured"])
    pq.write_table(table.set_column(column, "unmeasured", missed), file)

    label = "**billing-replay** holds back at least 6.8 GiB"
    overview = read(said(open_page(variant=None)))
    assert label in overview
    assert re.search(r"At least (<[^>]*>)*6\.8 GiB(<[^>]*>)* more would leave at once", overview)
    assert "would free at least 6.8 GiB at once" in overview
    box = open_page("reclaimable", None).checkbox(key="waive billing-replay")
    assert "**billing-replay** · at least 6.8 GiB" in read(box.label)
    topic = open_page("topic", None, name="orders")
    assert label in read(said(topic))
    assert "at least 6.8 GiB at once" in read(topic.button(key="waive billing-replay").label)
    group = said(open_page("group", None, name="billing-replay"))
    assert "without it: at least 6.8 GiB more at once" in read(group), "the button"
    assert group.count("at least ") == 5, "both sums, both bytes of its topic, and the button"
