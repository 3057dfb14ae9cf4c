"""A service of its own process that races for the lease or for a run, as JSON on its stdin says."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.core.clock import parse_time
from dashboard.core.errors import RefusedError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import PolicyClaim
from dashboard.purge.journal.rows import Options
from dashboard.purge.plan.plan import Plan


def race(journal: Journal, told: dict[str, Any]) -> str:
    """Who holds the lease after this racer asked for it; or `in`, or why it was refused."""
    now = parse_time(told["now"])
    if "plan" not in told:
        lease = journal.take_lease(
            "cluster-1",
            told["holder"],
            host="h",
            pid=1,
            ttl=timedelta(seconds=15),
            most_silence=timedelta(days=1),
            now=now,
        )
        return lease.holder
    plan = Plan.from_json_text(told["plan"], "the racer's plan")
    claim = PolicyClaim("tidy", "sha", timedelta(seconds=30), told["holder"])
    try:
        journal.insert(
            plan, token=told["token"], mode="wait-all", who="policy tidy", from_where="h",
            typed="", options=Options(30_000, 500, 2, 3_600_000), connection={}, now=now,
            policy=claim,
        )  # fmt: skip
    except RefusedError as error:
        return error.code
    return "in"


if __name__ == "__main__":
    given = json.loads(sys.stdin.readline())
    own = Journal(Path(given["journal"]))
    print("ready", flush=True)
    sys.stdin.readline()  # all start together
    print(race(own, given), flush=True)
    if given.get("stay"):
        time.sleep(60)
