"""When a disk is full, in words: likely, and between which days in nine cases of ten."""

from __future__ import annotations

import pyarrow as pa

from dashboard.core.arrow import records
from dashboard.core.words import LONGEST_DAYS, days_ahead
from dashboard.store.finding_rows import GrowthRow
from dashboard.views import formats

NEVER = "not filling up"
MAYBE = "may fill up"  # as likely it stands still: no day is told
Rates = dict[tuple[int | None, str | None], GrowthRow]


def of_disks(growth: pa.Table) -> Rates:
    """The rows of the findings table `growth` that are log dirs, not topics on them."""
    rows = records(growth.filter(growth["topic"].is_null()), GrowthRow)
    return {(row.broker_id, row.log_dir): row for row in rows}


def full_in(days: float | None) -> str:
    """`full in 9 h`; None: it does not grow."""
    return NEVER if days is None else f"full in {days_ahead(days)}"


def dated(row: GrowthRow) -> bool:
    """Whether a day is told: not where nine cases of ten hold one in which the disk never fills."""
    unsure = row.days_to_full_high is None and row.days_to_full_low is not None
    return row.days_to_full is not None and not unsure


def order(row: GrowthRow | None) -> tuple[int, float]:
    """Sorts by the day that is told; behind them those that may fill up, then all others alike."""
    if row is None or row.days_to_full is None:
        return 2, 0.0
    return (0, row.days_to_full) if dated(row) else (1, 0.0)


def likely(row: GrowthRow) -> str:
    """`full in 9 h`; that it may fill up where no day is told."""
    return MAYBE if row.days_to_full is not None and not dated(row) else full_in(row.days_to_full)


def between(low: float | None, high: float | None) -> str:
    """`7 d to 14 d`; without a latest day `not before 7 d`; empty where nothing is known."""
    if low is None:
        return ""
    if low > LONGEST_DAYS:
        return "not within a year"
    if high is None:
        return f"not before {days_ahead(low)}"
    first, last = days_ahead(low), days_ahead(high)
    return first if first == last else f"{first} to {last}"


def said(row: GrowthRow | None) -> str:
    """`full in 9 d (7 d to 14 d)`, or that it is not known."""
    if row is None or row.used_bytes_per_hour is None:
        return formats.UNKNOWN
    sure = between(row.days_to_full_low, row.days_to_full_high)
    return likely(row) + (f" ({sure})" if sure else "")
