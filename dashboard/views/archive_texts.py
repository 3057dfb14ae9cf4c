"""What page and command line say of the archive of a run: where it is, how far, whether proved."""

from __future__ import annotations

from dashboard.core.words import binary, duration, number, plural
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.receipt.model import KeptRecords


def archive_said(run: RunRow) -> str:
    """One sentence without its full stop; empty where no archive was asked for."""
    if run.options.archive is None:
        return ""
    found = run.archive
    if found is None:
        return f"archive {run.options.archive}: nothing is read yet"
    state = _state(found) if run.open or found.state != "reading" else "it was not finished"
    return f"archive {found.url.rstrip('/')}/{found.folder}: {state}"


def _state(found: KeptRecords) -> str:
    kept = f"{plural(found.records, 'record')}, {binary(found.size_bytes)} as stored"
    parts = f"{number(found.committed)} of {plural(found.partitions, 'partition')}"
    if found.state == "proved":
        return f"{kept}, each part read back and proved before anything was deleted"
    if found.state == "incomplete":
        return f"{kept}; {parts} are whole and proved, the others are not purged"
    if found.state == "failed":
        return f"it failed after {kept}; nothing more is deleted"
    share = found.offsets_done / found.offsets if found.offsets else 0
    to_go = found.seconds_to_go
    left = "" if to_go is None else f", about {duration(to_go)} to go"
    return f"{share:.0%} is read and proved ({kept}), {parts} are whole{left}"


def brought_back(*, kept: bool) -> str:
    """What becomes of records that are deleted: `kept` ones were archived before."""
    return "come back from their archive alone" if kept else "cannot be brought back"
