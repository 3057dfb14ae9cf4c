"""What an operator is told after a purge: who is behind and how fast it closes, what came back.

The same on the command line and on the pages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from dashboard.core.words import behind, brokers, closing, duration, plural
from dashboard.purge.execute.states import all_arrived
from dashboard.purge.journal.journal_rows import Follower, PartitionRow


def arrived_said(partitions: Iterable[PartitionRow]) -> list[str]:
    """That followers have followed, in one sentence; none while that is true of no partition.

    A partition counts whose replicas, more than one, were all read at its target or past it.
    """
    count = sum(all_arrived(row) and bool(row.followers) and not row.error for row in partitions)
    if not count:
        return []
    return [
        f"Followers have followed: every replica of {plural(count, 'partition')} starts at the "
        "target or past it."
    ]


def behind_said(partitions: Iterable[PartitionRow]) -> list[str]:
    """One sentence for each broker whose replicas have not arrived; most partitions first."""
    waiting: dict[int, list[Follower]] = defaultdict(list)
    down: Counter[int] = Counter()
    for row in partitions:
        if row.state in ("leader_done", "done"):
            down.update(f.broker_id for f in row.followers if not f.alive)
        if row.state == "leader_done":
            for follower in (f for f in row.followers if f.behind):
                waiting[follower.broker_id].append(follower)
    ordered = sorted(waiting.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_behind(broker_id, followers) for broker_id, followers in ordered] + [
        f"Broker {broker_id} is down: its replicas of {plural(count, 'partition')} delete when it "
        "is back; one that is elected as it comes back brings the records back."
        for broker_id, count in sorted(down.items())
    ]


def followers_said(row: PartitionRow) -> str:
    """The followers of one partition that have not arrived, in a table's cell: `none` once they
    all have, and nothing where there are none, or none was read.
    """
    if all_arrived(row) and row.followers:
        return "none"
    parts = [f"broker {f.broker_id}: {_short_lag(f)}" for f in row.followers if f.behind]
    return "; ".join(
        parts + [f"broker {f.broker_id} is down" for f in row.followers if not f.alive]
    )


def reverted_said(partitions: Iterable[PartitionRow]) -> list[str]:
    """Per topic: how many partitions, who was elected, that the records are back."""
    leaders: dict[str, set[int]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for row in partitions:
        if row.state == "reverted":
            counts[row.topic] += 1
            leaders[row.topic] |= set() if row.leader_id is None else {row.leader_id}
    return [
        f"{topic}, {plural(count, 'partition')}: {_elected(leaders[topic])}, and records below the "
        "target are back."
        for topic, count in sorted(counts.items())
    ]


def reverted_topics(partitions: Iterable[PartitionRow]) -> list[str]:
    """The topics to plan again."""
    return sorted({row.topic for row in partitions if row.state == "reverted"})


def _behind(broker_id: int, followers: list[Follower]) -> str:
    worst = max(followers, key=lambda f: f.lag_records or 0)
    up_to = "up to " if len(followers) > 1 and worst.lag_records else ""
    return (
        f"Broker {broker_id} is behind on {plural(len(followers), 'partition')}: "
        f"{up_to}{_lag(worst)}."
    )


def _lag(follower: Follower) -> str:
    if follower.lag_records is None:
        return f"it cannot be read ({follower.error or 'no reason given'})"
    if not follower.lag_records:
        return "it has every record, and not yet deleted"
    rate = follower.closing_per_second
    return behind(follower.lag_records, None) + closing(rate, follower.seconds_to_go)


def _short_lag(follower: Follower) -> str:
    lag, rate, to_go = follower.lag_records, follower.closing_per_second, follower.seconds_to_go
    if not lag:
        return "not read" if lag is None else "not yet deleted"
    end = ""
    if rate is not None:
        still = "standing still" if abs(rate) < 1 else "falling back"
        end = f", {still}" if to_go is None else f", {duration(to_go)} to go"
    return f"{plural(lag, 'record')}{end}"


def _elected(leader_ids: set[int]) -> str:
    if not leader_ids:
        return "another leader was elected"
    return f"{brokers(leader_ids)} {'was' if len(leader_ids) == 1 else 'were'} elected leader"
