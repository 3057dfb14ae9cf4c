"""How tests are shared out among processes: what needs the same brokers or Spark stays together.

Three brokers cost some 6 s of processor time to start, as much again until they are warm, and 7 %
of a core to idle; a Spark session costs more. File by file, each process would start one of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

# Begun in this order, the longest first; every other file is one by itself, and comes after these.
TOGETHER = {
    "brokers": (
        "tests/brokers/test_purge_changes.py", "tests/brokers/test_purge_faults.py",
        "tests/brokers/test_purge_targets.py", "tests/brokers/test_purge_workers.py",
        "tests/brokers/test_purge.py", "tests/brokers/test_guards.py",
        "tests/brokers/test_move_waived.py",
        "tests/brokers/test_archive.py", "tests/brokers/test_restore.py",
        "tests/brokers/test_targets_more.py", "tests/brokers/test_policies*.py",
        "tests/brokers/test_unseen_reader.py", "tests/brokers/test_live_cluster.py",
        "tests/brokers/test_wanted_records.py", "tests/brokers/test_cli.py",
        "tests/brokers/test_collect.py", "tests/brokers/test_delete_records.py",
        "tests/brokers/test_group_patterns.py", "tests/brokers/test_inventory.py",
        "tests/brokers/test_local_cluster.py", "tests/brokers/test_records.py",
        "tests/brokers/test_sampled.py", "tests/brokers/test_sweep.py",
    ),
    # Of these make test runs nothing, and so starts no brokers for them.
    "brokers and Spark": (
        "tests/brokers/test_broker_metrics.py", "tests/brokers/test_estimators.py",
        "tests/brokers/test_first_hour.py", "tests/brokers/test_followers.py",
        "tests/brokers/test_forecast.py", "tests/brokers/test_low_watermark.py",
        "tests/brokers/test_orphan*.py", "tests/brokers/test_purge_full_disk.py",
        "tests/brokers/test_purge_log_dir_move.py", "tests/brokers/test_purge_receipt.py",
        "tests/brokers/test_purge_stops.py", "tests/brokers/test_rep*.py",
        "tests/brokers/test_secrets_of_a_purge.py", "tests/brokers/test_triage.py",
        "tests/brokers/test_truth.py",
    ),
    "brokers and a browser": (
        "tests/e2e/test_accessible.py", "tests/e2e/test_p[eu]*.py", "tests/e2e/test_two*.py",
    ),
    "Spark": ("tests/spark/*.py",),
    "preview brokers": ("tests/brokers/test_preview_*.py",),
    "a broker with an authorizer": (
        "tests/brokers/test_cli_doctor.py", "tests/brokers/test_*rights*.py",
        "tests/brokers/test_security.py", "tests/brokers/test_sign_in.py",
    ),
    "simulation": ("tests/simulation/*.py",),
    "demo": ("tests/brokers/test_demo.py",),
    "server": ("tests/e2e/test_server.py",),
}  # fmt: skip


@cache
def unit(path: str) -> str:
    """What a test file, relative to the repository, runs together with; else the path itself."""
    return next(
        (name for name, files in TOGETHER.items() if any(fnmatch(path, f) for f in files)), path
    )


def rank(path: str) -> int:
    """Where a test file's tests begin: lower ones first, equal ones as they were collected."""
    names = [*TOGETHER]
    name = unit(path)
    return names.index(name) if name in names else len(names)


def modules(folders: Iterable[str], root: Path) -> list[str]:
    """The test files within folders of the repository, as the names they are imported by."""
    found = {file for folder in folders for file in (root / folder).rglob("test_*.py")}
    return [".".join(file.relative_to(root).with_suffix("").parts) for file in sorted(found)]


class Together(LoadFileScheduling):
    """xdist's `--dist loadfile`, with the files of a unit as one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid.split("::", 1)[0])
