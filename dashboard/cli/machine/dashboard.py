"""`lowwater dashboard`: serves the pages, on this machine's loopback by default, until Ctrl-C."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import dashboard
from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core import processes as own_processes
from dashboard.core.errors import LowwaterError, UsageError
from dashboard.demo import processes
from dashboard.people import people
from dashboard.settings.settings import Settings
from dashboard.web_guard import LOOPBACK_NAMES

DEFAULT_PORT = 8501
_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0
# No statistics, no menu of a developer, no traceback on a page. What is safe by default is said
# all the same: a config.toml in somebody's home must not weaken it.
_FLAGS = {
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "server.enableCORS": "true",
    "server.enableXsrfProtection": "true",
    "server.enableAgentApi": "false",
    "server.enableStaticServing": "false",
    "server.maxUploadSize": "32",
    "server.trustedUserHeaders": "{}",
    "global.developmentMode": "false",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    # Else each run of each part of a page ends with a look at every object of the process.
    "runner.postScriptGC": "false",
}


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "dashboard",
        description="Serves the pages on 127.0.0.1; they read --data and queue purges. "
        "What listens, what leaves and which secrets lie where: docs/web.md.",
        examples=("lowwater dashboard --data ./data", "lowwater dashboard --port 9000"),
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port to listen on (default {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--address",
        default=LOOPBACK,
        help=f"IP address to listen on (default {LOOPBACK}); others need --behind-proxy",
    )
    parser.add_argument(
        "--behind-proxy",
        metavar="URL",
        help="https address of a proxy that signs people in and passes their requests on",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C (130). Raises UsageError PORT_TAKEN, ADDRESS_OPEN, …, SettingsError."""
    settings = context.read_settings(args)
    context.open_store(settings.data)
    place = chosen(args.address, args.port, args.behind_proxy)
    check_free(place)
    secrets = _secrets(settings, place)
    if secrets is None and (warning := place.warning(settings.operator)):
        output.progress(f"warning: {warning}")
    url = place.url
    output.progress(f"starting the pages at {url} …")
    server = subprocess.Popen(
        command(place, args.cluster, secrets),
        env=environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches us alone, and we end it
        preexec_fn=own_processes.die_with_parent(),  # noqa: PLW1509 - calls prctl and getppid only
    )
    try:
        _wait_until_up(server, url)
        output.emit({"url": url, "pid": server.pid}, f"{url}  (Ctrl-C ends it)", as_json=args.json)
        return _ended(server.wait())
    except KeyboardInterrupt:
        output.progress("pages ended")
        return output.INTERRUPTED
    finally:
        processes.stop(server, _GRACE_SECONDS)


def command(place: Listening, cluster: str | None, secrets: Path | None = None) -> list[str]:
    """Streamlit on the entry's file, with every flag that keeps it to itself."""
    package = _package()
    flags = [*_FLAGS.items(), *place.flags, ("theme.base", str(package / "ui" / "theme.toml"))]
    if secrets is not None:
        flags.append(("secrets.files", str(secrets)))
    words = [sys.executable, "-m", "streamlit", "run", str(package / "web.py")]
    words += [f"--{name}={value}" for name, value in flags]
    return [*words, "--", "--cluster", cluster] if cluster else words


def _secrets(settings: Settings, place: Listening) -> Path | None:
    """The file by which people sign in, if they do. Raises SettingsError OIDC_SECRETS_INVALID."""
    if settings.people is None or settings.people.oidc_secrets is None:
        return None
    path = settings.people.oidc_secrets.absolute()
    people.check(path, place.origin, place.port)
    return path


def environment(settings: Settings) -> dict[str, str]:
    """This process' environment with the chosen data folder and settings file, as absolute paths.

    Streamlit puts only `dashboard/` on the module path, so the folder above it is added.
    """
    local = "://" not in settings.data
    data = str(Path(settings.data).absolute()) if local else settings.data
    path = [str(_package().parent), os.environ.get("PYTHONPATH", "")]
    # A STREAMLIT_* variable could open what the flags keep shut, and has no place in this server.
    ours = own_processes.environment(
        LOWWATER_DATA=data, PYTHONPATH=os.pathsep.join(filter(None, path))
    )
    kept = {name: value for name, value in ours.items() if not name.startswith("STREAMLIT_")}
    found = own_processes.GIVES_BACK | kept
    if settings.source:
        found["LOWWATER_SETTINGS"] = str(settings.source.absolute())
    return found


