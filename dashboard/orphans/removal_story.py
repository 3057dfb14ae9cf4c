"""What the logs of the sweeps tell a service: totals for metrics, and what the purge journal's
chain was not told yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dashboard.core.errors import LogDirError
from dashboard.domain.acts import SweepsTold
from dashboard.orphans.sweep import log as sweep_log
from dashboard.orphans.sweep.items import Item, items
from dashboard.orphans.sweep.log import Entry
from dashboard.orphans.sweep.places import open_log_dirs
from dashboard.orphans.sweep.quarantine import Clock
from dashboard.orphans.sweep.site import Options, read_logs

ACTS = ("moved", "put-back", "restored", "deleted", "lost")


class Chain(Protocol):
    """The purge journal, as far as it keeps what sweeps of this host did."""

    def told_of_orphans(self, log: str, cluster_id: str, broker_id: int) -> SweepsTold | None: ...
    def tell_of_orphans(self, told: SweepsTold, now: datetime) -> None: ...


@dataclass(frozen=True, slots=True)
class Story:
    """One quarantine's log, and what it says of the folders of one broker: brokers of a host may
    share it, also those of two clusters that bear one id.
    """

    log: str
    entries: tuple[Entry, ...]
    items: Mapping[str, Item]
    cluster_id: str
    broker_id: int

    def acts(self, after: int = 0) -> list[tuple[str, Item]]:
        """What became of folders of this broker, by the lines after that one, in order."""
        found = [(e.kind, self.items[e.body["item"]]) for e in self.entries[after:]
                 if e.kind in ACTS]  # fmt: skip
        return [(kind, item) for kind, item in found if self._is_mine(item)]

    @property
    def lying(self) -> list[Item]:
        """The broker's folders that lie in quarantine."""
        states = ("quarantined", "deleting")
        return [i for i in self.items.values() if i.state in states and self._is_mine(i)]

    @property
    def lying_since(self) -> list[datetime]:
        """Since when, as far as that is known."""
        moments = [item.proved_at or item.moved_at for item in self.lying]
        return [at for at in moments if at is not None]

    def _is_mine(self, item: Item) -> bool:
        return (item.cluster_id, item.broker_id) == (self.cluster_id, self.broker_id)


def broker_of(options: Options) -> tuple[str, int]:
    """Cluster and broker whose log dirs these are, by their own word. Raises LogDirError."""
    with open_log_dirs(options.log_dirs) as log_dirs:
        cluster_id, node = log_dirs[0].cluster_id, log_dirs[0].node_id
        if cluster_id is None or node is None:
            raise LogDirError(
                f"{log_dirs[0].path} does not tell whose it is",
                "Name what the broker's log.dirs says.",
                code="LOG_DIR_UNREADABLE",
            )
        return cluster_id, node


def read_stories(options: Options) -> tuple[Story, ...]:
    """Every log of the log dirs' quarantines. Raises LogDirError, JournalError SWEEP_LOG_BROKEN."""
    whose, found = broker_of(options), []
    for place, state in read_logs(options):
        problems = state.problems
        try:
            every = {} if problems else items(state.entries)
        except ValueError as error:
            problems, every = (str(error),), {}
        if problems:
            raise sweep_log.broken(str(place.path), problems)
        found.append(Story(str(place.path / sweep_log.NAME), state.entries, every, *whose))
    return tuple(found)


def tell(chain: Chain, stories: Sequence[Story], now: Clock) -> None:
    """Chain what the chain does not have of these logs: also what a service that was killed, or a
    sweep by hand, did since. Each entry names the newest line by its hash, so that a log that was
    cut or rewritten later is known. Raises JournalError.
    """
    for story in stories:
        told = untold(story, chain.told_of_orphans(story.log, story.cluster_id, story.broker_id))
        if told is not None:
            chain.tell_of_orphans(told, now())


def untold(story: Story, told: SweepsTold | None) -> SweepsTold | None:
    """The lines after those that were told; all of them where the log is another one by now."""
    known = told.to_seq if told else 0
    entries = story.entries
    same = not known or (len(entries) >= known and told and entries[known - 1].hash == told.hash)
    after = known if same else 0
    if len(entries) == after:
        return None
    return SweepsTold(
        story.cluster_id, story.broker_id, story.log, after + 1, len(entries), entries[-1].hash,
        tuple((kind, i.log_dir, i.directory, i.allocated_bytes) for kind, i in story.acts(after)),
        log_replaced=not same,
    )  # fmt: skip
