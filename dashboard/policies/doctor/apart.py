"""The doctor where a page asks for it: of a large cluster in a process of its own.

Its grids hold each partition of a repartition topic in each snapshot of a week, half a gigabyte of
10,000 topics; what it finds is short. It is no job of Spark: it reads topics of one suffix alone,
and one process folds them in seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from dashboard.core import processes
from dashboard.core.canonical import read
from dashboard.core.clock import format_time
from dashboard.policies.doctor.diagnosis import Diagnosis
from dashboard.policies.doctor.repartition import diagnose
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings
from dashboard.store.buckets import PARTITIONS as MOST_HERE
from dashboard.store.snapshots import ClusterStore

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
