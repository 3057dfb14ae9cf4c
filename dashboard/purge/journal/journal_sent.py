"""Which purges this journal's runs sent, period by period: cheap to ask over many thousand runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.purge.journal.journal_reads import JournalReads
from dashboard.purge.journal.journal_tables import partition_row

# A body is unpacked for the newest run of each partition and period alone: SQLite takes the other
# columns of a group from the row that has its max().
_SQL = """
WITH own AS MATERIALIZED (
  SELECT run_id, queued_at,
    (SELECT count(*) FROM json_each(?) WHERE value < queued_at) AS period
  FROM runs WHERE cluster_id = ? AND queued_at >= ?
)
SELECT p.topic, p.partition, p.body, max(own.queued_at) AS newest, count(*) AS purges
FROM own JOIN run_partitions p ON p.run_id = own.run_id
WHERE substr(p.topic, ?) = ? AND p.state IN ('sent', 'unknown', 'done', 'leader_done', 'reverted')
GROUP BY p.topic, p.partition, own.period
ORDER BY newest, p.topic, p.partition
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """The last of `purges` of one partition in one period: records below the target were to go."""

    topic: str
    partition: int
    target_offset: int
    sent_at: datetime
    purges: int


def sent_between(
    journal: JournalReads, cluster_id: str, suffix: str, times: Sequence[datetime]
) -> list[Sent]:
    """What runs queued since the first of these times sent to topics whose name ends so.

    A period lies between two of the times, or after the last. Oldest first. What was refused, or
    is known to have changed nothing, is left out.
    """
    texts = [format_time(time) for time in times]
    rows = journal.file.rows(_SQL, json.dumps(texts), cluster_id, texts[0], -len(suffix), suffix)
    found = []
    for row in rows:
        last = partition_row(row)
        if last.sent_at is not None:
            one = (last.topic, last.partition, last.target_offset, last.sent_at, row["purges"])
            found.append(Sent(*one))
    return found
