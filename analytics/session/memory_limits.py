"""How much memory Spark may take on this machine, and what to set where it was too little."""

from __future__ import annotations

import os
from pathlib import Path

# Java fills what it may: with 2 GiB it took 2.4 of a long session.
_LEAST, _MOST = 512 << 20, 1 << 30
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def driver_memory(machine: int) -> dict[str, str]:
    """Spark's properties for a Java in this process' machine of so many bytes.

    A quarter of them, 512 MiB to 1 GiB: tasks work in Python processes beside it. What tasks answer
    may be half of that, for above it Spark says so, and Java only dies.
    """
    heap = min(max(machine // 4, _LEAST), _MOST) >> 20
    return {"spark.driver.memory": f"{heap}m", "spark.driver.maxResultSize": f"{heap // 2}m"}


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUPS:
        try:
            limit = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        found = min(found, int(limit)) if limit.isdigit() else found
    return found


def too_little(error: BaseException) -> tuple[str, str] | None:
    """What had too little memory, and what to set, where that is why Spark failed; else None."""
    said = f"{type(error).__name__}: {error}"
    for sign, what, setting in _SIGNS:
        if sign in said:
            return what, setting
    return None


_TASKS = (
    'Let fewer tasks run at once (spark_master = "local[1]"; on a cluster spark.executor.cores), '
    "or give them more: spark.executor.memoryOverhead of [spark] on YARN and Kubernetes, else the "
    "machine's own."
)
# In this order: the name of Java's error ends in that of Python's.
_SIGNS = (
    ("OutOfMemoryError", "Spark's Java had too little memory",
     "Set spark.driver.memory in [spark], on a cluster spark.executor.memory too."),
    ("MemoryError", "a task's Python had too little memory", _TASKS),
    ("maxResultSize", "what tasks answered is more than spark.driver.maxResultSize",
     "Set spark.driver.maxResultSize in [spark], and spark.driver.memory to twice as much."),
    ("Python worker exited unexpectedly", "a task's Python was killed, often for want of memory "
     "(dmesg tells)", _TASKS),
)  # fmt: skip
