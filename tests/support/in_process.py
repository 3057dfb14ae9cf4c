"""The tasks of an analysis in the test's own process: the same kernels, files and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from analytics import tasks
from analytics.bucket_view import Place
from dashboard.store.snapshot_files import Manifest


def run(
    _spark: object,
    kernel: tasks.Kernel,
    place: Place,
    snapshot: Manifest,
    buckets: Sequence[int] | None = None,
    *,
    then: Callable[[tasks.Rows], tasks.Rows] | None = None,
) -> tasks.Done:
    """As `tasks.run`, one bucket after the other, and without Spark."""
    chosen = range(place.written.buckets) if buckets is None else buckets
    slots = len(chosen) if then else len(chosen) // tasks.AT_ONCE
    answers = [b for at in chosen for b in tasks.answer(kernel, place, snapshot, at, slots)]
    rows = pa.Table.from_batches(answers)
    if slots > 1 or then:
        each = rows["slot"].unique().to_pylist()
        rows = pa.concat_tables(
            [tasks.summed(rows.filter(pc.field("slot") == s), then) for s in each]
        )
    return tasks.done(rows)
