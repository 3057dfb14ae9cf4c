"""Java is looked for in one place, and its absence names what to install."""

from __future__ import annotations

import pytest

from dashboard.core.errors import SettingsError
from dashboard.core.processes import find_command, find_java


def test_missing_java_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(SettingsError, match="no java on the path") as caught:
        find_command({"PATH": "/nonexistent"})
    assert caught.value.code == "JAVA_MISSING"
    assert "apt-get install default-jre-headless" in caught.value.next_step


@pytest.mark.parametrize(
    ("answer", "code"),
    [('openjdk version "11.0.2"', "JAVA_TOO_OLD"), ("no program", "JAVA_BROKEN")],
)
def test_a_java_that_cannot_serve_is_refused_by_name(answer: str, code: str) -> None:
    with pytest.raises(SettingsError) as caught:
        find_java(ask=lambda _command: answer)
    assert caught.value.code == code


def test_a_later_java_is_taken_with_its_full_version() -> None:
    found = find_java(ask=lambda _command: 'openjdk version "21.0.3" 2024-04-16')
    assert (found.major, found.version) == (21, "21.0.3")
