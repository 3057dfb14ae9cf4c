"""Where each broker's metrics are: `ID=URL_OR_FILE`, or a Prometheus server, from settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.core.errors import SettingsError
from dashboard.domain.model import broker_id_of

URLS = "metrics.urls"
_URL, _BROKERS = "metrics.prometheus.url", "metrics.prometheus.brokers"
_LABEL, _SELECTOR = "metrics.prometheus.label", "metrics.prometheus.selector"
_TOKEN_FILE = "metrics.prometheus.token.file"
KEYS = (URLS, _URL, _BROKERS, _LABEL, _SELECTOR, _TOKEN_FILE)


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """Where it is, and which value of `label` is which broker's; `selector` is added to queries.

    The bearer token is read from `token_file` each time, so that it may be renewed.
    """

    url: str = field(repr=False)  # may hold a password
    brokers: Mapping[int, str]
    label: str = "instance"
    selector: str = ""
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)


def parse_sources(texts: Iterable[str], where: str) -> dict[int, str]:
    """Broker id -> source from `ID=URL_OR_FILE` texts. Raises SettingsError METRICS_SOURCE_INVALID.

    A relative file is taken from the working directory.
    """
    found: dict[int, str] = {}
    for text in texts:
        broker, _, source = (part.strip() for part in text.partition("="))
        broker_id = broker_id_of(broker)
        if broker_id is None or not _readable(source):
            # Without `=` it is an address, in which a password may stand.
            named = f"of broker {broker[:40]}" if broker.isdecimal() else f"number {len(found) + 1}"
            raise _invalid(where, f"the source {named} is no ID=URL_OR_FILE")
        if broker_id in found:
            raise _invalid(where, f"broker {broker} has two sources of metrics")
        found[broker_id] = source if "://" in source else _file(source, where)
    return found


def _file(source: str, where: str) -> str:
    try:
        return str(Path(source).expanduser())
    except RuntimeError as error:
        raise _invalid(where, f"{source} is in a home folder that is not here") from error


def parse_server(
    properties: Mapping[str, str], token: str | None, where: str
) -> PrometheusServer | None:
    """The Prometheus server of a cluster's settings, if one is named.

    Raises SettingsError METRICS_SOURCE_INVALID or METRICS_BROKERS_MISSING.
    """
    url = properties.get(_URL)
    if url is None:
        return None
    if "://" not in url or not _readable(url):
        raise _invalid(where, f"{_URL} is no http(s) address")
    pairs = [text.partition("=") for text in properties.get(_BROKERS, "").split(",") if text]
    named = ((broker_id_of(b.strip()), v.strip()) for b, _, v in pairs)
    brokers = {broker_id: value for broker_id, value in named if broker_id is not None and value}
    if not brokers or len(brokers) < len(pairs):
        raise SettingsError(
            f"{where}: {_BROKERS} does not say which broker is which",
            f'Write the value of each broker\'s label: "{_BROKERS}" = "1=kafka-1:7071,2=…".',
            code="METRICS_BROKERS_MISSING",
        )
    return PrometheusServer(
        url,
        brokers,
        label=properties.get(_LABEL, "instance"),
        selector=properties.get(_SELECTOR, "").strip("{}, "),
        token_file=properties.get(_TOKEN_FILE),
        token=token,
    )


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
