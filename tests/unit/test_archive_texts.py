"""What page, command line and plan say of an archive."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import PlanError
from dashboard.core.words import duration
from dashboard.purge.evidence.estimates import archive_pace, pace_of
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.rows import Options, RunRow
from dashboard.purge.plan import words
from dashboard.purge.plan.plan import Estimate, Plan
from dashboard.purge.plan.preview import Pace, preview
from dashboard.purge.receipt.model import KeptRecords, Receipt
from dashboard.settings.archive import ArchiveSettings
from dashboard.settings.settings import Settings
from dashboard.views.archive_texts import archive_said
from tests.support.sample_plan import sample_plan

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HALF = KeptRecords(
    "s3://bucket/kept/", "c1/r1", "reading", AT, AT + timedelta(seconds=60), partitions=4,
    committed=1, offsets=3000, offsets_done=1500, offsets_before=500, records=1490,
    raw_bytes=3 << 20, size_bytes=2 << 20,
)  # fmt: skip

# Twenty seconds for half of its offsets: the others were proved by a worker before.
DONE = replace(
    HALF, state="proved", told_at=AT + timedelta(seconds=20), offsets=2000, offsets_done=2000,
    offsets_before=1000, records=2000, raw_bytes=80_000_000,
)  # fmt: skip


def run_with(found: KeptRecords | None) -> RunRow:
    options = Options(1, 1, 1, 1, archive="s3://bucket/kept/")
    return RunRow(
        "r1", "p", "s", "c1", "local", "wait-all", "running", "ann", "here", "", options, {}, AT,
        None, None, None, None, None, None, None, archive=found,
    )  # fmt: skip


WHERE = "archive s3://bucket/kept/c1/r1: "
KEPT = "1\u202f490 records, 2.0 MiB as stored"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            "reading",
            f"50% is read and proved ({KEPT}), 1 of 4 partitions are whole, about 90 s to go",
        ),
        ("proved", f"{KEPT}, each part read back and proved before anything was deleted"),
        (
            "incomplete",
            f"{KEPT}; 1 of 4 partitions are whole and proved, the others are not purged",
        ),
        ("failed", f"it failed after {KEPT}; nothing more is deleted"),
    ],
)
def test_a_run_says_where_its_records_are_and_whether_that_is_proved(state: str, said: str) -> None:
    assert archive_said(run_with(replace(HALF, state=state))) == WHERE + said


def test_a_run_that_ended_while_it_read_says_that_it_is_not_finished() -> None:
    assert archive_said(replace(run_with(HALF), state="cancelled")) == f"{WHERE}it was not finished"


def test_a_run_that_has_read_nothing_yet_says_where_it_will() -> None:
    assert archive_said(run_with(None)) == "archive s3://bucket/kept/: nothing is read yet"


def test_a_run_without_an_archive_says_nothing_of_one() -> None:
    run = replace(run_with(None), options=Options(1, 1, 1, 1))
    assert archive_said(run) == ""


def test_a_receipt_keeps_it_as_it_was() -> None:
    receipt = Receipt(archive=replace(HALF, state="proved"))
    assert Receipt.from_json(json.loads(json.dumps(receipt.to_json()))) == receipt
    assert "archive" not in Receipt().to_json()


def test_a_plan_without_an_archive_is_what_it_was_before_there_were_any() -> None:
    plain = sample_plan(AT)
    assert '"archive"' not in plain.to_json_text()
    kept = replace(plain, archive="s3://bucket/kept")
    assert kept.sha256 != plain.sha256
    assert Plan.from_json_text(kept.to_json_text(), "plan.json") == kept
    secret = replace(plain, archive="s3://me:word@bucket/kept")
    with pytest.raises(PlanError, match="password") as refused:
        Plan.from_json_text(secret.to_json_text(), "plan.json")
    assert "word@" not in refused.value.message


def test_the_preview_tells_what_will_be_read_and_how_long_that_takes() -> None:
    found = sample_plan(AT)
    sized = tuple(
        replace(p, estimate=Estimate(3 << 20, "history", {1: 1 << 20, 2: 1 << 20, 3: 1 << 20}))
        for p in found.partitions
    )
    kept = replace(found, archive="s3://bucket/kept", partitions=sized)
    free = len(kept.free_partitions)
    assert free
    view = preview(kept, AT, Pace(1 << 20))
    assert view.archive is not None
    assert (view.archive.size_bytes, view.archive.seconds) == (free << 20, free)
    body = view.to_json()["archive"]
    assert isinstance(body, dict)
    assert body["partitions"] == free
    (said,) = words.to_keep(view.archive)
    assert said.startswith("ARCHIVE s3://bucket/kept: at most ")
    assert said.endswith(f"that takes {duration(free)} at the rate that is set")
    earlier = [replace(HALF, state="reading"), None, *[DONE] * 7]
    pace = pace_of(earlier, None)
    assert pace == Pace(None, 5, 2e6, 50.0)
    archive = preview(kept, AT, pace).archive
    assert archive is not None
    by_records, by_bytes = archive.records / 50, (free << 20) / 2e6
    assert (archive.seconds, archive.seconds_high) == tuple(sorted((by_records, by_bytes)))
    assert words.to_keep(archive)[0].endswith(" as fast as 5 earlier archives here")
    limited = replace(pace, limit=1 << 10).seconds(free << 20, archive.records)
    assert limited == (free << 10, by_records), "no sooner than the rate allows"
    assert pace_of([HALF, replace(DONE, told_at=DONE.began_at)], None) == Pace()
    (unknown,) = words.to_keep(preview(kept, AT).archive)
    assert unknown.endswith("how long that takes, the first archive of this cluster tells")
    assert "archive" not in preview(found, AT).to_json()


def test_who_may_not_read_the_journal_plans_without_knowing_how_long_it_takes(
    tmp_path: Path,
) -> None:
    settings = Settings(state_dir=tmp_path, archive=ArchiveSettings(bytes_per_second=1 << 20))
    kept = replace(sample_plan(AT), archive="s3://bucket/kept")
    assert archive_pace(settings, kept) == Pace(1 << 20)
    journal_in(tmp_path).write_bytes(b"no journal of ours" * 100)
    assert archive_pace(settings, kept) == Pace(1 << 20)
    assert archive_pace(settings, sample_plan(AT)) == Pace()
