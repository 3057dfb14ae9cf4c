"""Which purges were undone: records came back, and nothing has purged as far again since.

A later run ends the alert only if its look that found the leader at the target began after the look
that saw the reversal. A run that found a leader there before, and sent nothing, says nothing of the
stale replica that was elected after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.purge.journal.journal_reads import JournalReads

# Rows of earlier versions do not tell when they were read: of those, one that was sent counts.
# Asked every few seconds: a partial index finds the few reversals, and CROSS JOIN keeps SQLite to
# looking a partition up in each later run, instead of walking through all partitions.
UNDONE = """run_partitions p CROSS JOIN runs r ON r.run_id = p.run_id
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
          > coalesce(json_extract(plain(p.body), '$.read_after'), -1) END)
"""
_SQL = f"""
SELECT p.run_id, p.topic, COUNT(*) AS partitions FROM {UNDONE} AND r.cluster_id = ?
GROUP BY r.rowid, p.run_id, p.topic ORDER BY r.rowid DESC, p.topic
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