def _wait_until_up(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        if processes.page_is_up(url):
            return
        time.sleep(0.1)
    _ended(server.poll())
    raise LowwaterError(
        f"the pages did not answer at {url} within {_START_SECONDS:.0f} s",
        "Look at the messages above; a loaded machine may need a second try.",
        code="PAGES_NOT_UP",
    )


def _ended(code: int | None) -> int:
    """0 for a server that was ended in order; raises for one that ended by itself."""
    if code in (0, None):
        return 0
    raise LowwaterError(
        f"the server of the pages ended with code {code}",
        "Look at the messages above, then start it again.",
        code="PAGES_ENDED",
    )


def _package() -> Path:
    return Path(dashboard.__file__).parent


# Where the pages listen and under which names: loopback, unless somebody else keeps the door.

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Listening:
    """An IP address and port, and the https address that people type where a proxy stands."""

    address: str
    port: int
    public: str | None = None

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def url(self) -> str:
        """The pages as this machine reaches them."""
        at = ipaddress.ip_address(self.address)
        host = LOOPBACK if at.is_unspecified else f"[{at}]" if at.version == 6 else str(at)
        return f"http://{host}:{self.port}"

    @property
    def names(self) -> list[str]:
        """Host names that requests may carry: this machine's loopback and the public one."""
        public = urlsplit(self.public).hostname if self.public else None
        return sorted(LOOPBACK_NAMES | ({public} if public else set()))

    @property
    def origin(self) -> str:
        """The origin that a browser tells."""
        return self.public or self.url

    @property
    def flags(self) -> list[tuple[str, str]]:
        """Streamlit's flags; its own checks of WebSockets stay on behind ours."""
        return [
            ("server.address", self.address),
            ("server.port", str(self.port)),
            # Without it, Streamlit asks an outside service what this machine's address is.
            ("browser.serverAddress", urlsplit(self.origin).hostname or LOOPBACK),
            ("server.corsAllowedOrigins", self.origin),
            *(("server.allowedHosts", name) for name in self.names),
        ]

    def warning(self, operator: str) -> str | None:
        """What an operator must know who opens this door; None where it stays shut."""
        if self.public is None:
            return None
        said = f"everybody whom the proxy at {self.public} lets in acts as {operator}, purges too"
        if self.loopback:
            return said
        return (
            f"{said}; and so does whoever reaches {self.address}:{self.port} past it: "
            "let a firewall admit the proxy alone"
        )


def chosen(address: str, port: int, behind_proxy: str | None) -> Listening:
    """What the flags ask for. Raises UsageError ADDRESS_INVALID, ADDRESS_OPEN, PROXY_INVALID,
    PORT_INVALID."""
    if not 0 < port < 65536:
        raise UsageError(
            f"{port} is not a port", "Choose one from 1024 to 65535.", code="PORT_INVALID"
        )
    found = Listening(_ip(address), port, _public(behind_proxy) if behind_proxy else None)
    if not found.loopback and found.public is None:
        raise UsageError(
            f"--address {address} would serve the pages to everybody who reaches this machine, "
            "without TLS",
            "Leave it out and use an SSH tunnel; or let a proxy end TLS and sign people in (or "
            "oidc_secrets of [people] do), and name its address: --behind-proxy https://NAME.",
            code="ADDRESS_OPEN",
        )
    return found


def check_free(place: Listening) -> None:
    """Raises UsageError PORT_TAKEN before a server is started."""
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.address, place.port))
        except OSError as error:
            raise UsageError(
                f"port {place.port} of {place.address} cannot be listened on: {error.strerror}",
                "Choose another with --port, or end the program that uses it.",
                code="PORT_TAKEN",
            ) from error


def _ip(address: str) -> str:
    try:
        return str(ipaddress.ip_address(LOOPBACK if address == "localhost" else address))
    except ValueError as error:
        raise UsageError(
            f"--address {address}: not an IP address",
            "Give an address of this machine, as 10.0.0.7, or leave it out for 127.0.0.1.",
            code="ADDRESS_INVALID",
        ) from error


def _public(url: str) -> str:
    """`https://NAME[:PORT]`, as a browser spells its origin."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme != "https" or not parts.hostname or extra or "*" in parts.hostname:
        raise UsageError(
            f"--behind-proxy {url}: not an https address without a path",
            "Give what people type in the browser, as https://lowwater.example.org.",
            code="PROXY_INVALID",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}" + (f":{port}" if port not in (None, 443) else "")
