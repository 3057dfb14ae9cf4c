"""A bad input as data, and the small makers that its tables are written in."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.core.canonical import digest
from dashboard.core.clock import format_time, utc_now

Make = Callable[[pytest.MonkeyPatch], None]  # damages the world that is the working directory


@dataclass(frozen=True, slots=True)
class Case:
    """A bad input: how it is made, the words of the call, and the error it must end with.

    `word` must stand in the message. `PLAN`, `SHA`, `RUN` and `DIR` in `words` stand for those of
    the world. `may_make` are globs of files that the call may leave behind.
    """

    name: str
    make: Make | None
    words: str
    code: str
    exit: int
    word: str
    may_make: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> Case:
        return replace(self, name=f"{kind}: {self.name}")


def both(*makes: Make) -> Make:
    """One after the other."""

    def make(patch: pytest.MonkeyPatch) -> None:
        for each in makes:
            each(patch)

    return make


def text(path: str, body: str) -> Make:
    """A file with this text."""
    return raw(path, body.encode("utf-8", "surrogatepass"))


def raw(path: str, body: bytes) -> Make:
    """A file with these bytes."""

    def make(_: pytest.MonkeyPatch) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(body)

    return make


def toml(body: str) -> Make:
    """The settings file."""
    return text("lowwater.toml", body)


def env(**values: str) -> Make:
    """Environment variables."""

    def make(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setenv(name, value)

    return make


def no_env(*names: str) -> Make:
    """Without these environment variables."""

    def make(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            patch.delenv(name, raising=False)

    return make


def gone(pattern: str) -> Make:
    """The files and folders of a glob are removed."""

    def make(_: pytest.MonkeyPatch) -> None:
        for path in found(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return make


def folder(path: str) -> Make:
    """A folder stands where a file is wanted."""

    def make(_: pytest.MonkeyPatch) -> None:
        for at in [Path(path)] if "*" not in path else found(path):
            at.unlink(missing_ok=True)
            at.mkdir(parents=True)

    return make


def pipe_to(path: str, target: str) -> Make:
    """A symbolic link."""

    def make(_: pytest.MonkeyPatch) -> None:
        Path(path).unlink(missing_ok=True)
        Path(path).symlink_to(target)

    return make


def bytes_of(pattern: str, change: Callable[[bytes], bytes]) -> Make:
    """The files of a glob with changed bytes."""

    def make(_: pytest.MonkeyPatch) -> None:
        for path in found(pattern):
            path.write_bytes(change(path.read_bytes()))

    return make


def cut(pattern: str, keep: int) -> Make:
    """The first bytes of files are all there is."""
    return bytes_of(pattern, lambda body: body[:keep])


def json_of(pattern: str, change: Callable[[Any], Any]) -> Make:
    """JSON files after `change` of their value, which may also be changed in place."""

    def changed(body: bytes) -> bytes:
        value = json.loads(body)
        other = change(value)
        return json.dumps(value if other is None else other).encode()

    return bytes_of(pattern, changed)


def sealed(path: str, change: Callable[[dict[str, Any]], Any]) -> Make:
    """A plan or file of verdicts changed and given its own right sha256 again."""

    def again(document: dict[str, Any]) -> dict[str, Any]:
        document.pop("sha256")
        change(document)
        return {**document, "sha256": digest(document)}

    return json_of(path, again)


def put(*steps: Any) -> Callable[[Any], None]:
    """`put("a", 0, "b", value)`: document["a"][0]["b"] = value."""
    *way, last, value = steps

    def change(document: Any) -> None:
        at = document
        for step in way:
            at = at[step]
        at[last] = value

    return change


def drop(*way: Any) -> Callable[[Any], None]:
    """`drop("a", 0, "b")`: without document["a"][0]["b"]."""

    def change(document: Any) -> None:
        at = document
        for step in way[:-1]:
            at = at[step]
        del at[way[-1]]

    return change


def hours_ago(*names: str, hours: int = 30) -> Callable[[dict[str, Any]], None]:
    """These times of a document, so long ago; negative is ahead."""

    def change(document: dict[str, Any]) -> None:
        then = utc_now() - timedelta(hours=hours)
        for number, name in enumerate(names):
            document[name] = format_time(then + timedelta(hours=number * 24))

    return change


def parquet(pattern: str, change: Callable[[pa.Table], pa.Table]) -> Make:
    """Parquet files with another table in them, and their key-value metadata kept."""

    def make(_: pytest.MonkeyPatch) -> None:
        for path in found(pattern):
            table = pq.read_table(path)
            pq.write_table(change(table), path)

    return make


def footer(path: str, change: Callable[[dict[str, Any]], Any]) -> Make:
    """An inventory whose footer says something else."""
    from dashboard.inventory.loading import META_KEY

    def make(_: pytest.MonkeyPatch) -> None:
        table = pq.read_table(path)
        with pq.ParquetFile(path) as file:
            summary = json.loads(file.metadata.metadata[META_KEY])
        change(summary)
        with pq.ParquetWriter(path, table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({META_KEY: json.dumps(summary)})

    return make


def found(pattern: str) -> list[Path]:
    """What a glob names; there must be something."""
    paths = sorted(Path().glob(pattern))
    assert paths, f"nothing is called {pattern}"
    return paths


_CONNECTING = tuple(
    f"dashboard.{place}"
    for place in ("cluster.live", "purge.plan.drafts", "purge.forecast.forecast", "triage.answer")
)


def live(change: Callable[[Any], Any] = lambda _: None) -> Make:
    """A cluster in memory answers: topic `orders` with two partitions, group `a` at 60."""
    from tests.support.cluster import FakeCluster
    from tests.support.sample_store import CLUSTER_ID

    for place in _CONNECTING:  # before any is replaced: they take each other's
        import_module(place)

    def make(patch: pytest.MonkeyPatch) -> None:
        made = FakeCluster(2)
        made.id = CLUSTER_ID
        change(made)
        for place in _CONNECTING:
            patch.setattr(f"{place}.connect", lambda *_, **_more: nullcontext(made))

    return make


def sql(*statements: str) -> Make:
    """The journal after these statements."""

    def make(_: pytest.MonkeyPatch) -> None:
        with closing(sqlite3.connect("state/journal.sqlite")) as db, db:
            for statement in statements:
                db.execute(statement)

    return make
