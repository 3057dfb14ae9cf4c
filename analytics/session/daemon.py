"""Spark's daemon of Python workers on one machine: it imports what tasks need before it forks them.

Else every worker would import it by itself, and again after each minute without work, when Spark
ends them. Workers of a cluster get our packages with the session, after their daemon has begun.
"""

from __future__ import annotations

from pyspark.daemon import manager

from analytics import kernels, tasks

IMPORTED = (kernels, tasks)

if __name__ == "__main__":
    manager()
