"""Declares readers on the page: what stands is read, judged, chained and replaced in one go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dashboard.core.clock import format_time
from dashboard.core.errors import RefusedError, StoreError
from dashboard.core.locks import take
from dashboard.history.seen_topics import ids_of
from dashboard.people import people
from dashboard.people.people import Who
from dashboard.purge.evidence import memory
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings, TopicDeclaration, declaration, of_topic
from dashboard.store.snapshots import ClusterStore

_PATIENCE_SECONDS = 60  # a writer waits up to half a minute for the journal
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody declares of topics; `replay_window` as in settings: `24h`."""

    owner: str
    readers: str
    replay_window: str
    state_restore: str
    reason: str

    def entry(self, name: str, now: datetime) -> dict[str, str]:
        """As the store keeps it. Only a certain `none` is written: earlier releases know no key
        of that name.
        """
        found = {
            "owner": self.owner,
            "readers": self.readers,
            "replay_window": self.replay_window,
            "declared_by": name,
            "declared_at": format_time(now),
            "reason": self.reason,
        }
        return found | ({"state_restore": "none"} if self.state_restore == "none" else {})


@dataclass(frozen=True, slots=True)
class Standing:
    """What counts now of the topics that were asked about, wherever it was declared; `ids` are the
    topics' own in the newest snapshot, as far as it knows them.
    """

    by_topic: Mapping[str, TopicDeclaration]
    of_settings: Mapping[str, TopicDeclaration]  # those that no declaration on the page changes
    source: Path | None
    ids: Mapping[str, str]

    def refusal(self) -> RefusedError | None:
        """Why nothing can be declared here of these topics, naming the glob and the file."""
        if not self.of_settings:
            return None
        first, found = min(self.of_settings.items())
        more = len(self.of_settings) - 1
        also = f" and {more} more" if more else ""
        return RefusedError(
            f'{first}{also}: declared by [topics."{found.glob}"] of {self.source}, which counts '
            "before anything that is declared here, but for a longer replay window and, beside a "
            "glob, that others may read it or restore state from it",
            "Edit it there, or leave these topics out.",
            code="DECLARED_IN_SETTINGS",
        )


def standing(settings: Settings, store: ClusterStore, topics: Sequence[str]) -> Standing:
    """What is declared of `topics` now. Raises StoreError, SettingsError."""
    found = {topic: settings.declaration(topic) for topic in topics}
    newest = store.latest("snapshots")
    known = ids_of(store, newest, topics) if newest is not None and topics else {}
    ids = {topic: topic_id for topic, topic_id in known.items() if topic_id}
    said = memory.declarations(settings, store, topics)
    return Standing(
        {topic: of_topic(declared, ids.get(topic)) for topic, declared in said.items()},
        {topic: declared for topic, declared in found.items() if declared is not None},
        settings.source,
        ids,
    )


def declare(
    settings: Settings,
    store: ClusterStore,
    journal: Journal,
    said: Said,
    *,
    shown: Standing,
    topics: Sequence[str],
    who: Who,
    from_where: str,
    now: datetime,
) -> None:
    """Replace the declarations of `topics`; `shown` is what stood when somebody looked at them.

    Raises SettingsError for a text that is none; RefusedError ROLE_TOO_LOW, DECLARED_IN_SETTINGS
    where a glob of the settings would keep it from counting, DECLARED_MEANWHILE where somebody else
    declared one of them since it was shown, TOPIC_ID_UNKNOWN where more is to go of a topic that
    the newest snapshot does not know; StoreError DECLARATIONS_BUSY, JournalError.
    """
    name = people.require(settings, who, "operator", "declare readers")
    entry = said.entry(name, now)
    new = [declaration(topic, entry, f"the declaration of {topic}") for topic in topics]
    with _alone(settings, store):
        known = store.declarations()
        found = standing(settings, store, topics)
        if (refusal := found.refusal()) is not None:
            raise refusal
        _as_shown(shown, found, topics)
        loosened = [to.glob for to in new if _loosens(found.by_topic.get(to.glob), to)]
        _of_a_known_topic(found, loosened)
        if loosened:
            # No second person is asked about the policies that go by it.
            what = "declare that more may be purged, which policies go by at once"
            people.require(settings, who, people.deciding_role(settings), what)
        rows = [{"glob": topic, **entry} for topic in sorted(topics)]
        # Chained first: a declaration that counts is one that the journal knows.
        journal.declare(rows, cluster_id=store.cluster_id, from_where=from_where, now=now)
        told = [{**row, "topic_id": found.ids.get(row["glob"], "")} for row in rows]
        store.write_declarations(merged(known, told))


