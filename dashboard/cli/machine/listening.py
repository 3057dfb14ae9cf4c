"""Where the pages listen and under which names: loopback, unless somebody else keeps the door."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from dashboard.core.errors import UsageError
from dashboard.web_guard import LOOPBACK_NAMES

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
