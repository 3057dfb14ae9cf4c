"""Keys, values and headers of records as text, JSON or hex: cut, and told from null and empty."""

from __future__ import annotations

import json

import pytest

from dashboard.cli import output
from dashboard.domain.records import Content, Form, LookedAt, Record
from dashboard.ui.purge import looking
from dashboard.views import records
from tests.support.records import HOSTILE, content, looked_at, record


@pytest.mark.parametrize(
    ("held", "form", "line"),
    [
        (None, "text", "null"),
        (content(b""), "text", '""'),
        (content(b"null"), "text", '"null"'),
        (content("zwölf".encode()), "text", '"zwölf"'),
        (content(b"\xff\x00"), "text", "0xff00"),
        (content(b"ab"), "hex", "0x6162"),
        (content(b"abcdefgh"), "hex", "0x616263…"),
        (content(b"abcdefgh"), "text", '"abcdef"…'),
        (content("aé".encode()[:2], whole=3), "text", '"a"…'),  # the cut went through a letter
        (content(b'{"a":  1}'), "json", '{"a":1…'),
        (content(b"[1, 2]"), "json", "[1,2]"),
        (content(b"[1e400]"), "json", "[1e400…"),
        (content(b'"a  b"'), "json", '"a  b"'),
        (content(b"{NaN}"), "json", '"{NaN}"'),
        (content(b"[NaN]"), "json", '"[NaN]"'),
        (content(b"[" * 6), "json", '"[[[[[["'),
        (content(b"[1, 2]", whole=70_000), "json", '"[1, 2]"…'),
        (Content(2048, None), "text", "2.0 KiB"),
    ],
)
def test_a_content_in_one_line(held: Content | None, form: Form, line: str) -> None:
    assert records.line(held, form, 6) == line


def test_json_that_nests_too_deep_is_text() -> None:
    deep = content(b"[" * 60_000)
    assert records.shown(deep, "json", 3) == ("text", "[[[", True)


@pytest.mark.parametrize(
    ("timestamp_ms", "line"),
    [
        (0, "1970-01-01T00:00:00.000Z append"),
        (1_772_337_600_000_000, "1772337600000000 ms append"),  # microseconds by mistake
        (None, "none"),
    ],
)
def test_a_time_or_the_number_that_is_none(timestamp_ms: int | None, line: str) -> None:
    made = Record(1, timestamp_ms, "append", None, None, ())
    assert records.time_line(made) == line


def test_headers_are_named_and_many_are_counted() -> None:
    few, many = record(1, None).headers, record(1, None).headers * 6
    assert records.headers_line(few).endswith("none=null")
    assert records.headers_line(many).endswith(", 4 more")


def test_a_lone_record_is_the_first_one_and_counted_once() -> None:
    lone = record(7, None)
    found = LookedAt("t", 0, 7, 8, first=lone, last=lone)
    assert records.places(found) == [("first", lone)]


def test_what_was_read_is_told_by_place_with_its_bytes() -> None:
    found = looked_at()
    assert [place for place, _ in records.places(found)] == ["first", "sampled", "last"]
    told = records.to_json(found, "json")
    first, sampled, last = told["first"], told["sampled"], told["last"]
    assert isinstance(first, dict) and isinstance(last, dict) and isinstance(sampled, list)
    assert first["value"] == {"bytes": 10, "form": "json", "shown": '{"a":1.0}', "cut": False}
    assert last["value"] == {"bytes": 2, "form": "hex", "shown": "ff00", "cut": False}
    assert (sampled[0]["value"], sampled[0]["key"]) == (None, None)
    assert last["key"] == {"bytes": 0, "form": "text", "shown": "", "cut": False}
    assert first["time"] == "2026-03-01T04:00:00.000Z"
    assert first["size_bytes"] == 10 + 3 * len(HOSTILE.encode()) + len("none")


def test_values_that_were_not_asked_for_have_no_characters() -> None:
    told = json.dumps(records.to_json(looked_at(values=False), None))
    assert '"value": {"bytes": 10}' in told
    assert "1.0" not in told and "ff00" not in told


def test_nothing_in_a_record_steers_a_page_or_a_terminal() -> None:
    html = looking.found_html(looked_at(), "text")
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    steering = {"\x1b", "\u202e"}
    assert not steering & {*html} and "<b>" not in html
    printed = output.to_json(records.to_json(looked_at(), "text"))
    assert not steering & {*printed}
    assert json.loads(printed)["first"]["headers"][0]["name"] == HOSTILE


def test_an_error_says_why_before_what_was_read() -> None:
    found = LookedAt("orders", 3, 1, 9, error="TIMED_OUT", why="not all of it")
    assert records.heading(found) == "orders-3: TIMED_OUT: not all of it"
    assert 'class="lw lw-state warn"' in looking.found_html(found, None)
