"""The exception tree: exit codes and the error object are a contract."""

from __future__ import annotations

import pytest

from dashboard.core import errors


def _subclasses(kind: type[errors.LowwaterError]) -> list[type[errors.LowwaterError]]:
    return [kind, *(found for sub in kind.__subclasses__() for found in _subclasses(sub))]


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (errors.UsageError, 1),
        (errors.SettingsError, 1),
        (errors.StoreError, 1),
        (errors.InventoryError, 1),
        (errors.PlanError, 1),
        (errors.VerdictsError, 1),
        (errors.ReportError, 1),
        (errors.DemoError, 1),
        (errors.RefusedError, 3),
        (errors.ClusterError, 4),
        (errors.LogDirError, 4),
        (errors.AnalysisError, 70),
        (errors.JournalError, 70),
    ],
)
def test_each_branch_has_its_exit_code(kind: type[errors.LowwaterError], exit_code: int) -> None:
    assert kind("m", "n").exit_code == exit_code


def test_a_broker_error_names_its_broker_and_may_be_retried() -> None:
    error = errors.BrokerError(3, "broker 3 at h:1 did not answer", "Start it.")
    assert (error.broker_id, error.exit_code, error.retriable) == (3, 4, True)


def test_the_error_object_has_code_message_and_next() -> None:
    error = errors.StoreError("no snapshot", "Run collect.", code="NO_SNAPSHOT")
    assert error.to_json() == {
        "error": {"code": "NO_SNAPSHOT", "message": "no snapshot", "next": "Run collect."}
    }


def test_the_drawing_at_the_top_of_the_file_names_the_whole_tree() -> None:
    drawing = errors.__doc__ or ""
    for kind in _subclasses(errors.LowwaterError):
        assert kind.__name__ in drawing
