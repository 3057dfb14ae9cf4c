"""Is all there that Lowwater needs? One check per thing, with what its absence costs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dashboard.core.errors import SettingsError
from dashboard.core.network_folders import network_type
from dashboard.core.processes import find_java
from dashboard.domain import rights
from dashboard.domain.model import GroupListing, LogDirsAnswer, TopicState
from dashboard.domain.rights import Feature, Right
from dashboard.purge.journal.head import HeadFile, journal_in, not_ours
from dashboard.settings.settings import Settings

if TYPE_CHECKING:
    from dashboard.cluster.configs import ConfigsAnswer
    from dashboard.domain.model import Authorized

# Below this a snapshot of a large cluster, or Spark's shuffle, may not fit.
LEAST_FREE_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `ok` None: not checked. `costs` and `next` are empty when all is well."""

    name: str
    ok: bool | None
    detail: str
    costs: str = ""
    next: str = ""

    def to_json(self) -> dict[str, str | bool | None]:
        return asdict(self)


def local_checks(
    settings: Settings, data: str, environ: Mapping[str, str] = os.environ
) -> list[Check]:
    """What can be told without a cluster: Java, packages, folders, disk space, settings."""
    return [
        settings_file(settings),
        java(environ),
        package("pyspark", "analyze and watch cannot compute findings"),
        package("confluent-kafka", "the demo cannot produce or consume"),
        package("kafka-python", "no cluster can be read"),
        state_folder(settings),
        data_folder(data),
        free_space(data),
    ]


def settings_file(settings: Settings) -> Check:
    """Which settings are in force; wrong ones end every verb before this is reached."""
    source = f"read from {settings.source}" if settings.source else "defaults, no lowwater.toml"
    if settings.read_only:
        return Check("settings", True, f"{source}; read_only is on: every purge is refused")
    return Check("settings", True, source)


def java(
    environ: Mapping[str, str] = os.environ,
    ask: Callable[[str], str] | None = None,
) -> Check:
    """Java 17 or newer, where Spark looks for it: JAVA_HOME first, then the path."""
    try:
        found = find_java(environ, ask)
    except SettingsError as error:
        costs = "analyze, watch and the demo cannot run"
        return Check("java", False, error.message, costs, error.next_step)
    return Check("java", True, f"{found.command} is version {found.major}")


def package(name: str, costs: str) -> Check:
    """Whether a Python package is installed, and which version; it is not imported."""
    try:
        return Check(name, True, f"version {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", costs, f"pip install {name}")


def folder(name: str, path: Path, costs: str) -> Check:
    """Whether files can be written there, or where it would be made; leaves nothing behind."""
    there = path.parent
    try:
        there = nearest_existing(path)
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return Check(
            name,
            False,
            f"{path} cannot be written: {error.strerror or error}",
            costs,
            f"Correct the rights of {there}, free space there, or choose another folder.",
        )
    return Check(name, True, f"{path} is writable" + ("" if there == path else " (not made yet)"))


def state_folder(settings: Settings) -> Check:
    """Whether the journal can be written there, and lies on this machine."""
    name, costs = "state-dir", "purges cannot be journalled, so none can run"
    kind = network_type(settings.state_dir)
    if kind is not None and not settings.state_dir_on_network:
        said = f"{settings.state_dir} is on a network file system ({kind})"
        return Check(name, False, said, costs, "Choose a state_dir on a local disk.")
    found = _journal(folder(name, settings.state_dir, costs), settings.state_dir, costs)
    if kind is None:
        return found
    return replace(found, detail=f"{found.detail}; {kind}, as state_dir_on_network allows")


def _journal(found: Check, state_dir: Path, costs: str) -> Check:
    """That the journal and its head can be written where they are there already.

    A head that stays behind is no error of a purge: but a journal that is rolled back then is not
    told any more.
    """
    if not found.ok:
        return found
    journal = journal_in(state_dir)
    kept = HeadFile(journal)
    head = kept.path
    untold = "a journal that is rolled back is not noticed: its newest entry is kept there"
    for path, cost in ((journal, costs), (head, untold)):
        try:
            with suppress(FileNotFoundError):
                os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as error:
            said = f"{path} cannot be written: {error.strerror or error}"
            return replace(found, ok=False, detail=said, costs=cost, next="Correct its rights.")
    with suppress(OSError):  # a journal of which the head alone is there: the next verb says so
        if (others := not_ours(journal)) is not None:
            return replace(
                found, ok=False, detail=others.message, costs=costs, next=others.next_step
            )
        if kept.is_of_another():
            said = f"{journal} is a copy: it is not the file that {head.name} was kept of"
            what = "See what to do with: lowwater runs."
            return replace(found, ok=False, detail=said, costs=costs, next=what)
    return found


