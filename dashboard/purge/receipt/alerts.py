"""Which purges were undone: records came back, and nothing has purged as far again since.

A later run ends the alert only if its look that found the leader at the target began after the look
that saw the reversal. A run that found a leader there before, and sent nothing, says nothing of the
stale replica that was elected after it.

Where no later run can go as far, since the topic was deleted or made anew, a person ends it: what
stood as an alert then, partition by partition, and no reversal that is seen later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.core.errors import RefusedError, UsageError
from dashboard.purge.journal.journal_file import append
from dashboard.purge.journal.journal_reads import JournalReads

_READ_AFTER = "coalesce(json_extract(plain(p.body), '$.read_after'), -1)"

# Rows of earlier versions do not tell when they were read: of those, one that was sent counts.
# Asked every few seconds: a partial index finds the few reversals, and CROSS JOIN keeps SQLite to
# looking a partition up in each later run, instead of walking through all partitions.
UNDONE = f"""run_partitions p CROSS JOIN runs r ON r.run_id = p.run_id
WHERE p.state = 'reverted' AND NOT EXISTS (
    SELECT 1 FROM runs s CROSS JOIN run_partitions q
      ON q.run_id = s.run_id AND q.topic = p.topic AND q.partition = p.partition
    WHERE s.cluster_id = r.cluster_id AND s.rowid > r.rowid
      AND q.state IN ('done', 'leader_done')
      AND json_extract(plain(q.body), '$.target_offset')
        >= json_extract(plain(p.body), '$.target_offset')
      AND CASE WHEN json_extract(plain(q.body), '$.read_after') IS NULL
        THEN json_extract(plain(p.body), '$.read_after') IS NULL
          AND json_extract(plain(q.body), '$.sent_at') IS NOT NULL
        ELSE json_extract(plain(q.body), '$.read_after')
          > {_READ_AFTER} END)
  AND (p.run_id, p.topic, p.partition, {_READ_AFTER}) NOT IN (
    SELECT e.run_id, json_extract(d.value, '$[0]'), json_extract(d.value, '$[1]'),
      json_extract(d.value, '$[2]')
    FROM entries e CROSS JOIN json_each(plain(e.body), '$.partitions') d
    WHERE e.kind = 'dismissed'
      AND e.run_id IN (SELECT run_id FROM run_partitions WHERE state = 'reverted'))
"""
_SQL = f"""
SELECT p.run_id, p.topic, COUNT(*) AS partitions FROM {UNDONE} AND r.cluster_id = ?
GROUP BY r.rowid, p.run_id, p.topic ORDER BY r.rowid DESC, p.topic
"""
_OF_RUN = f"""
SELECT p.topic, p.partition, {_READ_AFTER} AS read_after FROM {UNDONE} AND p.run_id = ?
ORDER BY p.topic, p.partition
"""


@dataclass(frozen=True, slots=True)
class Reverted:
    """One run of which a later leader brought records back: topic -> how many partitions."""

    run_id: str
    topics: dict[str, int]

    @property
    def partitions(self) -> int:
        return sum(self.topics.values())


def reverted(journal: JournalReads, cluster_id: str) -> list[Reverted]:
    """Newest run first. A partition that a later run has purged as far is no alert any more."""
    found: dict[str, dict[str, int]] = {}
    for row in journal.file.rows(_SQL, cluster_id):
        found.setdefault(row["run_id"], {})[row["topic"]] = row["partitions"]
    return [Reverted(run_id, topics) for run_id, topics in found.items()]


def dismiss(
    journal: JournalReads, run_id: str, *, who: str, from_where: str, why: str, now: datetime
) -> int:
    """End the alert of a run, a link of the chain; how many partitions. Their state stays.

    Raises UsageError REASON_MISSING, RefusedError NO_ALERT where nothing of the run stands as one.
    """
    if not why.strip():
        raise UsageError(
            "a dismissal says why", "Give the reason after --dismiss.", code="REASON_MISSING"
        )
    with journal.file.write() as db:
        rows = db.execute(_OF_RUN, (run_id,)).fetchall()
        if not rows:
            raise RefusedError(
                f"no alert stands for run {run_id}: nothing came back, or all was purged again",
                f"See its partitions with: lowwater run {run_id}.",
                code="NO_ALERT",
            )
        body = {
            "who": who, "from_where": from_where, "why": why.strip(),
            "partitions": [[row["topic"], row["partition"], row["read_after"]] for row in rows],
        }  # fmt: skip
        append(db, run_id, "dismissed", body, now)
    return len(rows)
