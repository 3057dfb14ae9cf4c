"""How fast followers that are behind close in on their leader, from successive reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dashboard.model import TopicPartition
from dashboard.purge.journal_rows import Follower, PartitionRow


class Closing:
    """The lag of each follower at its last read; a rate needs two."""

    def __init__(self) -> None:
        self._last: dict[tuple[TopicPartition, int], tuple[datetime, int]] = {}

    def rated(self, row: PartitionRow, now: datetime) -> PartitionRow:
        """The row with `closing_per_second` of each follower behind, in records: negative when it
        falls back, None at its first read and when its lag is not known.
        """
        return replace(row, followers=tuple(self._rated(row.key, f, now) for f in row.followers))

    def _rated(self, key: TopicPartition, follower: Follower, now: datetime) -> Follower:
        last = self._last.pop((key, follower.broker_id), None)
        lag = follower.lag_records
        if lag is None:
            return follower
        self._last[key, follower.broker_id] = (now, lag)
        if last is None:
            return follower
        seconds = (now - last[0]).total_seconds()
        return replace(follower, closing_per_second=(last[1] - lag) / seconds if seconds else None)
