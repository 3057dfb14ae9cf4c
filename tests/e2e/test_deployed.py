"""What deploy/ holds, checked by the programs that will read it: promtool, nginx, systemd."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from playwright.sync_api import sync_playwright

from dashboard.demo.kafka.brokers import free_ports
from dashboard.exporter import own
from tests.support import debian, exported, sample_store
from tests.support.browser import CHROMIUM_ARGUMENTS, dashboard_server, rests

pytestmark = [pytest.mark.browser, pytest.mark.slow]
DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "lowwater.rules.yaml"
NAME = "lowwater.example.org"
# Spoken by other proxies of who somebody is; lower case, as a list of what came through is.
LOGINS = (
    "authorization", "remote-user", "x-remote-user", "x-user", "x-forwarded-user",
    "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username",
    "x-forwarded-access-token", "x-auth-request-user", "x-auth-request-email",
    "x-auth-request-groups", "x-auth-request-preferred-username", "x-auth-request-access-token",
)  # fmt: skip
# Per alert: the series that must make it fire, in promtool's notation, by the minute.
FIRES: Mapping[str, Mapping[str, str]] = {
    "LowwaterDown": {},
    "LowwaterUnreadable": {'lowwater_readable{part="journal"}': "0x60"},
    "LowwaterNoFindings": {'lowwater_cluster_info{cluster="c",job="j",instance="i"}': "1x60"},
    "LowwaterFindingsStale": {"lowwater_findings_age_seconds": "901x60"},
    "LowwaterBrokersMissing": {'lowwater_broker_answered{broker_id="2"}': "0x60"},
    "LowwaterTableIncomplete": {'lowwater_table_complete{table="replicas"}': "0x60"},
    "DiskFullWithinADay": {'lowwater_disk_days_to_full{bound="likely",broker_id="1"}': "0.5x60"},
    "DiskFullButReclaimable": {
        'lowwater_disk_usable_bytes{broker_id="1",log_dir="/d"}': "9x60",
        'lowwater_disk_size_bytes{broker_id="1",log_dir="/d"}': "100x60",
        'lowwater_disk_bytes{broker_id="1",log_dir="/d",kind="reclaimable"}': "11e9x60",
    },
    "GroupHoldsDisk": {
        'lowwater_held_bytes{group="g",job="j"}': "41x60",
        'lowwater_held_bytes{group="h",job="j"}': "39x60",
        'lowwater_disk_size_bytes{broker_id="1",job="j"}': "100x60",
        'lowwater_disk_size_bytes{broker_id="2",job="j"}': "100x60",
    },
    "OrphanPartitions": {'kafka_log_LogManager_OrphanLogPartitionSize{broker_id="1"}': "11e9x200"},
    "FollowersSlow": {'lowwater_slow_followers{broker_id="1"}': "2x60"},
    "PurgePaused": {'lowwater_purge_runs{state="paused"}': "1x60"},
    "PurgedRecordsCameBack": {"lowwater_purge_reverted_partitions": "1x60"},
}
_AT = "150m"


def promtool(*words: str, stdin: bytes | None = None, code: int = 0) -> str:
    """What it says; another exit code than `code` is a failure that shows it."""
    program = debian.program("promtool", "prometheus", "usr/bin/promtool")
    done = subprocess.run([program, *words], input=stdin, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, said
    return said


def test_promtool_takes_the_rules_and_each_fires_when_it_should(tmp_path: Path) -> None:
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} == FIRES.keys()
    promtool("check", "rules", str(RULES))
    tests = []
    for alert, series in FIRES.items():
        long = {name: values.replace("x60", "x200") for name, values in series.items()}
        tests.append(
            {
                "name": alert,
                "interval": "1m",
                "input_series": [{"series": name, "values": v} for name, v in long.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                        "eval_time": _AT,
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
        )
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_a_dashboard_of_kip_370_finds_its_gauges_by_the_broker(tmp_path: Path) -> None:
    names = RULES.with_name("kip-370.rules.yaml")
    promtool("check", "rules", str(names))
    series = 'kafka_log_LogManager_OrphanLogPartitionCount{broker_id="2",instance="here:9464"}'
    jmx = "kafka_log_logmanager_orphanlogpartitioncount"
    told = {"labels": f'{jmx}{{broker_id="2",instance="2"}}', "value": 3}
    asked = {"expr": jmx, "eval_time": "2m", "exp_samples": [told]}
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": "3x5"}],
            "promql_expr_test": [asked],
        }
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(names)], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_promtool_takes_the_metrics_and_every_expression_of_the_dashboards(tmp_path: Path) -> None:
    text = own.text(exported.families(tmp_path / "store"))
    # KIP-370 spells its own two; and people ask in days when a disk is full.
    odd = promtool("check", "metrics", stdin=text, code=3).splitlines()
    assert [line.split()[0] for line in odd] == [
        "kafka_log_LogManager_OrphanLogPartitionCount",
        "kafka_log_LogManager_OrphanLogPartitionSize",
        "lowwater_disk_days_to_full",
    ]
    asked = [
        target["expr"]
        for path in sorted((DEPLOY / "grafana").glob("*.json"))
        for panel in json.loads(path.read_text("utf-8"))["panels"]
        for target in panel["targets"]
    ]
    records = [{"record": f"shown:{i}", "expr": expr} for i, expr in enumerate(asked)]
    file = tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": records}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", str(file))


def test_systemd_takes_the_units_and_finds_little_to_attack(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    # The units name a program that is not here, and an account.
    shutil.copytree(DEPLOY / "systemd", tmp_path / "units")
    units = sorted((tmp_path / "units").glob("*.service"))
    for unit in units:
        unit.write_text(unit.read_text().replace("/opt/lowwater/bin/lowwater", "/bin/true"))
    environ = {"SYSTEMD_UNIT_PATH": f"{tmp_path}/units:", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [program, "verify", "--man=no", *units], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    # What it says of units that are not ours is not ours to mend.
    assert [line for line in done.stderr.splitlines() if "lowwater" in line] == []
    for unit in units:
        judged = subprocess.run(
            [program, "security", "--offline=yes", "--no-pager", unit], env=environ,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        level = re.search(r"exposure level for \S+: (\d+\.\d)", judged.stdout)
        assert level is not None, judged.stdout
        assert float(level[1]) <= 2.0, judged.stdout


def test_systemd_leaves_the_service_of_orphans_its_rights_beside_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    page = (DEPLOY.parent / "docs" / "orphans-service.md").read_text("utf-8")
    (name,) = re.findall(r"`/etc/systemd/system/(\S+\.service)`", page)
    units = tmp_path / "etc" / "systemd" / "system"
    shutil.copytree(DEPLOY / "systemd", units)
    (units / name).write_text(page.split("```ini\n")[1].split("```")[0])
    for target in ("sysinit", "basic", "shutdown", "network-online", "multi-user"):
        (units / f"{target}.target").write_text("[Unit]\nDescription=stands here\n")
    binary = tmp_path / "opt" / "lowwater" / "bin" / "lowwater"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)

    def kept(unit: str) -> set[str]:
        """What the unit may do, of what a look into a broker's log dirs and files needs."""
        done = subprocess.run(
            [program, f"--root={tmp_path}", "security", "--offline=yes", "--no-pager", unit],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        rows = re.findall(r"^✗ +(\S+)", done.stdout, re.MULTILINE)
        assert rows, done.stderr
        return set(rows) & {"User=/DynamicUser=", "PrivateUsers=", "ProtectProc="}

    assert kept(name) == {"User=/DynamicUser=", "PrivateUsers=", "ProtectProc="}
    assert kept("lowwater-watch.service") == set()


class Seen(BaseHTTPRequestHandler):
    """Stands where the pages and the sign-in stand, and remembers what it was sent."""

    requests: list[tuple[str, dict[str, str]]]
    signed_in: bool

    def do_GET(self) -> None:
        type(self).requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        refused = self.path == "/oauth2/auth" and not type(self).signed_in
        self.send_response(401 if refused else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def seen(*, signed_in: bool) -> Iterator[tuple[int, list[tuple[str, dict[str, str]]]]]:
    """A port, and the requests that came there."""
    handler = type("Here", (Seen,), {"requests": [], "signed_in": signed_in})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], handler.requests  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def certificate(folder: Path) -> None:
    """One for NAME, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(made.public_bytes(pem))
    (folder / "privkey.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@contextmanager
def nginx(folder: Path, *, pages: int, sign_in: int) -> Iterator[int]:
    """The sample as it stands, with other ports and folders; the port of TLS."""
    program = debian.program("nginx", "nginx", "usr/sbin/nginx")
    certificate(folder)
    http, https = free_ports(2)
    text = (DEPLOY / "nginx" / "lowwater.conf").read_text("utf-8")
    for was, now in (
        ("listen 80;", f"listen 127.0.0.1:{http};"),
        ("listen 443 ", f"listen 127.0.0.1:{https} "),
        ("127.0.0.1:8501", f"127.0.0.1:{pages}"),
        ("127.0.0.1:4180", f"127.0.0.1:{sign_in}"),
        ("/etc/nginx/lowwater/", f"{folder}/"),
    ):
        assert was in text, was
        text = text.replace(was, now)
    (folder / "lowwater.conf").write_text(text)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary} include {folder}/lowwater.conf; }}\n"
    )
    words = [program, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    tested = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
    assert "warn" not in tested.stderr
    with subprocess.Popen(words) as server:
        try:
            yield https
        finally:
            server.terminate()
            server.wait(20)


def ask(port: int, path: str, headers: Mapping[str, str]) -> tuple[int, str | None]:
    """The status, and where a redirect leads."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=unchecked))
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=dict(headers))
    for _ in range(50):
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, None
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("Location")
        except urllib.error.URLError:  # it has only just begun to listen
            threading.Event().wait(0.1)
    raise AssertionError("nginx does not answer")


