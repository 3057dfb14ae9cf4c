"""Every Kafka message that this product speaks, built from kafka-python's schemas or from ours.

Importing `kafka` loads its clients, and with them the classes of every message there is: three
quarters of the time that a purge's two processes spend on it. Only the protocol is loaded here.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any

from dashboard.cluster import schemas


def _leave_clients_out() -> None:
    """Make `kafka` a package whose own __init__ runs when one of its names is asked for."""
    found = None if "kafka" in sys.modules else importlib.util.find_spec("kafka")
    if found is None or found.loader is None:
        return
    package, loader = importlib.util.module_from_spec(found), found.loader

    def load(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = load  # PEP 562
    sys.modules["kafka"] = package


_leave_clients_out()

from kafka.errors import for_code  # noqa: E402
from kafka.protocol.api_data import ApiData  # noqa: E402
from kafka.protocol.api_message import ApiMessage  # noqa: E402
from kafka.protocol.metadata import (  # noqa: E402
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

__all__ = ["ApiVersionsRequest", "MetadataRequest", "for_code", "response_to"]


class SaslHandshakeRequest(ApiMessage):  # type: ignore[misc]
    """Which SASL mechanism is wanted (KIP-43)."""


class SaslHandshakeResponse(ApiMessage):  # type: ignore[misc]
    """Whether the broker offers it, and which ones it does."""


class SaslAuthenticateRequest(ApiMessage):  # type: ignore[misc]
    """One step of signing in (KIP-152)."""


class SaslAuthenticateResponse(ApiMessage):  # type: ignore[misc]
    """The broker's part of that step."""


class DescribeClusterRequest(ApiMessage):  # type: ignore[misc]
    """Brokers and the asker's rights on the cluster (KIP-700)."""


class DescribeClusterResponse(ApiMessage):  # type: ignore[misc]
    """Brokers, fenced ones from v2 on, and rights as bits of an int32 (KIP-430)."""


class DescribeQuorumRequest(ApiMessage):  # type: ignore[misc]
    """The state of the metadata quorum (KIP-595), asked for its clock (KIP-836)."""


class DescribeQuorumResponse(ApiMessage):  # type: ignore[misc]
    """Leader, voters and observers; from v1 on when each was caught up last, in ms."""


class CreateTopicsRequest(ApiMessage):  # type: ignore[misc]
    """A topic with its partitions, replicas and configs."""


class CreateTopicsResponse(ApiMessage):  # type: ignore[misc]
    """An error and the broker's own words of it per topic."""


class DescribeConfigsRequest(ApiMessage):  # type: ignore[misc]
    """Effective configs of topics and brokers (KIP-133)."""


class DescribeConfigsResponse(ApiMessage):  # type: ignore[misc]
    """Their values and where each comes from."""


class DescribeLogDirsRequest(ApiMessage):  # type: ignore[misc]
    """Log dirs and replica sizes of one broker (KIP-113)."""


class DescribeLogDirsResponse(ApiMessage):  # type: ignore[misc]
    """Sizes in bytes; of whole log dirs from v4 on (KIP-827)."""


class ListPartitionReassignmentsRequest(ApiMessage):  # type: ignore[misc]
    """Partitions that are being moved (KIP-455)."""


class ListPartitionReassignmentsResponse(ApiMessage):  # type: ignore[misc]
    """Replicas that are added and removed."""


class ListGroupsRequest(ApiMessage):  # type: ignore[misc]
    """All groups of one coordinator."""


class ListGroupsResponse(ApiMessage):  # type: ignore[misc]
    """Ids, states (KIP-518) and types (KIP-848)."""


class DescribeGroupsRequest(ApiMessage):  # type: ignore[misc]
    """Members of classic groups."""


class DescribeGroupsResponse(ApiMessage):  # type: ignore[misc]
    """Members and their assignments, as their own protocol wrote them."""


class ConsumerProtocolAssignment(ApiData):  # type: ignore[misc]
    """What a consumer of a classic group is assigned."""


class OffsetFetchRequest(ApiMessage):  # type: ignore[misc]
    """Committed offsets of many groups (KIP-709)."""


class OffsetFetchResponse(ApiMessage):  # type: ignore[misc]
    """Offsets, or errors, per group, topic and partition."""


class FindCoordinatorRequest(ApiMessage):  # type: ignore[misc]
    """Which broker coordinates a group (KIP-699)."""


class FindCoordinatorResponse(ApiMessage):  # type: ignore[misc]
    """The coordinator's broker id, or why there is none."""


class OffsetCommitRequest(ApiMessage):  # type: ignore[misc]
    """Committed offsets of one group, set."""


class OffsetCommitResponse(ApiMessage):  # type: ignore[misc]
    """An error code per topic and partition."""


class ListOffsetsRequest(ApiMessage):  # type: ignore[misc]
    """Offsets by time, EARLIEST or LATEST (KIP-79)."""


class ListOffsetsResponse(ApiMessage):  # type: ignore[misc]
    """One offset per partition."""


class FetchRequest(ApiMessage):  # type: ignore[misc]
    """Record batches from given offsets on."""


class FetchResponse(ApiMessage):  # type: ignore[misc]
    """The batches as they lie in the log."""


class OffsetForLeaderEpochRequest(ApiMessage):  # type: ignore[misc]
    """Where leader epochs ended (KIP-101, KIP-320)."""


class OffsetForLeaderEpochResponse(ApiMessage):  # type: ignore[misc]
    """The end offset of each epoch."""


