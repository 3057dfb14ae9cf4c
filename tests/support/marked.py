"""Secrets with a mark in them, in every place that holds one, and a search for the mark in outputs.

Whoever adds a setting that holds a secret adds it here: the tests then look for it everywhere.
"""

from __future__ import annotations

import base64
import io
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pypdf import PdfReader

MARK = "LwMarked"
# Base64 of the mark at each of the three places where it may begin.
_FORMS = tuple(
    form.encode()
    for form in (
        MARK,
        MARK.lower(),
        MARK.encode().hex(),
        base64.b64encode(MARK.encode()).decode()[:10],
        base64.b64encode(b"x" + MARK.encode()).decode()[2:10],
        base64.b64encode(b"xx" + MARK.encode()).decode()[3:10],
        MARK[::-1],
    )
)
_CHILDREN = (b"streamlit", b"dashboard.purge.jobs.worker", b"-m\0analytics")
TOKEN_VARIABLE = {"LOWWATER_METRICS_TOKEN": f"{MARK}-token"}
CLIENT_PROPERTIES = f"""
security.protocol=PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="ada" password="{MARK}-jaas";
ssl.key.password={MARK}-key-password
ssl.keystore.key=-----BEGIN PRIVATE KEY-----{MARK}-pem-----END PRIVATE KEY-----
sasl.oauthbearer.client.secret={MARK}-oauth
"""
_OIDC = f"""
[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "{MARK}-cookie"
client_id = "lowwater"
client_secret = "{MARK}-oidc"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""
_SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"
broker_timeout = "1s"

[clusters.{name}]
"client.config" = "{folder}/secret/client.properties"
"bootstrap.servers" = "{bootstrap}"
"sasl.password" = "{mark}-sasl"
"metrics.urls" = "1=http://ada:{mark}-metrics@127.0.0.1:9/metrics?key={mark}-query"

[clusters.other]
"bootstrap.servers" = "127.0.0.1:9"
"ssl.key.password" = "{mark}-other-key"
"metrics.prometheus.url" = "http://ada:{mark}-prometheus@127.0.0.1:9"
"metrics.prometheus.brokers" = "1=kafka-1:7071"
"metrics.prometheus.token.file" = "{folder}/secret/token"

[alerts]
webhook = "https://127.0.0.1:9/{mark}-webhook"
on = ["reverted", "stalled", "new-stray", "policy-refused", "disk-above:1%"]

[topics."*"]
owner = "team"
readers = "groups"
declared_by = "ada"
declared_at = "2026-03-01"

[policies.orders]
topics = ["{topics}"]
"""


def settings_file(folder: Path, name: str, bootstrap: str, topics: str = "orders*") -> Path:
    """Settings with every secret there can be; their files are below `folder`/secret."""
    kept = folder / "secret"
    kept.mkdir()
    (kept / "client.properties").write_text(CLIENT_PROPERTIES)
    (kept / "token").write_text(f"{MARK}-token-file")
    (kept / "oidc.toml").write_text(_OIDC)
    file = kept / "lowwater.toml"
    file.write_text(
        _SETTINGS.format(folder=folder, name=name, bootstrap=bootstrap, mark=MARK, topics=topics)
    )
    return file


def marks_in(output: str | bytes, forms: Sequence[bytes] = _FORMS) -> list[str]:
    """What stands around each mark of an output, in plain text, base64 or hexadecimal."""
    data = output.encode(errors="backslashreplace") if isinstance(output, str) else output
    found = []
    for form in forms:
        at = data.find(form)
        if at >= 0:
            found.append(data[max(0, at - 60) : at + 60].decode(errors="backslashreplace"))
    return found


def marked_files(folder: Path) -> dict[str, list[str]]:
    """Files below `folder`, but for secret/, with a mark in their bytes or in what they hold."""
    found = {}
    for file in sorted(folder.rglob("*")):
        relative = file.relative_to(folder)
        if file.is_file() and relative.parts[0] != "secret":
            marks = [m for part in (file.read_bytes(), *_held(file)) for m in marks_in(part)]
            if marks:
                found[str(relative)] = marks
    return found


def _held(file: Path) -> list[str | bytes]:
    """The text inside files whose bytes are compressed."""
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        return [str(table.schema.metadata), str(table.to_pylist())]
    if file.suffix == ".pdf":
        reader = PdfReader(io.BytesIO(file.read_bytes()))
        return [str(reader.metadata), *(page.extract_text() for page in reader.pages)]
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as packed:
            return [packed.read(name) for name in packed.namelist()]
    return []


def marked_processes(folder: Path, forms: Sequence[bytes] = _FORMS) -> list[str]:
    """Marks in the command lines of all processes that name `folder`, and in the environment of
    those that we start ourselves: the page server, workers, an analysis."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes()
            given = (process / "environ").read_bytes()
        except OSError:  # no process, or it is gone
            continue
        if str(folder).encode() in words + given:
            child = any(name in words for name in _CHILDREN)
            marks = marks_in(words, forms) + (marks_in(given, forms) if child else [])
            found += [f"{words!r}: {mark}" for mark in marks]
    return found


@contextmanager
def watched_processes(folder: Path) -> Iterator[list[str]]:
    """Marks seen in processes, looked for ten times a second while the block runs."""
    found: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            found.extend(marked_processes(folder))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