def merged(
    known: Sequence[Mapping[str, str]], new: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """The declarations with those of the new rows' topics replaced, sorted.

    The first that matches counts, so a topic's own name stands before any glob.
    """
    named = {row["glob"] for row in new}
    kept = [row for row in known if row["glob"] not in named]
    return [dict(row) for row in sorted([*kept, *new], key=_exact_first)]


def _exact_first(row: Mapping[str, str]) -> tuple[bool, str]:
    return any(sign in row["glob"] for sign in "*?["), row["glob"]


def _loosens(known: TopicDeclaration | None, new: TopicDeclaration) -> bool:
    """Whether fewer readers count by the new one, or for a shorter time."""
    then = known or declaration(new.glob, {}, "nothing")
    return (
        (new.readers == "groups" != then.readers)
        or new.replay_window < then.replay_window
        or (new.state_restore == "none" != then.state_restore)
    )


def _of_a_known_topic(found: Standing, loosened: Sequence[str]) -> None:
    """What lets records go is said of one topic: kept without its id, it would count for another
    one that is made under the name.
    """
    unknown = sorted(topic for topic in loosened if topic not in found.ids)
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise RefusedError(
            f"the newest snapshot does not tell the topic id of {unknown[0]}{more}: deleted, or "
            "hidden, so nothing that lets records go can be declared of it",
            "Collect a snapshot that shows it, look at it, then declare it again.",
            code="TOPIC_ID_UNKNOWN",
        )


def _as_shown(shown: Standing, found: Standing, topics: Sequence[str]) -> None:
    for topic in sorted(topics):
        if found.ids.get(topic) != shown.ids.get(topic):
            raise RefusedError(
                f"{topic} is another topic than the one of that name that was shown",
                "Look at what it is for now, then declare it again.",
                code="DECLARED_MEANWHILE",
            )
        now = found.by_topic.get(topic)
        if now != shown.by_topic.get(topic):
            by = f" by {now.declared_by}" if now else ""
            raise RefusedError(
                f"{topic} was declared otherwise{by} since this was shown",
                "Look at what stands now, then declare it again.",
                code="DECLARED_MEANWHILE",
            )


@contextmanager
def _alone(settings: Settings, store: ClusterStore) -> Iterator[None]:
    """One writer at a time: beside the file, for every process that sees it; of a store behind a
    URL in the state folder, for this machine.
    """
    local = "file" in store.fs.protocol
    path = Path(store.path) if local else settings.state_dir
    name = "declarations.lock" if local else f"declarations-{store.cluster_id}.lock"
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        path.mkdir(parents=True, exist_ok=True)
        with (path / name).open("ab") as file:
            while not take(file.fileno()):
                if time.monotonic() >= deadline:
                    raise StoreError(
                        f"somebody else has been writing declarations for {_PATIENCE_SECONDS} s",
                        "Look whether that process stands still; then declare it again.",
                        code="DECLARATIONS_BUSY",
                    )
                time.sleep(_LOOK_SECONDS)
            yield
    except OSError as error:
        raise StoreError(
            f"{path / name} cannot be locked: {error}",
            "Correct the folder's rights; nothing was declared.",
            code="STORE_UNWRITABLE",
        ) from error
