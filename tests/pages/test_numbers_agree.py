"""What two places show of one thing is one number, on findings that the product made itself."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analytics import tasks
from dashboard.core.words import THIN_SPACE
from dashboard.exporter import own
from dashboard.reports.storage import storage_report
from dashboard.ui import making_room
from dashboard.views import formats
from tests.pages.conftest import Open, read, said
from tests.support import in_process, sample_store
from tests.support import lab as labs
from tests.support.lab import Lab, Snapshot
from tests.unit.reports.sources import NOW, of_store

SIZE = r">([0-9.]+ [KMG]iB)</abbr>"
PLAIN = r"([0-9.]+ [KMG]iB)"
MANY = 20_000


def snapshot(minute: int) -> Snapshot:
    """Topics that grow, one that shrinks, a guarded one, an unread one; disks that fill."""
    grown, found = minute * 400, Snapshot()
    for name, groups in {
        "orders": {"billing": 9_000 + grown, "slow": 4_000},
        "payments": {"ledger": 8_500 + grown, "gone": 1_500},
        "undeclared-clicks": {"web": 9_000},
        "unread": {},
    }.items():
        end = 10_000 + grown
        found.topic(name, end=end, size=end * 1_000, groups=groups)
    found.topic("guarded", end=5_000, size=5_000_000, groups={"web": 4_000}, isr=(1,))
    begin = 500 * minute
    found.topic(
        "purged", start=begin, end=10_000, size=(10_000 - begin) * 1_000, groups={"web": 10_000}
    )
    for group in ("billing", "slow", "ledger", "web"):
        found.group(group)
    used = 5 * 10**8 + minute * 7 * 10**6 + minute % 3 * 10**6
    found.tables["log_dirs"] = [
        {"broker_id": b, "log_dir": "/d1", "total_bytes": 10**9,
         "usable_bytes": 10**9 - used * b // 2}
        for b in (1, 2)
    ]  # fmt: skip
    return found


def with_many(found: Snapshot, minute: int) -> Snapshot:
    """Beside them MANY partitions, 20 a topic, of which each third has a group that is behind."""
    first = len(found.tables["topics"])
    for number in range(MANY // 20):
        topic_no, name = first + number, f"many-{number:04d}"
        found.tables["topics"].append(
            {"topic_no": topic_no, "topic": name, "topic_id": f"id-{name}", "is_internal": False}
        )
        found.tables["configs"] += [
            {"scope": "topic", "name": name, "key": key, "value": value}
            for key, value in (("cleanup.policy", "delete"), ("segment.bytes", "1000"))
        ]
        for partition in range(20):
            place = {"topic_no": topic_no, "partition": partition}
            end = 1_000 + 37 * number % 900 + 11 * partition + minute * (number % 7)
            found.tables["partitions"].append(
                {**place, "leader_id": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1, 2],
                 "log_start_offset": 0, "high_watermark": end, "last_stable_offset": end}
            )  # fmt: skip
            found.tables["replicas"] += [
                {"broker_id": broker, "log_dir": "/d1", **place, "size_bytes": 3 * end,
                 "is_future": False, "log_start_offset": 0, "log_end_offset": end}
                for broker in (1, 2)
            ]  # fmt: skip
            found.tables["group_offsets"] += [
                {"group_id": group, **place, "committed_offset": offset}
                for group, offset in (("web", end - 100), ("late", end // 3))
                if group == "web" or number % 3 == 0
            ]
    return found.group("late")


def made_in(folder: Path, *, many: bool) -> Lab:
    """A quarter of an hour of snapshots, and what the product's analysis makes of them."""
    made = labs.empty(folder)
    made.cluster.write_connection("127.0.0.1:9", None, "agreeing")
    for minute in range(15):
        if not many:
            made.write(snapshot(minute))
        elif minute % 7 == 0:
            made.minutes = minute
            made.write(with_many(snapshot(minute), minute))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "run", in_process.run)
        made.analyze()
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["few", "20,000 partitions"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Made once: pages only read it."""
    return made_in(tmp_path_factory.mktemp("agreeing") / "data", many=request.param)


@pytest.fixture
def lab(stored: Lab, tmp_path: Path) -> Lab:
    """The same, where the test's pages look."""
    (tmp_path / "data").symlink_to(Path(stored.cluster.path).parent)
    return stored


def the_one(text: str, pattern: str) -> str:
    """What a pattern finds, once: what is shown must be told apart by its words."""
    found = re.findall(pattern, text)
    assert len(found) == 1, (pattern, found)
    return str(found[0])


def column(app: AppTest, title: str) -> dict[str, int]:
    """Bytes of a column of Reclaimable's table, which shows them in MiB, by topic."""
    table = app.dataframe[0].value.dropna(subset=[title])
    return {t: round(v * 2**20) for t, v in zip(table["Topic"], table[title], strict=True)}


def report_rows(lab: Lab, section: str) -> list[list[str]]:
    found = next(s for s in storage_report(of_store(lab.cluster)).sections if s.name == section)
    return [[cell.text for cell in row] for row in found.tables[0].rows]


def exported(lab: Lab, family: str) -> dict[str, float]:
    """Samples of our own metrics, by their first label."""
    names = ("reclaimable", "blockers", "disks", "growth")
    read_now = lab.cluster.latest_analysis()
    tables = {name: lab.cluster.read("findings", read_now, name) for name in names}
    found = next(f for f in own.finding_families(tables, (), 100) if f.name == family)
    return {next(iter(s.labels.values())): s.value for s in found.samples}


@pytest.mark.further_but("few")
def test_the_large_numbers_are_the_reports(open_page: Open, lab: Lab) -> None:
    tiles = re.findall(
        r"<div><small>([^<]*)</small><b>(.*?)</b><small>([^<]*)</small></div>",
        said(open_page(variant=None)),
    )
    shown = [(a, re.sub("<[^>]*>", "", b), html.unescape(c)) for a, b, c in tiles]
    figures = storage_report(of_store(lab.cluster, now=NOW)).figures
    assert shown == [(f.label, f.value.text, f.note) for f in figures[:-1]]
    assert {"On disk", "Held back", "Fullest disk", "First disk full"} <= {row[0] for row in shown}


def test_what_can_be_given_back(open_page: Open, lab: Lab) -> None:
    overview, page = said(open_page(variant=None)), open_page("reclaimable", variant=None)
    totals, report = said(page), storage_report(of_store(lab.cluster, now=NOW))
    headline = "".join(words.text for words in report.headline)

    consumed = the_one(overview, SIZE + "</strong> are consumed by every known group")
    assert the_one(totals, SIZE + "</strong> consumed by every known group") == consumed
    assert headline.startswith(f"{consumed} are consumed by every known group")
    assert formats.size(sum(column(page, "Reclaimable").values())) == consumed
    assert formats.size(sum(exported(lab, "lowwater_reclaimable_bytes").values())) == consumed

    declared = the_one(overview, SIZE + "</strong> of it in topics whose <abbr")
    assert the_one(totals, SIZE + " of it free of <abbr") == declared
    assert f"{declared} of it in topics whose readers are declared" in headline

    once = the_one(overview, SIZE + ' leave <abbr title="[^"]*">at once</abbr>, in whole segments')
    assert formats.size(sum(column(page, "At once").values())) == once
    assert f"{once} leave at once" in report.headline_note

    without = {t: size for t, size in column(page, "At once").items() if t != "undeclared-clicks"}
    safest = formats.size(sum(without.values()))
    assert the_one(overview, f"Plan the safest: {PLAIN} at once") == safest


def test_what_guards_hold(open_page: Open, lab: Lab) -> None:
    pattern = PLAIN + r" below the targets are held by guards: under-replicated \((.*?) of 1 topic"
    (told,) = set(re.findall(pattern, said(open_page(variant=None))))
    assert re.findall(pattern, said(open_page("reclaimable", variant=None))) == [told]
    assert re.findall(pattern, storage_report(of_store(lab.cluster)).headline_note) == [told]


@pytest.mark.further_but("few-slow")
@pytest.mark.parametrize("group", ["slow", "gone"])
def test_what_a_group_holds_back_and_what_its_waiver_adds(
    open_page: Open, lab: Lab, group: str
) -> None:
    overview = read(said(open_page(variant=None)))
    held = the_one(overview, rf"\*\*{group}\*\* holds back {PLAIN}")
    assert formats.size(exported(lab, "lowwater_held_bytes")[group]) == held

    page = open_page("reclaimable", variant=None)
    box = page.checkbox(key=f"waive {group}")
    once = the_one(read(box.label), PLAIN)
    ticked = said(box.set_value(True).run())
    assert the_one(ticked, rf"\+<abbr title=\"[^\"]*\"{SIZE}</b> if {group} were waived") == held
    assert the_one(ticked, SIZE + " of it at once") == once
    (row,) = [row for row in report_rows(lab, "blockers") if row[0] == group]
    assert row[1] == once
    if f"if <b>{group}</b> were <abbr" in overview:
        assert the_one(overview, SIZE + "</strong> more would leave at once if") == once


@pytest.mark.further
@pytest.mark.parametrize("group", ["slow", "gone"])
def test_the_pages_of_a_group_and_of_its_topic_say_the_same(
    open_page: Open, lab: Lab, group: str
) -> None:
    held = formats.size(exported(lab, "lowwater_held_bytes")[group])
    own = said(open_page("group", variant=None, name=group))
    assert the_one(own, f"</strong> holds back <strong[^>]*><abbr[^>]*{SIZE}</strong>") == held
    once = the_one(own, SIZE + " would leave at once if it")
    assert the_one(own, f"Plan a purge without it: {PLAIN} more at once") == once

    topic = "orders" if group == "slow" else "payments"
    page = open_page("topic", variant=None, name=topic)
    assert the_one(read(said(page)), rf"\*\*{group}\*\* holds back {PLAIN}") == held
    assert the_one(page.button(key=f"waive {group}").label, f"{PLAIN} at once") == once
    table = open_page("reclaimable", variant=None)
    text = said(page)
    assert the_one(text, SIZE + " on disk in") == formats.size(column(table, "On disk")[topic])
    consumed = formats.size(column(table, "Reclaimable")[topic])
    assert the_one(text, SIZE + "</strong> consumed by every known") == consumed
    assert the_one(text, f"Plan a purge: {PLAIN} below its targets") == consumed
    assert formats.size(column(table, "At once")[topic]) == the_one(
        text, r">([0-9.]+ [KMG]?i?B)</abbr> of it would leave at once"
    )


@pytest.mark.further
def test_when_a_disk_is_full(open_page: Open, lab: Lab) -> None:
    overview, growth = said(open_page(variant=None)), said(open_page("growth", variant=None))
    for row in report_rows(lab, "disks"):
        name, full_in = f"{row[0]} · /d1", row[8]
        likely, _, between = full_in.partition(" (")
        assert likely not in (formats.UNKNOWN, "")
        of_disk = overview[overview.index(f">broker {row[0]}</a> · ") :].split(
            '<div class="lw-disk">'
        )[0]
        assert f">full in {likely}</abbr>" in of_disk and between.rstrip(")") in of_disk
        of_dir = growth[growth.index(f">broker {name}</abbr>") :].split("</tr>")[0]
        assert f"<b>{likely}</b>" in of_dir and between.rstrip(")") in of_dir


def test_growth_of_topics_and_what_is_not_kafkas_add_up_to_the_disks(
    open_page: Open, lab: Lab
) -> None:
    page = open_page("growth", variant=None)
    table = page.dataframe[0].value
    grown = dict(zip(table["Topic"], table["Growth/h"], strict=True))
    whole = grown.pop("the whole disk")
    assert sum(grown.values()) == pytest.approx(whole)
    assert grown.keys() > {"orders", "purged", "not Kafka's logs"} and grown["purged"] < 0
    in_table = the_one(said(page), r"<b>\+([0-9.]+) MiB</b>.*?</tr>.*?</tr>")
    assert float(in_table) == pytest.approx(whole, abs=0.05)


@pytest.mark.further_but("few")
def test_the_fleet_says_of_a_cluster_what_its_own_pages_say(open_page: Open, lab: Lab) -> None:
    own, fleet = said(open_page(variant=None)), said(open_page("fleet", variant=None))
    consumed = the_one(own, SIZE + "</strong> are consumed by every known group")
    assert the_one(fleet, SIZE + "</strong> are consumed by every known group") == consumed
    assert the_one(fleet, f'<a href="reclaimable" target="_self">{PLAIN}</a>') == consumed
    once = the_one(own, SIZE + ' leave <abbr title="[^"]*">at once</abbr>, in whole segments')
    assert the_one(fleet, SIZE + " at once<") == once
    guarded = the_one(own, "<br>([^<]* are held by guards: [^<]*)[.]</small>")
    assert the_one(fleet, '<abbr title="([^"]*)">guards hold more') == guarded
    for state in (">([^<]*brokers not known[^<]*)</abbr>", "(⚠ stale: [^<]*)<"):
        assert the_one(fleet, state) == the_one(own, state)


@pytest.mark.further
def test_a_disk_is_as_full_as_fast_and_as_easily_emptied_wherever_it_stands(
    open_page: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making_room, "FULL", 0.1)
    overview, fleet = said(open_page(variant=None)), said(open_page("fleet", variant=None))
    growth, rows = said(open_page("growth", variant=None)), report_rows(lab, "disks")
    fullest, _ = rows
    for row in rows:
        own = said(open_page("broker", variant=None, name=row[0]))
        free = the_one(own, rf"full</b>{PLAIN} free")
        assert the_one(own, SIZE + "</strong> can leave there at once") == the_one(
            own, rf"<b>{PLAIN}</b>can leave there at once"
        )
        of_dir = growth[growth.index(f">broker {row[0]} · /d1</abbr>") :].split("</tr>")[0]
        assert the_one(of_dir, SIZE + " free") == free
        share, until = the_one(own, "<b>([0-9]+%) full</b>"), f"full in {row[8]}"
        assert the_one(of_dir, "<b>([0-9]+%)</b><br>") == share
        if row is fullest:
            alarm = overview.split("needs room</h2>")[1].split("</div></div>")[0]
            assert f"<b>{share} full</b>{free} free" in alarm
            assert f"<b>{until.removeprefix('full in ')}</b>" in alarm
            at_once = the_one(alarm, rf"<b>{PLAIN}</b>can leave there at once")
            assert the_one(own, SIZE + "</strong> can leave there at once") == at_once
            assert f"<small>{until}</small>" in fleet and f"/d1, {share} full" in fleet


EXACT = '<abbr title="([0-9\u202f]+) bytes">[0-9.]+ [KMG]?i?B</abbr>'


def exactly(text: str, pattern: str) -> int:
    """All digits of what a pattern finds: they stand on hover."""
    return int(the_one(text, pattern).replace(THIN_SPACE, ""))


@pytest.mark.further_but("few")
def test_what_leaves_at_once_is_what_leaves_the_brokers(open_page: Open, lab: Lab) -> None:
    overview = said(open_page(variant=None))
    whole = exactly(overview, EXACT + ' leave <abbr title="[^"]*">at once</abbr>')
    leave = EXACT + "</strong> can leave there at once"
    on_each = [said(open_page("broker", variant=None, name=name)) for name in ("1", "2")]
    assert sum(exactly(own, leave) for own in on_each) == whole
    assert f"reclaimable {formats.size(whole)} at once" in overview


@pytest.mark.further
def test_orphans_are_as_many_bytes_on_each_page(open_page: Open, tmp_path: Path) -> None:
    cluster = sample_store.write(tmp_path / "data", "rich")
    overview, page = said(open_page()), said(open_page("orphans"))
    size = the_one(overview, SIZE + "</strong> in orphans")
    assert the_one(page, SIZE + "</strong> in 10 orphans") == size
    assert f"See the {size} in orphans" in overview and "All 10 orphans" in overview
    headline = storage_report(of_store(cluster)).headline
    assert size in "".join(words.text for words in headline)
    folders = 0
    for name in ("2", "3"):
        own = said(open_page("broker", name=name))
        count, there = re.findall(f"([0-9]+) folders?, {PLAIN}", own)[0]
        folders += int(count)
        assert the_one(own, f"</i>orphan {PLAIN}</span>") == there
    assert folders == 10


@pytest.mark.further
def test_slow_followers_are_as_slow_on_each_page(open_page: Open) -> None:
    page = said(open_page("followers", variant="rich"))
    told = re.findall(r"⚠ ((?:broker|follower[.]|no broker, disk).*?[.])</p>", page)
    overview = said(open_page())
    assert len(told) == 3 and all(f"\n{html.unescape(line)[:-1]}" in overview for line in told)
    assert int(the_one(told[0], "([0-9]+) of 40 replicas")) == slow_on(open_page, "3")
    whole = the_one(page, "([0-9]+) of 120 followers are slow")
    assert sum(slow_on(open_page, name) for name in ("1", "2", "3")) == int(whole)


def slow_on(open_page: Open, broker: str) -> int:
    """Slow replicas of a broker's own page, which lists five and counts them if there are more."""
    labels = [link.label for link in open_page("broker", name=broker).page_link]
    counted = re.findall("All ([0-9]+) slow replicas", "\n".join(labels))
    return int(counted[0]) if counted else sum(" behind" in label for label in labels)