def data_folder(data: str) -> Check:
    """The data folder: a local one is written to; a URL is only listed."""
    costs = "nothing can be collected or analyzed"
    if "://" not in data:
        return folder("data-dir", Path(data), costs)
    from dashboard.store.snapshots import Store

    try:
        store = Store(data)
        store.clusters()
    except Exception as error:  # each of fsspec's file systems raises its own
        return Check(
            "data-dir",
            False,
            f"{data} cannot be opened: {error}",
            costs,
            "Install the fsspec package of that URL and check its credentials.",
        )
    return Check("data-dir", True, f"{data} can be listed")


def free_space(data: str) -> Check:
    """Free bytes on the disk that snapshots go to."""
    name = "disk-space"
    if "://" in data:
        return Check(name, None, "a URL shows no free space")
    try:
        there = nearest_existing(Path(data))
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(name, None, f"of {data} nobody tells it: {error.strerror or error}")
    gib = f"{free / 1024**3:.1f} GiB"
    if free >= LEAST_FREE_BYTES:
        return Check(name, True, f"{gib} free at {there}")
    return Check(
        name,
        False,
        f"only {gib} free at {there}",
        "snapshots and findings may stop being written",
        "Free space there, or choose another --data.",
    )


def nearest_existing(path: Path) -> Path:
    """The path itself, or its nearest parent that exists. Raises OSError where none tells."""
    whole = path.absolute()
    for folder in (whole, *whole.parents):
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            folder.stat()
            return folder
    return Path(whole.anchor)


# Which rights of the table this principal has, as far as the cluster tells without a change.

# Named to the brokers only to hear whether a right reaches names that nobody has yet.
PROBE = "lowwater-doctor-asks-for-its-rights"
# Of more names than this the first ones tell enough.
MOST_NAMES = 2000
_HIDDEN = "TOPIC_AUTHORIZATION_FAILED"


class Live(Protocol):
    """What is asked of `dashboard.cluster.live.LiveCluster`."""

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...
    def log_dirs(self) -> LogDirsAnswer: ...
    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing: ...
    def alive_brokers(self) -> tuple[int, ...]: ...
    def configs_answer(self, topics: Iterable[str], brokers: Iterable[int]) -> ConfigsAnswer: ...
    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized: ...


@dataclass(frozen=True, slots=True)
class Held:
    """One right: held, or not, or None where nobody tells.

    `missing_on` are the topics or groups without it, of `asked` ones. A right that is for all
    names is held when none lacks it; one for chosen names when one of them has it.
    """

    right: Right
    granted: bool | None
    missing_on: tuple[str, ...] = ()
    asked: int = 0

    @property
    def said(self) -> str:
        """Where it is held or missing, in words."""
        if self.granted is None:
            return "the cluster does not tell"
        if not self.asked:
            return "held" if self.granted else "missing"
        noun = self.right.resource.lower() + ("" if self.asked == 1 else "s")
        if not self.missing_on:
            return f"held on {self.asked} {noun}"
        if self.granted:
            return f"held on {self.asked - len(self.missing_on)} of {self.asked} {noun}"
        named = f", among them {self.missing_on[0]}"
        return f"missing on {len(self.missing_on)} of {self.asked} {noun}{named}"


def held_rights(live: Live) -> tuple[Held, ...]:
    """Every right of the table, in its order. Raises ClusterError when no broker answers."""
    visible = sorted(n for n, t in live.topics(None).items() if not t.error and not t.is_internal)
    groups = [g.group_id for g in live.groups((), with_offsets=False).groups][:MOST_NAMES]
    hidden = _hidden(live, visible)
    asked = live.authorized([*visible[:MOST_NAMES], PROBE], [*groups, PROBE])
    found = [_held(right, asked, hidden, visible) for right in rights.RIGHTS]
    return tuple(_by_configs(live, h) if h.granted is not True else h for h in found)


def lost_features(held: Sequence[Held]) -> list[tuple[Feature, tuple[Held, ...]]]:
    """Features that lack a right, with what they lack."""
    lacking = {h.right: h for h in held if h.granted is False}
    found = [(f, tuple(lacking[r] for r in f.needs if r in lacking)) for f in rights.FEATURES]
    return [(feature, lacks) for feature, lacks in found if lacks]


