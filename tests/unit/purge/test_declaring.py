"""Declaring on the page: nothing that was declared is lost, and what is said to count counts."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.readers.topics import all_declarations, describe
from dashboard.core.errors import LowwaterError, RefusedError, SettingsError, StoreError
from dashboard.people.people import Actor, Who
from dashboard.purge.evidence import declaring, memory
from dashboard.purge.evidence.declaring import Said, declare, standing
from dashboard.purge.journal.journal import Journal
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings, load
from dashboard.settings.topics import declaration
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.sample_partitions import table_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BOB, ANN = (Actor(name, None, "local") for name in ("bob", "ann"))
WEEK = Said("team", "groups", "7d", "unknown", "asked")
_GLOB = """[topics."orders*"]
owner = "a"
readers = "groups"
declared_by = "a"
declared_at = 2026-01-01
reason = "x"
"""
_OTHER_PROCESS = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from dashboard.purge.evidence.declaring import Said, declare, standing
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store

folder, who = Path(sys.argv[1]), sys.argv[2]
settings = Settings(data=str(folder / "data"), state_dir=folder)
store = ClusterStore(Store(settings.data), "c1")
journal = Journal(folder / "journal.sqlite")
for number in range(20):
    topic = [f"{who}-{number}"]
    declare(settings, store, journal, Said("team", "groups", "7d", "unknown", "asked"),
            shown=standing(settings, store, topic), topics=topic, who=who, from_where="there",
            now=datetime.now(UTC))
"""


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    """With a snapshot of every topic that is declared here."""
    made = ClusterStore(Store(str(tmp_path / "data")), "c1")
    both = [f"{who}-{number}" for who in ("ann", "bob") for number in range(20)]
    showing(made, -1, dict.fromkeys(["orders", "clicks", "t", *both], "id-1"))
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"), state_dir=tmp_path)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def showing(store: ClusterStore, minutes: int, ids: dict[str, str | None]) -> None:
    """A snapshot of these topics."""
    at = NOW + timedelta(minutes=minutes)
    writer = store.begin("snapshots", at)
    rows = [
        {"topic_no": number, "topic": name, "topic_id": topic_id}
        for number, (name, topic_id) in enumerate(ids.items())
    ]
    writer.write("topics", table_of(SNAPSHOT_TABLES["topics"], rows, writer.id, at))
    writer.commit(0.1, {})


def say(
    settings: Settings, store: ClusterStore, journal: Journal, topic: str, said: Said = WEEK,
    *, shown: declaring.Standing | None = None, name: Who = "ann",
) -> None:  # fmt: skip
    shown = shown or standing(settings, store, [topic])
    declare(settings, store, journal, said, shown=shown, topics=[topic], who=name,
            from_where="here", now=NOW)  # fmt: skip


def windows(store: ClusterStore) -> dict[str, str]:
    return {row["glob"]: row["replay_window"] for row in store.declarations()}


def chained(journal: Journal) -> set[str]:
    found = [entry.body["topics"] for entry in journal.entries() if entry.kind == "declared"]
    return {topic for topics in found for topic in topics}


def test_of_two_who_wait_for_the_journal_at_once_neither_is_lost(
    settings: Settings, store: ClusterStore, journal: Journal, tmp_path: Path
) -> None:
    """Each had read the list before the journal was free, and wrote all of it afterwards."""
    failed: list[BaseException] = []

    def person(name: str, topic: str, window: str) -> None:
        own = Journal(tmp_path / "journal.sqlite")
        try:
            say(settings, store, own, topic, replace(WEEK, replay_window=window), name=name)
        except LowwaterError as error:
            failed.append(error)
        finally:
            own.close()

    people = [
        threading.Thread(target=person, args=who)
        for who in (("ann", "orders", "7d"), ("bob", "clicks", "0s"))
    ]
    with journal.file.write():  # a worker that writes a long step
        for thread in people:
            thread.start()
        for thread in people:
            thread.join(timeout=0.5)
    for thread in people:
        thread.join()
    assert failed == []
    assert windows(store) == {"orders": "7d", "clicks": "0s"}
    assert chained(journal) == {"orders", "clicks"}


@pytest.mark.further
def test_processes_that_declare_at_once_lose_nothing(
    store: ClusterStore, journal: Journal, tmp_path: Path
) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _OTHER_PROCESS, str(tmp_path), who])
        for who in ("ann", "bob")
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert len(windows(store)) == 40
    assert chained(journal) == set(windows(store))


