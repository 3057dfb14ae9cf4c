"""Translates Kafka's own client.properties into librdkafka's words, which settings use."""

from __future__ import annotations

import re

from dashboard.errors import SettingsError

# Java client key -> librdkafka key; keys spelt alike in both are listed in _SAME.
_RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.mechanism": "sasl.mechanisms",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
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
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
}
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
    for key, value in _lines(text, where):
        if key == "sasl.jaas.config":
            found.update(_jaas(value, where))
        elif key in _IGNORED:
            if key.endswith(".type") and value.upper() != "PEM":
                raise _unmapped(key, where, "Export the store as PEM: both clients read PEM only.")
        elif key in _RENAMED:
            found[_RENAMED[key]] = value
        elif key in _SAME:
            found[key] = value
        else:
            raise _unmapped(key, where, "Remove it, or use one of librdkafka's names for it.")
    return found


def _lines(text: str, where: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\r?\n\s*", "", text)
    pairs = []
    for number, line in enumerate(joined.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise SettingsError(
                f"{where}, line {number}: '{key[:40]}' has no '='",
                "Write one key=value a line, as Kafka's client.properties has it.",
                code="CLIENT_CONFIG_INVALID",
            )
        pairs.append((key.strip(), value.strip()))
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
    raise SettingsError(
        f"{where}: sasl.jaas.config names {module or 'no login module'}, which cannot be mapped",
        "Use PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule, with its options.",
        code="CLIENT_CONFIG_INVALID",
    )


def _unmapped(key: str, where: str, next_step: str) -> SettingsError:
    return SettingsError(
        f"{where}: '{key}' cannot be mapped to both Kafka clients",
        next_step,
        code="CLIENT_KEY_UNKNOWN",
    )
