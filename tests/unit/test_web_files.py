"""A file that a click has made stays until a browser has had the time to fetch it."""

from __future__ import annotations

import time

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.media_file_storage import MediaFileStorageError

from dashboard.web_files import STAYS_SECONDS, LastingFiles


def made(manager: MediaFileManager, data: bytes) -> str:
    """The name of the file that a click on a download makes."""
    file_id = manager.add_deferred(lambda: data, "text/html", "place", file_name="report.html")
    return manager.execute_deferred(file_id).rpartition("/")[2]


def test_a_download_outlives_what_pages_redraw_and_goes_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = LastingFiles("/media")
    manager = MediaFileManager(storage=storage)
    first = made(manager, b"one")
    for _ in range(5):  # parts of pages that redraw themselves
        manager.remove_orphaned_files()
    assert storage.get_file(first).content == b"one"

    assert made(manager, b"one") == first, "asked for again it stays again"
    later = time.monotonic() + STAYS_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    second = made(manager, b"two")
    for _ in range(2):
        manager.remove_orphaned_files()
    assert storage.get_file(first).content == b"one"
    monkeypatch.setattr(time, "monotonic", lambda: later + STAYS_SECONDS + 1)
    made(manager, b"three")
    for _ in range(2):
        manager.remove_orphaned_files()
    for gone in (first, second):
        with pytest.raises(MediaFileStorageError):
            storage.get_file(gone)
