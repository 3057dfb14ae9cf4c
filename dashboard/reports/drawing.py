"""Where every piece of a bar chart lies, for a picture that needs no script and no browser."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.core import words
from dashboard.reports.parts import Bar, Bars, short
from dashboard.views import formats
from dashboard.views.colours import Meaning

WIDTH, LABELS, END = 960, 250, 90  # of the whole picture, left and right of its bars
_ROW, _AXIS = 24, 26
_PLOT = WIDTH - LABELS - END
LONGEST_LABEL = 38
_STEPS = (1, 2, 5)
_MOST_TICKS = 5
_BASE = 1024


@dataclass(frozen=True, slots=True)
class Box:
    """One part of a bar."""

    x: float
    y: float
    width: float
    height: float
    meaning: Meaning
    said: str


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: its label (short, whole), the middle of it, its parts, and what stands behind it."""

    label: str
    whole: str
    middle: float
    boxes: tuple[Box, ...]
    ends: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A whole chart in pixels of its own."""

    title: str
    height: float
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    meanings: tuple[Meaning, ...]


def draw(chart: Bars) -> Drawing:
    """The chart with its bars from top to bottom and round numbers on the axis."""
    end, ticks = axis(chart)
    scale = _PLOT / end
    rows = tuple(_row(chart, bar, at * _ROW, scale) for at, bar in enumerate(chart.bars))
    placed = tuple((LABELS + value * scale, said) for value, said in ticks)
    return Drawing(chart.title, len(rows) * _ROW + _AXIS, rows, placed, chart.meanings)


def said(chart: Bars, value: float) -> str:
    """A value with its unit."""
    return formats.size(value) if chart.unit == "bytes" else words.duration(value)


def unit(chart: Bars) -> tuple[str, float]:
    """The unit of the axis, and how much one of it is."""
    if chart.unit != "bytes":
        return chart.unit, 1
    names, size, at = ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), 1.0, 0
    while chart.longest >= size * _BASE and at < len(names) - 1:
        size, at = size * _BASE, at + 1
    return names[at], size


def axis(chart: Bars) -> tuple[float, list[tuple[float, str]]]:
    """The end of the axis, and its ticks: `(value, label)` at round numbers of the unit."""
    name, one = unit(chart)
    longest = max(chart.longest / one, 1e-9)
    step = _step(longest)
    count = int(longest / step)
    ticks = [(at * step * one, f"{at * step:g} {name}") for at in range(count + 1)]
    return longest * one, ticks


def _step(longest: float) -> float:
    power = 1.0
    while longest / power > _MOST_TICKS * 10:
        power *= 10
    while longest / power < _MOST_TICKS / 10:
        power /= 10
    for step in (power * ten * one for ten in (1, 10) for one in _STEPS):
        if longest <= step * _MOST_TICKS:
            return step
    return power * 100


def _row(chart: Bars, bar: Bar, top: float, scale: float) -> Row:
    boxes: list[Box] = []
    ends: list[tuple[float, float, str]] = []
    inner = _ROW - 6
    height = inner / len(bar.parts) if chart.side_by_side and bar.parts else inner
    x, y = float(LABELS), top + 3.0
    for meaning, value in bar.parts:
        if not value and not chart.side_by_side:
            continue
        told = f"{meaning.word}: {said(chart, value)}"
        boxes.append(Box(x, y, max(value * scale, 0), height, meaning, told))
        if chart.side_by_side:
            ends.append((x + value * scale + 6, y + height - 1, said(chart, value)))
            y += height
        else:
            x += value * scale
    if not chart.side_by_side:
        ends.append((x + 6, top + _ROW / 2 + 4, said(chart, sum(v for _, v in bar.parts))))
    return Row(
        short(bar.label, LONGEST_LABEL), bar.label, top + _ROW / 2 + 4, tuple(boxes), tuple(ends)
    )
