"""Which offsets partitions a broker really coordinates, asked of it about groups nobody has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dashboard.cluster.connection.connection import Connection, open_connection
from dashboard.cluster.group_members import PROBE, not_coordinated, partition_of, probe_of
from tests.support.fake_broker import FakeBroker, dead_answer


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as one:
        yield one


@pytest.fixture
def connection(broker: FakeBroker) -> Iterator[Connection]:
    client = {"bootstrap.servers": broker.bootstrap}
    with open_connection(client, timeout=timedelta(seconds=10)) as opened:
        yield opened


def asked(connection: Connection, numbers: list[int], count: int) -> dict[int, str]:
    found: dict[int, str] = connection.ask(
        1, lambda wire, deadline: not_coordinated(wire, deadline, numbers, count)
    )
    return found


@pytest.mark.parametrize(
    ("group_id", "hash_code"),
    [
        ("hello", 99162322),
        ("polygenelubricants", 0),  # Java's hash is -2**31, and Kafka's abs of that 0
        ("grüße-🐘", 347391089),
        ("lowwater", 1801578941),
    ],
)
def test_groups_lie_where_java_hashes_them(group_id: str, hash_code: int) -> None:
    assert partition_of(group_id, 2**31 - 1) == hash_code
    assert partition_of(group_id, 50) == hash_code % 50


@pytest.mark.parametrize("count", [1, 5, 50, 203])
def test_each_partition_has_a_group_of_its_own_to_be_asked_about(count: int) -> None:
    names = [probe_of(number, count) for number in range(count)]
    assert [partition_of(name, count) for name in names] == list(range(count))
    assert all(name.startswith(PROBE) for name in names)


def test_one_request_asks_about_all_that_a_broker_leads(
    broker: FakeBroker, connection: Connection
) -> None:
    assert asked(connection, [0, 3, 4], 50) == {}
    (names,) = broker.probes
    assert sorted(names) == sorted(probe_of(number, 50) for number in (0, 3, 4))


def test_only_the_partition_that_an_error_is_about_is_not_coordinated(
    broker: FakeBroker, connection: Connection
) -> None:
    def answer(request: object, version: int) -> object:
        found = dead_answer(request, version)
        for group in found.groups:
            if group.group_id == probe_of(3, 50):
                group.error_code = 16
        return found

    broker.probed = answer
    assert asked(connection, [0, 3, 4], 50) == {3: "NOT_COORDINATOR"}


def test_that_a_group_is_not_there_is_for_its_coordinator_alone_to_say(
    broker: FakeBroker, connection: Connection
) -> None:
    """DescribeGroups v6 says so by an error; a newer broker may speak nothing older."""
    broker.probed = lambda request, version: dead_answer(request, version, error=69)
    assert asked(connection, [0], 50) == {}


def test_an_answer_that_leaves_a_partition_out_proves_nothing_of_it(
    broker: FakeBroker, connection: Connection
) -> None:
    def answer(request: object, version: int) -> object:
        found = dead_answer(request, version)
        found.groups = [g for g in found.groups if g.group_id != probe_of(4, 50)]
        return found

    broker.probed = answer
    assert asked(connection, [0, 4], 50) == {4: "NOT_ANSWERED"}


def test_a_broker_without_the_api_proves_nothing(
    broker: FakeBroker, connection: Connection
) -> None:
    del broker.versions[15]
    connection.close()
    client = {"bootstrap.servers": broker.bootstrap}
    with open_connection(client, timeout=timedelta(seconds=10)) as anew:
        assert asked(anew, [7], 50) == {7: "API_UNSUPPORTED"}
