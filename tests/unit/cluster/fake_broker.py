"""An in-process broker that speaks Kafka's framing and answers by script: faults on demand."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
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

from dashboard.cluster.group_members import PROBE
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
VERSIONS = {3: 12, 2: 9, 9: 9, 16: 5, 15: 5, 35: 4, 60: 1, 21: 2, 10: 6, 8: 9, 46: 0}
HANG, DROP = "hang", "drop"
Answer = Callable[[Any, int], Any]


class FakeBroker:
    """Serves one broker id of `cluster_id`; `answers[api_key]` makes a response, or is HANG/DROP.

    `requests` holds every decoded request but ApiVersions, in order. Of groups that nobody has,
    which prove a coordinator, `probed` tells; they are kept in `probes`.
    """

    def __init__(self, broker_id: int = 1, versions: dict[int, int] | None = None) -> None:
        self.broker_id = broker_id
        self.cluster_id = "fake"
        self.versions = versions or dict(VERSIONS)
        self.answers: dict[int, Answer | str] = {3: self._metadata, 60: self._cluster}
        self.probed: Answer = dead_answer
        self.probes: list[list[str]] = []
        self.topics: list[Any] = []
        self.neighbours: list[FakeBroker] = []
        self.requests: list[Any] = []
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self.closed.set()
        _end(self._server)
        # Closed under a thread that goes back to it, its number is the next broker's socket.
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
            self.connections += 1
            self._sockets.append(connection)
            if self.closed.is_set():  # it came in while the others were ended
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while frame := _read_frame(connection):
                if not self._answer(connection, frame):
                    return

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        key, version, correlation = struct.unpack(">hhi", frame[:8])
        request = PAIRS[key][0].decode(frame, version=version, header=True)
        if key == ApiVersionsRequest.API_KEY:
            response = _api_versions(self.versions, version)
        elif key == DescribeGroupsRequest.API_KEY and request.groups[0].startswith(PROBE):
            self.probes.append(request.groups)
            response = self.probed(request, version)
        else:
            self.requests.append(request)
            answer = self.answers[key]
            if answer == HANG:
                self.closed.wait(30)
                return False
            if answer == DROP:
                _end(connection)
                return False
            assert callable(answer)
            response = answer(request, version)
        response.with_header(correlation_id=correlation)
        connection.sendall(response.encode(header=True, framed=True))
        return True

    def _metadata(self, request: Any, version: int) -> Any:
        named = None if request.topics is None else {t.name for t in request.topics}
        broker = MetadataResponse.MetadataResponseBroker
        topic = MetadataResponse.MetadataResponseTopic
        brokers = [
            broker(node_id=b.broker_id, host="127.0.0.1", port=b.port, rack=None, version=version)
            for b in (self, *self.neighbours)
        ]
        found = [t for t in self.topics if named is None or t.name in named]
        missing = (named or set()) - {t.name for t in found}
        gone = [topic(error_code=3, name=n, partitions=[], version=version) for n in missing]
        return MetadataResponse(
            version=version,
            brokers=brokers,
            cluster_id=self.cluster_id,
            controller_id=self.broker_id,
            topics=[*found, *sorted(gone, key=lambda t: t.name)],
        )

    def _cluster(self, _: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version,
            error_code=0,
            error_message=None,
            endpoint_type=1,
            cluster_id=self.cluster_id,
            controller_id=self.broker_id,
            brokers=[],
            authorized_operations={8},
        )


def dead_answer(request: Any, version: int, *, error: int = 0) -> Any:
    """DescribeGroups of groups that are not there: "Dead", or an error."""
    one = DescribeGroupsResponse.DescribedGroup
    groups = [
        one(
            error_code=error, group_id=name, group_state="" if error else "Dead", protocol_type="",
            protocol_data="", members=[], authorized_operations=None, version=version,
        )
        for name in request.groups
    ]  # fmt: skip
    return DescribeGroupsResponse(version=version, groups=groups)


def topic(name: str, leaders: list[int], version: int = 12) -> Any:
    """A topic's metadata: one partition per leader (-1: none), replicated to that broker alone."""
    one = MetadataResponse.MetadataResponseTopic
    part = one.MetadataResponsePartition
    partitions = [
        part(
            error_code=0 if leader >= 0 else 5,
            partition_index=index,
            leader_id=leader,
            leader_epoch=4,
            replica_nodes=[abs(leader)],
            isr_nodes=[abs(leader)],
            offline_replicas=[],
            version=version,
        )
        for index, leader in enumerate(leaders)
    ]
    return one(error_code=0, name=name, is_internal=False, partitions=partitions, version=version)


def _api_versions(versions: dict[int, int], version: int) -> Any:
    one = ApiVersionsResponse.ApiVersion
    keys = {18: 3, **versions}
    return ApiVersionsResponse(
        version=version,
        error_code=0,
        api_keys=[
            one(api_key=k, min_version=0, max_version=v, version=version) for k, v in keys.items()
        ],
    )


def _end(connection: socket.socket) -> None:
    # Wakes the thread that waits in accept or recv, as closing alone would not; it closes.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read_frame(connection: socket.socket) -> bytes:
    size = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(size, "big")) if size else b""


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            return b""
        found += part
    return found
