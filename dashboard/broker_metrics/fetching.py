"""Fetches metrics from an address or a file, piece by piece, within limits of size and time."""

from __future__ import annotations

import base64
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

MOST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 16


class Unread(Exception):
    """Why a source could not be read: the code METRICS_… and the reason, without any secret."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


def chunks(source: str, timeout: timedelta, token: str | None = None) -> Iterator[bytes]:
    """The bytes of an http(s) URL or a file as they come; `token` is a bearer token.

    Raises Unread METRICS_UNREACHABLE, _REFUSED, _TOO_SLOW or _TOO_LARGE. User and password of the
    URL become Basic sign-in; redirects are not followed.
    """
    until, size = time.monotonic() + timeout.total_seconds(), 0
    try:
        for chunk in _chunks(source, timeout, token):
            size += len(chunk)
            if size > MOST_BYTES:
                raise Unread("METRICS_TOO_LARGE", f"it is longer than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > until:
                raise Unread("METRICS_TOO_SLOW", "it was not through in time")
            yield chunk
    except urllib.error.HTTPError as error:
        with error:
            why = f"HTTP {error.code} {error.reason}"
        raise Unread("METRICS_REFUSED", why) from error
    except (OSError, HTTPException, UnicodeError) as error:  # a host that no name can be, too
        reason = getattr(error, "reason", None) or error
        slow = isinstance(reason, TimeoutError)
        raise Unread(
            "METRICS_TOO_SLOW" if slow else "METRICS_UNREACHABLE",
            str(reason) or type(reason).__name__,
        ) from error


def shown(source: str) -> str:
    """A source as it may be printed: no user, password or query."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _chunks(source: str, timeout: timedelta, token: str | None) -> Iterator[bytes]:
    if "://" not in source:
        with Path(source).open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
        return
    request = _request(source, token)
    with _opener().open(request, timeout=timeout.total_seconds()) as answer:
        # read1 gives what has arrived: the deadline is looked at between any two of them.
        yield from iter(lambda: answer.read1(_CHUNK_BYTES), b"")


def _opener() -> urllib.request.OpenerDirector:
    # Neither proxies from the environment nor redirects: brokers stand beside us.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _request(url: str, token: str | None) -> urllib.request.Request:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit((*parts[:1], host, *parts[2:])))
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    elif user:
        request.add_header(
            "Authorization", "Basic " + base64.b64encode(unquote(user).encode()).decode()
        )
    return request
