"""Seals parts of an archive with a key of the user's: AES-256-GCM over a part's whole bytes.

The key lies in a file that the settings name, and goes nowhere else; manifests name its id, by
which a wrong key is told from damage.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.core.errors import ArchiveError, SettingsError

if TYPE_CHECKING:
    from dashboard.archive.manifest import Encryption

METHOD = "aes-256-gcm"
_MAGIC = b"LWSEAL1\0"
_KEY_BYTES, _NONCE_BYTES = 32, 12
_MOST = 4096  # no key file is longer
# How keys are made: openssl rand -out FILE 32, rand -hex 32, rand -base64 32.
_HEX, _BASE64 = 2 * _KEY_BYTES, 44


@dataclass(frozen=True, slots=True)
class Sealer:
    """One key. A sealed part is a mark, the key's id, a nonce of its own, and the ciphertext with
    its tag; the part's name is authenticated with it.
    """

    key: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Tells keys apart, and nothing of them: the first 16 hex digits of the key's sha256."""
        return hashlib.sha256(self.key).hexdigest()[:16]

    def seal(self, body: bytes, name: str) -> bytes:
        """The part that lies in the store under `name`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        head, nonce = _MAGIC + self.key_id.encode(), secrets.token_bytes(_NONCE_BYTES)
        return head + nonce + AESGCM(self.key).encrypt(nonce, body, head + name.encode())

    def unseal(self, body: bytes, name: str) -> bytes:
        """What was sealed. Raises ArchiveError ARCHIVE_KEY_WRONG, ARCHIVE_PART_UNREADABLE."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        head = len(_MAGIC) + len(self.key_id)
        if body[: len(_MAGIC)] != _MAGIC or len(body) < head + _NONCE_BYTES:
            raise _damaged(name, "it is no sealed part")
        sealed_by = body[len(_MAGIC) : head].decode("ascii", "replace")
        if sealed_by != self.key_id:
            raise wrong_key(name, sealed_by, self.key_id)
        nonce, sealed = body[head : head + _NONCE_BYTES], body[head + _NONCE_BYTES :]
        try:
            return AESGCM(self.key).decrypt(nonce, sealed, body[:head] + name.encode())
        except InvalidTag as error:
            raise _damaged(name, "it is not what was sealed under this name") from error


def read_key(file: Path) -> Sealer:
    """The key in a file: 32 bytes, or these as hex or base64 in one line.

    Raises SettingsError ARCHIVE_KEY_INVALID, which shows nothing of what the file holds.
    """
    try:
        with file.open("rb") as opened:
            found = opened.read(_MOST)
    except (OSError, ValueError) as error:
        raise _invalid(file, getattr(error, "strerror", None) or "no file has this name") from error
    key = _key(found)
    if key is None:
        raise _invalid(file, f"it holds no key of {_KEY_BYTES} bytes")
    return Sealer(key)


def opener(encryption: Encryption | None, key_file: Path | None, where: str) -> Sealer | None:
    """What opens the parts of the archive that `where` names; None: they are not sealed.

    Raises ArchiveError ARCHIVE_KEY_MISSING, ARCHIVE_KEY_WRONG, and as `read_key` does.
    """
    if encryption is None:
        return None
    if key_file is None:
        raise ArchiveError(
            f"the archive {where} is sealed with key {encryption.key_id}, and no key is named",
            "Name the file with that key: key_file in [archive] of the settings.",
            code="ARCHIVE_KEY_MISSING",
        )
    sealer = read_key(key_file)
    if sealer.key_id != encryption.key_id:
        raise wrong_key(where, encryption.key_id, sealer.key_id)
    return sealer


def wrong_key(where: str, needed: str, found: str) -> ArchiveError:
    """Sealed with another key than that of the settings."""
    return ArchiveError(
        f"{where} is sealed with key {needed}, and key_file of the settings holds key {found}",
        f"Name the file that holds key {needed}: its sha256 begins so.",
        code="ARCHIVE_KEY_WRONG",
    )


def _key(found: bytes) -> bytes | None:
    if len(found) == _KEY_BYTES:
        return found
    line = found.strip()
    try:
        if len(line) == _HEX:
            return binascii.unhexlify(line)
        if len(line) == _BASE64:
            key = base64.b64decode(line, validate=True)
            return key if len(key) == _KEY_BYTES else None
    except ValueError:
        return None
    return None


def _invalid(file: Path, why: str) -> SettingsError:
    return SettingsError(
        f"key_file of [archive], {file}, cannot be used: {why}",
        "Make one with: openssl rand -hex 32 > FILE, and keep a copy where the archive is not.",
        code="ARCHIVE_KEY_INVALID",
    )


def _damaged(name: str, why: str) -> ArchiveError:
    return ArchiveError(
        f"{name} cannot be read: {why}",
        "Verify the archive (lowwater archives verify); restore the file from a copy.",
        code="ARCHIVE_PART_UNREADABLE",
    )
