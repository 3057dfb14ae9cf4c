"""What is derived from findings and snapshots for the pages: flags, roll-ups, bars, tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from dashboard.store.finding_rows import Blocker
from dashboard.store.snapshots import ClusterStore
from dashboard.ui import fleet, making_room, overview, reclaimable, treemap
from dashboard.ui.components import markup
from dashboard.ui.session.context import Choice
from dashboard.views import colours, topic_rows
from dashboard.views.facts import COMMITTED, partition_facts, topics_where
from dashboard.views.headline import at_least, blockers_by_group, headline
from dashboard.views.topic_rows import Filters, TopicRow
from tests.support import sample_store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    return sample_store.write(Path(tmp_path_factory.mktemp("store")))


def finding(cluster: ClusterStore, table: str):  # type: ignore[no-untyped-def]
    return cluster.read("findings", cluster.latest_analysis(), table)


def rows(cluster: ClusterStore) -> dict[str, TopicRow]:
    facts = partition_facts(finding(cluster, "reclaimable"))
    return {row.topic: row for row in topic_rows.topic_rows(facts)}


def test_consumed_allows_undeclared_readers_and_free_allows_no_guard(
    cluster: ClusterStore,
) -> None:
    facts = partition_facts(finding(cluster, "reclaimable"))

    assert set(topics_where(facts, "consumed")) - set(topics_where(facts, "free")) == {
        "clickstream"
    }
    assert "audit-log" not in topics_where(facts, "consumed")


def test_the_headline_offers_only_topics_without_guards(cluster: ClusterStore) -> None:
    facts = partition_facts(finding(cluster, "reclaimable"))
    numbers = headline(facts, finding(cluster, "blockers"), finding(cluster, "disks"))

    assert numbers.undeclared_topics == ("clickstream",)
    assert "clickstream" not in numbers.safe_topics
    assert numbers.uncommitted_topics == ("__consumer_offsets", "audit-log", "metrics-raw")
    assert 0 < numbers.declared_bytes < numbers.consumed_bytes


def test_an_empty_analysis_has_an_empty_headline(cluster: ClusterStore) -> None:
    facts = partition_facts(finding(cluster, "reclaimable").slice(0, 0))
    numbers = headline(
        facts, finding(cluster, "blockers").slice(0, 0), finding(cluster, "disks").slice(0, 0)
    )

    assert numbers.nothing
    assert numbers.waive_group is None
    assert topic_rows.topic_rows(facts) == []


def test_topics_roll_up_their_partitions(cluster: ClusterStore) -> None:
    orders = rows(cluster)["orders"]

    assert (orders.partitions, orders.free_partitions) == (6, 6)
    assert orders.held_by == "billing-replay"
    assert orders.size_bytes == orders.consumed_bytes + (orders.held_bytes or 0)
    assert orders.consumed_bytes == (orders.at_once_bytes or 0) + (orders.later_bytes or 0)


def test_the_bytes_that_guards_hold_are_told_from_those_that_live(cluster: ClusterStore) -> None:
    (row, *_) = finding(cluster, "disks").to_pylist()
    own = {**row, "live_bytes": 500, "guarded_bytes": 200, "held_bytes": 7}
    of = {**own, "guarded_bytes": None, "held_bytes": None, "reclaimable_bytes": None}
    schema, growth = finding(cluster, "disks").schema, finding(cluster, "growth")
    for line, guarded in ((own, 200), (of, 500)):  # the second: of a release that did not tell
        table = pa.Table.from_pylist([line], schema=schema)
        (bar,) = overview.disk_bars(table, growth, guarded=True)
        assert bar.parts[0][::2] == (colours.GUARDED, guarded)
        lives = [size for meaning, why, size in bar.parts if why.startswith("needed by somebody")]
        assert lives == ([300] if guarded == 200 else [])


def test_what_nobody_committed_is_unknown_and_not_zero(cluster: ClusterStore) -> None:
    audit = rows(cluster)["audit-log"]

    assert audit.reclaimable_bytes is None
    assert audit.at_once_bytes is None
    assert audit.later_bytes is None


def test_filters_join_with_and(cluster: ClusterStore) -> None:
    found = rows(cluster).values()
    kept = Filters(topic="E", guard="none", least_bytes=2**30, group_topics=frozenset({"skewed"}))

    assert [row.topic for row in found if kept.keep(row)] == ["skewed"]


def test_blockers_are_summed_over_topics_and_sorted(cluster: ClusterStore) -> None:
    listed = blockers_by_group(finding(cluster, "blockers"), 3, "bytes_held_alone")

    assert [group for group, _ in listed] == ["billing-replay", "old-reporting", "ad-hoc"]
    freed = dict(blockers_by_group(finding(cluster, "blockers"), 99))
    assert freed["billing-replay"] > 0
    assert freed["old-reporting"] == 0, "the only group of its topic: without it no target is known"


def test_disks_are_listed_fullest_first_and_their_parts_fill_them(cluster: ClusterStore) -> None:
    found = overview.disk_bars(finding(cluster, "disks"), finding(cluster, "growth"))

    assert [bar.broker_id for bar in found] == [1, 2, 3]
    for bar in found:
        used = (bar.total_bytes or 0) - (bar.usable_bytes or 0)
        assert sum(size for _, _, size in bar.parts) == used


def test_orphans_have_their_colour_where_an_inventory_found_them(cluster: ClusterStore) -> None:
    html = overview.disks_html(finding(cluster, "disks"), finding(cluster, "growth"))
    assert html.count('class="lw-fill-orphan" title="orphan: 921.6 MiB') == 1
    assert "orphan 921.6 MiB</span>" in html
    assert html.count("an inventory of this disk tells them apart") == 2
    without = overview.disks_html(finding(cluster, "disks").slice(0, 2), finding(cluster, "growth"))
    assert "lw-fill-orphan" not in without


def test_each_disk_says_when_it_is_full(cluster: ClusterStore) -> None:
    disk, rates = finding(cluster, "disks"), finding(cluster, "growth")
    told = overview.disks_html(disk, rates)
    assert (told.count(">full in 40 h<"), told.count(">not filling up<")) == (2, 1)
    assert told.count(" (32 h to 53 h)<") == 2 and told.count(" (not before 7 d)<") == 1
    assert "an hour, in 60 snapshots over 1 h" in told
    assert overview.disks_html(disk, rates.slice(0, 0)).count("not enough history yet") == 3
    slow = rates.set_column(
        rates.column_names.index("days_to_full"), "days_to_full", pa.array([4000.0] * len(rates))
    )
    far = overview.disks_html(disk, slow)
    assert (far.count(">full in over a year<"), far.count(">may fill up<")) == (2, 1)


def test_a_log_dir_that_was_not_measured_is_hatched_and_says_why(tmp_path: Path) -> None:
    cluster = sample_store.write(tmp_path, "broker-missing")
    html = overview.disks_html(finding(cluster, "disks"), finding(cluster, "growth"))

    assert "no answer within 10 s" in html
    assert "lw-fill-not" in html


def test_a_tile_without_committed_group_is_unknown_not_none(cluster: ClusterStore) -> None:
    option = treemap.treemap(list(rows(cluster).values()), dark=False)
    tiles = {tile["name"]: tile for tile in option["series"][0]["data"]}
    assert tiles["audit-log"]["label"]["formatter"].endswith("· unknown")
    assert "what is reclaimable is unknown" in tiles["audit-log"]["tooltip"]["formatter"]
    assert tiles["payments"]["label"]["formatter"].endswith("%")


def test_a_tile_that_guards_hold_is_grey_and_names_them(tmp_path: Path) -> None:
    away = sample_store.write(tmp_path, "broker-away")
    option = treemap.treemap(list(rows(away).values()), dark=False)
    tiles = {tile["name"]: tile for tile in option["series"][0]["data"]}
    orders = tiles["orders"]
    assert orders["label"]["formatter"].endswith("· guarded")
    assert "below its targets, guarded: under-replicated" in orders["tooltip"]["formatter"]
    assert orders["itemStyle"] == tiles["audit-log"]["itemStyle"], "grey, as the unknown"


def test_what_is_not_known_of_the_smallest_topics_is_no_zero(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(treemap, "TOPICS_SHOWN", 4)
    nothing = rows(sample_store.write(tmp_path, "nothing")).values()
    rest = treemap.treemap(list(nothing), dark=False)["series"][0]["data"][-1]
    assert rest["label"]["formatter"].endswith("· unknown")


def test_the_smallest_topics_share_one_tile(
    monkeypatch: pytest.MonkeyPatch, cluster: ClusterStore
) -> None:
    monkeypatch.setattr(treemap, "TOPICS_SHOWN", 4)
    option = treemap.treemap(list(rows(cluster).values()), dark=False)
    tiles = option["series"][0]["data"]

    assert [tile["name"] for tile in tiles][:2] == ["orders", "clickstream"]
    assert tiles[-1]["name"] == "9 smaller topics"
    assert sum(t["value"] for t in tiles) == sum(r.size_bytes or 0 for r in rows(cluster).values())


def test_a_strip_places_commits_between_log_start_and_high_watermark(
    cluster: ClusterStore,
) -> None:
    facts = partition_facts(finding(cluster, "reclaimable"))
    first = reclaimable.strips(facts, finding(cluster, "holds"), "orders")[0]

    assert first.target == first.committed["billing-replay"]
    assert first.furthest == first.committed["billing"]
    assert round(first.place(first.committed["billing"] or 0)) == 94
    assert (first.place(first.log_start), first.place(first.high_watermark)) == (0, 100)


def test_names_in_strips_are_escaped() -> None:
    strip = reclaimable.Strip("<b>", 0, 0, 10, 5, 50, (), {"<i>": 5})

    assert '<i>"' not in reclaimable.strips_html([strip])
    assert "&lt;i&gt;" in reclaimable.strips_html([strip])


def test_a_tile_brightens_with_its_share_on_a_dark_page_and_its_text_can_be_read() -> None:
    for scale, unknown in (
        (colours.SHARE_ON_LIGHT, colours.SHARE_UNKNOWN_ON_LIGHT),
        (colours.SHARE_ON_DARK, colours.SHARE_UNKNOWN_ON_DARK),
    ):
        seen = [luminance(fill) for fill, _ in scale]
        assert seen == sorted(seen, reverse=scale is colours.SHARE_ON_LIGHT)
        for fill, ink in (*scale, unknown):
            low, high = sorted((luminance(fill), luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (fill, ink)  # WCAG 1.4.3


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, as WCAG 2.2 defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_long_name_on_a_tile_is_cut_in_its_middle(cluster: ClusterStore) -> None:
    (largest, *_) = rows(cluster).values()
    long = replace(largest, topic="orders-app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition")
    small = replace(long, topic=f"{long.topic}-2", size_bytes=(long.size_bytes or 0) // 60)
    tiles = treemap.treemap([long, small], dark=True)["series"][0]["data"]
    names = [tile["label"]["formatter"].split("\n")[0] for tile in tiles]
    assert names[0] == long.topic
    assert names[1].startswith("ord") and names[1].endswith("-2") and "…" in names[1]


def test_fleet_says_of_a_disk_whose_pace_is_not_known_what_is_not_known() -> None:
    room = making_room.Room(1, "/kafka", 0.71, 9, 0, None, None, None)
    shown = fleet._disk(fleet.Overlook(Choice("x", "prod-eu", "prod-eu"), "", room=room), "")
    assert shown.endswith("<small>when it is full is not known yet</small>")


def test_a_setting_that_brokers_do_not_tell_is_no_word_of_pythons() -> None:
    assert markup.setting("<7>") == "&lt;7&gt;"
    assert ">not set<" in markup.setting(None) and "secret" in markup.setting(None)


def test_of_a_guard_that_many_partitions_have_the_text_is_held_once(cluster: ClusterStore) -> None:
    told = finding(cluster, "reclaimable")
    facts = partition_facts(told)
    texts = facts["guards"].combine_chunks().values.field("reason")
    assert pa.types.is_dictionary(texts.type) and len(texts.dictionary) < len(texts)
    of_one = told.filter(COMMITTED).to_pylist()
    assert [[g["reason"] for g in row] for row in facts["guards"].to_pylist()] == [
        [g["reason"] for g in row["guards"] or ()] for row in of_one
    ]


def test_the_table_of_topics_is_small_on_its_way_to_a_browser(cluster: ClusterStore) -> None:
    shown, _ = reclaimable.frame(list(rows(cluster).values()), {})
    many = pd.concat([shown] * 500)
    beside_names = many.memory_usage(index=False, deep=True).drop("Topic").sum()
    assert beside_names / len(many) < 60


@pytest.mark.parametrize(
    ("held", "freed", "unmeasured", "said"),
    [
        (9, 5, 2, ("at least ", "at least ")),
        (9, None, 2, ("at least ", "")),  # not "at least unknown"
        (None, None, 2, ("", "")),
        (9, 5, 0, ("", "")),
        (9, 5, None, ("", "")),  # of an analysis that did not count them
    ],
)
def test_bytes_of_a_part_are_the_least_where_any_are_known(
    held: int | None, freed: int | None, unmeasured: int | None, said: tuple[str, str]
) -> None:
    row = Blocker("g", "t", freed, None, 0, held, None, unmeasured)
    whole = replace(row, topic="u", unmeasured=0)
    for rows in ([row], [row, replace(row, topic="u")]):
        assert (at_least(rows, "bytes_held_alone"), at_least(rows)) == said
    assert at_least([whole], "bytes_held_alone") == at_least([whole]) == ""
