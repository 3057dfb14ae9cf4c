"""Writes the shell script that sweeps a host without this program: the cluster is asked here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

from dashboard.core.clock import format_time
from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain import acts
from dashboard.orphans.sweep.folder import told_by_name
from dashboard.orphans.sweep.live import Cluster, LiveCheck, broker_log_dirs, prove_cluster
from dashboard.orphans.sweep.report import Outcome, Refusal, over_share
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.sweep.sweep import (
    refuse_by_verdict,
    refuse_wrong_clock,
    unchanged_since,
)
from dashboard.orphans.verdicts import Verdict, Verdicts
from dashboard.safety.last_copy import Records

_NO_LIMIT = 2**62
VALID_FOR = timedelta(hours=1)  # what the cluster said may have changed after that


@dataclass(frozen=True, slots=True)
class Script:
    """A script for the hosts of all brokers in it; each acts on its own rows alone."""

    script: str
    folders: int
    valid_until: datetime
    left_out: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        """`rows` are the folders that were left out, each with its reason."""
        return {
            "script": self.script,
            "folders": self.folders,
            "valid_until": format_time(self.valid_until),
            "rows": [row.to_json() for row in self.left_out],
        }


def write_script(verdicts: Verdicts, options: Options, live: Cluster, now: datetime) -> Script:
    """The script of all removable rows in the named log dirs that the live cluster lets go.

    Raises RefusedError CLUSTER_MISMATCH, VERDICTS_FROM_THE_FUTURE, ClusterError.
    """
    refuse_wrong_clock(verdicts, now)
    cluster_id = prove_cluster(live, verdicts.cluster_id)
    named = [row for row in verdicts.rows if row.log_dir in options.log_dirs]
    lines: list[str] = []
    leaving: list[Verdict] = []
    left_out: list[Outcome] = []
    for broker_id in sorted({row.broker_id for row in named}):
        of_broker = [row for row in named if row.broker_id == broker_id]
        refusal, spare = _share(live, broker_id, of_broker, options.most_share)
        check = LiveCheck(live, broker_id, cluster_id)
        for row in of_broker:
            try:
                refuse_by_verdict(row)
                if refusal is not None:
                    raise refusal
                check.tells_the_time(now)
                before = int(unchanged_since(row, verdicts).timestamp())
                lines.append(f"{_line(row, check, now)} {before} {spare[0]} {spare[1]}")
                leaving.append(row)
            except Refusal as why:
                left_out.append(_left_out(row, why))
    until = min(verdicts.expires_at, now + VALID_FOR)
    return Script(
        _text(verdicts, now, until, [*_counting(leaving), *lines]),
        len(lines),
        until,
        tuple(left_out),
    )


def _share(
    live: Cluster, broker_id: int, rows: Sequence[Verdict], most_share: float
) -> tuple[Refusal | None, tuple[int, int]]:
    """Why nothing of a broker may go: it is not alive, tells nothing, or too much would go; else
    how many folders and bytes may lie in its quarantines already, which its host alone can count.
    """
    if broker_id not in live.alive_brokers():
        return Refusal("broker", f"broker {broker_id} is not alive"), (0, 0)
    try:
        answer = broker_log_dirs(live, broker_id)
    except (RefusedError, ClusterError) as error:
        return Refusal("unknown", error.message), (0, 0)
    leaving = [row for row in rows if row.verdict == acts.REMOVABLE]
    every = len(answer.replicas) + len(rows)
    gone = sum(row.size_bytes or 0 for row in leaving)
    whole = sum(replica.size_bytes for replica in answer.replicas) + gone
    refusal = over_share((len(leaving), every), (gone, whole), most_share)
    return refusal, (_spare(len(leaving), every, most_share), _spare(gone, whole, most_share))


def _spare(leaving: int, every: int, most_share: float) -> int:
    """The most that may be added to both, so that the first is within its share of the second."""
    if most_share >= 1:
        return _NO_LIMIT
    return max(0, int((most_share * every - leaving) / (1 - most_share)))


def _counting(leaving: Sequence[Verdict]) -> list[str]:
    """Calls of the script's `count_lying`, for each log dir once, before the first move."""
    dirs = sorted({(row.broker_id, row.log_dir) for row in leaving})
    names = "".join(f"|{row.directory}" for row in leaving)
    return [
        f"NAMES={shlex.quote(names + '|')}",
        *(f"count_lying {broker_id} {shlex.quote(log_dir)}" for broker_id, log_dir in dirs),
    ]


def _line(row: Verdict, check: LiveCheck, now: datetime) -> str:
    """One call of the script's `row`. Raises Refusal."""
    folder = told_by_name(row)
    if row.size_bytes is None or row.newest_at is None:
        raise Refusal("changed", "the verdict does not say what the folder held")
    live = f"{row.topic}-{row.partition}"
    # The disk is not seen here: a hosted replica of the same name has its own folder there.
    records = Records(row.size_bytes, row.log_end_offset, row.newest_at)
    check.may_go(row, folder, lambda: (live, f"{live}.0-future"), records=records, now=now)
    newest = row.newest_at.replace(microsecond=0) + timedelta(seconds=1)
    values = (
        row.broker_id, row.log_dir, row.directory, row.topic_id, row.size_bytes,
        f"{newest:%Y%m%d%H%M.%S}", "*.log" if row.size_bytes else "*", folder.kind,
    )  # fmt: skip
    return "row " + " ".join(shlex.quote(str(value)) for value in values)


def _text(verdicts: Verdicts, now: datetime, until: datetime, lines: Sequence[str]) -> str:
    body = resources.files("dashboard.orphans.sweep").joinpath("sweep_script.sh").read_text("utf-8")
    head = (
        "#!/bin/sh",
        f"# Sets orphans aside; made by lowwater at {format_time(now)}, "
        f"verdicts {verdicts.sha256[:16]}.",
    )
    values = {
        "CLUSTER_ID": verdicts.cluster_id,
        "MADE_AT": str(int(now.timestamp())),
        "VALID_UNTIL": str(int(until.timestamp())),
        "VALID_UNTIL_TEXT": format_time(until),
    }
    assigned = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    before, marker, after = body.partition("set -u\n")
    return "\n".join([*head, before + marker + "\n".join(assigned), after + "\n".join(lines)]) + (
        "\nfinish"
    )


def _left_out(row: Verdict, why: Refusal) -> Outcome:
    return Outcome(
        row.broker_id, row.log_dir, row.directory, "none", "refused", None, row.size_bytes,
        why.reason, why.code,
    )  # fmt: skip
