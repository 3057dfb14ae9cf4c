"""What a policy would have done in a week, as tasks tell it: each bucket moment by moment, packed,
and one task walks over what all told.

That one holds what all buckets told packed, some 30 bytes for each partition and moment, and one
moment as it is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics.bucket_view import BucketView
from dashboard.core.arrow import distinct
from dashboard.history.week.walk import Asked, Told, Walked, told, walked

# `moment`: a snapshot's id; null for the Lines of a bucket.
_PACKED = pa.schema([("moment", pa.string()), ("size", pa.int64()), ("body", pa.binary())])
_CODEC = "zstd"


def packed(view: BucketView, asked: Asked, sights: pa.Table) -> pa.Table:
    """The bucket's Lines, and what each moment tells of it. Raises StoreError."""
    lines, telling = told(view, asked, sights)
    rows = [_row(None, lines), *(_row(each.snapshot, each) for each in telling)]
    return pa.Table.from_pylist(rows, schema=_PACKED)


def _row(moment: str | None, value: object) -> dict[str, Any]:
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return {
        "moment": moment,
        "size": len(body),
        "body": pa.compress(body, codec=_CODEC, asbytes=True),
    }


def walked_over(found: Mapping[str, pa.Table], asked: Asked) -> dict[str, pa.Table]:
    """`walked`: the Walked of what all buckets told, in their order, or None.

    A moment that one of them could not read is left out.
    """
    week = found["week"]
    lines = list(_unpacked(week.filter(week["moment"].is_null())))
    came = walked(asked, lines, _moments(week, asked.read, len(lines)))
    return {"walked": pa.Table.from_pylist([_row(None, came)], schema=_PACKED)}


def _moments(week: pa.Table, snapshots: Sequence[str], buckets: int) -> Iterator[list[Told]]:
    for snapshot in snapshots:
        rows = week.filter(pc.fill_null(pc.equal(week["moment"], snapshot), False))
        if rows.num_rows == buckets:
            yield list(_unpacked(rows))


def _unpacked(rows: pa.Table) -> Iterator[Any]:
    for size, body in zip(rows["size"].to_pylist(), rows["body"], strict=True):
        yield pickle.loads(pa.decompress(body.as_buffer(), size, codec=_CODEC))


def walked_of(sums: Mapping[str, pa.Table]) -> Walked | None:
    """What `walked_over` gave."""
    found: Walked | None = next(_unpacked(sums["walked"]))
    return found


def _all(parts: pa.Table) -> pa.Table:
    return parts


# How the sums of several buckets become one, by name.
SUMMED: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "sights": distinct, "week": _all, "walked": _all,
}  # fmt: skip
