"""The exception tree: every error an operator can meet, with its name, exit code and next step.

LowwaterError
├── UsageError            1  wrong flags or arguments
├── SettingsError         1  a settings file, variable or client property that cannot be used
├── StoreError            1  the data folder: no snapshot, unreadable, newer schema, disk full
├── InventoryError        1  an inventory or listing of a broker's disk that cannot be used
│   └── LogDirError       4  no log dir could be read
├── PlanError             1  a plan or offsets file that cannot be used
├── ArchiveError          1  an archive of records that cannot be written or used
├── VerdictsError         1  a file of verdicts on orphans that cannot be used
├── ReportError           1  a report that cannot be made on this machine
├── RefusedError          3  guards or rules refuse: nothing was sent
│   └── ApprovalRequired  3  a second person must approve what was asked for
├── ClusterError          4  nothing could be read from Kafka
│   ├── BrokerError       4  one broker could not be reached or refused
│   └── OtherClusterError 4  another cluster answers at a known address
├── AnalysisError        70  the Spark job failed
├── JournalError         70  the purge journal cannot be written or does not verify
└── DemoError             1  the local demo cluster
"""

from __future__ import annotations

from typing import TypeVar

_E = TypeVar("_E", bound=BaseException)


class LowwaterError(Exception):
    """Base of the tree.

    `code` is the stable upper-case name other programs match on, `message` names the object,
    `next_step` is what the reader does about it. `retriable` says whether the same read may
    succeed a moment later.
    """

    exit_code = 70
    default_code = "INTERNAL"

    def __init__(
        self,
        message: str,
        next_step: str,
        *,
        code: str | None = None,
        retriable: bool = False,
    ) -> None:
        super().__init__(message)
        self.add_note(f"Next: {next_step}")  # a traceback is all that notebooks show
        self.code = code or self.default_code
        self.message = message
        self.next_step = next_step
        self.retriable = retriable

    def to_json(self) -> dict[str, dict[str, str]]:
        """The contract's error object: `{"error": {"code", "message", "next"}}`."""
        return {"error": {"code": self.code, "message": self.message, "next": self.next_step}}


class UsageError(LowwaterError):
    """Wrong flags or arguments on the command line."""

    exit_code = 1
    default_code = "USAGE"


class SettingsError(LowwaterError):
    """A settings file, environment variable or client property that cannot be used."""

    exit_code = 1
    default_code = "SETTINGS_INVALID"


class StoreError(LowwaterError):
    """The data folder holds nothing, or something that cannot be read or written."""

    exit_code = 1
    default_code = "STORE_UNREADABLE"


class InventoryError(LowwaterError):
    """An inventory file or a listing of a broker's disk that cannot be used."""

    exit_code = 1
    default_code = "INVENTORY_INVALID"


class LogDirError(InventoryError):
    """No log dir of a broker could be read."""

    exit_code = 4
    default_code = "LOG_DIR_UNREADABLE"


class PlanError(LowwaterError):
    """A plan or offsets file that cannot be used."""

    exit_code = 1
    default_code = "PLAN_INVALID"


class ArchiveError(LowwaterError):
    """An archive of records that cannot be written, or used."""

    exit_code = 1
    default_code = "ARCHIVE_INVALID"


class VerdictsError(LowwaterError):
    """A file of verdicts on orphan folders that cannot be used."""

    exit_code = 1
    default_code = "VERDICTS_INVALID"


class ReportError(LowwaterError):
    """A report that cannot be made on this machine."""

    exit_code = 1
    default_code = "REPORT_FAILED"


class RefusedError(LowwaterError):
    """Guards or rules refuse; nothing was sent to any broker."""

    exit_code = 3
    default_code = "REFUSED"


class ApprovalRequired(RefusedError):
    """The purge was asked for; nothing is sent until somebody else approves `request_id`."""

    default_code = "APPROVAL_REQUIRED"

    def __init__(self, request_id: str, message: str, next_step: str) -> None:
        super().__init__(message, next_step)
        self.request_id = request_id

    def to_json(self) -> dict[str, dict[str, str]]:
        """The error object, and in it the request."""
        (body,) = super().to_json().values()
        return {"error": {**body, "request_id": self.request_id}}


class ClusterError(LowwaterError):
    """Nothing could be read from the Kafka cluster."""

    exit_code = 4
    default_code = "CLUSTER_UNREACHABLE"


# Of a request that changes something: it may have been carried out; it was called off. After any
# other code nothing left this host.
ANSWER_LOST, NOT_SENT = "ANSWER_LOST", "NOT_SENT"


class BrokerError(ClusterError):
    """One broker could not be reached, or refused; `broker_id` names it."""

    default_code = "BROKER_UNREACHABLE"

    def __init__(
        self,
        broker_id: int,
        message: str,
        next_step: str,
        *,
        code: str | None = None,
        retriable: bool = True,
    ) -> None:
        super().__init__(message, next_step, code=code, retriable=retriable)
        self.broker_id = broker_id


class OtherClusterError(ClusterError):
    """Another cluster answers at a known address; `cluster_id` is the one that it tells."""

    default_code = "CLUSTER_CHANGED"

    def __init__(self, cluster_id: str, message: str, next_step: str) -> None:
        super().__init__(message, next_step)
        self.cluster_id = cluster_id


class AnalysisError(LowwaterError):
    """The Spark job failed or could not start."""

    default_code = "ANALYSIS_FAILED"


class JournalError(LowwaterError):
    """The purge journal cannot be written, or its chain does not verify."""

    default_code = "JOURNAL_FAILED"


class DemoError(LowwaterError):
    """The local demo cluster could not be started or found."""

    exit_code = 1
    default_code = "DEMO_FAILED"


def unexpected(error: Exception) -> LowwaterError:
    """An error that nobody foresaw: the service goes on with what it can."""
    return LowwaterError(
        f"unexpected {type(error).__name__}: {str(error)[:200]}",
        "The service tries again; please report it.",
    )


def anew(error: _E) -> _E:
    """An error that says the same, for who keeps the first: each gathers frames as it is raised."""
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(error.__dict__)
    made.__notes__ = list(error.__notes__) if hasattr(error, "__notes__") else []
    made.__cause__ = error.__cause__
    return made


def without_frames(error: _E) -> _E:
    """The error, rid of the tracebacks of itself and of its causes.

    A future keeps its error, and that each frame that it passed, one of which waits for the future:
    a circle with all that its callers hold, a snapshot's tables, until garbage is looked for.
    """
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            rest += [one.__cause__, one.__context__]
    return error
