"""A bit that flips in a table's values is told: it is never read as another number."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dashboard.core.errors import InventoryError, StoreError
from dashboard.inventory import loading
from dashboard.store.snapshots import Store
from tests.bad_inputs.cases.store import FINDINGS
from tests.bad_inputs.world import World


def flipped(path: Path) -> bytes:
    """The file with one bit of each column's first page of values changed."""
    body = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as parquet:
        group = parquet.metadata.row_group(0)
        for number in range(group.num_columns):
            column = group.column(number)
            start = column.dictionary_page_offset or column.data_page_offset
            body[start + column.total_compressed_size - 3] ^= 1
    return bytes(body)


def test_a_flipped_bit_of_findings_is_told(world: World) -> None:
    path = next(Path().glob(f"{FINDINGS}disks.parquet"))
    cluster = Store("data").cluster()
    assert cluster.read("findings", cluster.latest_analysis(), "disks").num_rows
    path.write_bytes(flipped(path))
    with pytest.raises(StoreError, match=r"disks\.parquet cannot be read") as caught:
        cluster.read("findings", cluster.latest_analysis(), "disks")
    assert caught.value.code == "STORE_UNREADABLE"


def test_a_flipped_bit_of_an_inventory_is_told(world: World) -> None:
    path = Path("1.inventory")
    assert loading.load(str(path)).broker_id == 1
    path.write_bytes(flipped(path))
    with pytest.raises(InventoryError, match="inventory") as caught:
        loading.load(str(path))
    assert caught.value.code == "INVENTORY_UNREADABLE"


def test_no_flipped_bit_of_values_is_read_as_another_value(world: World) -> None:
    """All but the footer, whose types and names are checked against the declared ones."""
    path = next(Path().glob(f"{FINDINGS}disks.parquet"))
    cluster = Store("data").cluster()
    analysis = cluster.latest_analysis()
    body, sound = path.read_bytes(), cluster.read("findings", analysis, "disks")
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    told = 0
    for at in range(4, footer, 23):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        try:
            assert cluster.read("findings", analysis, "disks").equals(sound), at
        except StoreError:
            told += 1
    assert told > footer // 23 // 4
