"""Parts sealed with a key: they open with it and under their own name alone."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from dashboard.archive.manifest import Encryption
from dashboard.archive.sealing import METHOD, Sealer, opener, read_key
from dashboard.core.errors import ArchiveError, SettingsError

KEY = bytes(range(32))
ID = "630dcd2966c43366"  # sha256 of the key
NAME = "orders/0/part-00000000000000000000.parquet"


def test_a_part_opens_with_its_key_and_under_its_name_alone() -> None:
    sealer = Sealer(KEY)
    body = b"records" * 1000
    sealed = sealer.seal(body, NAME)
    assert sealer.unseal(sealed, NAME) == body
    assert b"records" not in sealed
    assert sealer.seal(body, NAME) != sealed, "a nonce of its own"
    with pytest.raises(ArchiveError, match="not what was sealed under this name"):
        sealer.unseal(sealed, NAME.replace("/0/", "/1/"))
    for at in (0, 40, len(sealed) - 1):  # the mark, the nonce, the tag
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(ArchiveError) as damaged:
            sealer.unseal(changed, NAME)
        assert damaged.value.code == "ARCHIVE_PART_UNREADABLE"
    with pytest.raises(ArchiveError, match="no sealed part"):
        sealer.unseal(b"PAR1", NAME)


def test_another_key_is_named_beside_the_one_that_is_needed() -> None:
    other = Sealer(bytes(32))
    with pytest.raises(ArchiveError, match=f"key {ID}.* key {other.key_id}") as wrong:
        other.unseal(Sealer(KEY).seal(b"", NAME), NAME)
    assert wrong.value.code == "ARCHIVE_KEY_WRONG"


@pytest.mark.parametrize(
    "written", [KEY, KEY.hex().encode() + b"\n", base64.b64encode(KEY) + b"\n"]
)
def test_a_key_is_bytes_hex_or_base64(tmp_path: Path, written: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(written)
    assert read_key(file) == Sealer(KEY)
    assert read_key(file).key_id == ID
    assert KEY.hex() not in repr(read_key(file)) and repr(KEY) not in repr(read_key(file))


@pytest.mark.parametrize("written", [None, b"", b"short", b"z" * 64, b"!" * 44, b"\xff" * 64])
def test_what_is_no_key_is_refused_without_showing_it(
    tmp_path: Path, written: bytes | None
) -> None:
    file = tmp_path / "key"
    if written is not None:
        file.write_bytes(written)
    with pytest.raises(SettingsError) as wrong:
        read_key(file)
    assert wrong.value.code == "ARCHIVE_KEY_INVALID"
    assert not written or written.decode("latin-1") not in wrong.value.message


def test_an_archive_says_which_key_it_needs(tmp_path: Path) -> None:
    sealed = Encryption(METHOD, ID)
    assert opener(None, None, "there") is None
    with pytest.raises(ArchiveError, match=ID) as missing:
        opener(sealed, None, "there")
    assert missing.value.code == "ARCHIVE_KEY_MISSING"
    file = tmp_path / "key"
    file.write_bytes(bytes(32))
    with pytest.raises(ArchiveError, match=f"there is sealed with key {ID}") as wrong:
        opener(sealed, file, "there")
    assert wrong.value.code == "ARCHIVE_KEY_WRONG"
    file.write_bytes(KEY)
    assert opener(sealed, file, "there") == Sealer(KEY)
