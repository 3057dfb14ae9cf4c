"""An archive in an object store: kept, proved and gone on with as in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.archive.manifest import Range, part_name, proof_name
from dashboard.archive.place import Place, begin, committed, end
from dashboard.core.clock import CLOCKS_AGREE, utc_now
from dashboard.core.errors import ArchiveError
from tests.support import s3
from tests.support.kept_log import KEY, TOPIC, KeptLog, data, run_of
from tests.unit.archive.test_keep import kept, records_in

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import s3fs  # an instance is kept by its arguments, and the server's address is none

    s3fs.S3FileSystem.clear_instance_cache()
    with s3.server(tmp_path) as endpoint:
        for name, value in s3.credentials(endpoint).items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem().mkdir("kept")
        yield "s3://kept/deep"


def test_a_bucket_keeps_what_a_folder_keeps(bucket: str) -> None:
    place, run = Place(bucket, lambda _: None), run_of(Range(TOPIC, 0, 0, 20))
    assert begin(place, "c1", "r1", lambda: run) == (run, True)
    log = KeptLog([data(0, 40)])
    found = kept(place, log, run=run)
    archive = found.committed[KEY]
    assert [row["offset"] for row in records_in(place, run)] == list(range(20))
    part = archive.parts[0]
    assert place.size_bytes(part_name("c1", "r1", KEY, part.file)) == part.size_bytes
    assert place.size_bytes("c1/r1/none") is None
    place.remove("c1/r1/orders/0/partition.json")
    place.remove(proof_name("c1", "r1", KEY, archive.parts[-1].first))
    assert committed(place, run, KEY) is None
    log.reads.clear()
    assert kept(place, log, run=run).committed[KEY].records == 20
    assert log.reads == [(archive.parts[-1].first, 20)]
    assert end(place, run, found.committed, ()).state == "whole"
    assert place.names("c1/r1") == ["archive.json", "orders"]


def test_a_bucket_that_is_not_there_stops_it_with_its_name(bucket: str) -> None:
    place = Place("s3://none/deep", lambda _: None)
    with pytest.raises(ArchiveError, match="s3://none/deep cannot be written"):
        kept(place, KeptLog([data(0, 40)]), fresh=True)


def test_a_bucket_tells_the_time_and_keeps_nothing_of_it(bucket: str) -> None:
    place = Place(bucket, lambda _: None)
    told = place.told_time()
    assert told is not None and abs(utc_now() - told) < CLOCKS_AGREE
    assert place.names() == []
