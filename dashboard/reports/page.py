"""The storage report as one HTML page: with plots that answer the mouse, or for paper."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dashboard.core.visible import visible_cell
from dashboard.reports import plots
from dashboard.reports.drawing import WIDTH, draw
from dashboard.reports.parts import Report
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
        plotly=Markup(plots.script()) if interactive else "",
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
    made.globals["plot"] = lambda chart, name: Markup(plots.plot_html(chart, name))
    return made
