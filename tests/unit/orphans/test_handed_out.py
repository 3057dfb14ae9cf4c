"""What a page hands to a person: the line of a sweep, orphans as CSV, what waits for a look."""

from __future__ import annotations

import csv
import io
import shlex
from datetime import UTC, datetime

from dashboard.cli.findings import orphans
from dashboard.cli.parser import new_parser, parse
from dashboard.domain import acts as words
from dashboard.orphans.verdicts import sweep_line
from dashboard.store.finding_rows import OrphanRow
from dashboard.store.snapshots import Connection
from dashboard.ui import orphan_rows

SEEN = datetime(2026, 3, 1, 4, tzinfo=UTC)


def test_the_line_is_one_that_the_sweep_takes() -> None:
    line = sweep_line(["/data/a b", "/d$(x)"], Connection(bootstrap_servers="k1:9092,k2:9092"))
    program, *given = shlex.split(line)
    parser, verbs = new_parser()
    orphans.add_parser(verbs)
    args = parse(parser, verbs, given)

    assert (program, args.action, args.log_dirs) == ("lowwater", "sweep", "/data/a b,/d$(x)")
    assert (args.bootstrap_server, args.verdicts) == ("k1:9092,k2:9092", "verdicts.json")
    assert not args.apply


def test_what_is_not_known_of_a_connection_is_left_to_the_reader() -> None:
    assert "--bootstrap-server HOST:PORT" in sweep_line(["/d"], Connection())
    line = sweep_line(["/d"], Connection(client_config="/etc/my kafka"))
    assert "--client-config '/etc/my kafka'" in line


def test_csv_has_a_line_per_orphan_and_no_formula() -> None:
    row = OrphanRow(
        3, "=cmd()", None, None, None, "stray", 1, "never",
        reason='it says "no", twice', newest_at=SEEN,
    )  # fmt: skip
    (read,) = csv.DictReader(io.StringIO(orphan_rows.as_csv([row])))

    assert (read["broker_id"], read["log_dir"], read["directory"]) == ("3", "'=cmd()", "")
    assert (read["reason"], read["newest_at"]) == (row.reason, "2026-03-01T04:00:00.000Z")


def test_strays_and_folders_on_their_way_out_wait_for_no_second_look() -> None:
    def seen(times: int, folder: str, kind: str) -> dict[str, object]:
        return {"snapshots_seen": times, "folder": folder, "kind": kind}

    rows = [
        seen(1, "live", words.DELETED_TOPIC), seen(2, "live", words.MOVED_AWAY),
        seen(1, "stray", words.STRAY), seen(1, "delete", words.LATE_DELETE),
    ]  # fmt: skip
    assert words.seen_once(rows) == 1
