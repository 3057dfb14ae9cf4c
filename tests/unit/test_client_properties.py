"""Kafka's client.properties in librdkafka's words; what cannot be mapped is named."""

from __future__ import annotations

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings.client_properties import known_keys, parse


def test_comments_blank_lines_and_continued_lines_are_read_as_java_reads_them() -> None:
    text = "# note\n! note\n\nbootstrap.servers = a:1,\\\n   b:2\nclient.id=x\n"
    assert parse(text, "f") == {"bootstrap.servers": "a:1,b:2", "client.id": "x"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# the brokers of C:\\kafka\\\nclient.id=x", {"client.id": "x"}),
        ("  ! note\\\nclient.id=x", {"client.id": "x"}),
        ("client.id=x\\\n # y", {"client.id": "x# y"}),
        ("client.id=x\\\n\nbootstrap.servers=y", {"client.id": "x", "bootstrap.servers": "y"}),
        ("client.id=x\\\r\n  y\\\r  z\\", {"client.id": "xyz"}),
        ("\\\n\\\n", {}),
        (
            r"sasl.password=endsin\\" + "\nclient.id=x",
            {"sasl.password": "endsin\\", "client.id": "x"},
        ),
        (r"ssl.key.password=a\\" + "\nclient.id=x", {"ssl.key.password": "a\\", "client.id": "x"}),
        ("ssl.key.password=a\\\\\\\nb", {"ssl.key.password": "a\\b"}),
        ("ssl.key.password=a\\ \nclient.id=x", {"ssl.key.password": "a", "client.id": "x"}),
    ],
)
def test_lines_go_on_where_java_has_them_go_on(text: str, found: dict[str, str]) -> None:
    assert parse(text, "f") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"ssl.key.password=pa\\ss", {"ssl.key.password": "pa\\ss"}),
        (r"ssl.key.password=\#a\=b\:c\!\d\"e", {"ssl.key.password": '#a=b:c!d"e'}),
        (r"ssl.key.password=\u00e4\ud83d\uDE00", {"ssl.key.password": "ä\N{GRINNING FACE}"}),
        (r"ssl.key.password=a\tb\\tc", {"ssl.key.password": "a\tb\\tc"}),
        (r"ssl.keystore.key=-\nk\n-", {"ssl.key.pem": "-\nk\n-"}),
        (r"client\.id=x", {"client.id": "x"}),
        (r"sasl.password=pa\\ss", {"sasl.password": "pa\\ss"}),
        (r"sasl.username=CORP\tom\u", {"sasl.username": r"CORP\tom\u"}),
        (r"ssl.ca.pem=-\nc\n-", {"ssl.ca.pem": r"-\nc\n-"}),
    ],
)
def test_escapes_are_javas_where_a_key_is(text: str, found: dict[str, str]) -> None:
    """A name with a domain, in a file that was written for librdkafka, stays what it says."""
    assert parse(text, "f") == found


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'"a\\\\b"', "a\\b"),  # by Properties, and by JAAS
        (r'"a\\"b"', 'a"b'),
        (r'"a\"b"', 'a"b'),  # Kafka refuses it
        (r"\"ab\"", "ab"),
        (r"'a\\\\b'", "a\\b"),
    ],
)
@pytest.mark.parametrize(
    ("module", "name"),
    [("plain.PlainLoginModule", "password"),
     ("oauthbearer.OAuthBearerLoginModule", "clientSecret")],
)  # fmt: skip
def test_a_jaas_line_is_escaped_twice(written: str, password: str, module: str, name: str) -> None:
    text = f'sasl.jaas.config=o.a.k.{module} required username="u" {name}={written};'
    found = parse(text, "f")
    assert found.get("sasl.password", found.get("sasl.oauthbearer.client.secret")) == password


def test_sasl_scram_over_tls_is_mapped() -> None:
    text = (
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '  username="alice" password="p=;\\"q";\n'
        "ssl.truststore.type=PEM\n"
        "ssl.truststore.location=/etc/ca.pem\n"
        "retries=5\n"
    )
    assert parse(text, "f") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'p=;"q',
        "ssl.ca.location": "/etc/ca.pem",
    }


def test_oauthbearer_options_are_mapped() -> None:
    text = (
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        "required clientId='i' clientSecret='s' scope='kafka';"
    )
    assert parse(text, "f") == {
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "kafka",
    }


_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.mark.parametrize(
    "text",
    [
        f"sasl.login.callback.handler.class={_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"sasl.login.callback.handler.class={_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        f"sasl.oauthbearer.jwt.retriever.class={_OAUTH}.ClientCredentialsJwtRetriever",
    ],
)
def test_kafkas_own_classes_for_client_credentials_need_no_word(text: str) -> None:
    assert parse(text, "f") == {}


def test_credentials_of_kafka_4_and_a_pem_key_store_are_mapped() -> None:
    text = (
        "sasl.oauthbearer.client.credentials.client.id=i\n"
        "sasl.oauthbearer.client.credentials.client.secret=s\n"
        "ssl.keystore.type=PEM\n"
        "ssl.keystore.location=/etc/lw.pem\n"
    )
    assert parse(text, "f") == {
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "ssl.certificate.location": "/etc/lw.pem",
        "ssl.key.location": "/etc/lw.pem",
    }


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("bootstrap.servers", "CLIENT_CONFIG_INVALID", "line 1"),
        ("\na=1\nfetch.min.bytes=5", "CLIENT_KEY_UNKNOWN", "the key in line 2"),
        ("fetch.min.bytes=5", "CLIENT_KEY_UNKNOWN", "fetch.min.bytes"),
        ("ssl.truststore.type=JKS", "CLIENT_KEY_UNKNOWN", "ssl.truststore.type"),
        ("sasl.jaas.config=com.x.Krb5LoginModule required;", "CLIENT_CONFIG_INVALID", "Krb5"),
        (
            "sasl.login.callback.handler.class=com.x.OurHandler",
            "CLIENT_KEY_UNKNOWN",
            "sasl.login.callback.handler.class",
        ),
        ("sasl.jaas.config=", "CLIENT_CONFIG_INVALID", "no login module"),
        ("\n#\\\nssl.key.password=a\\u12", "CLIENT_CONFIG_INVALID", "line 3"),
        ("ssl.key.password=\\ud83d", "CLIENT_CONFIG_INVALID", "line 1"),
        ("client.id=a\\\n,b\nfetch.min=5\\\n,6\nx", "CLIENT_CONFIG_INVALID", "line 5"),
        (
            "sasl.jaas.config=x.PlainLoginModule required username='u';",
            "CLIENT_CONFIG_INVALID",
            "PlainLoginModule",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(text: str, code: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text, "client.properties")
    assert caught.value.code == code
    assert caught.value.message.startswith("client.properties")
    assert named in caught.value.message


def test_no_secret_stands_in_an_error() -> None:
    text = "sasl.jaas.config=x.PlainLoginModule required password='hunter2';"
    with pytest.raises(SettingsError) as caught:
        parse(text, "f")
    assert "hunter2" not in caught.value.message + caught.value.next_step


def test_every_mapped_key_is_one_that_settings_accept() -> None:
    assert set(parse("sasl.mechanism=PLAIN\nrequest.timeout.ms=5", "f")) <= known_keys()