def test_what_the_settings_declare_is_refused_naming_glob_and_file(
    settings: Settings, store: ClusterStore, journal: Journal, tmp_path: Path
) -> None:
    """The page said that it counts, and the glob without a replay window went on counting."""
    file = tmp_path / "lowwater.toml"
    file.write_text(_GLOB)
    shown = standing(settings, store, ["orders"])
    there = replace(load(file, {}), data=settings.data, state_dir=tmp_path)
    with pytest.raises(RefusedError) as refused:
        say(there, store, journal, "orders", shown=shown)
    assert refused.value.code == "DECLARED_IN_SETTINGS"
    assert '[topics."orders*"]' in refused.value.message and str(file) in refused.value.message
    assert "Edit it there" in refused.value.next_step
    assert (store.declarations(), chained(journal)) == ([], set())
    say(there, store, journal, "clicks")
    assert memory.declarations(there, store, ["clicks"])["clicks"].replay_window == timedelta(7)


def test_what_somebody_else_declared_since_it_was_shown_stands(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    shown = standing(settings, store, ["orders"])
    say(settings, store, journal, "orders", name="bob")
    with pytest.raises(RefusedError) as refused:
        say(settings, store, journal, "orders", replace(WEEK, replay_window="0s"), shown=shown)
    assert (refused.value.code, "by bob" in refused.value.message) == ("DECLARED_MEANWHILE", True)
    assert windows(store) == {"orders": "7d"}
    say(settings, store, journal, "orders", replace(WEEK, replay_window="0s"))
    assert windows(store) == {"orders": "0s"}


def test_a_topics_own_declaration_counts_before_a_glob_of_the_store(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    store.write_declarations([{"glob": "ord*", "owner": "a", "readers": "unknown"}])
    say(settings, store, journal, "orders")
    assert memory.declarations(settings, store, ["orders"])["orders"].replay_window == timedelta(7)
    assert set(windows_of(store)) == {"ord*", "orders"}


def windows_of(store: ClusterStore) -> list[str]:
    return [row["glob"] for row in store.declarations()]


def test_state_restore_stands_and_is_left_out_where_unknown(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    """An earlier release refuses a file with a key that it does not know."""
    say(settings, store, journal, "orders")
    assert "state_restore" not in store.declarations()[0]
    say(settings, store, journal, "orders", replace(WEEK, state_restore="none"))
    assert memory.declarations(settings, store, ["orders"])["orders"].state_restore == "none"


def of_id(store: ClusterStore, topic_id: str, minutes: int) -> None:
    """A snapshot in which topic `orders` has this id."""
    showing(store, minutes, {"orders": topic_id})


def test_what_was_said_of_a_topic_lets_nothing_go_of_one_made_anew_under_its_name(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    of_id(store, "id-1", 0)
    say(settings, store, journal, "orders", replace(WEEK, state_restore="none"))
    shown = standing(settings, store, ["orders"])
    assert shown.by_topic["orders"].readers == "groups"
    of_id(store, "id-2", 1)
    found = standing(settings, store, ["orders"]).by_topic["orders"]
    assert (found.readers, found.state_restore) == ("unknown", "unknown")
    assert found.replay_window == timedelta(7), "what keeps records goes on counting"
    with pytest.raises(RefusedError, match="another topic than the one of that name") as refused:
        say(settings, store, journal, "orders", shown=shown)
    assert refused.value.code == "DECLARED_MEANWHILE"
    say(settings, store, journal, "orders")
    assert standing(settings, store, ["orders"]).by_topic["orders"].readers == "groups"


@pytest.mark.parametrize("newest", [{"clicks": "id-2"}, {"orders": None}])
@pytest.mark.parametrize(
    "said",
    [
        Said("team", "groups", "7d", "unknown", "asked"),
        Said("team", "unknown", "7d", "none", "asked"),
        Said("team", "unknown", "1d", "unknown", "asked"),
    ],
)
def test_more_is_let_go_only_of_a_topic_whose_id_is_known(
    settings: Settings, store: ClusterStore, journal: Journal, newest: dict[str, str | None],
    said: Said,
) -> None:  # fmt: skip
    """It would count for the next topic that is made under the name, too."""
    keeps = replace(WEEK, readers="unknown")
    say(settings, store, journal, "orders", keeps)
    before = store.declarations()
    showing(store, 1, newest)
    with pytest.raises(RefusedError, match="topic id of orders") as refused:
        say(settings, store, journal, "orders", said)
    assert refused.value.code == "TOPIC_ID_UNKNOWN"
    assert "Collect" in refused.value.next_step
    assert store.declarations() == before
    say(settings, store, journal, "orders", replace(keeps, replay_window="8d"))
    assert windows(store) == {"orders": "8d"}


@pytest.mark.parametrize(
    ("glob", "page", "counts"), [("0s", "7d", 7), ("9d", "7d", 9), ("0s", None, 0)]
)
def test_the_longer_replay_window_of_settings_and_page_counts(
    settings: Settings, store: ClusterStore, journal: Journal, *, glob: str, page: str | None,
    counts: int,
) -> None:  # fmt: skip
    """A glob that was added to the settings let go what a team had declared that it rewinds to."""
    if page:
        say(settings, store, journal, "orders", replace(WEEK, replay_window=page, owner="page"))
    entry = {"owner": "file", "readers": "groups", "replay_window": glob}
    there = replace(settings, topics=(declaration("*", entry, "lowwater.toml"),))
    found = standing(there, store, ["orders"]).by_topic["orders"]
    assert (found.replay_window, found.owner) == (timedelta(days=counts), "file")
    rows = [{"topic_no": 0, "topic": "orders", "topic_id": "id-1", "is_internal": False}]
    declared = all_declarations(there, store.declarations())
    (row,) = describe(pa.Table.from_pylist(rows), declared).to_pylist()
    assert row["replay_window_ms"] == counts * 86_400_000


@pytest.mark.parametrize(
    ("glob", "page", "counts"),
    [
        ("ord*", "unknown", "unknown"),
        ("orders", "unknown", "groups"),
        ("ord*", "groups", "groups"),
        ("ord*", None, "groups"),
    ],
)
def test_a_glob_takes_nobodys_word_back_that_others_read_a_topic(
    settings: Settings, store: ClusterStore, journal: Journal, *, glob: str, page: str | None,
    counts: str,
) -> None:  # fmt: skip
    """Team B's job reads it without committing, and who wrote the glob had never heard of it."""
    restored = {"groups": "none", "unknown": "unknown"}
    if page:
        said = replace(WEEK, readers=page, state_restore=restored[page])
        say(settings, store, journal, "orders", said)
    entry = {"owner": "file", "readers": "groups", "state_restore": "none"}
    there = replace(settings, topics=(declaration(glob, entry, "lowwater.toml"),))
    found = standing(there, store, ["orders"]).by_topic["orders"]
    assert (found.readers, found.state_restore) == (counts, restored[counts])
    rows = [{"topic_no": 0, "topic": "orders", "topic_id": "id-1", "is_internal": False}]
    declared = all_declarations(there, store.declarations())
    (row,) = describe(pa.Table.from_pylist(rows), declared).to_pylist()
    assert row["readers_declared"] is (counts == "groups")


def test_an_earlier_release_reads_what_is_declared_of_an_id(store: ClusterStore) -> None:
    """It refuses a row with a key that it does not know."""
    row = {"glob": "orders", "owner": "a", "topic_id": "id-1"}
    store.write_declarations([row, {"glob": "old*", "owner": "b"}])
    written = json.loads((Path(store.path) / "declarations.json").read_text())
    assert written["topics"] == [{"glob": "orders", "owner": "a"}, {"glob": "old*", "owner": "b"}]
    assert store.declarations() == [row, {"glob": "old*", "owner": "b"}]


def test_nothing_is_chained_or_written_of_a_text_that_is_none(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    with pytest.raises(SettingsError, match="forever"):
        say(settings, store, journal, "orders", replace(WEEK, replay_window="forever"))
    assert (store.declarations(), chained(journal)) == ([], set())


def test_who_waits_too_long_is_told(
    settings: Settings, store: ClusterStore, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declaring, "_PATIENCE_SECONDS", 0.1)
    with declaring._alone(settings, store), pytest.raises(StoreError) as busy:
        say(settings, store, journal, "orders")
    assert busy.value.code == "DECLARATIONS_BUSY"
    assert (store.declarations(), chained(journal)) == ([], set())


def test_with_a_second_person_an_approver_alone_lets_policies_purge_more(
    settings: Settings, store: ClusterStore, journal: Journal
) -> None:
    two = PeopleSettings(operators=("bob",), approvers=("ann",), second_person=True)
    settings = replace(settings, people=two)
    more = [
        Said("team", "groups", "7d", "unknown", "asked"),
        Said("team", "unknown", "1d", "unknown", "asked"),
        Said("team", "unknown", "7d", "none", "asked"),
    ]
    strict = Said("team", "unknown", "7d", "unknown", "asked")
    say(settings, store, journal, "t", strict, name=BOB)
    for said in more:
        with pytest.raises(RefusedError) as refused:
            say(settings, store, journal, "t", said, name=BOB)
        assert refused.value.code == "ROLE_TOO_LOW"
    assert set(windows(store).values()) == {"7d"}
    for said in more:
        say(settings, store, journal, "t", said, name=ANN)
    say(settings, store, journal, "t", strict, name=BOB)
