"""Offered command lines hold every name as one word, whatever a shell would make of it."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from dashboard.core.errors import StoreError
from dashboard.core.visible import in_quotes, json_pair, pair, visible_cell, visible_json
from dashboard.store.snapshots import Store


@pytest.mark.parametrize(
    "text", ["purge orders on prod", "purge a on $(id)", "it's", 'a "b"', "x`id`", "a\\", "a!b"]
)
def test_a_sentence_to_repeat_is_one_word_that_a_shell_leaves_as_it_is(text: str) -> None:
    offered = in_quotes(text)
    ran = subprocess.run(["bash", "-c", f"printf %s {offered}"], capture_output=True, check=True)
    assert ran.stdout.decode() == text
    assert "!" not in text or offered.startswith("'")  # a shell that is typed into expands it


def test_plain_names_keep_their_plain_look() -> None:
    assert in_quotes("purge orders on prod") == '"purge orders on prod"'
    assert pair("billing", before="share-group:") == '"share-group:billing=WHY"'
    assert pair("a=b") == """'"a=b"=WHY'"""
    assert json_pair("a", "why") == """'"a"=why'"""


def test_json_of_what_steers_reads_back_as_the_same() -> None:
    assert visible_json('"a\u202eb\x9b\ufeff\U000e0041"') == (
        '"a\\u202eb\\u009b\\ufeff\\udb40\\udc41"'
    )


def test_a_name_that_shows_nothing_shows_its_escape() -> None:
    for unseen in "\u061c\ufeff\u200b\u200d\u2060\xad\u180e\U000e0020":
        assert visible_cell(f"a{unseen}b") == f"a{ascii(unseen)[1:-1]}b"
    assert visible_cell("1\u202f234 ü 日本 🎉") == "1\u202f234 ü 日本 🎉"


def test_the_data_folder_of_a_next_step_is_one_word(tmp_path: object) -> None:
    root = f"{tmp_path}/a b;id"
    with pytest.raises(StoreError) as missing:
        Store(root).cluster()
    assert shlex.split(missing.value.next_step)[-2:] == ["--data", root]
