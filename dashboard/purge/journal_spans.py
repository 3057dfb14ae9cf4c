"""Which links of the chain may leave the journal: from the oldest on, and whole runs only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.clock import format_time
from dashboard.purge.alerts import UNDONE
from dashboard.purge.journal_file import JournalFile

# A run stays while it is open, its replicas are watched, or records that came back stand as an
# alert; a request until it has expired.
_KEPT = f"""
SELECT min(e.seq) AS seq, r.run_id AS name FROM runs r JOIN entries e ON e.run_id = r.run_id
WHERE r.closed_at IS NULL OR r.closed_at >= :before OR r.watched_until >= :before
  OR r.run_id IN (SELECT run_id FROM purge_requests WHERE expires_at >= :before)
  OR r.run_id IN (SELECT p.run_id FROM {UNDONE})
GROUP BY r.run_id
UNION ALL
SELECT min(e.seq), q.request_id FROM entries e JOIN purge_requests q
  ON q.request_id = json_extract(plain(e.body), '$.request_id')
WHERE e.kind = 'asked' AND q.expires_at >= :before GROUP BY q.request_id
ORDER BY 1 LIMIT 1
"""
_SPANS = """
SELECT min(seq) AS first, max(seq) AS last FROM entries WHERE run_id IS NOT NULL GROUP BY run_id
UNION ALL
SELECT min(seq), max(seq) FROM entries WHERE kind IN ('asked', 'approved', 'rejected')
GROUP BY json_extract(plain(body), '$.request_id')
ORDER BY 1 DESC
"""


@dataclass(frozen=True, slots=True)
class Spans:
    """Links up to `through` may leave; `held_by` is the run or request that keeps older ones."""

    through: int
    held_by: str | None
    spans: Sequence[
        tuple[int, int]
    ]  # the first and last link of each run and request, youngest first

    @classmethod
    def read(cls, file: JournalFile, before: datetime) -> Spans:
        """What was written, closed and watched to its end before a moment."""
        moment = {"before": format_time(before)}
        young = file.rows("SELECT min(seq) AS seq FROM entries WHERE at >= :before", moment)
        newest = file.rows("SELECT coalesce(max(seq), 0) AS seq FROM entries")
        old = newest[0]["seq"] if young[0]["seq"] is None else young[0]["seq"] - 1
        kept = file.rows(_KEPT, moment)
        held_by = kept[0]["name"] if kept and kept[0]["seq"] <= old else None
        found = cls(old, held_by, [(row["first"], row["last"]) for row in file.rows(_SPANS)])
        through = found.whole(kept[0]["seq"] - 1 if held_by else old)
        return cls(through, held_by, found.spans)

    def whole(self, through: int) -> int:
        """The highest link up to `through` after which no run or request goes on."""
        for first, last in self.spans:
            if first <= through < last:
                through = first - 1
        return through
