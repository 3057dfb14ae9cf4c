"""How sure the slope of a straight line through samples is: the interval of a disk's growth.

The standard error of a least-squares slope, s / sqrt(Sxx) with s² = RSS / (n - 2), holds where each
sample is off by itself. A disk's used bytes are not like that: what came in a busy minute stays, so
neighbours are off alike, and that formula claimed nine of ten and held in one of ten. Two things
mend it, both from sums over the steps between neighbours, e being the residuals:

- neighbours alike by r: the variance times (1 + r) / (1 - r), the share of samples that count
  (Bartlett 1935); r from von Neumann's ratio (1941), 1 - Σ(Δe)² / (2 (n - 1) s²), raised by
  (2 + 16 r²) / n, since a line through few samples takes a part of what they have in common;
- never more than where each step adds to all before, a random walk: its slope has the variance
  6/5 σ² / T over a window of T, with σ² = Σ(Δe)² / Σdx (Durlauf and Phillips 1988).

With fewer than FEW samples r says nothing: then they count as a walk. Intervals are two-sided,
90 %, by Student's t with n - 2 degrees of freedom. They say how sure the slope of this
window is, not that the next day will be like it.
"""

from __future__ import annotations

import numpy as np

from analytics.replicas.panes import Floats, Spread
from dashboard.estimate.curves import Ints

FEW = 30
_LEAST = 3  # a line through two samples has no error
# The 95th percentile of Student's t with 1 to 4 degrees of freedom; above it an expansion serves.
_T = np.array([6.3138, 2.9200, 2.3534, 2.1318])
_Z = 1.6448536
_WALK = 6 / 5


def half_width(spread: Spread, n: Ints, seconds: Floats) -> Floats:
    """By how much each slope (per second) may be off, either way, in 9 cases of 10.

    NaN where it is not known: fewer than 3 samples, or sums that an older release did not carry.
    """
    known = (n >= _LEAST) & (spread.sxx > 0) & (spread.dx > 0) & (seconds > 0)
    count = np.where(known, n, _LEAST).astype(np.float64)
    sxx = np.where(known, spread.sxx, 1.0)
    slope = spread.sxy / sxx
    variance = np.maximum(spread.syy - slope * spread.sxy, 0.0) / (count - 2)
    steps = spread.dydy - 2 * slope * spread.dxdy + slope * slope * spread.dxdx
    steps = np.maximum(steps, 0.0) / np.where(known, spread.dx, 1.0)  # σ² of a walk
    alone = variance / sxx
    walk = _WALK * steps / np.where(known, seconds, 1.0) * (count - 1) / (count - 2)
    per_step = steps * np.where(known, seconds, 0.0) / (count - 2)
    alike = _alike(count, variance, per_step)
    # What neighbours have in common hides in the line, so the spread about it is too small.
    whole = np.maximum(variance, per_step / 2 / (1 - alike)) / sxx
    found = np.minimum(whole * (1 + alike) / (1 - alike), walk)
    found = np.maximum(np.where(n < FEW, walk, found), alone)
    return np.where(known, _student(count - 2) * np.sqrt(found), np.nan)


def _alike(count: Floats, variance: Floats, per_step: Floats) -> Floats:
    """The correlation of neighbouring residuals, 0 to just below 1."""
    ratio = per_step / (2 * np.where(variance > 0, variance, 1.0))
    seen = np.clip(1 - ratio, 0.0, 1.0)
    return np.asarray(np.clip(seen + (2 + 16 * seen * seen) / count, 0.0, 1 - 1e-9))


def _student(df: Floats) -> Floats:
    """The 95th percentile of Student's t (Abramowitz and Stegun 26.7.5)."""
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    found = z + sum(term / df ** (at + 1) for at, term in enumerate(terms))
    few = np.clip(df, 1, len(_T)).astype(np.int64) - 1
    return np.asarray(np.where(df <= len(_T), _T[few], found))
