"""One connection to one broker: opens, signs in, asks in turn, within a deadline; or says why not.

kafka-python's schemas encode and decode; the socket is our own, so that it is known of every
request whether it was sent, and so that a broker that hangs costs its deadline and no more.
"""

from __future__ import annotations

import math
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dashboard.cluster.connection.own_certificate import Owner, why_refused
from dashboard.cluster.connection.security import Security
from dashboard.cluster.protocol.messages import (
    UNSUPPORTED_VERSION,
    ApiVersionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    error_name,
    response_to,
    skip_tags,
)
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError, OtherClusterError

T = TypeVar("T")
# Of a session's lifetime: Kafka's clients sign in again at 85 to 95 % of it.
_SESSION_SHARE = 0.85
_METADATA_SPOKEN = 12
_LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
_TAKEN_WITHIN_MS = 15_000  # a network that pauses for some ten seconds loses nothing


class Wire:
    """A connection, useful once `open` has returned. One thread at a time uses it; `close` may
    come from another.
    """

    def __init__(self, host: str, port: int, security: Security, owner: Owner) -> None:
        self.host = host
        self.port = port
        self.address = f"{host}:{port}"
        self.versions: dict[int, tuple[int, int]] = {}
        self.closed = False
        self.answering = False  # an answer has begun to come and is not decoded yet
        self._security = security
        self._owner = owner
        self._correlation = 0
        self._socket: socket.socket | None = None
        self._session_ends = math.inf  # on the monotonic clock

    @property
    def usable(self) -> bool:
        """Whether another question may be asked: a broker cuts off whose session has ended."""
        return not self.closed and time.monotonic() < self._session_ends

    def open(self, timeout_seconds: float) -> None:
        """Connect, negotiate versions, sign in, and hear of what cluster the broker is.

        That comes before any question: whoever is at an address by now, and what is asked of it
        or told to it, are then one cluster's, for as long as this connection stands.
        Raises ClusterError CLUSTER_UNREACHABLE, TLS_FAILED, AUTHENTICATION_FAILED or
        CLUSTER_CHANGED.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            self._connect(deadline)
            self._negotiate(deadline)
            if self._security.mechanism:
                self._sign_in(deadline)
            self.heard(self._greet(metadata_of_nothing(self), deadline).cluster_id)
        except BaseException:
            self.close()
            raise

    def ask(self, make: Callable[[Wire], Any], deadline: float) -> Any:
        """Send the request that `make` builds for this broker's versions; its answer.

        `deadline` is on the monotonic clock. Raises ClusterError: CLUSTER_UNREACHABLE when
        nothing was sent, ANSWER_LOST when the request may have been carried out.
        """
        answer = self._exchange(make(self), deadline)
        self.heard(getattr(answer, "cluster_id", None))
        return answer

    def ask_now_or_never(self, make: Callable[[Wire], Any], deadline: float) -> Any:
        """The same for a request that changes something by what was just seen.

        What the other end (a proxy, too) has not acknowledged within 15 s, or when this connection
        ends or its process is killed, is never delivered: the kernel would try for minutes, and
        the request come long after the look that it goes by.
        """
        assert self._socket is not None
        self._lingers(0)
        with suppress(AttributeError, OSError):  # Linux alone has it
            unacknowledged = socket.TCP_USER_TIMEOUT
            self._socket.setsockopt(socket.IPPROTO_TCP, unacknowledged, _TAKEN_WITHIN_MS)
        answer = self.ask(make, deadline)
        self._lingers(None)
        return answer

    def _lingers(self, seconds: int | None) -> None:
        """What closing does with bytes that are on their way: 0 drops them; None: as usual."""
        assert self._socket is not None
        linger = struct.pack("ii", seconds is not None, seconds or 0)
        with suppress(OSError):  # another thread closed it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def heard(self, cluster_id: str | None) -> None:
        """Hold the cluster id of an answer against the connection's. A proxy may pass each
        question on to somebody else. Raises OtherClusterError, and closes.
        """
        if not self._owner.is_named(cluster_id):
            self.close()
            raise foreign(self.address, str(cluster_id))

    def ask_rows(
        self,
        make: Callable[[Wire], Any],
        decode: Callable[[memoryview[int]], T],
        deadline: float,
    ) -> T:
        """The same for a flexible version whose answer the caller decodes, from its body on."""

        def body(answer: memoryview[int]) -> T:
            return decode(answer[skip_tags(answer, 4) :])

        return self._round_trip(self._encoded(make(self)), body, deadline)

    def ask_raw(
        self,
        api_key: int,
        version: int,
        body: bytes,
        decode: Callable[[memoryview[int]], T],
        deadline: float,
    ) -> T:
        """The same for a body that the caller encodes, and decodes, in a version without tags.

        For requests of tens of thousands of equal rows, which schemas encode one by one.
        """
        self._correlation += 1
        client = self._security.client_id.encode()
        header = struct.pack(">hhih", api_key, version, self._correlation, len(client)) + client
        size = struct.pack(">i", len(header) + len(body))
        return self._round_trip(size + header + body, lambda answer: decode(answer[4:]), deadline)

    def version(self, message: Any, newest: int | None = None) -> int:
        """The highest version of a request class that both sides speak, at most `newest`.

        Raises ClusterError API_UNSUPPORTED when there is none.
        """
        low, high = self.versions.get(message.API_KEY, (0, -1))
        oldest, known = message.valid_versions
        chosen: int = min(high, known if newest is None else newest)
        if chosen < max(low, oldest):
            raise ClusterError(
                f"{self.address} does not speak {message.name}",
                "It belongs to a newer or an older Kafka, or the service switched it off.",
                code="API_UNSUPPORTED",
            )
        return chosen

    def oldest(self, message: Any) -> int:
        """The lowest version of a request class that the broker still speaks."""
        return self.versions.get(message.API_KEY, (0, -1))[0]

    def close(self) -> None:
        """Close at once; a thread that waits for an answer here wakes up with an error."""
        self.closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _connect(self, deadline: float) -> None:
        try:
            plain = _dialled(self.host, self.port, deadline)
        except (OSError, UnicodeError) as error:  # a host that no name can be, too
            raise unreachable(self.address, str(error)) from error
        self._socket = plain
        plain.settimeout(_left(deadline))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._security.tls is None:
            return
        try:
            self._socket = self._security.tls.wrap_socket(plain, server_hostname=self.host)
        except (OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise unreachable(self.address, "no answer to the TLS greeting") from error
            raise tls_refused(self.address, error, self._security) from error

    def _negotiate(self, deadline: float) -> None:
        """ApiVersions (KIP-511): the newest we know, else the one version every broker speaks."""
        for version in (3, 0):
            request = ApiVersionsRequest(
                version=version,
                client_software_name="lowwater",
                client_software_version="1",
            )
            answer = self._greet(request, deadline)
            if answer.error_code != UNSUPPORTED_VERSION:
                break
        if answer.error_code:
            raise unreachable(self.address, str(error_name(answer.error_code)))
        self.versions = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}

    def _greet(self, request: Any, deadline: float) -> Any:
        try:
            return self._exchange(request, deadline)
        except ClusterError as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLError):
                raise tls_refused(self.address, cause, self._security) from error
            protocol = self._security.protocol
            hint = "" if isinstance(cause, TimeoutError) else f"; is {protocol} its protocol?"
            reason = error.message.partition(": ")[2] + hint
            raise unreachable(self.address, reason) from error

    def _sign_in(self, deadline: float) -> None:
        mechanism = str(self._security.mechanism)
        shake = self._greet(SaslHandshakeRequest(mechanism=mechanism, version=1), deadline)
        if shake.error_code:
            offered = ", ".join(shake.mechanisms) or "none"
            raise refused(self.address, mechanism, f"it offers {offered}")
        from dashboard.cluster.connection.sign_in import (
            begin,  # it loads kafka-python's own networking
        )

        dialogue = begin(mechanism, self._security, deadline)
        newest = self.version(SaslAuthenticateRequest)
        while not dialogue.is_done():
            request = SaslAuthenticateRequest(version=newest, auth_bytes=dialogue.auth_bytes())
            answer = self._greet(request, deadline)
            if answer.error_code:
                if self._security.tokens is not None:
                    self._security.tokens.forget()
                why = answer.error_message or error_name(answer.error_code)
                raise refused(self.address, mechanism, str(why))
            self._note_session(answer)
            try:
                dialogue.receive(answer.auth_bytes)
            except (ValueError, KeyError) as error:
                raise refused(self.address, mechanism, str(error)) from error

    def _note_session(self, answer: Any) -> None:
        """How long a token, or connections.max.reauth.ms, lets a connection last (KIP-368)."""
        if answer.session_lifetime_ms > 0:
            lifetime_seconds = answer.session_lifetime_ms / 1000
            self._session_ends = time.monotonic() + _SESSION_SHARE * lifetime_seconds

    def _exchange(self, request: Any, deadline: float) -> Any:
        response = response_to(request)
        return self._round_trip(
            self._encoded(request), lambda answer: response.decode(answer, header=True), deadline
        )

    def _encoded(self, request: Any) -> bytes:
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id=self._security.client_id)
        return bytes(request.encode(framed=True, header=True))

    def _round_trip(
        self, frame: bytes, decode: Callable[[memoryview[int]], T], deadline: float
    ) -> T:
        if self.closed or self._socket is None or time.monotonic() >= deadline:
            raise unreachable(self.address, "the connection is closed or its time is up")
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(frame)
            answer = memoryview(self._receive(deadline))
            if int.from_bytes(answer[:4], "big") != self._correlation:
                raise ValueError("an answer to another request came")
            return decode(answer)
        except TimeoutError as error:
            self.close()
            raise lost(self.address, "no answer in time") from error
        except (OSError, ValueError, IndexError, struct.error) as error:
            self.close()
            raise lost(self.address, str(error) or type(error).__name__) from error
        finally:
            self.answering = False

    def _receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(4, deadline), "big", signed=True)
        self.answering = True
        if not 4 <= size <= _LARGEST_ANSWER_BYTES:
            raise ValueError("the answer is not Kafka's")
        return self._exactly(size, deadline)

    def _exactly(self, count: int, deadline: float) -> bytes:
        assert self._socket is not None
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            got = self._socket.recv_into(view)
            if not got:
                raise ConnectionResetError("it closed the connection")
            view = view[got:]
        return bytes(buffer)


def _dialled(host: str, port: int, deadline: float) -> socket.socket:
    """A connection to the first address of a name that takes it; of the time left to the rest,
    each gets an equal part. Raises OSError or UnicodeError; a TimeoutError where one was silent.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    errors: list[OSError] = []
    for at, (family, kind, protocol, _, address) in enumerate(found):
        try:
            one = socket.socket(family, kind, protocol)
        except OSError as error:  # a family that this machine does not speak
            errors.append(error)
            continue
        try:
            one.settimeout(_left(deadline) / (len(found) - at))
            one.connect(address)
        except OSError as error:
            one.close()
            errors.append(error)
        else:
            return one
    raise next((e for e in errors if isinstance(e, TimeoutError)), errors[-1])


