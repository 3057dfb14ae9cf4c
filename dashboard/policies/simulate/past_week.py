"""What a policy would have done last week, wherever that is found out: a policy of few partitions
is walked here, and one of more than a bucket has by Spark's tasks, in a process of their own.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from dashboard.core import processes
from dashboard.core.canonical import read
from dashboard.history.week.rows import lines_of
from dashboard.history.week.walk import Asked, Walked
from dashboard.policies.simulate.simulate import Simulation, walked_here, week
from dashboard.purge.evidence.memory import declarations
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
