"""`lowwater dashboard`: serves the pages on this machine's loopback until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import dashboard
from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.demo import processes
from dashboard.errors import LowwaterError, UsageError
from dashboard.settings import Settings

HOST = "127.0.0.1"
DEFAULT_PORT = 8501
_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0
_INTERRUPTED = 130
# Loopback only; no statistics, no menu of a developer, no traceback on a page.
_FLAGS = {
    "server.address": HOST,
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
}


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "dashboard",
        "serve the pages on loopback, until Ctrl-C",
        description="Serves the pages on 127.0.0.1; they read --data and queue purges.",
        examples=("lowwater dashboard --data ./data", "lowwater dashboard --port 9000"),
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port to listen on (default {DEFAULT_PORT})"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C (130). Raises UsageError PORT_TAKEN, SettingsError."""
    settings = context.read_settings(args)
    context.open_store(settings.data)
    check_port(args.port)
    url = f"http://{HOST}:{args.port}"
    output.progress(f"starting the pages at {url} …")
    server = subprocess.Popen(
        command(args.port, args.cluster),
        env=environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches us alone, and we end it
        preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - calls prctl and getppid only
    )
    try:
        _wait_until_up(server, url)
        output.emit({"url": url, "pid": server.pid}, f"{url}  (Ctrl-C ends it)", as_json=args.json)
        return _ended(server.wait())
    except KeyboardInterrupt:
        output.progress("pages ended")
        return _INTERRUPTED
    finally:
        processes.stop(server, _GRACE_SECONDS)


def command(port: int, cluster: str | None) -> list[str]:
    """Streamlit on the app's file, with every flag that keeps it to itself."""
    package = _package()
    flags = {**_FLAGS, "server.port": str(port), "theme.base": str(package / "ui" / "theme.toml")}
    words = [sys.executable, "-m", "streamlit", "run", str(package / "app.py")]
    words += [f"--{name}={value}" for name, value in flags.items()]
    return [*words, "--", "--cluster", cluster] if cluster else words


def environment(settings: Settings) -> dict[str, str]:
    """This process' environment with the chosen data folder and settings file, as absolute paths.

    Streamlit puts only `dashboard/` on the module path, so the folder above it is added.
    """
    local = "://" not in settings.data
    data = str(Path(settings.data).absolute()) if local else settings.data
    path = [str(_package().parent), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "LOWWATER_DATA": data, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    if settings.source:
        found["LOWWATER_SETTINGS"] = str(settings.source.absolute())
    return found


def check_port(port: int) -> None:
    """Raises UsageError PORT_TAKEN, or PORT_INVALID, before a server is started."""
    if not 0 < port < 65536:
        raise UsageError(
            f"{port} is not a port", "Choose one from 1024 to 65535.", code="PORT_INVALID"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port} of {HOST} cannot be listened on: {error.strerror}",
                "Choose another with --port, or end the program that uses it.",
                code="PORT_TAKEN",
            ) from error


def _wait_until_up(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
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
