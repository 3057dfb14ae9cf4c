"""The report as a page: any name is text, nothing is fetched, paper needs no script."""

from __future__ import annotations

import re

import pytest

from dashboard.core.visible import visible_cell
from dashboard.reports.page import axis, draw, html_page, paper_page, plot_html
from dashboard.reports.parts import Bar, Bars
from dashboard.reports.storage import storage_report
from dashboard.views.colours import HELD, RECLAIMABLE
from tests.support import odd_store
from tests.unit.reports.sources import of_rows, of_store, of_topics

_ADDRESS = re.compile(r"""(?:src|href|action|data|poster)\s*=\s*["']?(?!#)[^"'>\s]""")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page and its paper, of a cluster with a group of 255 odd characters."""
    with pytest.MonkeyPatch.context() as patch:
        cluster = odd_store.write(tmp_path_factory.mktemp("data"), patch)
    report = storage_report(of_store(cluster))
    return html_page(report), paper_page(report)


def test_an_odd_name_is_text_and_no_markup(odd: tuple[str, str]) -> None:
    page, paper = odd

    for text in odd:
        assert "<b>💧" not in text
        assert "\x1b" not in text
        assert text.count("<script") == text.count("</script>")
    assert paper.count("&lt;/script&gt;&lt;b&gt;💧\\u202e") > 9
    assert "\u202e" not in paper
    assert visible_cell(odd_store.ODD)[:12] in paper
    assert len(page) > len(paper)


def test_paper_needs_no_script_and_nothing_is_fetched(odd: tuple[str, str]) -> None:
    page, paper = odd

    assert "<script" not in paper
    assert not _ADDRESS.findall(paper)
    for script in re.findall(r"<script[^>]*>", page):
        assert "src" not in script
    assert "default-src 'none'" in page


def test_a_name_of_a_cluster_without_topics_makes_a_page_too() -> None:
    page = paper_page(storage_report(of_rows()))

    assert "The cluster has no topics" in page
    assert "<svg" not in page
    assert "<table" not in page


def test_ten_thousand_topics_make_a_page_of_a_few_kilobytes() -> None:
    assert len(paper_page(storage_report(of_topics(10_000)))) < 60_000


@pytest.mark.parametrize("longest", [1, 1023, 1024, 7 * 2**30, 1000 * 2**30, 3 * 2**60])
def test_the_axis_has_round_ticks_that_fit(longest: int) -> None:
    chart = Bars("c", (Bar("a", ((RECLAIMABLE, longest),)),))

    end, ticks = axis(chart)

    assert end == pytest.approx(longest)
    assert 2 <= len(ticks) <= 6
    assert ticks[0][0] == 0
    assert all(value <= end for value, _ in ticks)


def test_bars_lie_in_their_row_and_the_parts_meet() -> None:
    chart = Bars("c", (Bar("a", ((RECLAIMABLE, 30), (HELD, 10))), Bar("b" * 90, ((HELD, 5),))))

    drawn = draw(chart)

    first, second = drawn.rows[0].boxes
    assert first.x + first.width == pytest.approx(second.x)
    assert first.width == pytest.approx(3 * second.width)
    assert second.x + second.width <= 960 - 90 + 0.01
    assert len(drawn.rows[1].label) < 40 < len(drawn.rows[1].whole)


def test_the_label_of_an_odd_name_fits_and_shows_every_character() -> None:
    (row,) = draw(Bars("c", (Bar(odd_store.ODD, ((HELD, 5),)),))).rows

    assert row.label.startswith("ü\\n\\t\\r\\x1b[2J")
    assert len(row.label) < 40


def test_parts_side_by_side_stand_under_each_other() -> None:
    drawn = draw(Bars("c", (Bar("a", ((RECLAIMABLE, 30), (HELD, 0))),), side_by_side=True))

    first, second = drawn.rows[0].boxes
    assert (first.x, second.width) == (second.x, 0)
    assert first.y + first.height == pytest.approx(second.y)
    assert [said for _, _, said in drawn.rows[0].ends] == ["30 B", "0 B"]


def test_a_plot_takes_no_name_for_markup() -> None:
    """plotly reads its texts as markup: a tag in a name must come as its letters."""
    chart = Bars("c", (Bar("<b>bold</b>&amp;", ((HELD, 5),)),))

    html = plot_html(chart, "p")

    assert html.count("&lt;b&gt;bold&lt;") == 2  # on the axis and under the mouse
    assert "&amp;amp;" in html