class DeleteRecordsRequest(ApiMessage):  # type: ignore[misc]
    """DeleteRecords v0-v3; v3 adds LeaderOnly (KIP-1343): answer without waiting for followers."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        json["validVersions"] = "0-3"
        json["fields"].append(
            {"name": "LeaderOnly", "type": "bool", "versions": "3+", "default": "false"}
        )
        return json


class DeleteRecordsResponse(ApiMessage):  # type: ignore[misc]
    """DeleteRecords v0-v3; v3 adds each leader's own log start offset after the low watermark."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        json["validVersions"] = "0-3"
        topics = next(f for f in json["fields"] if f["name"] == "Topics")
        partitions = next(f for f in topics["fields"] if f["name"] == "Partitions")["fields"]
        after = next(i for i, f in enumerate(partitions) if f["name"] == "LowWatermark") + 1
        partitions.insert(
            after,
            {
                "name": "LeaderLogStartOffset",
                "type": "int64",
                "versions": "3+",
                "default": "-1",
                "ignorable": True,
            },
        )
        return json


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Describes groups of the new consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Members and assignments of groups of the new consumer protocol."""


class ShareGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Describes share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Members and assignments of share groups."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Describes groups of the Streams protocol (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Topology, members and their tasks; no subtopologies while the group is not ready."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Start offsets of share groups (KIP-932); v1's lag is not asked for."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """A start offset per group, topic and partition; -1 where none was set yet."""


_RESPONSES: dict[int, Any] = {
    message.API_KEY: message
    for message in (
        ApiVersionsResponse,
        MetadataResponse,
        SaslHandshakeResponse,
        SaslAuthenticateResponse,
        DescribeClusterResponse,
        DescribeQuorumResponse,
        CreateTopicsResponse,
        DescribeConfigsResponse,
        DescribeLogDirsResponse,
        ListPartitionReassignmentsResponse,
        ListGroupsResponse,
        DescribeGroupsResponse,
        ConsumerGroupDescribeResponse,
        ShareGroupDescribeResponse,
        StreamsGroupDescribeResponse,
        DescribeShareGroupOffsetsResponse,
        OffsetFetchResponse,
        FindCoordinatorResponse,
        OffsetCommitResponse,
        ListOffsetsResponse,
        FetchResponse,
        OffsetForLeaderEpochResponse,
        DeleteRecordsResponse,
    )
}


# kafka-python keeps a weak reference there, and the class itself while it makes a decoder, at the
# first answer. Of two threads that had one at once one met the reference: its decoder raised
# TypeError for as long as the process lived.
for _response in _RESPONSES.values():
    _response._struct._data_class = _response


def response_to(request: Any) -> Any:
    """The class that decodes the answer to `request`, in the request's version.

    kafka-python keeps such a table too, but in it the class that was loaded last wins: it may be
    its own, which knows no LeaderOnly.
    """
    return _RESPONSES[request.API_KEY][request.API_VERSION]


# Kafka's error codes by name, and which of them a read may simply try again.

# After a restart or an election the metadata of broker and client differ for a moment: the
# same read succeeds a little later. Nothing but reads is ever repeated.
RETRIABLE_READ_ERRORS = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
UNSUPPORTED_VERSION = 35
GROUPS_PER_REQUEST = 200
MANY_KEYS_SINCE = 4  # FindCoordinator, KIP-699
RIGHTS_NOT_TOLD_BIT = 31  # of authorized operations (KIP-430), a set of bits or their int32
RIGHTS_NOT_TOLD = -(1 << RIGHTS_NOT_TOLD_BIT)
# Names that the Java client uses where kafka-python's table has others.
_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    17: "INVALID_TOPIC_EXCEPTION",
}


def rights_on_cluster(at: Any) -> Any:
    """The question to one broker (a `Wire`) of what we may do on its cluster (KIP-430)."""
    version = at.version(DescribeClusterRequest)
    return DescribeClusterRequest(
        version=version, include_cluster_authorized_operations=True, endpoint_type=1
    )


@cache
def error_name(code: int) -> str | None:
    """Kafka's own name of an error code (org.apache.kafka.common.protocol.Errors), None for 0."""
    if code == 0:
        return None
    if code in _NAMES:
        return _NAMES[code]
    known = for_code(code)
    name = str(getattr(known, "message", "") or "")
    return name if name.isupper() and name != "UNKNOWN" else f"ERROR_{code}"


# Reading the compact fields of flexible versions (KIP-482) from an answer, by hand.
#
# For answers of hundreds of thousands of rows, which schemas decode object by object. Functions
# take a position and return what is there and the position behind it; an answer that is cut
# short raises IndexError or struct.error.


def varint(body: memoryview[int], at: int) -> tuple[int, int]:
    """An unsigned varint."""
    value = body[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def length(body: memoryview[int], at: int) -> tuple[int, int]:
    """How many elements an array has or bytes a string; 0 for null too."""
    value, at = varint(body, at)
    return max(0, value - 1), at


def string(body: memoryview[int], at: int) -> tuple[str, int]:
    """A compact string, "" for null. Raises ValueError when it is not UTF-8."""
    size, at = length(body, at)
    if at + size > len(body):
        raise IndexError("the answer is cut short")
    return str(body[at : at + size], "utf-8"), at + size


def skip_tags(body: memoryview[int], at: int) -> int:
    """The position behind tagged fields."""
    count, at = varint(body, at)
    for _ in range(count):
        _, at = varint(body, at)
        size, at = varint(body, at)
        at += size
    return at
