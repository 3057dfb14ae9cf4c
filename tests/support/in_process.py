"""The tasks of an analysis in the test's own process: the same kernels, files and answers."""

from __future__ import annotations

from collections.abc import Sequence

from analytics import tasks
from analytics.bucket_view import Place
from dashboard.snapshot_files import Manifest


def run(
    _spark: object,
    kernel: tasks.Kernel,
    place: Place,
    snapshot: Manifest,
    buckets: Sequence[int] | None = None,
) -> tasks.Done:
    """As `tasks.run`, one bucket after the other, and without Spark."""
    chosen = range(place.written.buckets) if buckets is None else buckets
    answers = (rows for at in chosen for rows in tasks.answer(kernel, place, snapshot, at))
    return tasks.done([row for rows in answers for row in rows.to_pylist()])
