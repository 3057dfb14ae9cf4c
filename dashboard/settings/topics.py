"""The settings sections [topics."GLOB"]: who owns a topic, and who reads it."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.values import Section, check_keys, duration, section, tables, text

TOPIC_KEYS = (
    "owner", "readers", "replay_window", "declared_by", "declared_at", "reason", "state_restore",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """Who owns the topics that a glob matches, and whether their groups are all their readers."""

    glob: str
    owner: str
    readers: str  # "groups": its groups are all its readers; "unknown": others may read too
    replay_window: timedelta
    declared_by: str
    declared_at: str
    reason: str = ""  # why the one who declared it is sure
    state_restore: str = "unknown"  # "none": no Kafka Streams table is built from it
    topic_id: str = ""  # of whom it was said on the page; "": of whichever bears the name

    def matches(self, topic: str) -> bool:
        return fnmatch.fnmatchcase(topic, self.glob)


def of_topic(found: TopicDeclaration, topic_id: str | None) -> TopicDeclaration:
    """What counts of a declaration for the topic of this id (None: not known).

    Of one that was made anew under the name nobody said who reads it: what keeps records counts on,
    what lets them go does not.
    """
    if found.topic_id in ("", topic_id):
        return found
    return replace(found, readers="unknown", state_restore="unknown")


def declared(
    topic: str, in_settings: Sequence[TopicDeclaration], on_page: Sequence[TopicDeclaration]
) -> TopicDeclaration | None:
    """What is declared of a topic: by the first match in the settings, else by the page's.

    The longer replay window of both counts, and beside a glob the page's word, of that very topic,
    that others may read it, or restore state from it: whoever writes a glob does not know who
    rewinds, reads or restores a topic that it takes in.
    """
    first, other = (
        next((d for d in found if d.matches(topic)), None) for found in (in_settings, on_page)
    )
    if first is None or other is None:
        return first or other
    longer = replace(first, replay_window=max(first.replay_window, other.replay_window))
    if not _wild(first.glob) or _wild(other.glob):
        return longer
    readers, restore = (
        "unknown" if getattr(other, name) == "unknown" else getattr(first, name)
        for name in ("readers", "state_restore")
    )
    return replace(longer, readers=readers, state_restore=restore)


def _wild(glob: str) -> bool:
    return not set("*?[").isdisjoint(glob)


def topic_settings(table: Any, where: str) -> tuple[TopicDeclaration, ...]:
    """The declarations of a settings file, in its order. Raises SettingsError, for one that can
    never count, too: of a replay window that somebody wrote nothing may be dropped unsaid.
    """
    found: list[TopicDeclaration] = []
    for glob, entry in tables(table, "topics", where):
        own = f'{where}, [topics."{glob}"]'
        above = next((d.glob for d in found if _takes_all_of(d.glob, glob)), None)
        if above is not None:
            raise SettingsError(
                f'{own}: it never counts, because [topics."{above}"] above it matches the same '
                "topics and the first match counts",
                f'Move it above [topics."{above}"], or drop it.',
            )
        found.append(declaration(glob, entry.entries, own))
    return tuple(found)


def _takes_all_of(glob: str, other: str) -> bool:
    """Whether a glob surely matches whatever the other one does, a name being one of itself."""
    if not _wild(other):
        return fnmatch.fnmatchcase(other, glob)
    one_sign = _ONE_SIGN.sub("\0", other)  # whichever it is, of the glob a star alone takes it
    return not set("?[").intersection(glob) and fnmatch.fnmatchcase(one_sign, glob)


_ONE_SIGN = re.compile(r"\[!?\]?[^\]]*\]|\?")


def on_page(entry: Mapping[str, Any], where: str) -> TopicDeclaration:
    """A row of the store's declarations, made on the page. Raises SettingsError."""
    own = {key: value for key, value in entry.items() if key not in ("glob", "topic_id")}
    found = declaration(str(entry.get("glob", "")), own, where)
    return replace(found, topic_id=text(entry.get("topic_id", ""), "topic_id", where))


def declaration(glob: str, entry: Mapping[str, Any], where: str) -> TopicDeclaration:
    """One declaration out of a settings table or the store's declarations. SettingsError."""
    check_keys(entry, TOPIC_KEYS, where)
    own = Section(where, entry)
    readers = own.text("readers", "unknown")
    if readers not in ("groups", "unknown"):
        raise SettingsError(
            f"{where}: readers = '{readers}'",
            "Write 'groups' when its groups are all its readers, else 'unknown'.",
        )
    restore = own.text("state_restore", "unknown")
    if restore not in ("none", "unknown"):
        raise SettingsError(
            f"{where}: state_restore = '{restore}'",
            "Write 'none' when no table or global table of Kafka Streams is built from it, "
            "else 'unknown'.",
        )
    at = own.get("declared_at", "")
    return TopicDeclaration(
        glob=glob,
        owner=own.text("owner"),
        readers=readers,
        replay_window=duration(own.get("replay_window", "0s"), "replay_window", where),
        declared_by=own.text("declared_by"),
        declared_at=at.isoformat() if isinstance(at, date | datetime) else str(at),
        reason=own.text("reason"),
        state_restore=restore,
    )


# The settings section [retention]: how far above the longest lag a shorter retention stays.

MOST_MARGIN = 1000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """A retention that fits is at least so many times the longest lag that was seen."""

    margin: float = 2.0


def retention_settings(table: Any, where: str) -> RetentionSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "retention", RetentionSettings, where)
    margin = own.get("margin", RetentionSettings().margin)
    number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if not number or not math.isfinite(margin) or not 1 <= margin <= MOST_MARGIN:
        raise SettingsError(
            f"{own.where}: 'margin' = {margin!r}", f"Write a number from 1 to {MOST_MARGIN}."
        )
    return RetentionSettings(float(margin))


# The settings section [idle]: after how many quiet days a topic counts as idle.

MOST_DAYS = 36_500  # a century: taken from any clock it still is a time


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """No write and no commit for so many days."""

    days: int = 7


def idle_settings(table: Any, where: str) -> IdleSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "idle", IdleSettings, where)
    found = IdleSettings(**own.values(IdleSettings))
    if found.days > MOST_DAYS:
        raise SettingsError(f"{own.where}: 'days' = {found.days}", f"Write {MOST_DAYS} or less.")
    return found
