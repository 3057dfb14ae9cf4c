"""Errors carry Kafka's own names."""

from __future__ import annotations

import pytest

from dashboard.cluster.protocol.messages import RETRIABLE_READ_ERRORS, error_name

CODES = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    9: "REPLICA_NOT_AVAILABLE",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    88: "UNSTABLE_OFFSET_COMMIT",
}


@pytest.mark.parametrize(("code", "name"), CODES.items())
def test_a_code_has_kafkas_name_and_may_be_read_again(code: int, name: str) -> None:
    assert error_name(code) == name
    assert name in RETRIABLE_READ_ERRORS


def test_retriable_errors_are_all_known() -> None:
    assert set(CODES.values()) == RETRIABLE_READ_ERRORS


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (-1, "UNKNOWN_SERVER_ERROR"),
        (44, "POLICY_VIOLATION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (7, "REQUEST_TIMED_OUT"),
        (999, "ERROR_999"),
    ],
)
def test_other_codes_are_named_or_numbered(code: int, name: str | None) -> None:
    assert error_name(code) == name
