"""What is worth an alert now, out of the journal and the newest findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dashboard.core.clock import CLOCKS_AGREE
from dashboard.core.sizes import binary
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_alerts import Event
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow
from dashboard.purge.receipt.alerts import reverted

MOST_NAMED = 100
# A watch that ended is looked at for so long: a service that was down a moment misses none.
_ENDED_WITHIN = timedelta(minutes=10)
_AWAITED = ("sent", "unknown", "leader_done")


def records_back(journal: Journal, cluster_id: str) -> list[Event]:
    """`reverted`: a later leader starts below the target of a purge, one event for each run."""
    return [
        Event(
            "reverted",
            found.run_id,
            f"records came back in {_many(found.partitions, 'partition')} of "
            f"{_names(found.topics)}, purged by run {found.run_id}: plan again",
            {"run_id": found.run_id, "topics": dict(sorted(found.topics.items()))},
        )
        for found in reverted(journal, cluster_id)
    ]


def stalled(journal: Journal, cluster_id: str, now: datetime) -> list[Event]:
    """`stalled`: partitions of a run in flight that nobody can prove, or that no follower nears.

    A partition is stalled when it is `unknown` for longer than its request may take, or when its
    run was watched to the end and a living follower is behind without an end in sight.
    """
    runs = journal.stalling_runs(cluster_id, now - _ENDED_WITHIN, now)
    found = []
    for run_id in runs:
        run = journal.head(run_id)
        rows = [r for r in journal.partitions(run_id, _AWAITED) if _is_stalled(run, r, now)]
        if rows:
            found.append(_stalled_run(run, rows))
    return found


def refused(journal: Journal, cluster_id: str) -> list[Event]:
    """`policy-refused`: guards, an error or a silence of its service keep a policy from purging."""
    found = []
    for name, (_, body) in journal.policy_statuses(cluster_id).items():
        state = body.get("state")
        if state not in ("refused", "held"):
            continue
        blocked = list(body.get("blocked") or ())
        guards = sorted({g["name"] for b in blocked for g in b.get("guards", ())})
        details = {"policy": name, "reason": body.get("reason"), "guards": guards}
        found.append(
            Event(
                "policy-refused",
                " ".join([name, *guards, *(["held"] if state == "held" else [])]),
                f"policy {name} is {state}: {body.get('reason')}",
                {**details, "blocked": blocked[:MOST_NAMED]},
            )
        )
    return found


def strays(orphans: Iterable[Mapping[str, Any]]) -> list[Event]:
    """`new-stray`: a folder on a broker's disk that no assignment explains; rows of `orphans`."""
    found = []
    for row in orphans:
        if row["directory"] is None:
            continue  # a checkpoint entry takes no room
        size = "unknown size" if row["size_bytes"] is None else binary(row["size_bytes"])
        where = f"{row['log_dir']}/{row['directory']} on broker {row['broker_id']}"
        names = ("broker_id", "log_dir", "directory", "topic", "partition", "kind", "size_bytes",
                 "verdict")  # fmt: skip
        found.append(
            Event(
                "new-stray",
                f"{row['broker_id']}:{row['log_dir']}/{row['directory']}",
                f"{where} is an orphan ({row['kind']}, {size}, {row['verdict']})",
                {name: row[name] for name in names},
            )
        )
    return found


def full_disks(disks: Iterable[Mapping[str, Any]], share: float, name: str) -> list[Event]:
    """`disk-above:90%`: log dirs whose disk has more than that in use; unknown ones are left out.

    `name` is the event as the settings spell it.
    """
    found = []
    for row in disks:
        total, usable = row["total_bytes"], row["usable_bytes"]
        if not total or usable is None or (used := (total - usable) / total) <= share:
            continue
        found.append(
            Event(
                name,
                f"{row['broker_id']}:{row['log_dir']}",
                f"{row['log_dir']} of broker {row['broker_id']} is {used:.1%} full, "
                f"{binary(usable)} left",
                {
                    "broker_id": row["broker_id"],
                    "log_dir": row["log_dir"],
                    "used_share": round(used, 4),
                    "total_bytes": total,
                    "usable_bytes": usable,
                },
            )
        )
    return found


def _is_stalled(run: RunRow, row: PartitionRow, now: datetime) -> bool:
    if row.sent_at is None:
        return False
    if row.state == "unknown":
        # Sent in the future: the clock stepped back, and nobody knows for how long it is unknown.
        age = now - row.sent_at
        return age > timedelta(milliseconds=run.options.timeout_ms) or age < -CLOCKS_AGREE
    watched = run.watched_until is not None and run.watched_until <= now
    return watched and any(f.behind and f.seconds_to_go is None for f in row.followers)


def _stalled_run(run: RunRow, rows: Sequence[PartitionRow]) -> Event:
    named = [
        {
            "topic": r.topic,
            "partition": r.partition,
            "state": r.state,
            "error": r.error,
            "followers_behind": [f.broker_id for f in r.followers if f.behind],
        }
        for r in rows
    ]
    brokers = sorted({f.broker_id for r in rows for f in r.followers if f.behind})
    unknown = sum(r.state == "unknown" for r in rows)
    why = [f"{unknown} without proof"] if unknown else []
    why += [f"broker {', '.join(map(str, brokers))} behind with no end in sight"] if brokers else []
    return Event(
        "stalled",
        run.run_id,
        f"run {run.run_id} by {run.who} stalls on {_many(len(rows), 'partition')} of "
        f"{_names({r.topic for r in rows})}: {'; '.join(why)}",
        {"run_id": run.run_id, "brokers": brokers, "partitions": named[:MOST_NAMED]},
    )


def _names(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
