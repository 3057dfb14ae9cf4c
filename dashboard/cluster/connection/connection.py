"""The connection to a whole cluster: who its brokers are, and asking one, any or all of them.

Brokers are asked side by side, each within `timeout`. One that does not answer is left alone for
as long again, so that a hanging broker delays a caller once and not at every question.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any, TypeVar

from dashboard.cluster.connection.own_certificate import Owner
from dashboard.cluster.connection.security import Security, read_security
from dashboard.cluster.connection.wire import Wire, metadata_of_nothing
from dashboard.core.errors import (
    BrokerError,
    ClusterError,
    OtherClusterError,
    anew,
    without_frames,
)

Ask = Callable[[Wire, float], Any]
T = TypeVar("T")
_STAGGER_SECONDS = 0.5
_STRANGER_SECONDS = 2.0
_THREADS = 32
_IDLE_SECONDS = 60.0


class Connection:
    """Made by `open_connection`. Thread-safe; close it, or use it as a context manager."""

    def __init__(
        self, security: Security, timeout: timedelta, cluster_id: str | None = None
    ) -> None:
        self.security = security
        self._owner = Owner(cluster_id)
        self.timeout_seconds = timeout.total_seconds()
        self.cluster_id: str | None = None  # as read last
        self._addresses: dict[int, tuple[str, int]] = {}
        self._idle: dict[tuple[str, int], list[tuple[Wire, float]]] = {}
        self._silent_until: dict[tuple[str, int], float] = {}
        self._failures: dict[tuple[str, int], ClusterError] = {}
        self._answered_last: tuple[str, int] | None = None
        self._busy: set[Wire] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-ask")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every socket; threads that still wait for a broker wake up and end."""
        with self._lock:
            self._closed.set()
            wires = [*self._busy, *(wire for idle in self._idle.values() for wire, _ in idle)]
            self._idle.clear()
        for wire in wires:
            wire.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def apart(self) -> Connection:
        """The same sockets, with addresses of its own: metadata that others read meanwhile does
        not replace them, and whom it meets nobody else takes for alive. Only this one is closed.
        """
        return copy.copy(self)

    def broker_ids(self) -> list[int]:
        """Ids of the brokers that the last metadata listed as alive."""
        return sorted(self._addresses)

    def remember(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Take over the addresses of the alive brokers from fresh metadata."""
        self._addresses = dict(addresses)

    def meet(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Know these brokers, too, until metadata is taken over again."""
        self._addresses = {**addresses, **self._addresses}

    def strangers(self) -> list[tuple[str, int]]:
        """Bootstrap addresses that are none of a broker which the last metadata listed as alive."""
        known = set(self._addresses.values())
        return [address for address in self.security.bootstrap if address not in known]

    def ask_stranger(self, address: tuple[str, int], question: Ask) -> Any:
        """Ask whoever is at an address, for a moment: mostly it is down. Raises ClusterError."""
        patience = min(_STRANGER_SECONDS, self.timeout_seconds)
        return self._ask_address(address, question, patience)

    def ask(
        self,
        broker_id: int,
        question: Ask,
        *,
        patience: float | None = None,
        once: bool = False,
    ) -> Any:
        """Ask one broker. `patience` in seconds replaces the connection's timeout.

        `once` is for requests that change something: a connection of its own, which ends with the
        answer, and never a repetition.
        Raises BrokerError: ANSWER_LOST when the request may have been carried out; any other code
        (BROKER_UNREACHABLE, TLS_FAILED, AUTHENTICATION_FAILED, …) when nothing was sent.
        """
        address = self._addresses.get(broker_id)
        if address is None:
            raise BrokerError(
                broker_id,
                f"broker {broker_id} is not alive according to the cluster's metadata",
                "Start the broker, or wait until it has joined the cluster again.",
            )
        try:
            return self._ask_address(address, question, patience or self.timeout_seconds, once)
        except ClusterError as error:
            code = "BROKER_UNREACHABLE" if error.code == ClusterError.default_code else error.code
            raise BrokerError(
                broker_id,
                f"broker {broker_id}: {error.message}",
                error.next_step,
                code=code,
                retriable=error.retriable,
            ) from error

    def ask_each(self, questions: Mapping[int, Ask]) -> dict[int, Any]:
        """Ask several brokers side by side: broker id -> answer or the BrokerError it cost."""
        return self.side_by_side(
            {broker: _bound(self.ask, broker, question) for broker, question in questions.items()}
        )

    def side_by_side(self, calls: Mapping[int, Callable[[], Any]]) -> dict[int, Any]:
        """Run calls in threads: key -> result or the ClusterError it raised."""
        futures = {key: self._pool.submit(call) for key, call in sorted(calls.items())}
        return {key: _settled(future) for key, future in futures.items()}

    def ask_any(self, question: Ask) -> Any:
        """The first answer of any alive broker, then of the bootstrap addresses.

        The next one is asked as soon as one fails, or has been silent for half a second: a
        suspended broker must not hold up what every other one can answer. One whose answer has
        begun to come is not silent: a million partitions are read once, not from every broker.
        """
        known = [a for a in self._addresses.values() if not self._is_silent(a)]
        rest = [a for a in self.security.bootstrap if a not in known]
        # Who answered last comes first: a suspended one is then waited for once, not each time.
        ordered = sorted([*known, *rest], key=lambda address: address != self._answered_last)
        return self._race(ordered, question)

    def _race(self, addresses: Sequence[tuple[str, int]], question: Ask) -> Any:
        running: set[Future[Any]] = set()
        errors: list[ClusterError] = []
        waiting = list(addresses)
        asked: list[tuple[str, int]] = []
        while waiting or running:
            if waiting and not (running and self._is_answering(asked)):
                asked.append(waiting.pop(0))
                running.add(self._pool.submit(self._ask_as, asked[-1], question))
            done, running = wait(
                running, _STAGGER_SECONDS if waiting else None, return_when=FIRST_COMPLETED
            )
            for settled in map(_settled, done):
                if not isinstance(settled, ClusterError):
                    self._answered_last, answer = settled
                    return answer
                errors.append(settled)
        raise self._all_failed(errors)

    def _is_answering(self, addresses: Sequence[tuple[str, int]]) -> bool:
        with self._lock:
            return any(w.answering and (w.host, w.port) in addresses for w in self._busy)

    def _ask_as(self, address: tuple[str, int], question: Ask) -> tuple[tuple[str, int], Any]:
        return address, self._ask_address(address, question, self.timeout_seconds)

    def _all_failed(self, errors: Sequence[ClusterError]) -> ClusterError:
        # A refusal tells more than "could not be reached" of another address, and a stranger there
        # more than both.
        others = [e for e in errors if isinstance(e, OtherClusterError)]
        telling = [e for e in errors if e.code in ("TLS_FAILED", "AUTHENTICATION_FAILED")]
        chosen = next(iter([*others, *telling, *errors]))
        if chosen.code not in ("ANSWER_LOST", ClusterError.default_code):
            return anew(chosen)
        return ClusterError(
            f"no broker of {self.security.addresses} answered: "
            + "; ".join(sorted({e.message for e in errors})),
            chosen.next_step,
            retriable=True,
        )

    def _ask_address(
        self, address: tuple[str, int], question: Ask, patience: float, once: bool = False
    ) -> Any:
        if self._is_silent(address):
            kept = self._failures[address]  # each that is raised gathers frames of its own
            raise ClusterError(kept.message, kept.next_step, retriable=True)
        deadline = time.monotonic() + patience
        used = None if once else self._take_idle(address)
        if used is not None:
            try:
                return self._ask_wire(address, used, question, deadline)
            except ClusterError as error:
                # A connection that waited may have been closed by the broker meanwhile (it was
                # restarted, or cut idle ones off): reads are repeated on a new one.
                if error.code != "ANSWER_LOST" or _hung(error):
                    raise
        wire = self._open(address, min(deadline - time.monotonic(), self.timeout_seconds))
        return self._ask_wire(address, wire, question, deadline, once)

    def _ask_wire(
        self,
        address: tuple[str, int],
        wire: Wire,
        question: Ask,
        deadline: float,
        once: bool = False,
    ) -> Any:
        try:
            return question(wire, deadline)
        except ClusterError as error:
            self._note(address, error)
            raise
        finally:
            if once:  # kept, each request that changes something would leave one more behind
                wire.close()
            self._give_back(address, wire)

    def _take_idle(self, address: tuple[str, int]) -> Wire | None:
        with self._lock:
            idle = self._idle.get(address, [])
            while idle:
                wire, since = idle.pop()
                if wire.usable and time.monotonic() - since < _IDLE_SECONDS:
                    self._busy.add(wire)
                    return wire
                wire.close()
        return None

    def _open(self, address: tuple[str, int], patience: float) -> Wire:
        wire = Wire(*address, self.security, self._owner)
        with self._lock:
            if self._closed.is_set():
                raise ClusterError("the connection was closed", "Open it again.")
            self._busy.add(wire)
        try:
            wire.open(patience)
        except BaseException as error:
            self._give_back(address, wire)  # closed as it is, it is nobody's any more
            if isinstance(error, ClusterError):
                self._note(address, error)
            raise
        return wire

    def _give_back(self, address: tuple[str, int], wire: Wire) -> None:
        with self._lock:
            self._busy.discard(wire)
            now = time.monotonic()
            if not wire.closed:
                self._idle.setdefault(address, []).append((wire, now))
            # The newest is taken first, and of an address that is gone none: those of a busier
            # moment, and of brokers that have moved, would never come up, nor end.
            for at, idle in list(self._idle.items()):
                while idle and now - idle[0][1] >= _IDLE_SECONDS:
                    idle.pop(0)[0].close()
                if not idle:
                    del self._idle[at]

    def _is_silent(self, address: tuple[str, int]) -> bool:
        return time.monotonic() < self._silent_until.get(address, 0.0)

    def _note(self, address: tuple[str, int], error: ClusterError) -> None:
        # Only a broker that hangs is left alone: one that refuses answers at once anyway.
        if _hung(error):
            self._failures[address] = ClusterError(error.message, error.next_step, retriable=True)
            self._silent_until[address] = time.monotonic() + self.timeout_seconds


def open_connection(
    client: Mapping[str, str], *, timeout: timedelta, cluster_id: str | None = None
) -> Connection:
    """Connect with client properties in librdkafka's words; `timeout` is each broker's.

    `cluster_id`: whose cluster it must be; None: that of the first broker to answer. Nobody of
    another one is asked or told anything but who it is. Where nobody else is there, the connection
    opens, `read_cluster_id` says whose it is, and all else raises OtherClusterError.

    Raises SettingsError for properties that cannot be used, ClusterError CLUSTER_UNREACHABLE,
    TLS_FAILED or AUTHENTICATION_FAILED, naming the address.
    """
    connection = Connection(read_security(client), timeout, cluster_id)
    try:
        read_cluster_id(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def read_cluster_id(connection: Connection) -> str:
    """The cluster's id now, and with it the addresses of its alive brokers.

    If nobody but another cluster answers: that one's id, and no addresses.
    """
    try:
        answer = connection.ask_any(_who_is_there)
    except OtherClusterError as error:
        return error.cluster_id
    connection.remember(_addresses(answer))
    connection.cluster_id = _cluster_id(answer)
    return connection.cluster_id


def meet_bootstrap(connection: Connection) -> list[str]:
    """Know the brokers that bootstrap addresses know, and the last metadata does not.

    A broker that is cut off from the controllers lists those of long ago, and calls who came back
    since gone: that one is found by its address alone. Whoever is of another cluster stays
    unknown, since its ids name other brokers: who that is, in words.
    """
    strangers = connection.strangers()
    calls = {
        at: _bound(connection.ask_stranger, address, _who_is_there)
        for at, address in enumerate(strangers)
    }
    others = []
    for at, answer in connection.side_by_side(calls).items():
        if isinstance(answer, OtherClusterError):
            told = answer.cluster_id
        elif isinstance(answer, ClusterError):
            continue
        else:
            told = _cluster_id(answer)
        if told == connection.cluster_id:
            connection.meet(_addresses(answer))
            continue
        host, port = strangers[at]
        others.append(
            f"the bootstrap address {host}:{port} is of another cluster "
            f"({told or 'it tells no id'}): one list of addresses may name one cluster alone"
        )
    return others


def _cluster_id(answer: Any) -> str:
    return str(answer.cluster_id or "")


def _addresses(answer: Any) -> dict[int, tuple[str, int]]:
    return {b.node_id: (b.host, b.port) for b in answer.brokers}


def read_alive_anywhere(connection: Connection) -> tuple[int, ...]:
    """Ids of the brokers that any alive broker lists as alive now; none where nobody answers.

    A broker that is cut off from the controllers tells of long ago: who came since it does not
    know, and whoever it takes for gone may live. The others do know.
    """
    answers = connection.ask_each(dict.fromkeys(connection.broker_ids(), _who_is_there)).values()
    told = [answer for answer in answers if not isinstance(answer, ClusterError)]
    return tuple(sorted({broker.node_id for answer in told for broker in answer.brokers}))


def _who_is_there(wire: Wire, deadline: float) -> Any:
    return wire.ask(metadata_of_nothing, deadline)


def passed_on(question: Ask) -> Ask:
    """A question that brokers pass on to the active controller.

    Where that one hangs, the broker that was asked is not the silent one: others may ask it on.
    """

    def ask(wire: Wire, deadline: float) -> Any:
        try:
            return question(wire, deadline)
        except ClusterError as error:
            if not _hung(error):
                raise
            raise ClusterError(
                f"no controller answered in time through {wire.address}",
                "Wait until the controllers have elected another one.",
                retriable=True,
            ) from None

    return ask


def _hung(error: BaseException) -> bool:
    """Whether somewhere below this error a wait ran out of time."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return True
        cause = cause.__cause__
    return False


def _bound(call: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    return lambda: call(*arguments)


def _settled(future: Future[Any]) -> Any:
    try:
        return future.result()
    except ClusterError as error:
        return without_frames(error)


def chunks(items: Iterable[T], size: int) -> list[list[T]]:
    """Consecutive lists of at most `size` items."""
    every = list(items)
    return [every[start : start + size] for start in range(0, len(every), size)]


def called_off(what: str, it_stands: str) -> ClusterError:
    """What a request raises that must not leave any more, once its connection stands."""
    return ClusterError(
        f"{what} not sent: by the time the connection stood it was called off",
        f"Nothing: what {it_stands} for is looked at again.",
        code="NOT_SENT",
        retriable=True,
    )
