"""Writes docs/licences.md: every pinned package with its licence and why it is there.

Usage: python tools/licences.py [--check]. With --check nothing is written: exit 1 when the file is
old, 2 when a package states no licence that LICENCES knows.
"""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LIST = ROOT / "docs" / "licences.md"

# How packages spell their licences in metadata (or in a trove classifier), and the SPDX id.
LICENCES = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "ISC license": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Metadata that needs a reader: several classifiers of which one may choose.
CHOSEN = {
    "pyphen": "MPL-1.1",  # of GPL-2.0+, LGPL-2.1+ and MPL-1.1, as its LICENSE offers
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
}
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0",
    "MIT-CMU", "MPL-1.1", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
_HEAD = """# Licences of what Lowwater stands on

Written by `make requirements` from the metadata of the installed packages; a test keeps it true.
*run* packages are installed with Lowwater, *extra* ones with `lowwater[s3]` or
`lowwater[connect]`, *dev* ones only to build and test. None of them is copied into the wheel.
Apache Kafka, the JMX exporter and Spark's own jars (inside `pyspark`) are Apache-2.0 too; the first
two are fetched by the demo and the broker tests only.

| package | version | licence | for |
|---|---|---|---|
"""


def pinned() -> dict[str, str]:
    """Name to version of every line `name==version` of requirements.txt."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [
        line.split(" ")[0].split(";")[0] for line in lines if "==" in line and line[0].isalnum()
    ]
    return {canonicalize_name(name): version for name, version in (p.split("==") for p in pins)}


def licence(name: str) -> str:
    """The SPDX expression of an installed package. Raises ValueError where none is known."""
    if name in CHOSEN:
        return CHOSEN[name]
    told = metadata.metadata(name)
    classifiers = [
        c.rpartition(" :: ")[2] for c in told.get_all("Classifier", []) if c.startswith("License")
    ]
    for spelt in (told.get("License-Expression"), told.get("License"), *classifiers):
        found = LICENCES.get(spelt or "", spelt or "")
        words = found.replace("(", " ").replace(")", " ").split()
        if words and {w for w in words if w not in ("AND", "OR")} <= ALLOWED:
            return found
    raise ValueError(f"{name}: no licence that tools/licences.py knows and allows")


def closure(extras: set[str]) -> set[str]:
    """Packages that Lowwater with these extras needs, itself left out."""
    found: set[str] = set()
    open_: list[tuple[str, frozenset[str]]] = [("lowwater", frozenset(extras))]
    done: set[tuple[str, frozenset[str]]] = set()
    while open_:
        name, wanted = open_.pop()
        if (name, wanted) in done:
            continue
        done.add((name, wanted))
        for text in _requires(name, wanted):
            needed = Requirement(text)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in (*wanted, "")):
                child = canonicalize_name(needed.name)
                found.add(child)
                open_.append((child, frozenset(needed.extras)))
    return found - {"lowwater"}


def _requires(name: str, extras: frozenset[str]) -> list[str]:
    if name == "lowwater":  # not its installed metadata, which may be older than the clone
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        optional = project["optional-dependencies"]
        return [*project["dependencies"], *(text for e in sorted(extras) for text in optional[e])]
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another platform
        return []


def table() -> str:
    """The page: one row per pinned package, sorted."""
    run = closure(set())
    extra = closure({"s3", "connect"})
    rows = []
    for name, version in sorted(pinned().items()):
        why = "run" if name in run else "extra" if name in extra else "dev"
        rows.append(f"| {name} | {version} | {licence(name)} | {why} |\n")
    return _HEAD + "".join(rows)


def main(argv: list[str]) -> int:
    try:
        text = table()
    except ValueError as error:
        print(f"licences: {error}", file=sys.stderr)
        return 2
    if "--check" in argv:
        if LIST.read_text(encoding="utf-8") == text:
            return 0
        print("licences: docs/licences.md is old. Run: make requirements", file=sys.stderr)
        return 1
    LIST.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
