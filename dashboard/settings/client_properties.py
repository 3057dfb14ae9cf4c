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

# Java client key -> librdkafka key; keys that settings spell so are listed in _SAME.
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
_SHARED = {
    "bootstrap.servers",
    "client.id",
    "security.protocol",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
}
# Those that librdkafka alone has: whoever writes them does not think of Java's escapes.
_LIBRDKAFKAS = {
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
}
_SAME = _SHARED | _LIBRDKAFKAS
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
_JAAS = "sasl.jaas.config"
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;]+))')
# A line that Kafka's own parser takes too.
_JAAS_LINE = re.compile(
    r'\S+\s+\w+(?:\s+\w+\s*=\s*(?:"(?:[^"\\]|\\.)*"|\'[^\']*\'|[^\s;"\'\\]+))*\s*;?', re.DOTALL
)
# As java.util.Properties has them.
_PAIR = re.compile(r"((?:\\.|[^\\=])*)=(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def known_keys() -> frozenset[str]:
    """Every client key, in librdkafka's words, that both clients can be given."""
    return frozenset(_SAME | set(_RENAMED.values()))


def parse(text: str, where: str) -> dict[str, str]:
    """The properties in `text` in librdkafka's words; `where` names the file in errors.

    Lines and escapes are read as Kafka's tools read them, by java.util.Properties. Raises
    SettingsError for a line without `=`, for an escape that is none, for a JKS or PKCS12 store
    (neither client reads one) and for a key that cannot be mapped.
    """
    found: dict[str, str] = {}
    for number, key, value in _lines(text, where):
        if key == _JAAS:
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
    """Number, key and value of each property."""
    pairs = []
    for number, line in _joined(text):
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise SettingsError(
                f"{where}, line {number} has no '=' (not shown, it may be a secret)",
                "Write one key=value a line, as Kafka's client.properties has it.",
                code="CLIENT_CONFIG_INVALID",
            )
        try:
            key = _unescaped(pair[1].strip())
            value = _value(key, pair[2]).strip()  # Kafka trims each, too
        except ValueError as error:
            raise SettingsError(
                f"{where}, line {number} has a \\u that names no character (not shown, it may "
                "be a secret)",
                "Write a backslash as two, or four hex digits behind the u.",
                code="CLIENT_CONFIG_INVALID",
            ) from error
        pairs.append((number, key, value))
    return pairs


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Each property's first line number, and its text with the lines that it goes on in.

    It goes on behind a backslash that is no other's escape; a comment never does.
    """
    lines = enumerate(re.split(r"\r\n|\r|\n", text), start=1)
    for number, line in lines:
        whole = line.lstrip()
        if whole[:1] in ("#", "!"):
            continue
        while (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1] + next(lines, (0, ""))[1].lstrip()
        if whole:
            yield number, whole


def _value(key: str, written: str) -> str:
    """What the text behind a key's `=` means. Raises ValueError as `_unescaped` does."""
    if key in _LIBRDKAFKAS:  # Kafka's tools, which ignore it, make nothing else of DOMAIN\name
        return written.replace("\\\\", "\\")
    plain = _unescaped(written)
    if key == _JAAS and not _JAAS_LINE.fullmatch(plain.strip()):
        return written  # Kafka refuses it: a quote in a password that is escaped once, not twice
    return plain


def _unescaped(text: str) -> str:
    """As java.util.Properties reads it. Raises ValueError for half an escape or character."""

    def meant(escape: re.Match[str]) -> str:
        said = escape[1]
        return chr(int(said[1:], 16)) if said[0] == "u" else _CONTROLS.get(said, said)

    units = _ESCAPE.sub(meant, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le")  # two \\u may be halves of a character beyond U+FFFF


def _jaas(value: str, where: str) -> dict[str, str]:
    """User name and password out of a JAAS line of PlainLoginModule or ScramLoginModule."""
    found = {
        match.group(1): next(part for part in match.groups()[1:] if part is not None)
        for match in _JAAS_OPTION.finditer(value)
    }
    options = {name: re.sub(r"\\(.)", r"\1", option) for name, option in found.items()}
    module = value.split(None, 1)[0].rsplit(".", 1)[-1] if value else ""
    if module in ("PlainLoginModule", "ScramLoginModule") and {"username", "password"} <= set(
        options
    ):
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
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
