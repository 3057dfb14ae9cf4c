"""Is all there that Lowwater needs? One check per thing, with what its absence costs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

from dashboard.core.errors import SettingsError
from dashboard.core.java import find_java
from dashboard.core.network_folders import network_type
from dashboard.purge.journal.journal_head import HeadFile, journal_in
from dashboard.settings.settings import Settings

# Below this a snapshot of a large cluster, or Spark's shuffle, may not fit.
LEAST_FREE_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `ok` None: not checked. `costs` and `next` are empty when all is well."""

    name: str
    ok: bool | None
    detail: str
    costs: str = ""
    next: str = ""

    def to_json(self) -> dict[str, str | bool | None]:
        return asdict(self)


def local_checks(
    settings: Settings, data: str, environ: Mapping[str, str] = os.environ
) -> list[Check]:
    """What can be told without a cluster: Java, packages, folders, disk space, settings."""
    return [
        settings_file(settings),
        java(environ),
        package("pyspark", "analyze and watch cannot compute findings"),
        package("confluent-kafka", "the demo cannot produce or consume"),
        package("kafka-python", "no cluster can be read"),
        state_folder(settings),
        data_folder(data),
        free_space("disk-space", data),
    ]


def settings_file(settings: Settings) -> Check:
    """Which settings are in force; wrong ones end every verb before this is reached."""
    source = f"read from {settings.source}" if settings.source else "defaults, no lowwater.toml"
    if settings.read_only:
        return Check("settings", True, f"{source}; read_only is on: every purge is refused")
    return Check("settings", True, source)


def java(
    environ: Mapping[str, str] = os.environ,
    ask: Callable[[str], str] | None = None,
) -> Check:
    """Java 17 or newer, where Spark looks for it: JAVA_HOME first, then the path."""
    try:
        found = find_java(environ, ask)
    except SettingsError as error:
        costs = "analyze, watch and the demo cannot run"
        return Check("java", False, error.message, costs, error.next_step)
    return Check("java", True, f"{found.command} is version {found.major}")


def package(name: str, costs: str) -> Check:
    """Whether a Python package is installed, and which version; it is not imported."""
    try:
        return Check(name, True, f"version {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", costs, f"pip install {name}")


def folder(name: str, path: Path, costs: str) -> Check:
    """Whether files can be written there, or where it would be made; leaves nothing behind."""
    there = nearest_existing(path)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return Check(
            name,
            False,
            f"{path} cannot be written: {error.strerror or error}",
            costs,
            f"Correct the rights of {there}, free space there, or choose another folder.",
        )
    return Check(name, True, f"{path} is writable" + ("" if there == path else " (not made yet)"))


def state_folder(settings: Settings) -> Check:
    """Whether the journal can be written there, and lies on this machine."""
    name, costs = "state-dir", "purges cannot be journalled, so none can run"
    kind = network_type(settings.state_dir)
    if kind is not None and not settings.state_dir_on_network:
        said = f"{settings.state_dir} is on a network file system ({kind})"
        return Check(name, False, said, costs, "Choose a state_dir on a local disk.")
    found = _journal(folder(name, settings.state_dir, costs), settings.state_dir, costs)
    if kind is None:
        return found
    return replace(found, detail=f"{found.detail}; {kind}, as state_dir_on_network allows")


def _journal(found: Check, state_dir: Path, costs: str) -> Check:
    """That the journal and its head can be written where they are there already.

    A head that stays behind is no error of a purge: but a journal that is rolled back then is not
    told any more.
    """
    if not found.ok:
        return found
    journal = journal_in(state_dir)
    head = HeadFile(journal).path
    untold = "a journal that is rolled back is not noticed: its newest entry is kept there"
    for path, cost in ((journal, costs), (head, untold)):
        try:
            with suppress(FileNotFoundError):
                os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as error:
            said = f"{path} cannot be written: {error.strerror or error}"
            return replace(found, ok=False, detail=said, costs=cost, next="Correct its rights.")
    return found


def data_folder(data: str) -> Check:
    """The data folder: a local one is written to; a URL is only listed."""
    costs = "nothing can be collected or analyzed"
    if "://" not in data:
        return folder("data-dir", Path(data), costs)
    from dashboard.store.snapshots import Store

    try:
        store = Store(data)
        store.clusters()
    except Exception as error:  # each of fsspec's file systems raises its own
        return Check(
            "data-dir",
            False,
            f"{data} cannot be opened: {error}",
            costs,
            "Install the fsspec package of that URL and check its credentials.",
        )
    return Check("data-dir", True, f"{data} can be listed")


def free_space(name: str, data: str) -> Check:
    """Free bytes on the disk that snapshots go to."""
    if "://" in data:
        return Check(name, None, "a URL shows no free space")
    there = nearest_existing(Path(data))
    free = shutil.disk_usage(there).free
    gib = f"{free / 1024**3:.1f} GiB"
    if free >= LEAST_FREE_BYTES:
        return Check(name, True, f"{gib} free at {there}")
    return Check(
        name,
        False,
        f"only {gib} free at {there}",
        "snapshots and findings may stop being written",
        "Free space there, or choose another --data.",
    )


def nearest_existing(path: Path) -> Path:
    """The path itself, or its nearest parent that exists."""
    whole = path.absolute()
    return next(folder for folder in (whole, *whole.parents) if folder.exists())