def rights_check(held: Sequence[Held], principal: str = rights.ANYBODY) -> Check:
    """Fails where a right to look is missing: those of an operator are a choice."""
    lacking = [h for h in held if h.granted is False]
    to_see = [h for h in lacking if h.right.role == rights.DASHBOARD]
    if to_see:
        return Check(
            "rights",
            False,
            "; ".join(f"{h.right.name}: {h.said}" for h in to_see),
            "; ".join(h.right.lost for h in to_see),
            "; ".join(rights.command(h.right, principal) for h in to_see),
        )
    if lacking:
        named = ", ".join(h.right.name for h in lacking)
        return Check("rights", True, f"all that the dashboard needs; not an operator's: {named}")
    unknown = [h.right.name for h in held if h.granted is None]
    if unknown:
        return Check("rights", None, f"the cluster does not tell of {', '.join(unknown)}")
    return Check("rights", True, "all that an operator needs")


def to_json(held: Sequence[Held] | None, principal: str = rights.ANYBODY) -> dict[str, object]:
    """`rights` and `features` of `doctor --json`; without a cluster `granted` is null."""
    known = held or [Held(right, None) for right in rights.RIGHTS]
    lost = dict(lost_features(known))
    return {
        "principal": None if principal == rights.ANYBODY else principal,
        "rights": [_right_json(h, principal) for h in known],
        "features": [
            {
                "feature": feature.name,
                "needs": [right.name for right in feature.needs],
                "lacks": [h.right.name for h in lost.get(feature, ())],
                "without": feature.without,
            }
            for feature in rights.FEATURES
        ],
    }


def _right_json(held: Held, principal: str) -> dict[str, object]:
    right = held.right
    return {
        "operation": right.operation,
        "resource": right.resource,
        "pattern": right.pattern or None,
        "role": right.role,
        "allows": right.allows,
        "lost": right.lost,
        "granted": held.granted,
        "missing_on": list(held.missing_on),
        "command": rights.command(right, principal),
    }


def _hidden(live: Live, visible: Sequence[str]) -> list[str] | None:
    """Topics that log dirs show and the cluster hides; None where log dirs tell nothing.

    The offsets topic is asked for by its name: where it is hidden no list of groups counts.
    """
    there = {r.topic for r in live.log_dirs().replicas}
    unknown = [rights.OFFSETS_TOPIC, *sorted(there - {*visible, rights.OFFSETS_TOPIC})]
    states = live.topics(unknown[:MOST_NAMES])
    hidden = [name for name in unknown if name in states and states[name].error == _HIDDEN]
    return sorted(hidden) if hidden or there else None


def _held(
    right: Right, asked: Authorized, hidden: Sequence[str] | None, visible: Sequence[str]
) -> Held:
    if right.resource == "Cluster":
        told = asked.cluster
        return Held(right, None if told is None else right.operation in told)
    if right is rights.DESCRIBE_TOPIC:
        return _seen(right, asked, hidden, visible)
    found = asked.topics if right.resource == "Topic" else asked.groups
    known = {n: ops for n, ops in found.items() if ops is not None and n != PROBE}
    if not known:
        ops = found.get(PROBE)
        return Held(right, None if ops is None else right.operation in ops)
    missing = tuple(sorted(n for n, ops in known.items() if right.operation not in ops))
    held = not missing if right.pattern else len(missing) < len(known)
    return Held(right, held, missing, len(known))


def _seen(
    right: Right, asked: Authorized, hidden: Sequence[str] | None, visible: Sequence[str]
) -> Held:
    """A topic without it does not show: log dirs name it, else a name that nobody has is asked."""
    if hidden:
        return Held(right, False, tuple(hidden), len(hidden) + len(visible))
    if asked.topics.get(PROBE) != frozenset():
        return Held(right, True, (), len(visible))
    if not visible:
        return Held(right, False)
    # Not for every name: whether one is hidden, only log dirs tell.
    return Held(right, None if hidden is None else True, (), len(visible))


def _by_configs(live: Live, held: Held) -> Held:
    """DescribeConfigs is told of by brokers to those alone who may describe: else it is tried."""
    if held.right is rights.CONFIGS_CLUSTER:
        brokers = live.alive_brokers()[:1]
        answer, subjects = live.configs_answer((), brokers), [f"broker {b}" for b in brokers]
    elif held.right is rights.CONFIGS_TOPIC and not held.asked:
        answer, subjects = live.configs_answer([PROBE], ()), [f"topic {PROBE}"]
    else:
        return held
    errors = [answer.errors.get(subject) for subject in subjects]
    if any(error and error.endswith("_AUTHORIZATION_FAILED") for error in errors):
        return Held(held.right, False)
    # A topic that is not there is told so to whoever might read its configs.
    known = errors and all(e in (None, "UNKNOWN_TOPIC_OR_PARTITION") for e in errors)
    return Held(held.right, True if known else None)
