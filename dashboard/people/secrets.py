"""The file of `oidc_secrets`: can people sign in by it? Its content is never shown or kept."""

from __future__ import annotations

import ipaddress
import stat
import tomllib
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from dashboard.core.errors import SettingsError
from dashboard.settings.values import check_keys

_NEEDED = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_LEAST_SECRET = 32  # characters: what signs the cookies must not be guessed
_CALLBACK = "/oauth2callback"


def check(path: Path, origin: str, port: int) -> None:
    """Whether Streamlit's login can use the file for pages that browsers know under `origin`.

    Raises SettingsError OIDC_SECRETS_INVALID, which names the key and never a secret.
    """
    auth = _auth(path)
    where = f"{path}, [auth]"
    check_keys(auth, (*_NEEDED, "client_kwargs"), where)
    for key in _NEEDED:
        if not isinstance(auth.get(key), str) or not auth[key].strip():
            _refuse(f"{where}: '{key}' is missing or no text", f'Write {key} = "…".')
    if len(auth["cookie_secret"]) < _LEAST_SECRET:
        _refuse(
            f"{where}: cookie_secret is shorter than {_LEAST_SECRET} characters",
            "Make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'.",
        )
    if not isinstance(auth.get("client_kwargs", {}), dict):
        _refuse(f"{where}: client_kwargs is no table", 'Write { scope = "openid email" }.')
    _safe_address(auth["server_metadata_url"], f"{where}: server_metadata_url")
    # Streamlit takes a cookie of this very origin alone: any other spelling signs nobody in.
    if auth["redirect_uri"].replace("{port}", str(port)) != origin + _CALLBACK:
        _refuse(
            f"{where}: redirect_uri is not the address of these pages, {origin}",
            f'Write redirect_uri = "{origin}{_CALLBACK}", and let the provider know it; behind a '
            "proxy start with --behind-proxy and its address.",
        )


def _auth(path: Path) -> dict[str, Any]:
    try:
        mode = path.stat().st_mode
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(f"the oidc_secrets {path} cannot be read: {error.strerror}", "Check its rights.")
    except (ValueError, RecursionError):
        _refuse(f"the oidc_secrets {path} is no TOML (not shown, it is a secret)", "Correct it.")
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        _refuse(
            f"the oidc_secrets {path} can be read or written by others",
            f"Whoever reads it can sign in as anybody. Run: chmod 600 {path}.",
        )
    if not isinstance(table.get("auth"), dict) or len(table) > 1:
        # Streamlit puts other entries into the environment, which child processes inherit.
        _refuse(f"{path} holds something else than one section [auth]", "Leave only that.")
    return dict(table["auth"])


def _safe_address(address: str, what: str) -> None:
    """https, or http on this machine: what comes back decides who somebody is."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        _refuse(f"{what} is no address", "Write it with https://.")
    if not host or parts.scheme not in ("http", "https"):
        _refuse(f"{what} is no address", "Write it with https://.")
    if parts.scheme == "http" and not _is_loopback(host):
        _refuse(f"{what} is plain http to another machine", "Write it with https://.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(message: str, next_step: str) -> NoReturn:
    """Without a cause: a library's own message may quote the file."""
    raise SettingsError(message, next_step, code="OIDC_SECRETS_INVALID") from None
