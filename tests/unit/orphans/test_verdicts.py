"""A file of verdicts says what was seen, and nothing else passes for one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import RefusedError, VerdictsError
from dashboard.orphans import verdicts
from dashboard.orphans.verdicts import VALID_FOR, Verdict, Verdicts
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
TOPIC_ID = "abcdefghijklmnopqrstuv"
STRAY = Verdict(
    3, "/data/a", "orders-0.5f3c-stray", "orders", 0, TOPIC_ID, "stray", 100, 4096,
    NOW - timedelta(days=9), "removable", "seen for 3 h, newest record 9 d old", None,
    scanned_at=NOW - timedelta(hours=3),
)  # fmt: skip
LATER = replace(STRAY, directory="bills-1.9a-stray", topic="bills", partition=1,
                verdict="scheduled", check_at=NOW + timedelta(hours=1))  # fmt: skip
UNNAMED = replace(STRAY, directory=None, topic_id=None, newest_at=None, allocated_bytes=None,
                  verdict="never", kind="moved-away")  # fmt: skip
FOUND = Verdicts(
    "C", "prod-eü", "a1", "s1", NOW, NOW, NOW + VALID_FOR, rows=(STRAY, LATER, UNNAMED)
)


def edited(**change: Any) -> str:
    """The file with changed top keys or, by `row`, changed keys of its first row; hashed anew."""
    document = json.loads(verdicts.write(FOUND))
    document.pop("sha256")
    document["rows"][0] |= change.pop("row", {})
    document |= change
    return canonical({**document, "sha256": digest(document)})


def test_a_written_file_reads_back_and_is_canonical() -> None:
    text = verdicts.write(FOUND)
    document = json.loads(text)

    assert verdicts.parse(text, "v.json", now=NOW) == FOUND
    assert text == canonical(document)
    assert document.pop("sha256") == digest(document) == FOUND.sha256
    assert document["version"] == 1
    assert document["expires_at"] == "2026-03-02T04:00:00.000Z"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":2}', '{"version":1}{', "\udcff"])
def test_what_is_no_file_of_verdicts_is_named(text: str) -> None:
    with pytest.raises((VerdictsError, RefusedError), match=r"v\.json"):
        verdicts.parse(text, "v.json", now=NOW)


def test_a_changed_file_is_refused() -> None:
    text = verdicts.write(FOUND).replace("orders-0.5f3c-stray", "orders-1.5f3c-stray")
    with pytest.raises(RefusedError) as caught:
        verdicts.parse(text, "v.json", now=NOW)
    assert caught.value.code == "VERDICTS_CHANGED"


def test_after_a_day_it_is_refused() -> None:
    text = verdicts.write(FOUND)
    last = NOW + VALID_FOR
    assert verdicts.parse(text, "v.json", now=last - timedelta(milliseconds=1)) == FOUND
    with pytest.raises(RefusedError) as caught:
        verdicts.parse(text, "v.json", now=last)
    assert caught.value.code == "VERDICTS_EXPIRED"


def test_what_was_seen_long_ago_gives_no_fresh_file(tmp_path: Path) -> None:
    """An analysis a month old was good for another day, each time that it was written down."""
    cluster = ClusterStore(Store(str(tmp_path)), "C")
    details = {"snapshot_id": "s1", "seconds": 1.0}
    row = {name: getattr(STRAY, name) for name in Verdict.__slots__}
    seen = {"now": NOW, "a month ago": NOW - timedelta(days=30), "to come": NOW + timedelta(days=3)}
    found = {}
    for when, taken_at in seen.items():
        rows = pa.Table.from_pylist([{**row, "taken_at": taken_at}])
        manifest = Manifest("a1", taken_at, {}, 1.0, details)
        found[when] = verdicts.of_table(cluster, manifest, rows, now=NOW)
    assert found["now"].expires_at == NOW + VALID_FOR
    assert found["a month ago"].expires_at == NOW - timedelta(days=29)
    assert found["to come"].expires_at == NOW + VALID_FOR
    with pytest.raises(RefusedError) as caught:
        verdicts.parse(verdicts.write(found["a month ago"]), "v.json", now=NOW)
    assert caught.value.code == "VERDICTS_EXPIRED"


def test_a_file_of_an_earlier_version_does_not_tell_when_folders_were_scanned() -> None:
    document = json.loads(verdicts.write(FOUND))
    document.pop("sha256")
    for row in document["rows"]:
        row.pop("scanned_at")
    text = canonical({**document, "sha256": digest(document)})
    assert [row.scanned_at for row in verdicts.parse(text, "v.json", now=NOW).rows] == [None] * 3


def test_a_file_of_an_earlier_version_is_no_fresher_than_what_it_is_of() -> None:
    month = replace(FOUND, taken_at=NOW - timedelta(days=30))
    with pytest.raises(RefusedError) as caught:
        verdicts.parse(verdicts.write(month), "v.json", now=NOW)
    assert caught.value.code == "VERDICTS_EXPIRED"


@pytest.mark.parametrize(
    "change",
    [
        {"rows": {}},
        {"rows": [{}]},
        {"cluster_id": None},
        {"more": 1},
        {"taken_at": "2026-03-01T04:00:00"},
        {"expires_at": "2027-03-02T04:00:00.000Z"},
        {"row": {"directory": "../../etc"}},
        {"row": {"directory": ".."}},
        {"row": {"directory": "."}},
        {"row": {"directory": "a/b"}},
        {"row": {"directory": "a\nb"}},
        {"row": {"directory": ""}},
        {"row": {"directory": None}},
        {"row": {"directory": LATER.directory}},
        {"row": {"log_dir": "data"}},
        {"row": {"log_dir": "/data/../etc"}},
        {"row": {"broker_id": -1}},
        {"row": {"broker_id": True}},
        {"row": {"broker_id": "3"}},
        {"row": {"partition": 1.0}},
        {"row": {"topic_id": None}},
        {"row": {"topic_id": "short"}},
        {"row": {"newest_at": None}},
        {"row": {"newest_at": 5}},
        {"row": {"size_bytes": -1}},
        {"row": {"size_bytes": 2**63}},
        {"row": {"allocated_bytes": None}},
        {"row": {"kind": "other"}},
        {"row": {"kind": "checkpoint-entry"}},
        {"row": {"verdict": "maybe"}},
        {"row": {"verdict": "scheduled"}},
        {"row": {"check_at": "2026-03-01T04:00:00.000Z"}},
        {"row": {"extra": 1}},
        {"row": {"reason": ""}},
    ],
    ids=str,
)
def test_a_file_with_anything_unforeseen_is_refused_even_if_its_hash_is_right(
    change: dict[str, Any],
) -> None:
    with pytest.raises(VerdictsError) as caught:
        verdicts.parse(edited(**change), "v.json", now=NOW)
    assert caught.value.code == "VERDICTS_INVALID"


def test_the_helper_of_this_test_changes_nothing_by_itself() -> None:
    assert edited() == verdicts.write(FOUND)
