"""Settings of what runs for long are those that their file has now, or an error that says why."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from analytics import __main__ as analysis
from analytics.job import Analyzed
from dashboard.core.errors import RefusedError, SettingsError
from dashboard.people import people
from dashboard.settings import settled_file
from dashboard.settings.current import CurrentSettings, each_second, why_read_only
from dashboard.settings.settings import Settings, load, load_pinned

WINDOW = '[topics."orders"]\nowner = "a"\nreaders = "groups"\nreplay_window = "{}h"\n'
WINDOW += 'declared_by = "a"\ndeclared_at = 2026-03-01\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "lowwater.toml"
    found.write_text(WINDOW.format(1))
    return found


def window(settings: Settings) -> timedelta:
    (declared,) = settings.topics
    return declared.replay_window


def test_each_look_sees_what_the_file_says(file: Path) -> None:
    current = CurrentSettings(load(file, {}), {})
    assert window(current.get()) == timedelta(hours=1)
    assert current.get() is current.get(), "what did not change is not read twice"
    file.write_text(WINDOW.format(2))  # as long as before, and within the same tick of the clock
    assert window(current.get()) == timedelta(hours=2)


def test_a_client_config_that_changed_counts_though_the_file_that_names_it_did_not(
    tmp_path: Path,
) -> None:
    """As when a Secret is rotated and its ConfigMap is not."""
    file, config = tmp_path / "lowwater.toml", tmp_path / "client.properties"
    config.write_text("sasl.password=old\n")
    file.write_text(f'[clusters.prod]\n"bootstrap.servers" = "h:1"\n"client.config" = "{config}"\n')
    current = CurrentSettings(load(file, {}), {})
    assert current.get().clusters["prod"]["sasl.password"] == "old"
    assert current.get() is current.get(), "what did not change is not read twice"
    config.write_text("sasl.password=new\n")
    assert current.get().clusters["prod"]["sasl.password"] == "new"
    config.unlink()
    with pytest.raises(SettingsError) as gone:
        current.get()
    assert gone.value.code == "CLIENT_CONFIG_UNREADABLE"
    other = tmp_path / "other.properties"
    other.write_text("sasl.password=third\n")
    file.write_text(file.read_text().replace(str(config), str(other)))
    assert current.get().clusters["prod"]["sasl.password"] == "third"
    other.write_text("sasl.password=fourth\n")
    assert current.get().clusters["prod"]["sasl.password"] == "fourth"


@pytest.mark.parametrize("wrong", ["[topics", "every = 5", None])
def test_a_file_that_is_wrong_by_now_is_an_error_until_it_is_mended(
    file: Path, wrong: str | None
) -> None:
    current = CurrentSettings(load(file, {}), {})
    current.get()
    if wrong is None:
        file.unlink()
    else:
        file.write_text(wrong)
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"lowwater\.toml"):
            current.get()
    file.write_text(WINDOW.format(3))
    assert window(current.get()) == timedelta(hours=3)


def test_half_a_file_is_not_believed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_file, "QUIET_SECONDS", 0.2)
    whole = "read_only = false\n" + WINDOW.format(24)
    current = CurrentSettings(load(file, {}), {})
    file.write_text("read_only = false\n")  # the window that protects is still to come
    writing = threading.Timer(0.05, lambda: file.write_text(whole))
    writing.start()
    assert window(current.get()) == timedelta(hours=24)
    writing.join()


@pytest.mark.parametrize("name", ["data", "state_dir"])
def test_another_place_takes_a_restart(file: Path, name: str) -> None:
    current = CurrentSettings(load(file, {}), {})
    file.write_text(f'{name} = "/elsewhere"\n')
    with pytest.raises(SettingsError, match=f"{name} of .* is /elsewhere by now") as raised:
        current.get()
    assert raised.value.code == "SETTINGS_MOVED"


def test_the_folder_that_a_flag_named_stays(file: Path) -> None:
    current = CurrentSettings(replace(load(file, {}), data="/flag"), {})
    file.write_text(WINDOW.format(2))
    assert (current.get().data, window(current.get())) == ("/flag", timedelta(hours=2))


def test_variables_stand_above_the_file_each_time(file: Path) -> None:
    environ = {"LOWWATER_EVERY": "7s"}
    current = CurrentSettings(load(file, environ), environ)
    file.write_text(WINDOW.format(2) + "[purge]\nmost_partitions = 3\n")
    found = current.get()
    assert (found.every, found.purge.most_partitions) == (timedelta(seconds=7), 3)


DONE = Analyzed("a", "s", {}, 0.1)


def test_an_analysis_that_serves_reads_declarations_before_each_snapshot(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[timedelta] = []
    monkeypatch.setattr(
        analysis, "_analyze", lambda _spark, settings, *_: seen.append(window(settings)) or DONE
    )
    monkeypatch.setattr("dashboard.store.snapshots.Store.cluster", lambda _store, _named: None)
    current = CurrentSettings(load(file, {}), {})

    def answer() -> dict[str, object]:
        return analysis._answer(None, current, str(tmp_path), None, '{"snapshot_id": "s"}')

    assert answer() == DONE.to_json()
    file.write_text(WINDOW.format(2))
    assert answer() == DONE.to_json()
    file.write_text("[topics")
    assert "error" in answer()
    assert seen == [timedelta(hours=1), timedelta(hours=2)]


def test_a_section_of_people_that_is_gone_is_no_leave_for_everybody(tmp_path: Path) -> None:
    """Without the section everybody who is connected may do everything."""
    file = tmp_path / "lowwater.toml"
    file.write_text('[people]\napprovers = ["ann"]\n')
    current = CurrentSettings(load(str(file), {}), {})
    assert current.get().people is not None
    file.write_text("")
    with pytest.raises(SettingsError) as refused:
        current.get()
    assert refused.value.code == "PEOPLE_GONE"


@pytest.mark.parametrize(
    ("began", "found"), [('oidc_secrets = "/a.toml"', ""), ("", 'oidc_secrets = "/a.toml"')]
)
def test_who_signs_in_how_is_decided_at_the_start(tmp_path: Path, began: str, found: str) -> None:
    """Else whoever connects would be the person at this host as soon as the line is gone."""
    file = tmp_path / "lowwater.toml"
    file.write_text(f'[people]\nviewers = ["*"]\n{began}\n')
    started = load(str(file), {})
    current = CurrentSettings(started, {})
    assert current.get().people is not None
    file.write_text(f'[people]\nviewers = ["*"]\n{found}\n')
    for read in (current.get, lambda: people.current(started)):
        with pytest.raises(SettingsError) as refused:
            read()
        assert refused.value.code == "SETTINGS_MOVED"
        assert "oidc_secrets" in refused.value.message


def test_a_section_of_people_that_came_later_does_not_go_in_silence(tmp_path: Path) -> None:
    """As by a backup of the file that is put back: everybody might do everything again."""
    file = tmp_path / "lowwater.toml"
    file.write_text("")
    current = CurrentSettings(load(str(file), {}), {})
    assert current.get().people is None
    file.write_text('[people]\napprovers = ["ann"]\n')
    assert current.get().people is not None
    file.write_text("")
    for _ in range(2):
        with pytest.raises(SettingsError) as raised:
            current.get()
        assert raised.value.code == "PEOPLE_GONE"


def test_a_file_that_was_not_there_at_the_start_counts_once_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote [people] or read_only reached no process that had begun without a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    current = CurrentSettings(replace(load(None, {}), data="/flag"), {})
    began = current.get()
    assert (began.source, began.people, why_read_only(began, {})) == (None, None, None)
    asked = each_second(began, clock=iter((0.0, 2.0, 2.0, 2.0)).__next__, environ={})
    file = tmp_path / "config" / "lowwater" / "lowwater.toml"
    file.parent.mkdir(parents=True)
    file.write_text('read_only = true\n[people]\nviewers = ["*"]\n')
    found = current.get()
    assert found.people is not None and (found.data, found.source) == ("/flag", file)
    assert "is on" in (asked() or "")
    with pytest.raises(RefusedError, match="may not purge"):  # also by what was kept of the start
        people.require(began, "ada", "operator", "purge")
    file.unlink()
    with pytest.raises(SettingsError, match="does not exist"):
        current.get()


def test_a_run_that_was_queued_without_a_file_stays_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lowwater.toml").write_text("read_only = true\n")
    chosen = load_pinned(None, {})
    assert CurrentSettings(chosen, {}).get() is chosen
    assert why_read_only(chosen, {}) is None
