"""What may be broken in a demo: asked for by the command line or its page, done by its processes;
and where what was before it is kept.

Files in the demo's room are all that is between them: pages know nothing of the demo's code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dashboard.core import canonical

# In the environment of every process of a demo, and so of their children, detached or not.
# It does not begin with LOWWATER_: it is no setting.
MARK = "_LOWWATER_DEMO_ROOM"


# In the room: the store of what was before the demo began, which charts alone read.
RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class About:
    """What a kind of fault does, and on which page it is seen."""

    does: str
    page: str


KINDS: Mapping[str, About] = {
    "follower": About(
        "Broker 3 falls behind on clickstream, and may copy 1,000 bytes a second.", "followers"
    ),
    "disk": About(
        "A producer writes 8 MB a second into a new topic, burst: 1 GiB at most, and none when "
        "less than 10 GiB are free.",
        "overview",
    ),
    "broker": About("Broker 2 stands still: its connections stay, it answers nothing.", "quality"),
    "group": About(
        "The group session-builder is set back to a tenth of its topic, and its members go.",
        "reclaimable",
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One that is there, or on its way: `breaking`, `broken`, `healing` or `failed`."""

    kind: str
    state: str
    said: str = ""


def room(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The room of the demo that this process belongs to; None outside of any."""
    named = environ.get(MARK)
    return Path(named) if named and Path(named).is_dir() else None


def is_of(folder: Path, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a folder lies in the room of the demo that this process belongs to."""
    found = room(environ)
    return found is not None and folder.resolve().is_relative_to(found.resolve())


def ask(room: Path, kind: str) -> None:
    """Have it broken; one that is broken stays so."""
    _folder(room).joinpath(f"{kind}.asked").touch()


def take_back(room: Path, kind: str) -> None:
    """Have it healed."""
    _folder(room).joinpath(f"{kind}.asked").unlink(missing_ok=True)


def asked(room: Path) -> set[str]:
    """The kinds that should be broken."""
    return {kind for kind in KINDS if _folder(room).joinpath(f"{kind}.asked").exists()}


def tell(room: Path, fault: Fault) -> None:
    """Note what became of it, in one step."""
    path = _folder(room) / f"{fault.kind}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(canonical.canonical(canonical.written(fault)), encoding="utf-8")
    partial.replace(path)


def forget(room: Path, kind: str) -> None:
    """Note that it is whole again."""
    _folder(room).joinpath(f"{kind}.json").unlink(missing_ok=True)


def told(room: Path) -> dict[str, Fault]:
    """What is broken or on its way, by kind."""
    found = {}
    for kind in KINDS:
        try:
            raw = _folder(room).joinpath(f"{kind}.json").read_text(encoding="utf-8")
            found[kind] = canonical.read(canonical.parse_json(raw), Fault)
        except (OSError, ValueError):  # none, or one that is being replaced
            continue
    return found


def _folder(room: Path) -> Path:
    folder = room / "faults"
    folder.mkdir(exist_ok=True)
    return folder
