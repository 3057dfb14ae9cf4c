"""Looking at the past of a large cluster in a process of its own, small ones here: what a policy
would have done last week, by Spark's tasks, and what the doctor of repartition topics finds.

The doctor's grids hold each partition of a repartition topic in each snapshot of a week, half a
gigabyte of 10,000 topics; what it finds is short. It is no job of Spark: it reads topics of one
suffix alone, and one process folds them in seconds.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from dashboard.core import processes
from dashboard.core.canonical import read
from dashboard.core.clock import format_time
from dashboard.history.week.rows import lines_of
from dashboard.history.week.walk import Asked, Walked
from dashboard.policies.doctor.diagnosis import Diagnosis
from dashboard.policies.doctor.repartition import diagnose
from dashboard.policies.simulate import Simulation, walked_here, week
from dashboard.purge.evidence.memory import declarations
from dashboard.purge.journal.journal import Journal
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.buckets import PARTITIONS as MOST_HERE
from dashboard.store.snapshots import ClusterStore

Log = Callable[[str], None]
_one_java = threading.Lock()  # of several people who look at several policies, one after the other


def past_week(
    store: ClusterStore, settings: Settings, policy: Policy, now: datetime, log: Log
) -> Simulation:
    """The policy over the kept snapshots of a week; `log` gets the lines of Spark's log.

    Raises StoreError, and AnalysisError where Spark is needed and fails.
    """
    declared = partial(declarations, settings, store)
    return week(store, policy, now, declared, walking=partial(_walked, settings, log))


def _walked(settings: Settings, log: Log, store: ClusterStore, asked: Asked) -> Walked | None:
    if _partitions(store, asked) <= MOST_HERE:
        return walked_here(store, asked)
    words = processes.words_of(store.store.root, store.cluster_id, settings.source)
    with _one_java:
        given = pickle.dumps(asked)
        found = processes.answered([*words, "--week"], log, "week", given)["week"]
    return None if found is None else read(found, Walked)


def _partitions(store: ClusterStore, asked: Asked) -> int:
    """How many the newest snapshot has of the policy's topics."""
    newest = asked.read[-1]
    every = store.manifest("snapshots", newest).tables.get("partitions", 0)
    if every <= MOST_HERE:
        return every
    own = lines_of(asked.topics.topic_of[newest])
    parts = store.parts("snapshots", newest, "partitions", ["topic_no"], only=own)
    return sum(part.num_rows for part in parts)


KEY = "diagnoses"
_one_at_once = threading.Lock()


def diagnosed(
    store: ClusterStore,
    journal: Journal,
    settings: Settings,
    now: datetime,
    log: Callable[[str], None],
) -> list[Diagnosis]:
    """As `diagnose`; `log` gets what its process says besides. Raises AnalysisError, too."""
    newest = store.latest_snapshot()
    if store.manifest("snapshots", newest).tables.get("partitions", 0) <= MOST_HERE:
        return diagnose(store, journal, settings, now)
    words = processes.words_of(store.store.root, store.cluster_id, settings.source)
    words += ["--now", format_time(now)]
    with _one_at_once:
        found = processes.answered(words, log, KEY, module="dashboard.policies.doctor")
    return [read(each, Diagnosis) for each in found[KEY]]
