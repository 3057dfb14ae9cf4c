"""What a click has made stays for a minute, so that the browser can fetch it. `web.py` alone uses
this, as it does the other parts of the page server.

Streamlit makes a download at the click, tells the browser its address, and deletes it with the
second run of any part of any page that ends then. Ours redraw parts every few seconds, for each who
looks: on a busy server, or behind a tunnel, the file was gone before it was asked for.
"""

from __future__ import annotations

import time

from streamlit.runtime.media_file_storage import MediaFileKind
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

STAYS_SECONDS = 60.0


class LastingFiles(MemoryMediaFileStorage):
    """Streamlit's storage, but for when files go. Its manager calls it one thread at a time."""

    def __init__(self, media_endpoint: str) -> None:
        super().__init__(media_endpoint)
        self._going: dict[str, float] = {}  # file id -> when it may go

    def load_and_get_id(
        self,
        path_or_data: str | bytes,
        mimetype: str,
        kind: MediaFileKind,
        filename: str | None = None,
    ) -> str:
        """The file's id; one that was to go, and is made again, stays."""
        file_id = super().load_and_get_id(path_or_data, mimetype, kind, filename)
        self._going.pop(file_id, None)
        return file_id

    def delete_file(self, file_id: str) -> None:
        """Let go of those whose time has passed; of this one in a while."""
        now = time.monotonic()
        self._going.setdefault(file_id, now + STAYS_SECONDS)
        for each in [each for each, until in self._going.items() if until <= now]:
            del self._going[each]
            super().delete_file(each)
