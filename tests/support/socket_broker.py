"""A broker on a socket: Kafka's frames and headers, which all fakes that are dialled share."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from dashboard.cluster.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

PAIRS = {
    request.API_KEY: (request, response)
    for request, response in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (MetadataRequest, MetadataResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (DescribeLogDirsRequest, DescribeLogDirsResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        (CreateTopicsRequest, CreateTopicsResponse),
        (DeleteRecordsRequest, DeleteRecordsResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (OffsetCommitRequest, OffsetCommitResponse),
        (DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
        (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    )
}
Parts = tuple[bytes, bytes]  # what follows the size: header and body, or all of it and nothing


class Frame(NamedTuple):
    """One request as it came in."""

    key: int
    version: int
    correlation: int
    raw: bytes

    def decoded(self) -> Any:
        return PAIRS[self.key][0].decode(self.raw, version=self.version, header=True)

    def answered(self, response: Any) -> Parts:
        """What is sent back of a response that kafka-python's schemas encode."""
        response.with_header(correlation_id=self.correlation)
        return bytes(response.encode(header=True)), b""


class SocketBroker:
    """Listens at once, and answers from `start` on; where `answer` gives None, it hangs up."""

    def __init__(self, answer: Callable[[Frame], Parts | None]) -> None:
        self._answer = answer
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._server.getsockname()[1]
        self.closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._accepting: threading.Thread | None = None

    def start(self) -> None:
        """Accept in a thread of its own; returns at once."""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Refuse connections, and end those that there are."""
        self.closed.set()
        _end(self._server)
        # Closed under a thread that goes back to it, its number is the next broker's socket.
        if self._accepting is not None:
            self._accepting.join()
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End every open connection, as a restart would; whoever serves one closes it."""
        for connection in self._sockets:
            _end(connection)
        self._sockets.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._sockets.append(connection)
            if self.closed.is_set():  # it came in while the others were ended
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while raw := _read_frame(connection):
                parts = self._answer(Frame(*struct.unpack_from(">hhi", raw), raw))
                if parts is None:
                    return
                head, body = parts
                connection.sendall(struct.pack(">i", len(head) + len(body)) + head)
                connection.sendall(body)


def api_versions(versions: Mapping[int, int], version: int) -> Any:
    """ApiVersions: the newest version by API key."""
    one = ApiVersionsResponse.ApiVersion
    keys = {18: 3, **versions}
    return ApiVersionsResponse(
        version=version,
        error_code=0,
        api_keys=[
            one(api_key=k, min_version=0, max_version=v, version=version) for k, v in keys.items()
        ],
    )


def cluster(cluster_id: str, ports: Mapping[int, int], controller_id: int, version: int) -> Any:
    """DescribeCluster, to whom may describe it: `ports` of its brokers by id."""
    one = DescribeClusterResponse.DescribeClusterBroker
    brokers = [
        one(broker_id=broker, host="127.0.0.1", port=port, rack=None, version=version)
        for broker, port in sorted(ports.items())
    ]
    return DescribeClusterResponse(
        version=version,
        error_code=0,
        error_message=None,
        endpoint_type=1,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        authorized_operations={8},  # AclOperation.DESCRIBE
    )


def _end(connection: socket.socket) -> None:
    # Wakes the thread that waits in accept or recv, as closing alone would not; it closes.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read_frame(connection: socket.socket) -> bytes:
    size = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(size, "big")) if size else b""


def _exactly(connection: socket.socket, count: int) -> bytes:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        got = connection.recv_into(view)
        if not got:
            return b""
        view = view[got:]
    return bytes(buffer)
