"""A local folder in the few words of fsspec that the store speaks: fsspec itself loads slowly."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dashboard.core.errors import LowwaterError, StoreError


class LocalFiles:
    """fsspec's file system interface over plain files; every failure is an OSError."""

    protocol = ("file", "local")

    def ls(self, path: str, detail: bool = True, refresh: bool = True) -> list[dict[str, Any]]:
        """The entries of a folder with `name` and `type`; nothing is ever cached."""
        assert detail and refresh
        with os.scandir(path) as entries:
            return [
                {"name": e.path, "type": "directory" if e.is_dir() else "file"} for e in entries
            ]

    def exists(self, path: str) -> bool:
        """Not what cannot be told: since Python 3.14 `Path.exists` calls that absent."""
        try:
            Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def cat_file(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def open(self, path: str, mode: str = "rb") -> IO[Any]:
        return Path(path).open(mode)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        Path(path).mkdir(parents=True, exist_ok=exist_ok)

    def rm(self, path: str, recursive: bool = False) -> None:
        if recursive and Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink()

    def mv(self, path: str, to: str) -> None:
        """Give a file another name, at once."""
        Path(path).replace(to)

    def unstrip_protocol(self, path: str) -> str:
        """The path as a URL."""
        return f"file://{path}"


def open_files(root: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path in it without a slash at its end.

    Raises ValueError or ImportError when nothing here speaks that URL, StoreError when it cannot
    be opened.
    """
    if "://" in root or "::" in root:
        from dashboard.store.local_files import open_url

        return open_url(root)
    try:
        path = str(Path(root).expanduser().absolute())
    except RuntimeError as error:
        raise ValueError("this machine has no such home folder") from error
    if "\0" in path:
        raise ValueError("no folder has a zero byte in its name")
    return LocalFiles(), path


# A store at a URL (s3://bucket/prefix) through fsspec; what goes wrong there gets a name.
#
# Each of fsspec's file systems raises its own library's errors. Here they become StoreError
# STORE_UNREACHABLE, but for a file that is not there and for what is wrong with a file's content.

# They know no folders, so none is made (s3fs would make a bucket out of a slip of the pen), and
# a put is atomic. Nothing else but a local disk is written to.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"}


class UrlFiles:
    """The words of `LocalFiles` over one of fsspec's file systems; `root` is for messages."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root
        named = files.protocol
        self.protocol: tuple[str, ...] = (named,) if isinstance(named, str) else tuple(named)

    def ls(self, path: str, detail: bool = True, refresh: bool = True) -> list[dict[str, Any]]:
        """The entries of a folder with `name` and `type`."""
        with self._named():
            return list(self._files.ls(path, detail=detail, refresh=refresh))

    def info(self, path: str) -> dict[str, Any]:
        """What is known of a file or folder. FileNotFoundError when there is none."""
        with self._named():
            return dict(self._files.info(path))

    def exists(self, path: str) -> bool:
        if "file" in self.protocol:  # told as of the plain path, an OSError too
            return LocalFiles().exists(path)
        try:
            return bool(self.info(path))
        except FileNotFoundError:
            return False

    def cat_file(self, path: str) -> bytes:
        with self._named():
            return bytes(self._files.cat_file(path))

    def pipe_file(self, path: str, body: bytes) -> None:
        """Put a small file whole: on an object store a reader sees the old or the new one."""
        with self._named(writes=True):
            self._files.pipe_file(path, body)

    @contextmanager
    def open(self, path: str, mode: str = "rb") -> Iterator[IO[Any]]:
        with self._named(writes=mode != "rb"), self._files.open(path, mode) as file:
            yield file

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        with self._named(writes=True):
            if "file" in self.protocol:
                self._files.makedirs(path, exist_ok=exist_ok)
            elif not _OBJECT_STORES.intersection(self.protocol):
                raise StoreError(
                    f"{self._root} can be read but not written: a reader could see half a file",
                    "Choose a local folder or an object store: s3://, gs:// or abfs://.",
                    code="STORE_READ_ONLY",
                )

    def rm(self, path: str, recursive: bool = False) -> None:
        """Delete; what fails is an OSError: a pruning goes on with the next folder."""
        try:
            with self._named():
                if recursive:
                    self._files.rm(path, recursive=True)
                else:  # `rm` takes a path with brackets or stars for a pattern
                    self._files.rm_file(path)
        except StoreError as error:
            raise OSError(error.message) from error

    def mv(self, path: str, to: str) -> None:
        """Give a file another name; an object store copies it."""
        with self._named(writes=True):
            self._files.mv(path, to)

    def unstrip_protocol(self, path: str) -> str:
        """The path as a URL."""
        return str(self._files.unstrip_protocol(path))

    @contextmanager
    def _named(self, writes: bool = False) -> Iterator[None]:
        import pyarrow as pa

        away: tuple[type[Exception], ...] = (PermissionError, ConnectionError, TimeoutError)
        if writes:  # a bucket that does not exist
            away = (*away, FileNotFoundError)
        try:
            yield
        except away as error:
            raise _unreachable(self._root, error) from error
        except (OSError, LowwaterError, pa.ArrowException) as error:
            if type(error).__module__.startswith("aiohttp"):  # no connection; an OSError there
                raise _unreachable(self._root, error) from error
            raise
        except Exception as error:
            raise _unreachable(self._root, error) from error


def open_url(url: str) -> tuple[UrlFiles, str]:
    """The file system of a URL and the path in it.

    Raises ValueError or ImportError when no installed package speaks that URL, StoreError when
    its package cannot begin.
    """
    import fsspec

    try:
        # Another process writes: a listing of a moment ago may be wrong.
        files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ValueError, ImportError):
        raise
    except Exception as error:
        raise _unreachable(url, error) from error
    return UrlFiles(files, url), str(path).rstrip("/")


def _unreachable(root: str, error: Exception) -> StoreError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return StoreError(
        f"the store {root} cannot be reached: {lines[0]}",
        "Check its address and bucket, the network and the credentials; docs/spark-cluster.md "
        "names the variables.",
        code="STORE_UNREACHABLE",
    )
