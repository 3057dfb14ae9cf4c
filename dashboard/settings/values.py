"""Checks settings values by their fields' types: errors name the place, the key, what to write.

By hand, and not by the library that reads plans: a setting is a duration such as 30s, a path with ~
or a word of the environment, and each message ends with the line to write.
"""

from __future__ import annotations

import difflib
import fnmatch
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from dashboard.core.canonical import parse_json
from dashboard.core.clock import parse_duration
from dashboard.core.errors import SettingsError, UsageError

MAY_BE_ZERO = {"may_be_zero": True}  # of a field: no time at all is a time too


def check_keys(table: Iterable[str], known: tuple[str, ...], where: str) -> None:
    """Refuse the first unknown key of `table`, naming the nearest one. Raises SettingsError."""
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean '{near[0]}'? " if near else ""
            raise SettingsError(
                f"{where}: unknown key '{key}'",
                f"{hint}Known keys: {', '.join(known)}.",
                code="SETTINGS_KEY_UNKNOWN",
            )


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a settings file, and the place that errors about its values name.

    All methods raise SettingsError.
    """

    where: str
    entries: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str, default: Any = None) -> Any:
        return self.entries.get(key, default)

    def values(self, kind: type) -> dict[str, Any]:
        """What stands there of the fields of `kind`, each by its type."""
        readers = _readers(kind)
        known = (key for key in self.entries if key in readers)
        return {key: readers[key](self.entries[key], key, self.where) for key in known}

    def text(self, key: str, default: str = "") -> str:
        """Text, or a number as text."""
        return text(self.entries.get(key, default), key, self.where)

    def filled(self, key: str) -> str:
        """The text, which must be there and not blank."""
        value = self.entries.get(key)
        if not isinstance(value, str) or not value.strip():
            raise SettingsError(
                f"{self.where}: '{key}' is no text, or empty", f'Write {key} = "…".'
            )
        return value.strip()

    def filled_or_none(self, key: str) -> str | None:
        """The same; None where the key is not there."""
        return self.filled(key) if key in self else None

    def texts(self, key: str, example: str) -> tuple[str, ...]:
        """A list with at least one text, none of them blank."""
        value = self.entries.get(key)
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(v, str) and v.strip() for v in value)
        ):
            raise SettingsError(
                f"{self.where}: '{key}' is no list of texts, or an empty one",
                f"Write {key} = {example}, or leave it out.",
            )
        return tuple(value)

    def one_of(self, key: str, known: tuple[str, ...], default: str = "") -> str:
        """The text, one of `known`; `default` where nothing stands."""
        value = self.text(key, default)
        if value not in known:
            raise SettingsError(f"{self.where}: {key} = '{value}'", f"Write {' or '.join(known)}.")
        return value


def section(table: Any, name: str, kind: type | None, where: str) -> Section:
    """Section [name]; refuses what is no table, and the first key that is no field of `kind`
    (None: any key may be there). Raises SettingsError.
    """
    place = f"{where}, [{name}]"
    if not isinstance(table, dict):
        raise SettingsError(f"{place} is no table", f"Write it as [{name}] with keys below it.")
    if kind is not None:
        check_keys(table, tuple(field.name for field in fields(kind)), place)
    return Section(place, table)


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any, str, str], Any]]:
    types = get_type_hints(kind)
    found = {f.name: _BY_TYPE[types[f.name]] for f in fields(kind) if types[f.name] in _BY_TYPE}
    zero = {f.name: duration for f in fields(kind) if "may_be_zero" in f.metadata}
    return {**found, **zero}


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Whether a whole name is as one of these globs has it, upper and lower case apart."""
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def tables(table: Any, name: str, where: str) -> list[tuple[str, Section]]:
    """The entries of a table of tables. Raises SettingsError."""
    if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
        raise SettingsError(
            f"{where}: [{name}] holds something else than tables",
            f'Write each entry as [{name}."NAME"] with keys below it.',
        )
    return [(key, Section(f"{where}, [{name}.{key}]", entry)) for key, entry in table.items()]


