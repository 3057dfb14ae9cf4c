"""Prints the one shell line that lists a broker's disk on a host without this program.

The output is lines of text. `#` lines frame it: a header with the log dirs as JSON, the time, and
per log dir the contents of its small files (`./FILE:LINE`, by grep) and then every file:
`TYPE <tab> bytes <tab> 512-byte blocks <tab> mtime <tab> path`. A name with a character that Kafka
never uses is replaced by `:INODE`, so no name can pretend to be a line of its own.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from dashboard.inventory.names import (
    CHECKPOINTS,
    LARGEST_METADATA,
    META,
    METADATA_LOG_PREFIX,
    PARTITION_METADATA,
    PLAIN_CHARACTERS,
    REMOTE_INDEX_CACHE,
)

HEADER = "#lowwater-listing"
VERSION = 1
AT, LOG_DIR, MISSING, CONTENTS, FILES, END = (
    "#at", "#dir", "#missing", "#contents", "#files", "#end",
)  # fmt: skip
UNREADABLE = "u"  # the letter of a folder that may not be opened, where find's own would be d

_ODD = f"-name '*[!{PLAIN_CHARACTERS}]*'"
_LEFT_OUT = rf"\( -path './{METADATA_LOG_PREFIX}*' -o -path './{REMOTE_INDEX_CACHE}' \)"
_STATE = r"\t%s\t%b\t%T@\t"


def shell_line(log_dirs: Sequence[str]) -> str:
    """One line for `sh`, with GNU find and any grep; it reads, and follows no link.

    Two walks: contents first, so that a reader knows a folder's topic id when its files come.
    """
    announced = shlex.quote(f"{HEADER} {VERSION} {json.dumps(list(log_dirs))}")
    parts = [
        "LC_ALL=C; export LC_ALL",
        rf"printf '%s\n' {announced}",
        rf"printf '{AT} %s\n' " + '"$(date -u +%Y-%m-%dT%H:%M:%SZ)"',
    ]
    for number, log_dir in enumerate(log_dirs):
        parts.append(
            f"if cd {shlex.quote(log_dir)}; then printf '{LOG_DIR} {number}\\n'; "
            f"{_contents()}; printf '{CONTENTS} %s\\n' \"$?\"; "
            f"{_files()}; printf '{FILES} %s\\n' \"$?\"; "
            f"else printf '{MISSING} {number}\\n'; fi"
        )
    parts.append(rf"printf '{END}\n'")
    return "(" + "; ".join(parts) + ")"


def _contents() -> str:
    small = " -o ".join(f"-path ./{name}" for name in (META, *CHECKPOINTS))
    blocks = LARGEST_METADATA // 512 + 1
    metadata = f"-path './*/{PARTITION_METADATA}' -size -{blocks}"
    return (
        rf"find . -mindepth 1 -maxdepth 2 \( {_LEFT_OUT} -o {_ODD} \) -prune -o "
        rf"-type f \( {metadata} -o {small} \) -exec grep -aH '' {{}} +"
    )


def _files() -> str:
    return (
        f"find . -maxdepth 2 {_LEFT_OUT} -prune -o "
        rf"{_ODD} -printf '%y{_STATE}%h/:%i\n' -prune -o "
        rf"-type d \( ! -readable -o ! -executable \) -printf '{UNREADABLE}{_STATE}%P\n' -prune -o "
        rf"-printf '%y{_STATE}%P\n'"
    )
