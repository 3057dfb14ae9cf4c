"""The units start what there is, and all share one account without rights."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from dashboard.settings import settings
from tests.support.command_lines import parsed

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
SHARED = FOLDER / "lowwater-.service.d" / "hardening.conf"
SETTINGS = FOLDER.parent / "lowwater.toml"
DOCS = FOLDER.parents[1] / "docs"
ARCHIVE, COPY = "/backup/lowwater", "/evidence"  # of commands that read them
# What `lowwater policies run` needs beside the two requests that it waits for.
WINDS_UP = timedelta(seconds=10)


def read(path: Path) -> configparser.ConfigParser:
    return parsed_unit(path.read_text("utf-8"))


def parsed_unit(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",)
    )
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


def test_every_process_that_serves_has_a_unit() -> None:
    assert [unit.stem for unit in UNITS] == [
        "lowwater-dashboard", "lowwater-metrics", "lowwater-policies", "lowwater-watch",
    ]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_the_verb_of_its_name(unit: Path) -> None:
    found = read(unit)
    program, *words = found["Service"]["ExecStart"].split()
    assert program == "/opt/lowwater/bin/lowwater"
    assert parsed(words).verb == unit.stem.removeprefix("lowwater-")
    assert found["Install"]["WantedBy"] == "multi-user.target"


def test_units_and_shells_with_the_settings_alone_meet_the_same_folders(tmp_path: Path) -> None:
    """A variable that units alone have leads `sudo -u lowwater lowwater` to another journal."""
    for path in (*UNITS, SHARED):
        lines = path.read_text("utf-8").splitlines()
        named = [line for line in lines if line.startswith("Environment=")]
        assert named == ["Environment=LOWWATER_SETTINGS=/etc/lowwater/lowwater.toml"] * (
            path == SHARED
        )
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    text = SETTINGS.read_text("utf-8")
    assert "/etc/lowwater/client.properties" in text
    file = tmp_path / "lowwater.toml"
    file.write_text(text.replace("/etc/lowwater/client", f"{tmp_path}/client"))
    read_back = settings.load(environ={"LOWWATER_SETTINGS": str(file)})
    assert read_back.data == "/var/lib/lowwater/data"
    assert str(read_back.state_dir) == "/var/lib/lowwater/state"
    assert str(read_back.cache_dir) == "/var/cache/lowwater"
    assert len(read_back.clusters) == 1
    shared = read(SHARED)["Service"]
    assert (shared["StateDirectory"], shared["CacheDirectory"]) == ("lowwater", "lowwater")
    assert (shared["User"], shared["ProtectSystem"]) == ("lowwater", "strict")
    steps = (DOCS / "deploy.md").read_text("utf-8")
    assert "install -m 0640 -g lowwater deploy/lowwater.toml client.properties /etc/lowwater/" in (
        steps
    )


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        ('state_dir = "/var/lib/lowwater/state"', True),
        ("state_dir='/srv/state'  # as data", True),
        ("", False),
        ("state_dir_on_network = true", False),
        ('state_dir_on_network = "/var/lib/lowwater/state"', False),
        ('state_dir = ""', False),
        ('state_dir = "state"', False),
        ('# state_dir = "/var/lib/lowwater/state"', False),
    ],
)
def test_no_unit_starts_by_settings_that_name_no_folder_of_the_journal(
    tmp_path: Path, lines: str, starts: bool
) -> None:
    """It would begin an empty one, without the stops of before."""
    file = tmp_path / "lowwater.toml"
    file.write_text(f"{lines}\n[clusters.prod]\n", "utf-8")
    program, flag, script = shlex.split(read(SHARED)["Service"]["ExecStartPre"])
    done = subprocess.run(
        [program, flag, script.replace("$$", "$")], env={"LOWWATER_SETTINGS": str(file)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, bool(done.stderr)) == ((0, False) if starts else (78, True))


def test_the_sample_settings_let_units_start() -> None:
    script = shlex.split(read(SHARED)["Service"]["ExecStartPre"])[2].replace("$$", "$")
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"LOWWATER_SETTINGS": str(SETTINGS)}, check=False
    )
    assert done.returncode == 0


def prefixes(unit: str) -> set[str]:
    """The folders of drop-ins that count for a unit besides its own: cut after each dash."""
    name = unit.removesuffix(".service")
    return {f"{name[: at + 1]}.service.d" for at, sign in enumerate(name) if sign == "-"}


def test_the_documented_service_of_orphans_keeps_its_rights_beside_our_units() -> None:
    """What begins as they do is given the account without rights, which reads no log dir."""
    assert all(SHARED.parent.name in prefixes(unit.name) for unit in UNITS)
    text = (DOCS / "orphans-service.md").read_text("utf-8")
    (name,) = re.findall(r"`/etc/systemd/system/(\S+\.service)`", text)
    ours = {folder.name for folder in FOLDER.iterdir() if folder.is_dir()}
    assert not ours & (prefixes(name) | {f"{name}.d"})


def documented(page: str) -> list[configparser.ConfigParser]:
    """The units that a page of the documentation shows."""
    blocks = (DOCS / page).read_text("utf-8").split("```ini\n")[1:]
    return [parsed_unit(block.split("```")[0]) for block in blocks]


def test_the_end_of_a_unit_ends_no_worker_of_anybodys_purge() -> None:
    """Any of the processes takes up a run whose worker is gone, and starts its worker beside it."""
    shared = read(SHARED)["Service"]
    least = 2 * settings.Settings().purge.request_timeout + WINDS_UP
    services = [{**shared, **read(unit)["Service"]} for unit in UNITS]
    services += [unit["Service"] for unit in documented("policies.md")]
    services += [unit["Service"] for unit in documented("orphans-service.md")]
    assert len(services) == 7
    for service in services:
        assert service["KillMode"] == "process"
        assert timedelta(seconds=int(service["TimeoutStopSec"])) >= least


def test_all_pages_and_files_name_one_folder_of_the_journal() -> None:
    """An approver's stop reaches what shares the journal, and nothing else."""
    pattern = re.compile(r"(?:LOWWATER_STATE_DIR|state_dir)[^\w~]+(?:value: )?(/[\w/.-]+)")
    found = {
        (path.name, place)
        for folder in (DOCS, FOLDER.parent)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".png"
        for place in pattern.findall(path.read_text("utf-8"))
    }
    assert {name for name, _ in found} >= {"lowwater.toml", "policies.md", "Containerfile"}
    assert {place for _, place in found} == {"/var/lib/lowwater/state", ARCHIVE, COPY}
    (pod,) = (DOCS / "orphans-service.md").read_text("utf-8").split("```yaml\n")[1:]
    manifest = yaml.safe_load(pod.split("```")[0])["spec"]["template"]["spec"]
    (volume,) = (v for v in manifest["volumes"] if v["name"] == "state")
    assert volume["hostPath"]["path"] == "/var/lib/lowwater/state"
    (mount,) = (m for m in manifest["containers"][0]["volumeMounts"] if m["name"] == "state")
    assert mount["mountPath"] == "/var/lib/lowwater/state"