@pytest.mark.parametrize("signed_in", [True, False])
def test_nginx_lets_through_who_signed_in_and_nobodys_word_about_it(
    tmp_path: Path, signed_in: bool
) -> None:
    spoken = {
        **{name.title(): "root@example.org" for name in LOGINS},
        "Host": NAME, "X-Forwarded-For": "10.9.8.7", "Forwarded": "for=10.9.8.7",
        "Origin": "https://other.example.org", "Cookie": "mine=1",
    }  # fmt: skip
    with (
        seen(signed_in=signed_in) as (pages, at_pages),
        seen(signed_in=signed_in) as (sign_in, at_sign_in),
        nginx(tmp_path, pages=pages, sign_in=sign_in) as port,
    ):
        assert ask(port, "/", {"Host": "other.example.org"}) == (421, None)
        status, to = ask(port, "/purge?topic=a", spoken)

    assert [path for path, _ in at_sign_in] == ["/oauth2/auth"]
    assert at_sign_in[0][1]["cookie"] == "mine=1"
    if not signed_in:
        assert (status, to) == (302, f"https://{NAME}/oauth2/sign_in?rd=/purge?topic=a")
        assert at_pages == []
        return
    assert status == 200
    ((path, headers),) = at_pages
    assert path == "/purge?topic=a"
    assert not headers.keys() & {*LOGINS, "forwarded"}
    assert headers["host"] == headers["x-forwarded-host"] == NAME
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["origin"] == "https://other.example.org"  # for the pages to refuse
    assert headers["cookie"] == "mine=1"


def test_the_pages_live_behind_nginx_over_its_websocket(tmp_path: Path) -> None:
    (tmp_path / "nginx").mkdir()
    sample_store.write(tmp_path / "data")
    environ = {"LOWWATER_DATA": str(tmp_path / "data"), "LOWWATER_STATE_DIR": str(tmp_path / "s")}

    with (
        seen(signed_in=True) as (sign_in, _),
        dashboard_server(environ, flags=("--behind-proxy", f"https://{NAME}")) as url,
        nginx(tmp_path / "nginx", pages=int(url.rsplit(":", 1)[1]), sign_in=sign_in) as port,
        sync_playwright() as playwright,
    ):
        # The browser reaches the name at its usual port, as people do.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[*CHROMIUM_ARGUMENTS, f"--host-resolver-rules=MAP {NAME}:443 127.0.0.1:{port}"],
        )
        page = browser.new_context(ignore_https_errors=True).new_page()
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.goto(f"https://{NAME}/")
        rests(page)
        assert page.get_by_text("are consumed by every known group").first.is_visible()
        assert sockets and all(each.startswith(f"wss://{NAME}/") for each in sockets)
        browser.close()
