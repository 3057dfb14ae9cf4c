"""Writes a CycloneDX list of what Lowwater needs to run: versions, hashes and licences.

Usage: python tools/sbom.py OUT. The packages and hashes are those of requirements.txt, so the same
pins give the same file. Run by `make sbom`, which brings cyclonedx-py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.utils import canonicalize_name

from tools import licences


def run_pins() -> str:
    """The lines of requirements.txt, with their hashes, of packages that are needed to run."""
    run = licences.closure(set())
    kept: list[str] = []
    keep = False
    for line in (licences.ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line and line[0].isalnum():
            keep = canonicalize_name(line.partition("==")[0]) in run
        if keep and not line.lstrip().startswith("#"):
            kept.append(line)
    return "\n".join(kept) + "\n"


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "run.txt"
        pins.write_text(run_pins(), encoding="utf-8")
        made = subprocess.run(
            [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements",
             "--pyproject", str(licences.ROOT / "pyproject.toml"),
             "--output-reproducible", str(pins)],
            check=True,
            capture_output=True,
            text=True,
        )  # fmt: skip
    bill = json.loads(made.stdout)
    for component in bill["components"]:
        component["licenses"] = [{"expression": licences.licence(component["name"])}]
    out.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
