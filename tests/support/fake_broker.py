"""A broker on a socket that answers by script: faults on demand."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.metadata import ApiVersionsRequest, MetadataResponse

from dashboard.cluster.group_members import PROBE
from tests.support.socket_broker import PAIRS, Frame, Parts, SocketBroker, api_versions, cluster

__all__ = ["DROP", "HANG", "PAIRS", "VERSIONS", "FakeBroker", "dead_answer", "topic"]

VERSIONS = {3: 12, 2: 9, 9: 9, 16: 5, 15: 5, 35: 4, 60: 1, 21: 2, 10: 6, 8: 9, 46: 0}
HANG, DROP = "hang", "drop"
Answer = Callable[[Any, int], Any]


class FakeBroker(SocketBroker):
    """Serves one broker id of `cluster_id`; `answers[api_key]` makes a response, or is HANG/DROP.

    `requests` holds every decoded request but ApiVersions, in order. Of groups that nobody has,
    which prove a coordinator, `probed` tells; they are kept in `probes`.
    """

    def __init__(self, broker_id: int = 1, versions: dict[int, int] | None = None) -> None:
        super().__init__(self._scripted)
        self.broker_id = broker_id
        self.cluster_id = "fake"
        self.versions = versions or dict(VERSIONS)
        self.answers: dict[int, Answer | str] = {3: self._metadata, 60: self._cluster}
        self.probed: Answer = dead_answer
        self.probes: list[list[str]] = []
        self.topics: list[Any] = []
        self.neighbours: list[FakeBroker] = []
        self.requests: list[Any] = []
        self.start()

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

    def _scripted(self, frame: Frame) -> Parts | None:
        key, version, request = frame.key, frame.version, frame.decoded()
        if key == ApiVersionsRequest.API_KEY:
            return frame.answered(api_versions(self.versions, version))
        if key == DescribeGroupsRequest.API_KEY and request.groups[0].startswith(PROBE):
            self.probes.append(request.groups)
            return frame.answered(self.probed(request, version))
        self.requests.append(request)
        answer = self.answers[key]
        if answer == HANG:
            self.closed.wait(30)
        if answer in (HANG, DROP):
            return None
        assert callable(answer)
        return frame.answered(answer(request, version))

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
        return cluster(self.cluster_id, {}, self.broker_id, version)


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
