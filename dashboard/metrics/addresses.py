"""Where each broker's metrics are: `ID=URL_OR_FILE`, from settings and flags."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.errors import SettingsError


def parse_sources(texts: Iterable[str], where: str) -> dict[int, str]:
    """Broker id -> source from `ID=URL_OR_FILE` texts. Raises SettingsError METRICS_SOURCE_INVALID.

    A relative file is taken from the working directory.
    """
    found: dict[int, str] = {}
    for text in texts:
        broker, _, source = (part.strip() for part in text.partition("="))
        if not broker.isdecimal() or not _readable(source):
            raise _invalid(where, f"the source of broker '{broker}' is no ID=URL_OR_FILE")
        if int(broker) in found:
            raise _invalid(where, f"broker {broker} has two sources of metrics")
        is_file = "://" not in source
        found[int(broker)] = str(Path(source).expanduser()) if is_file else source
    return found


def _readable(source: str) -> bool:
    """Whether it is a file's name or an http(s) address; it may hold a password: never shown."""
    if "://" not in source:
        return bool(source)
    try:
        parts = urlsplit(source)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _invalid(where: str, what: str) -> SettingsError:
    return SettingsError(
        f"{where}: {what}",
        "Write broker ids with an http(s) address or a file, such as 1=http://kafka-1:7071/metrics.",
        code="METRICS_SOURCE_INVALID",
    )
