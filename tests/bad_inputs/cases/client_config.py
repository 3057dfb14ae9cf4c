"""Kafka's client.properties, and client properties that cannot be used."""

from __future__ import annotations

from tests.bad_inputs.case import Case, Make, both, folder, raw, text

FILE = "client.properties"
CALL = f"collect --bootstrap-server 127.0.0.1:1 --client-config {FILE}"
JAAS = "sasl.jaas.config=org.apache.kafka.common.security"
PLAIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism="
BEARER = PLAIN + "OAUTHBEARER\n"
OAUTH = "sasl.oauthbearer."


def wrong(name: str, make: Make, code: str, word: str) -> Case:
    return Case(name, make, CALL, code, 1, word)


def lines(name: str, body: str, word: str, code: str = "CLIENT_CONFIG_INVALID") -> Case:
    return wrong(name, text(FILE, body), code, word)


def unusable(name: str, body: str, word: str) -> Case:
    return lines(name, body, word, "CLIENT_PROPERTY_INVALID")


def unknown(name: str, body: str, word: str) -> Case:
    return lines(name, body, word, "CLIENT_KEY_UNKNOWN")


CASES = [
    wrong("a folder", both(folder(FILE)), "CLIENT_CONFIG_UNREADABLE", FILE),
    wrong("bytes that are no text", raw(FILE, b"\xff\xff="), "CLIENT_CONFIG_UNREADABLE", FILE),
    Case("not there", None, CALL.replace(FILE, "none.p"), "CLIENT_CONFIG_UNREADABLE", 1, "none.p"),
    Case("not there for apply", None,
         "apply plan.json --mode wait-all --confirm '$CONFIRM' --client-config none.p",
         "CLIENT_CONFIG_UNREADABLE", 1, "none.p"),
    Case("a name too long", None, CALL.replace(FILE, "x" * 5000), "CLIENT_CONFIG_UNREADABLE", 1,
         "xxx"),
    lines("a line without =", "client.id lowwater", "line 1"),
    lines("a second line without =", "client.id=a\nnothing", "line 2"),
    lines("a JAAS line without a module", "sasl.jaas.config=", "no login module"),
    lines("a JAAS line of blanks", "sasl.jaas.config= \t \\\n  ", "no login module"),
    lines("a JAAS line of Kerberos", "sasl.jaas.config=com.sun.Krb5LoginModule required;", "Krb5"),
    lines("a JAAS line without a password", f'{JAAS}.plain.PlainLoginModule required username="a";',
          "PlainLoginModule"),
    unknown("a key of a producer", "acks=all", "line 1"),
    unknown("an empty key", "=value", "line 1"),
    unknown("a Java store", "ssl.truststore.type=JKS", "ssl.truststore.type"),
    unknown("a PKCS12 store", "ssl.keystore.type=PKCS12", "ssl.keystore.type"),
    unknown("a Java store's password", "ssl.truststore.password=x", "ssl.truststore.password"),
    unknown("a key with a zero", "a\0b=c", "cannot be mapped"),
    unusable("an unknown protocol", "security.protocol=TLS", "security.protocol"),
    unusable("an unknown mechanism", PLAIN + "GSSAPI\nsasl.username=a\nsasl.password=b",
             "sasl.mechanisms"),
    unusable("SASL without a name", PLAIN + "PLAIN", "sasl.username"),
    unusable("SCRAM without a password", PLAIN + "SCRAM-SHA-512\nsasl.username=a",
             "sasl.password"),
    unusable("a bearer without an endpoint", BEARER, "token.endpoint.url"),
    unusable("a bearer without a secret", f"{BEARER}{OAUTH}token.endpoint.url=https://t\n"
             f"{OAUTH}client.id=a", "client.secret"),
    unusable("a bearer's endpoint that is a file", f"{BEARER}{OAUTH}token.endpoint.url=file:///e\n"
             f"{OAUTH}client.id=a\n{OAUTH}client.secret=b", "file:///e"),
    unusable("a bearer's endpoint with a broken bracket",
             f"{BEARER}{OAUTH}token.endpoint.url=https://[::1\n{OAUTH}client.id=a\n"
             f"{OAUTH}client.secret=b", "token.endpoint.url"),
    unusable("a timeout that is a word", "socket.timeout.ms=soon", "socket.timeout.ms"),
    unusable("a timeout below zero", "socket.timeout.ms=-1", "socket.timeout.ms"),
    unusable("a timeout of a thousand digits", f"socket.timeout.ms={'9' * 5000}",
             "socket.timeout.ms"),
    unusable("an authority that is not there", "security.protocol=SSL\nssl.ca.location=none.pem",
             "none.pem"),
    unusable("an authority that is no PEM", "security.protocol=SSL\nssl.ca.location=text",
             "ssl.ca.location"),
    unusable("an authority in nobody's home",
             "security.protocol=SSL\nssl.ca.location=~nobody-here/ca.pem", "ssl.ca.location"),
    unusable("an authority inline that is none", "security.protocol=SSL\nssl.ca.pem=x",
             "ssl.ca.pem"),
    unusable("an authority inline of other letters", "security.protocol=SSL\nssl.ca.pem=ä",
             "ssl.ca.pem"),
    unusable("a certificate that is not there",
             "security.protocol=SSL\nssl.certificate.location=none.pem", "none.pem"),
    unusable("a certificate inline that is none",
             "security.protocol=SSL\nssl.certificate.pem=x\nssl.key.pem=y", "ssl.certificate.pem"),
    Case("an address without a port", text(FILE, "bootstrap.servers=h\n"),
         f"collect --client-config {FILE}", "CLIENT_PROPERTY_INVALID", 1, "bootstrap.servers"),
]  # fmt: skip
