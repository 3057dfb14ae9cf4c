"""The journal in words: who decided what, and why."""

from __future__ import annotations

from typing import Any

from dashboard.purge.journal.rows import Entry, Verification
from dashboard.ui.timeline import SHOWN, entries_left_out, lines


def line(kind: str, **body: Any) -> Any:
    (found,) = lines([Entry(1, None, "2026-03-01T10:00:00.000Z", kind, body, "", "")], [])
    return found


def test_a_queued_run_tells_what_was_waived_and_lifted() -> None:
    found = line(
        "queued", who="ann", mode="wait-all", typed="purge orders on prod",
        partitions=[["orders", 0, 40]], waivers=[{"group_id": "dead", "reason": "gone since May"}],
        overrides=[{"name": "over-limit", "reason": "asked the team"}],
    )  # fmt: skip
    assert (found.who, found.topics) == ("ann", {"orders"})
    assert "waived dead: gone since May; lifted over-limit: asked the team" in found.said


def test_entries_of_older_journals_are_still_told() -> None:
    found = line("queued", mode="wait-all", typed="yes", partitions=[])
    assert found.said == "0 partitions in mode wait-all, confirmed by: yes"


def test_a_declaration_tells_topics_window_and_reason() -> None:
    found = line(
        "declared", who="ann", topics=["orders", "payments"], readers="groups",
        replay_window="24h", reason="asked every team",
    )  # fmt: skip
    assert (found.who, found.topics, found.run_id) == ("ann", {"orders", "payments"}, None)
    assert found.said == (
        "orders, payments: its groups are all its readers, replay window 24h: asked every team"
    )
    assert "unknown" in line("declared", topics=["a"], readers="unknown", reason="r").said


def test_what_sweeps_did_and_who_let_a_service_do_it() -> None:
    swept = line(
        "orphans", broker_id=2, log="/q/sweep.log", from_seq=3, to_seq=6,
        acts=[["moved", "/d", "t-0", 9], ["moved", "/d", "t-1", 9], ["deleted", "/d", "t-2", 9]],
    ).said  # fmt: skip
    assert swept == ("broker 2: 1 folder deleted, 2 folders moved; lines 3 to 6 of /q/sweep.log")
    on = line("orphans-on", broker_id=2, from_where="k2", typed="remove orphans", who="ann")
    assert (on.who, on.said) == ("ann", "on for broker 2 from k2: remove orphans")


def test_what_became_of_an_archive() -> None:
    of = {"cluster_id": "c", "run_id": "r", "url": "s3://kept/c/r", "who": "ann"}
    typed = {"typed": "delete the archive of run r on prod", "from_where": "host"}
    begun = line("archive-deleted", act="begun", records=1200, size_bytes=2048, **of, **typed)
    assert (begun.who, begun.cluster_id) == ("ann", "c")
    assert begun.said == (
        "s3://kept/c/r of run r (1\u202f200 records, 2.0 KiB): begins; confirmed by: delete the "
        "archive of run r on prod, from host"
    )
    expired = line("archive-deleted", act="begun", from_where="host", **of).said
    assert "it was kept for its time" in expired
    to = {"topic": "orders", "to_topic": "o2", "to_cluster_id": "d", "records": 3, **of}
    restored = line("archive-restored", act="done", whole=True, **to)
    assert restored.topics == {"orders"}
    assert restored.said == (
        "s3://kept/c/r, topic orders, into o2 of cluster d: 3 records, each as it was archived"
    )
    assert "not all as they were" in line("archive-restored", act="done", **to).said
    some = line("archive-restored", act="done", whole=True, only_partitions=[0, 2], **to)
    assert some.topics == {"orders"}
    assert "of cluster d, only partitions 0, 2: 3 records" in some.said


def test_moved_offsets_are_told_by_group_and_state() -> None:
    moves = [
        {"group_id": "dead", "topic": "orders", "partition": n, "state": "moved"} for n in (0, 1)
    ]
    found = line("move-answer", group_id="dead", moves=moves)

    assert found.said == "dead: 2 offsets moved"
    assert found.topics == {"orders"}


def test_the_switch_of_a_policy_tells_which_from_where_and_by_what_sentence() -> None:
    body = {"policy": "tidy", "definition_sha256": "0123456789abcdef", "from_where": "ops-1",
            "who": "ann", "typed": "switch on policy tidy on prod"}  # fmt: skip
    on = line("policy", enabled=True, **body)
    assert on.who == "ann"
    assert on.said == (
        "tidy switched on from ops-1, definition 01234567: switch on policy tidy on prod"
    )
    assert line("policy", enabled=False, **body).said == "tidy switched off from ops-1"


def test_a_run_of_a_policy_is_told_as_its() -> None:
    found = line("queued", who="policy tidy", mode="wait-all", policy="tidy", typed="",
                 partitions=[["orders", 0, 40]])  # fmt: skip
    assert found.said == "1 partition in mode wait-all, by policy tidy"


def test_what_was_archived_is_told_with_its_folder() -> None:
    found = line("archived", who="ann", through_seq=12, runs=4, folder="/backup")
    assert (found.who, found.run_id) == ("ann", None)
    assert found.said == "entries to 12 with 4 runs moved to /backup"


def test_a_timeline_that_is_cut_says_of_how_much() -> None:
    assert entries_left_out(Verification(SHOWN, ())) == ""
    assert entries_left_out(Verification(SHOWN, (), first_entry=900)) == ""
    said = entries_left_out(Verification(2820, (), first_entry=900)).replace("\u202f", "")
    assert said.startswith("of the newest 2000 of 2820 entries")


def test_a_dismissed_alert_tells_who_of_which_partitions_and_why() -> None:
    partitions = [["orders", 0, 40], ["orders", 1, 41]]
    found = line(
        "dismissed", who="bob", from_where="ops-1", why="it was deleted", partitions=partitions
    )
    assert (found.who, found.topics) == ("bob", {"orders"})
    assert found.said == "records that came back in 2 partitions, from ops-1: it was deleted"
