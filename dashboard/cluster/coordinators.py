"""Whether a broker really coordinates the groups of the offsets partitions that it leads.

It leads a partition as soon as it hears so, and knows that partition's groups only once it has read
it. Until then, and after a load that failed (CoordinatorRuntime's FAILED), ListGroups leaves them
out without an error, while a question about one group is answered with NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from dashboard.cluster.connection import chunks
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import DescribeGroupsRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError

PROBE = "lowwater-probe-"  # such names are asked about; whoever has rights by prefix needs this one
_ANY_GROUP_UNTIL = 5  # DescribeGroups: v6 calls a group that is not there GROUP_ID_NOT_FOUND
_PROVES = (None, "GROUP_ID_NOT_FOUND")
_GROUPS_PER_REQUEST = 200


def not_coordinated(
    wire: Wire, deadline: float, numbers: Iterable[int], count: int
) -> dict[int, str]:
    """Those of these partitions of the offsets topic (of `count`) that this broker does not
    coordinate, or does not tell of, by Kafka's name of the error.

    One DescribeGroups asks about a group of each that nobody has: coordinators of every age answer
    "Dead" for it, and look at the partition before they look for the group. They look at rights
    even before that: GROUP_AUTHORIZATION_FAILED tells nothing of the coordinator.
    """
    asked = {probe_of(number, count): number for number in numbers}
    errors = dict.fromkeys(asked, "NOT_ANSWERED")
    try:
        version = wire.version(DescribeGroupsRequest, _ANY_GROUP_UNTIL)
    except ClusterError as unsupported:
        return dict.fromkeys(asked.values(), unsupported.code)
    for names in chunks(sorted(asked), _GROUPS_PER_REQUEST):
        answer = wire.ask(_question(version, names), deadline)
        for group in answer.groups:
            error = error_name(group.error_code)
            if error in _PROVES:
                errors.pop(group.group_id, None)
            elif group.group_id in asked:
                errors[group.group_id] = str(error)
    return {asked[name]: error for name, error in errors.items()}


def _question(version: int, names: list[str]) -> Callable[[Wire], Any]:
    request = DescribeGroupsRequest(version=version, groups=names)
    request.include_authorized_operations = False
    return lambda _: request


def probe_of(number: int, count: int) -> str:
    """The name of a group whose commits would lie in this partition, of `count`."""
    return _probes(count)[number]


@lru_cache(maxsize=8)
def _probes(count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    tried = 0
    while len(found) < count:
        name = f"{PROBE}{tried}"
        found.setdefault(partition_of(name, count), name)
        tried += 1
    return found


def partition_of(group_id: str, count: int) -> int:
    """The partition of an offsets topic of `count` that holds a group (GroupMetadataManager's and
    GroupCoordinatorService's `partitionFor`: `Utils.abs(groupId.hashCode) % count`).
    """
    code = 0
    written = group_id.encode("utf-16-be")  # Java's chars
    for at in range(0, len(written), 2):
        code = (31 * code + (written[at] << 8 | written[at + 1])) & 0xFFFFFFFF
    return _absolute(code) % count


def _absolute(code: int) -> int:
    """Utils.abs of an int32 given as its bits: the one int without a positive is 0."""
    if code < 1 << 31:
        return code
    return 0 if code == 1 << 31 else (1 << 32) - code
