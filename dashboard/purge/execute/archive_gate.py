"""The gate of a run with an archive: what is not proved to be kept is not sent.

A partition's commit is held against what the last look saw: the topic's id, the log start, and the
leader epochs of the records that were read. Those must go as far in the leader's log as they did in
the log that was read (OffsetForLeaderEpoch): an unclean election may have others at the same
offsets, in the log of a leader that nobody follows any more, or of the one that leads now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashboard.archive.manifest import PartitionArchive
from dashboard.core.errors import RefusedError
from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import Plan

Proofs = Mapping[TopicPartition, PartitionArchive]  # as their commits lay in the place just now


def refuse_without_archive(run: RunRow, plan: Plan, *, keeps: bool) -> None:
    """Raises RefusedError ARCHIVE_INCOMPLETE where the plan asks for an archive and the run does
    not, or nothing here `keeps` one.
    """
    if run.options.archive != plan.archive:
        why = f"its plan asks for {plan.archive or 'none'}, it for {run.options.archive or 'none'}"
    elif plan.archive is not None and not keeps:
        why = "nothing here keeps one"
    else:
        return
    raise RefusedError(
        f"run {run.run_id} has no archive to rest on: {why}",
        "Nothing is sent; plan again.",
        code="ARCHIVE_INCOMPLETE",
    )


def unproved(
    proof: PartitionArchive | None, topic_id: str | None, seen: PartitionFacts, target: int
) -> str | None:
    """Why what a request to this partition would delete is not proved to be kept; None: it is."""
    start = seen.log_start_offset
    if proof is None:
        return "no archive of it was completed"
    if start is None or not proof.covers(topic_id, start, target):
        return (
            f"its archive holds {proof.start} to {proof.target} of topic id {proof.topic_id}; "
            f"{start} to {target} of {topic_id} would be deleted"
        )
    return None


def refuse_unproved(
    run: RunRow,
    rows: Iterable[PartitionRow],
    allowed: Mapping[TopicPartition, PartitionFacts],
    proofs: Proofs,
    topic_ids: Mapping[str, str | None],
) -> None:
    """The last thing before a request of a run with an archive. Raises RefusedError
    ARCHIVE_INCOMPLETE: nothing of it leaves.
    """
    if run.options.archive is None:
        return
    for row in rows:
        topic_id = topic_ids.get(row.topic)
        why = unproved(proofs.get(row.key), topic_id, allowed[row.key], row.target_offset)
        if why:
            raise RefusedError(
                f"{row.topic}-{row.partition} is not sent: {why}",
                "Plan again; nothing is deleted that is not proved to be kept.",
                code="ARCHIVE_INCOMPLETE",
            )


def other_records(
    end: EpochEnd | None, epoch: int, epoch_to: int, leads: int | None
) -> tuple[bool, str] | None:
    """Why the leader's log may hold other records than were read in an epoch, and whether that is
    sure; None: it holds the same. `leads` is the leader epoch of the last look.
    """
    if end is None or end.error or (leads is not None and epoch > leads):
        why = (end.error if end else None) or "another leader answers"
        return False, f"where leader epoch {epoch} of what was read ends is not known: {why}"
    if end.leader_epoch == epoch and (end.end_offset or 0) >= epoch_to:
        return None
    return True, (
        f"it was read in leader epoch {epoch} up to {epoch_to}, and the log has that no further "
        f"than {end.end_offset} by now: other records may lie there"
    )