def text(value: Any, key: str, where: str) -> str:
    """A value that is text or a number, as text. Raises SettingsError."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise SettingsError(f"{where}: '{key}' is no text", f'Write {key} = "…".')
    if isinstance(value, str) and "\0" in value:
        raise SettingsError(f"{where}: '{key}' has a zero byte in it", f'Write {key} = "…".')
    return str(value)


def path(value: Any, key: str, where: str) -> Path:
    """A file's or folder's path; `~` is a home folder. Raises SettingsError."""
    written = text(value, key, where)
    try:
        return Path(written).expanduser()
    except RuntimeError as error:
        raise SettingsError(
            f"{where}: '{key}' = '{written}' is in a home folder that this machine does not have",
            f"Write {key} as a path from the root.",
        ) from error


def count(value: Any, key: str, where: str) -> int:
    """A whole number above zero. Raises SettingsError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsError(f"{where}: '{key}' = {value!r}", f"Write {key} as a number above 0.")
    return value


def share(value: Any, key: str, where: str) -> float:
    """A number from 0 to 1. Raises SettingsError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SettingsError(
            f"{where}: '{key}' = {value!r}", f"Write {key} as a number from 0 to 1, such as 0.5."
        )
    return float(value)


def duration(value: Any, key: str, where: str) -> timedelta:
    """A duration such as 30s. Raises SettingsError."""
    try:
        return parse_duration(str(value))
    except UsageError as error:
        raise SettingsError(f"{where}: '{key}': {error.message}", error.next_step) from error


def lasting(value: Any, key: str, where: str) -> timedelta:
    """A duration above zero. Raises SettingsError."""
    found = duration(value, key, where)
    if not found:
        raise SettingsError(f"{where}: '{key}' = {value} is no time", "Write more than 0.")
    return found


def switch(value: Any, key: str, where: str) -> bool:
    """A true or false, also as a word from the environment. Raises SettingsError."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    found = words.get(str(value).lower())
    if found is None:
        raise SettingsError(f"{where}: '{key}' = {value!r}", f"Write {key} = true or false.")
    return found


_BY_TYPE: dict[Any, Callable[[Any, str, str], Any]] = {
    str: text,
    Path: path,
    timedelta: lasting,
    bool: switch,
    int: count,
    float: share,
}

# What Spark itself hides in its logs and pages (spark.redaction.regex), as key names.
_SECRET = re.compile(r"secret|password|token|access[._]?key|account[._]key", re.I)


def spark_conf(table: Any, where: str) -> dict[str, str]:
    """Spark's own properties, as text. Raises SettingsError, also for one that holds a secret.

    A property given here stands on Java's command line, where every user of the machine reads it.
    """
    if not isinstance(table, dict):
        raise SettingsError(f"{where} is no table", 'Write it as "spark.KEY" = "value" lines.')
    for key in table:
        if not key.startswith("spark."):
            raise SettingsError(
                f"{where}: '{key}' is no property of Spark",
                'Write "spark.KEY" = "value" with the key in quotes; those of Hadoop are '
                '"spark.hadoop.KEY".',
                code="SETTINGS_KEY_UNKNOWN",
            )
        if _SECRET.search(key) and not key.lower().endswith(("file", "path")):
            raise SettingsError(
                f"{where}: '{key}' is a secret, and other users of a machine can see it there",
                "Put it into spark-defaults.conf in the folder that SPARK_CONF_DIR names, or into "
                "variables such as AWS_ACCESS_KEY_ID: docs/spark-cluster.md.",
                code="SPARK_SECRET",
            )
    return {
        key: str(value).lower() if isinstance(value, bool) else text(value, key, where)
        for key, value in table.items()
    }


def spark_conf_text(value: str, where: str) -> dict[str, str]:
    """The same out of a JSON object, as an environment variable has it. Raises SettingsError."""
    try:
        table = parse_json(value)
    except ValueError:
        table = None
    if not isinstance(table, dict):
        raise SettingsError(
            f"{where} is no JSON object", 'Write it as {"spark.executor.memory": "2g"}.'
        )
    return spark_conf(table, where)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, to which plain http may go."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
