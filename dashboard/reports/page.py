"""The storage report as one HTML page, with plots that answer the mouse or on paper, and as PDF."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from types import ModuleType
from typing import Any, NoReturn

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dashboard.core import words
from dashboard.core.errors import ReportError
from dashboard.core.visible import visible_cell
from dashboard.reports.parts import Bar, Bars, Report, short
from dashboard.views import formats
from dashboard.views.colours import Meaning

# Where every piece of a bar chart lies, for a picture that needs no script and no browser.

WIDTH, LABELS, END = 960, 250, 90  # of the whole picture, left and right of its bars
_BAR_HEIGHT, _AXIS = 24, 26
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
    rows = tuple(_row(chart, bar, at * _BAR_HEIGHT, scale) for at, bar in enumerate(chart.bars))
    placed = tuple((LABELS + value * scale, said) for value, said in ticks)
    return Drawing(chart.title, len(rows) * _BAR_HEIGHT + _AXIS, rows, placed, chart.meanings)


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
    inner = _BAR_HEIGHT - 6
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
        ends.append((x + 6, top + _BAR_HEIGHT / 2 + 4, said(chart, sum(v for _, v in bar.parts))))
    return Row(
        short(bar.label, LONGEST_LABEL),
        bar.label,
        top + _BAR_HEIGHT / 2 + 4,
        tuple(boxes),
        tuple(ends),
    )


def html_page(report: Report) -> str:
    """Self-contained: no address is ever asked. Screens show plots, paper gets drawings."""
    return _rendered(report, interactive=True)


def paper_page(report: Report) -> str:
    """The same without any script, for the PDF."""
    return _rendered(report, interactive=False)


def _rendered(report: Report, *, interactive: bool) -> str:
    return _environment().get_template("report.html.j2").render(
        report=report,
        interactive=interactive,
        style=Markup(files("dashboard.reports").joinpath("report.css").read_text("utf-8")),
        plotly=Markup(script()) if interactive else "",
        width=WIDTH,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    """Autoescape stands on for every template; names come from the cluster."""
    made = Environment(
        loader=PackageLoader("dashboard.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["visible"] = visible_cell
    made.filters["utc"] = formats.utc
    made.globals["draw"] = draw
    made.globals["plot"] = lambda chart, name: Markup(plot_html(chart, name))
    return made


# A bar chart as plotly's own HTML: it says its values under the mouse.

_ROW, _AROUND = 26, 76  # pixels of a bar, and of axis and legend
_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def script() -> str:
    """plotly.js itself, once a page: 4.8 MB that need no network."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def plot_html(chart: Bars, name: str) -> str:
    """A `div` and the script that draws into it; `name` is its id."""
    from plotly.io import to_html

    found: str = to_html(
        {"data": _data(chart), "layout": _layout(chart)},
        validate=False,
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
        config={"displayModeBar": False, "responsive": True},
        default_width="100%",
    )
    return found


def _data(chart: Bars) -> list[dict[str, Any]]:
    """One trace per meaning. Bars stand by number: two labels may look the same."""
    traces = []
    for meaning in chart.meanings:
        found = [
            (at, value, f"{_plain(bar.label)}<br>{meaning.word}: {said(chart, value)}")
            for at, bar in enumerate(chart.bars)
            for kind, value in bar.parts
            if kind is meaning
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": meaning.word,
                "y": [at for at, _, _ in found],
                "x": [value for _, value, _ in found],
                "customdata": [told for _, _, told in found],
                "hovertemplate": "%{customdata}<extra></extra>",
                "marker": {"color": meaning.fill},
            }
        )
    return traces


def _layout(chart: Bars) -> dict[str, Any]:
    end, ticks = axis(chart)
    return {
        "barmode": "group" if chart.side_by_side else "stack",
        "height": _ROW * len(chart.bars) + _AROUND,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 28},
        "font": {"family": _FONT, "size": 12, "color": "#334155"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "bargap": 0.28,
        "showlegend": len(chart.meanings) > 1,
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "hoverlabel": {"align": "left", "namelength": -1},
        "xaxis": {
            "range": [0, end * 1.02],
            "tickvals": [value for value, _ in ticks],
            "ticktext": [told for _, told in ticks],
            "gridcolor": "#e2e8f0",
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis": {
            "tickvals": list(range(len(chart.bars))),
            "ticktext": [_plain(short(bar.label, LONGEST_LABEL)) for bar in chart.bars],
            "autorange": "reversed",
            "ticklabelstandoff": 6,
            "automargin": True,
            "fixedrange": True,
        },
    }


def _plain(label: str) -> str:
    """A name as plotly's text, which is markup: nothing in it is a tag."""
    return escape(visible_cell(label), quote=False)


# The storage report as PDF by WeasyPrint, which needs Pango on the machine.


def pdf(report: Report) -> bytes:
    """The report for paper. Raises ReportError PDF_UNAVAILABLE where Pango is missing."""
    made: bytes = _weasyprint().HTML(string=paper_page(report), url_fetcher=_refuse).write_pdf()
    return made


def problem() -> ReportError | None:
    """Why this machine cannot make a PDF; None when it can."""
    try:
        _weasyprint()
    except ReportError as error:
        return error
    return None


def _weasyprint() -> ModuleType:
    try:
        import weasyprint
    except (ImportError, OSError) as error:
        raise ReportError(
            f"a PDF cannot be made on this machine: {str(error).splitlines()[0]}",
            "Install Pango (Debian: apt-get install libpangoft2-1.0-0; macOS: brew install pango), "
            "or take --format html and print it.",
            code="PDF_UNAVAILABLE",
        ) from error
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of each glyph without font
    module: ModuleType = weasyprint
    return module


def _refuse(url: str) -> NoReturn:
    """Nothing is ever fetched: the page holds all there is."""
    raise ValueError(f"a report fetches nothing, not {url[:80]}")
