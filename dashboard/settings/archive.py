"""The settings section [archive]: where records are kept before a purge, and how they are read."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dashboard.core.errors import ArchiveError, SettingsError
from dashboard.settings.sections import per_gib_month
from dashboard.settings.values import lasting, path, section

_MIB = 2**20
_LEAST_PART, _LARGEST_PART = _MIB, 1024 * _MIB
_HIGHEST_LEVEL = 22  # of zstd
_MOST_READERS = 64


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """`url`: the archive of who names none. `part_bytes`: of records in a part, before they are
    compressed. `readers`: partitions side by side. `bytes_per_second`: of all readers, None: as
    fast as Kafka gives them. `most_time`: so much longer than others a run that archives may wait
    before it sends. `key_file`: of the key that seals new parts and opens those that were sealed
    with it, None: parts lie open. `keep_for`: `lowwater archives expire` deletes older ones of
    closed runs, None: none. `per_gib_month`: what the store costs, in the currency of [price];
    None: nobody said.
    """

    url: str | None = None
    part_bytes: int = 16 * _MIB
    readers: int = 4
    bytes_per_second: int | None = None
    zstd_level: int = 1
    most_time: timedelta = timedelta(days=1)
    key_file: Path | None = None
    keep_for: timedelta | None = None
    per_gib_month: float | None = None


def archive_settings(table: Any, where: str) -> ArchiveSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "archive", ArchiveSettings, where)
    found = ArchiveSettings(
        **own.values(ArchiveSettings),
        url=own.filled_or_none("url"),
        bytes_per_second=_rate(own.get(key), key, own.where)
        if (key := "bytes_per_second") in own
        else None,
        key_file=path(own.get(key), key, own.where) if (key := "key_file") in own else None,
        keep_for=lasting(own.get(key), key, own.where) if (key := "keep_for") in own else None,
        per_gib_month=per_gib_month(own.get(key), key, own.where)
        if (key := "per_gib_month") in own
        else None,
    )
    if found.url is not None:
        check_url(found.url)
    for name, value, low, high in (
        ("part_bytes", found.part_bytes, _LEAST_PART, _LARGEST_PART),
        ("readers", found.readers, 1, _MOST_READERS),
        ("zstd_level", found.zstd_level, 1, _HIGHEST_LEVEL),
    ):
        if not low <= value <= high:
            raise SettingsError(
                f"{own.where}: '{name}' = {value}", f"Write {name} as a number {low} to {high}."
            )
    return found


def _rate(value: Any, key: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < _MIB:
        raise SettingsError(
            f"{where}: '{key}' = {value!r}",
            f"Write {key} as bytes, {_MIB} (1 MiB) or more; leave it out for no limit.",
        )
    return value


def chosen(settings: ArchiveSettings, asked: str | bool | None) -> str | None:
    """Where an archive is asked for: a URL, or True for that of the settings; None or False:
    nowhere. A folder is told from the root, since a worker stands elsewhere, and must be there.

    Raises SettingsError, ArchiveError ARCHIVE_UNREACHABLE.
    """
    if asked is None or asked is False:
        return None
    url = settings.url if asked is True else asked
    if url is None:
        raise SettingsError(
            "an archive is asked for, and the settings name no place for one",
            'Name it with --archive URL, or write url = "s3://BUCKET/PREFIX" below [archive].',
            code="ARCHIVE_NOT_NAMED",
        )
    url = check_url(url).removeprefix("file://")
    if "://" in url:
        return url
    try:
        folder = Path(url).expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"the archive folder '{url}' is in a home folder that this machine does not have",
            "Write it as a path from the root.",
            code="ARCHIVE_URL_INVALID",
        ) from error
    if not folder.is_dir():
        raise absent(str(folder))
    return str(folder)


def absent(folder: str) -> ArchiveError:
    """A local archive's folder is never made: one that is not mounted would be made on the disk
    below, and what is written there lie hidden once it is.
    """
    return ArchiveError(
        f"the archive folder {folder} is not there",
        f"Mount what it lies on, or make it: mkdir -p {shlex.quote(folder)}",
        code="ARCHIVE_UNREACHABLE",
    )


def check_url(url: str) -> str:
    """The same; a URL with a user or password in it would go into plans and journals, and what lies
    in memory is no archive.

    Raises SettingsError ARCHIVE_URL_INVALID.
    """
    try:
        parts = urlsplit(url) if "://" in url else None
        said = "is empty" if not url.strip() else ""
        if "::" in url:  # of fsspec's: what stands before it hides who signs in
            said = "is a chain"
        elif parts is not None and parts.scheme == "memory":
            said = "ends with the process that writes"
        elif parts is not None and (parts.username or parts.password or parts.query):
            said = "has a user, password or query in it"
    except ValueError as error:
        said = f"is none: {error}"
    if said:
        shown = re.sub(r"//[^/@]*@", "//…@", url).split("?")[0]
        raise SettingsError(
            f"the archive URL '{shown}' {said}",
            "Write s3://BUCKET/PREFIX or a folder; credentials stand in the environment.",
            code="ARCHIVE_URL_INVALID",
        )
    return url
