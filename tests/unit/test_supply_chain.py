"""What Lowwater stands on: pinned by hash, licensed, and a wheel that is the same twice."""

from __future__ import annotations

import hashlib
import os
import re
import time
import zipfile
from pathlib import Path

import pytest

from tools import licences, sbom, wheel

ROOT = Path(__file__).parent.parent.parent
PIN = re.compile(r"^([A-Za-z0-9][^=\s]*)==(\S+)( ; .*)?( \\)?$")


@pytest.mark.parametrize("name", ["requirements", "requirements-bench", "requirements-tools"])
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    lines = (ROOT / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    pins = [i for i, line in enumerate(lines) if line and not line.startswith((" ", "#"))]

    assert pins
    for i in pins:
        assert PIN.match(lines[i]), lines[i]
        assert re.match(r" +--hash=sha256:[0-9a-f]{64}", lines[i + 1]), lines[i]


def test_the_installer_and_the_makefile_insist_on_the_hashes() -> None:
    for name in ("tools/install.sh", "Makefile"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for line in text.splitlines():
            if "pip install" in line:
                # Lowwater itself has no hash; what builds it is pinned like everything else.
                wanted = "--no-build-isolation" if "--editable" in line else "--require-hashes"
                assert wanted in line, f"{name}: {line}"


def test_the_list_of_licences_is_that_of_the_pins() -> None:
    assert licences.LIST.read_text(encoding="utf-8") == licences.table()


def test_a_licence_that_nobody_judged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "ALLOWED", licences.ALLOWED - {"MPL-2.0"})

    with pytest.raises(ValueError, match="certifi"):
        licences.licence("certifi")


def test_the_bill_of_materials_names_what_runs_and_nothing_else() -> None:
    pins = sbom.run_pins()
    names = {m[1] for m in map(PIN.match, pins.splitlines()) if m}

    assert {"streamlit", "pyspark", "kafka-python", "weasyprint"} <= names
    assert not {"pytest", "moto", "ruff", "hypothesis"} & names
    assert pins.count("--hash=sha256:") >= len(names)


def test_the_wheel_is_built_twice_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for zone, mask in (("Asia/Tokyo", 0o077), ("America/Lima", 0o002)):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        before = os.umask(mask)
        try:
            found.append(wheel.build(tmp_path / zone))
        finally:
            os.umask(before)
    monkeypatch.undo()
    time.tzset()

    assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in found}) == 1
    with zipfile.ZipFile(found[0]) as files:
        names = files.namelist()
    assert names and all(n.startswith(("dashboard/", "analytics/", "lowwater-")) for n in names)
