"""What the cluster and the journal say at the end: receipts, and that no group lost a record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import utc_now
from dashboard.demo.load import TOPIC_CONFIG
from dashboard.domain.model import TopicPartition
from dashboard.purge.execute.states import doubtful
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import Receipt
from tests.soak.judge import Outcome, outcome
from tests.soak.operators import WAIVERS
from tests.soak.world import World

SEGMENT_BYTES = int(TOPIC_CONFIG["segment.bytes"])
UNSEEN_FOR = timedelta(seconds=180)  # an analysis may pause for so long
RETENTION_BYTES = int(TOPIC_CONFIG["retention.bytes"])


@dataclass(frozen=True, slots=True)
class Receipts:
    """All runs of a journal, judged. `open_runs` are ids; `unexplained` are sentences."""

    runs: int
    states: dict[str, int]
    partitions: dict[str, int]
    outcomes: dict[str, int]
    predicted_bytes: int
    freed_bytes: int
    open_runs: list[str]
    doubtful: list[str]
    reverted: list[str]
    named: list[str]
    unexplained: list[str]


def receipts(world: World) -> Receipts:
    """Read every run of the journal and judge its receipt against its plan."""
    with closing(Journal(world.place.state / "journal.sqlite")) as journal:
        views = [journal.run(row.run_id) for row in journal.runs()]
        plans = [journal.plan(v.run.run_id) for v in views]
    loads = _loads(world)
    judged = [(v, _judged(v.run.receipt, p, loads)) for v, p in zip(views, plans, strict=True)]
    bodies = [v.run.receipt for v in views if v.run.receipt]
    told = {v.run.run_id: f"run {v.run.run_id} ({v.run.state}): {o.detail}" for v, o in judged}
    return Receipts(
        runs=len(views),
        states=dict(Counter(v.run.state for v in views)),
        partitions=dict(Counter(row.state for v in views for row in v.partitions)),
        outcomes=dict(Counter(o.verdict for _, o in judged)),
        predicted_bytes=sum(b.predicted_bytes or 0 for b in bodies),
        freed_bytes=sum(b.freed_bytes or 0 for b in bodies),
        open_runs=[v.run.run_id for v in views if v.run.open],
        doubtful=[v.run.run_id for v in views if any(map(doubtful, v.partitions))],
        reverted=[v.run.run_id for v in views if "reverted" in v.counts],
        named=[told[v.run.run_id] for v, o in judged if o.verdict == "named"],
        unexplained=[f"{told[v.run.run_id]} [{o.verdict}]" for v, o in judged if not o.explained],
    )


def _loads(world: World) -> list[tuple[datetime, datetime]]:
    """When records were written in bulk, and how long estimates may not have seen them."""
    zero = utc_now() - timedelta(seconds=world.place.seconds)
    return [
        (zero + timedelta(seconds=n["began"]), zero + timedelta(seconds=n["at"]) + UNSEEN_FOR)
        for n in world.place.diary("load")
    ]


def _judged(receipt: Receipt | None, plan: Plan, loads: list[tuple[datetime, datetime]]) -> Outcome:
    keys = {part.key for part in receipt.replicas} if receipt else set()
    estimates = [p.estimate for p in plan.partitions if p.estimate and p.key in keys]
    lows = [e.bytes_at_once_low for e in estimates]
    highs = [e.bytes_at_once_high for e in estimates]
    written = any(begin <= plan.created_at <= end for begin, end in loads)
    return outcome(receipt, (_sum(lows), _sum(highs)), SEGMENT_BYTES, written=written)


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def holder(state_dir: Path, run_id: str) -> int | None:
    """The process that carries a run out, by the run's lock; None where nobody ever did.

    A command line tells it only of workers that were started for their run.
    """
    lock = state_dir / "locks" / f"{run_id}.lock"
    written = lock.read_text().strip() if lock.exists() else ""
    return int(written) if written else None


def losses(world: World) -> list[str]:
    """Log starts past every target that was sent, and groups behind a log start, in words.

    A partition near its retention may have lost records to that; groups that operators waived
    are behind on purpose.
    """
    targets: dict[TopicPartition, int] = defaultdict(int)
    with closing(Journal(world.place.state / "journal.sqlite")) as journal:
        for row in journal.runs():
            for partition in journal.run(row.run_id).partitions:
                if partition.was_sent:
                    known = targets[partition.key]
                    targets[partition.key] = max(known, partition.target_offset)
    with connect({"bootstrap.servers": world.bootstrap}, timedelta(seconds=10)) as live:
        return sorted(_lost(live, targets))


def _lost(live: LiveCluster, targets: dict[TopicPartition, int]) -> Iterator[str]:
    offsets = live.offsets(sorted(targets))
    sizes: dict[TopicPartition, int] = defaultdict(int)
    for replica in live.log_dirs(set(targets)).replicas:
        key = TopicPartition(replica.topic, replica.partition)
        sizes[key] = max(sizes[key], replica.size_bytes or 0)
    for key, target in targets.items():
        start = offsets[key].log_start_offset
        retained = sizes[key] >= RETENTION_BYTES - 2 * SEGMENT_BYTES
        if start is None or (start > target and not retained):
            yield f"{key.topic}-{key.partition} starts at {start}, past every target ({target})"
    waived = {text.partition("=")[0] for text in WAIVERS.values()}
    for claim in live.groups(()).offsets:
        key = TopicPartition(claim.topic, claim.partition)
        start = offsets[key].log_start_offset if key in offsets else None
        at = claim.committed_offset
        if start is not None and at is not None and at < start and claim.group_id not in waived:
            yield f"{claim.group_id} is at {at} of {key.topic}-{key.partition}, before {start}"
