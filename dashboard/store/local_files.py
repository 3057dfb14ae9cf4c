"""A local folder in the few words of fsspec that the store speaks: fsspec itself loads slowly."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, Any


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
        from dashboard.store.url_files import open_url

        return open_url(root)
    try:
        path = str(Path(root).expanduser().absolute())
    except RuntimeError as error:
        raise ValueError("this machine has no such home folder") from error
    if "\0" in path:
        raise ValueError("no folder has a zero byte in its name")
    return LocalFiles(), path
