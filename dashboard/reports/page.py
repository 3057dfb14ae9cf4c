"""The storage report as one HTML page: with plots that answer the mouse, or for paper."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dashboard.core.visible import visible_cell
from dashboard.reports.drawing import LONGEST_LABEL, WIDTH, axis, draw, said
from dashboard.reports.parts import Bars, Report, short
from dashboard.views import formats


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
