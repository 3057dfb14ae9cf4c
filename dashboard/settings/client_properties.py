"""Translates Kafka's own client.properties into librdkafka's words, which settings use; and tells
whether what they say, or a file that they name, is another one by now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboard.core.errors import SettingsError

# Java client key -> librdkafka key; keys spelt alike in both are listed in _SAME.
_RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.mechanism": "sasl.mechanisms",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
# A PEM key store of the Java client is one file with the key and the chain.
_KEY_STORE = "ssl.keystore.location"
# Classes that do what both clients do anyway: tokens by client credentials (KIP-768, KIP-1139).
_USUAL_CLASSES = {
    "sasl.login.callback.handler.class": {"OAuthBearerLoginCallbackHandler"},
    "sasl.oauthbearer.jwt.retriever.class": {
        "ClientCredentialsJwtRetriever",
        "DefaultJwtRetriever",
    },
}
_SAME = {
    "bootstrap.servers",
    "client.id",
    "security.protocol",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "socket.timeout.ms",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "https.ca.location",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
}
_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "https.ca.location",
)
# Keys of the Java client that steer only its own polling; they change nothing here.
_IGNORED = {
    "ssl.truststore.type",
    "ssl.keystore.type",
    "default.api.timeout.ms",
    "retries",
    "retry.backoff.ms",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "client.dns.lookup",
}
# A slip of the pen puts a secret where a name should be: only what looks like a name is shown.
_NAME = re.compile(r"[a-z]+(?:\.[a-z]+)+")
_MODULE = re.compile(r"[A-Za-z0-9]+LoginModule")
_AS_PEM = "Export the store as PEM: both clients read PEM only."
_NO_CLASS = "Use Kafka's own class for client credentials, or sign in another way."
_OTHER_NAME = "Remove it, or use one of librdkafka's names for it."
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;]+))')


def known_keys() -> frozenset[str]:
    """Every client key, in librdkafka's words, that both clients can be given."""
    return frozenset(_SAME | set(_RENAMED.values()))


def parse(text: str, where: str) -> dict[str, str]:
    """The properties in `text` in librdkafka's words; `where` names the file in errors.

    Raises SettingsError for a line without `=`, for a JKS or PKCS12 store (neither client
    reads one) and for a key that cannot be mapped.
    """
    found: dict[str, str] = {}
    for number, key, value in _lines(text, where):
        if key == "sasl.jaas.config":
            found.update(_jaas(value, where))
        elif key in _IGNORED:
            if key.endswith(".type") and value.upper() != "PEM":
                raise _unmapped(key, where, number, _AS_PEM)
        elif key in _USUAL_CLASSES:
            if value.rpartition(".")[2] not in _USUAL_CLASSES[key]:
                raise _unmapped(key, where, number, _NO_CLASS)
        elif key == _KEY_STORE:
            found |= {"ssl.certificate.location": value, "ssl.key.location": value}
        elif key in _RENAMED:
            found[_RENAMED[key]] = value
        elif key in _SAME:
            found[key] = value
        else:
            raise _unmapped(key, where, number, _OTHER_NAME)
    return found


def _lines(text: str, where: str) -> list[tuple[int, str, str]]:
    """Number (of lines joined at a backslash), key and value of each."""
    joined = re.sub(r"\\\r?\n\s*", "", text)
    pairs = []
    for number, line in enumerate(joined.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise SettingsError(
                f"{where}, line {number} has no '=' (not shown, it may be a secret)",
                "Write one key=value a line, as Kafka's client.properties has it.",
                code="CLIENT_CONFIG_INVALID",
            )
        pairs.append((number, key.strip(), value.strip()))
    return pairs


def _jaas(value: str, where: str) -> dict[str, str]:
    """User name and password out of a JAAS line of PlainLoginModule or ScramLoginModule."""
    options = {
        match.group(1): next(part for part in match.groups()[1:] if part is not None)
        for match in _JAAS_OPTION.finditer(value)
    }
    module = value.split(None, 1)[0].rsplit(".", 1)[-1] if value else ""
    if module in ("PlainLoginModule", "ScramLoginModule") and {"username", "password"} <= set(
        options
    ):
        unescape = re.compile(r"\\(.)")
        return {
            "sasl.username": unescape.sub(r"\1", options["username"]),
            "sasl.password": unescape.sub(r"\1", options["password"]),
        }
    if module == "OAuthBearerLoginModule":
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        return {
            f"sasl.oauthbearer.{names[name]}": option
            for name, option in options.items()
            if name in names
        }
    named = module if _MODULE.fullmatch(module) else "no login module"
    raise SettingsError(
        f"{where}: sasl.jaas.config names {named}, which cannot be mapped",
        "Use PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule, with its options.",
        code="CLIENT_CONFIG_INVALID",
    )


def _unmapped(key: str, where: str, number: int, next_step: str) -> SettingsError:
    named = f"'{key}'" if _NAME.fullmatch(key) else f"the key in line {number}"
    return SettingsError(
        f"{where}: {named} cannot be mapped to both Kafka clients",
        next_step,
        code="CLIENT_KEY_UNKNOWN",
    )


class LastOpened:
    """What the newest connection was opened with, of a process that keeps its connection.

    Certificates are renewed under their old paths, and a connection loads them once: brokers that
    restart would refuse the old one, each for itself, while the others answer on.
    """

    def __init__(self) -> None:
        self._held: Mapping[str, str] = {}

    @contextmanager
    def opening(self, client: Mapping[str, str]) -> Iterator[None]:
        """Around the opening by these properties; where that fails, what was open counts on."""
        found = _with_files(client, self._held)  # before they are loaded: no change is missed
        yield
        self._held = found

    def outdated(self, client: Mapping[str, str]) -> bool:
        """Whether one by these properties would sign in otherwise; not before the first is open."""
        return bool(self._held) and _with_files(client, self._held) != self._held


def _with_files(client: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The properties, with a digest of each file that they name.

    One that cannot be read now is as before; a folder or a pipe is not looked into.
    """
    found = dict(client)
    for key in _FILES:
        name = f"sha256 of {key}"
        found[name] = before.get(name, "")
        with suppress(OSError, ValueError, RuntimeError):  # no such name, or no such home folder
            if key in client and (file := Path(client[key]).expanduser()).is_file():
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found
