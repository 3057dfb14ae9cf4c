"""Sends one JSON object to a webhook; its address is a secret that no error shows."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class NotTold(Exception):
    """The webhook did not take it; the message says why, never where."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What a webhook is sent goes to the address that was chosen, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(address: str, body: Mapping[str, Any], timeout_seconds: float) -> None:
    """POST `body` as JSON; any 2xx is success. Raises NotTold."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    head = {"Content-Type": "application/json", "User-Agent": "lowwater"}
    why: str | None = None
    try:
        request = urllib.request.Request(address, data=text, headers=head, method="POST")
        with _OPENER.open(request, timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        why = f"the webhook answered {error.code}"
        error.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = _reason(error)
    # Outside of the handlers: the cause quotes the address, and a traceback would show it.
    raise NotTold(why)


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "the webhook did not answer in time"
    if isinstance(cause, socket.gaierror):
        return "the webhook's host is not known to this machine's DNS"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "the webhook's certificate is not one that this machine trusts"
    if isinstance(cause, ConnectionRefusedError):
        return "the webhook's host refused the connection"
    return f"the webhook could not be reached ({type(cause).__name__})"