def _left(deadline: float) -> float:
    """Seconds for a socket: none may be left, and less than none is an error."""
    return max(deadline - time.monotonic(), 0.001)


def metadata_of_nothing(at: Wire) -> Any:
    """The question of who is there, and of what cluster: it needs no right, and costs little."""
    version = at.version(MetadataRequest, _METADATA_SPOKEN)
    return MetadataRequest(version=version, topics=[], allow_auto_topic_creation=False)


# What goes wrong on one connection, in words that name the address and the next step.

_BY_PASSWORD = "sasl.username and sasl.password"
_CREDENTIALS = {"OAUTHBEARER": "sasl.oauthbearer.* (its token's audience, issuer and scope)"}


def unreachable(address: str, reason: str) -> ClusterError:
    """Nothing was sent."""
    return ClusterError(
        f"{address} could not be reached: {reason}",
        "Check the bootstrap address, that the broker runs, and security.protocol.",
        retriable=True,
    )


def tls_refused(address: str, error: Exception, security: Security) -> ClusterError:
    """TLS failed at the greeting, or by the broker's alert after it."""
    # With TLS 1.3 a broker refuses our certificate after its own greeting, by an alert.
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        why = why_refused(security.certificate, utc_now())
        step = (
            "Set ssl.certificate.location and ssl.key.location to a certificate in force that an "
            "authority in the broker's truststore signed."
        )
    else:
        why = str(error)
        step = (
            "Check ssl.ca.location, the broker's certificate (its host names) and your own, "
            "and that this listener speaks TLS."
        )
    return ClusterError(f"TLS with {address} failed: {why}", step, code="TLS_FAILED")


def refused(address: str, mechanism: str, reason: str) -> ClusterError:
    """The broker refused our SASL credentials."""
    return ClusterError(
        f"{address} refused {mechanism}: {reason}",
        f"Check sasl.mechanisms, {_CREDENTIALS.get(mechanism, _BY_PASSWORD)} of this cluster.",
        code="AUTHENTICATION_FAILED",
    )


def foreign(address: str, cluster_id: str) -> OtherClusterError:
    """Nothing but who it is was asked."""
    return OtherClusterError(
        cluster_id,
        f"{address} belongs to another cluster ({cluster_id})",
        "Check bootstrap.servers, which may name one cluster alone, and where these names and "
        "ports lead now.",
    )


def lost(address: str, reason: str) -> ClusterError:
    """The request was sent, and may have been carried out."""
    return ClusterError(
        f"the answer of {address} was lost: {reason}",
        "Read the cluster again: the request may have been carried out.",
        code="ANSWER_LOST",
        retriable=True,
    )
