"""What the journal tells: runs, their partitions, the chain of entries, and the switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import JournalError, PlanError, RefusedError, UsageError
from dashboard.purge.journal.chain import READ_ONLY, SWITCHES, Chain, uneven
from dashboard.purge.journal.file import JournalFile
from dashboard.purge.journal.head import journal_in, watched_since
from dashboard.purge.journal.links import entry
from dashboard.purge.journal.pack import Stored, changed, unpack
from dashboard.purge.journal.rows import (
    Begins,
    Entry,
    PartitionRow,
    RestedOn,
    RunRow,
    RunView,
    Verification,
)
from dashboard.purge.journal.tables import (
    move_row,
    not_as_queued,
    partition_row,
    run_row,
    watching,
)
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import Sample
from dashboard.settings.settings import Settings

# A plan or a baseline of many partitions is megabytes; they are read for one run at a time.
_HEAD = """run_id, plan_id, plan_sha256, cluster_id, cluster_name, mode, state, who, from_where,
  typed, options, connection, queued_at, started_at, closed_at, heartbeat_at, watched_until, wish,
  error, receipt,
  (SELECT policy FROM run_policies WHERE run_policies.run_id = runs.run_id) AS policy,
  (SELECT decided_by FROM purge_requests WHERE purge_requests.run_id = runs.run_id)
    AS approved_by,
  (state='partial' AND NOT EXISTS (SELECT 1 FROM run_partitions
    WHERE run_partitions.run_id = runs.run_id AND run_partitions.state <> 'not_done'))
    AS none_done,
  (SELECT body FROM run_archives WHERE run_archives.run_id = runs.run_id) AS archive"""
_RUN_STATES = """SELECT run_id, state, plan_sha256,
  (SELECT policy FROM run_policies WHERE run_policies.run_id = runs.run_id) AS policy
  FROM runs"""
_REQUEST_STATES = """SELECT request_id, plan_sha256, requester, mode, state, decided_by, run_id
  FROM purge_requests"""
# One of which nothing left proves nothing of the folder that it came from: an intent is written
# before the connection stands, and `sent_at` is taken back where no request was sent. What the
# worker saw of its own store stands in the intent; a plan's text is asked of versions whose intents
# do not tell. A plus keeps SQLite from an index, and so from reading more runs than the newest.
_TOLD_BY_PLAN = """CASE WHEN json_extract(plain(plan), '$.analysis_id') IS NULL THEN NULL
  ELSE coalesce(json_extract(plain(plan), '$.known_since'), '') END"""
_RESTED_ON = f"""SELECT run_id, queued_at, since FROM (
  SELECT rowid AS number, run_id, queued_at,
    (SELECT CASE WHEN json_type(plain(body), '$.known_since') IS NULL THEN {_TOLD_BY_PLAN}
      ELSE json_extract(plain(body), '$.known_since') END FROM entries
      WHERE entries.run_id=runs.run_id AND kind='intent' ORDER BY seq DESC LIMIT 1) AS since
  FROM runs WHERE +cluster_id=? AND run_id IS NOT ?) AS rested
  WHERE since IS NOT NULL AND EXISTS (SELECT 1 FROM run_partitions p
    WHERE p.run_id=rested.run_id AND json_extract(plain(p.body), '$.sent_at') IS NOT NULL)
  ORDER BY number DESC LIMIT 1"""
# None is watched before it is closed, and of that there is an index; plusses keep SQLite from
# walking through all runs instead.
EARLIER = f"""SELECT {_HEAD} FROM runs WHERE +cluster_id=? AND watched_until>=? AND closed_at>=?
  AND +rowid < (SELECT rowid FROM runs WHERE run_id=?) AND EXISTS (
    SELECT 1 FROM run_topics a JOIN run_topics b ON a.topic=b.topic
    WHERE a.run_id=runs.run_id AND b.run_id=?) ORDER BY +rowid DESC"""
_FOLDED_AT_ONCE = 500
_AT_ONCE = 100


_T = TypeVar("_T")


class JournalReads:
    """Reads of one journal file; `Journal` adds the writes."""

    def __init__(self, path: Path, *, on_network: bool = False) -> None:
        self.file = JournalFile(path, on_network=on_network)

    def close(self) -> None:
        """Close this process's connection."""
        self.file.close()

    def runs(self, cluster_id: str | None = None, *, most: int | None = None) -> list[RunRow]:
        """All runs, or those of one cluster, newest first; `most` of them, if given."""
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE cluster_id=? OR ? IS NULL ORDER BY rowid DESC LIMIT ?",
            cluster_id, cluster_id, -1 if most is None else most,
        )  # fmt: skip
        return [run_row(row) for row in found]

    def run_count(self) -> int:
        """How many runs there are: cheap to ask often."""
        return int(self.file.rows("SELECT count(*) AS runs FROM runs")[0]["runs"])

    def runs_since(self, entry: int) -> list[RunRow]:
        """The runs that links after a number speak of, oldest first."""
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE run_id IN "
            "(SELECT run_id FROM entries WHERE seq>?) ORDER BY rowid",
            entry,
        )
        return [run_row(row) for row in found]

    def recent(self, cluster_id: str, since: datetime, most: int) -> list[RunRow]:
        """The newest runs of a cluster that are open or were queued since then; newest first."""
        # A plus keeps SQLite from the index of all runs of the cluster: few are open.
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE rowid IN ("
            "SELECT rowid FROM runs WHERE +cluster_id=? AND closed_at IS NULL UNION "
            "SELECT rowid FROM runs WHERE cluster_id=? AND queued_at>=?) "
            "ORDER BY rowid DESC LIMIT ?",
            cluster_id, cluster_id, format_time(since), most,
        )  # fmt: skip
        return [run_row(row) for row in found]

    def topics_of(self, run_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The topics of some runs, sorted."""
        marks = ",".join("?" * len(run_ids))
        found = self.file.rows(
            f"SELECT run_id, topic FROM run_topics WHERE run_id IN ({marks}) ORDER BY topic",
            *run_ids,
        )
        topics: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
        for row in found:
            topics[row["run_id"]].append(row["topic"])
        return {run_id: tuple(names) for run_id, names in topics.items()}

    def earlier(self, run: RunRow, since: datetime) -> list[RunRow]:
        """Runs closed since then, before this one, that share a topic with it; newest first.

        However long ago they were queued: one that waited or was paused has just sent.
        """
        found = self.file.rows(
            EARLIER, run.cluster_id, format_time(since), format_time(since), run.run_id, run.run_id
        )
        return [run_row(row) for row in found]

    def later(self, run: RunRow) -> list[RunRow]:
        """Runs queued after this one that share a topic with it, oldest first."""
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE +cluster_id=? "
            "AND rowid > (SELECT rowid FROM runs WHERE run_id=?) AND EXISTS ("
            "SELECT 1 FROM run_topics a JOIN run_topics b ON a.topic=b.topic "
            "WHERE a.run_id=runs.run_id AND b.run_id=?) ORDER BY rowid",
            run.cluster_id, run.run_id, run.run_id,
        )  # fmt: skip
        return [run_row(row) for row in found]

    def run(self, run_id: str) -> RunView:
        """One run with its partitions and moves, sorted. Raises UsageError RUN_NOT_FOUND."""
        return RunView(self.head(run_id), self.partitions(run_id), self.moves(run_id))

    def head(self, run_id: str) -> RunRow:
        """One run without its partitions: cheap to ask often. Raises UsageError RUN_NOT_FOUND."""
        found = self.file.rows(f"SELECT {_HEAD} FROM runs WHERE run_id=?", run_id)
        if not found:
            raise UsageError(
                f"the journal knows no run {run_id}",
                "List the runs with: lowwater runs.",
                code="RUN_NOT_FOUND",
            )
        return run_row(found[0])

    def partitions(
        self, run_id: str, states: Sequence[str] | None = None
    ) -> tuple[PartitionRow, ...]:
        """The partitions of one run, sorted; only those in `states`, if given."""
        among = "" if states is None else f" AND state IN ({','.join('?' * len(states))})"
        sql = f"SELECT * FROM run_partitions WHERE run_id=?{among} ORDER BY topic, partition"
        rows = self.file.rows(sql, run_id, *(states or ()))
        return tuple(partition_row(row) for row in rows)

    def moves(self, run_id: str) -> tuple[MoveRow, ...]:
        """The moves of waived groups' offsets that one run was asked for, sorted."""
        rows = self.file.rows(
            "SELECT * FROM run_moves WHERE run_id=? ORDER BY group_id, topic, partition", run_id
        )
        return tuple(move_row(row) for row in rows)

    def rested_on(self, cluster_id: str, *, but: str | None = None) -> RestedOn | None:
        """The newest run of a cluster, `but` one, that sent anything by a store with an analysis.

        None where there is none, or it is of a version that did not keep what it knew.
        """
        found = self.file.rows(_RESTED_ON, cluster_id, but)
        if not found or not found[0]["since"]:
            return None
        return RestedOn(
            found[0]["run_id"], parse_time(found[0]["queued_at"]), str(found[0]["since"])
        )

    def knows(self, plan_sha256: str, token: str) -> bool:
        """Whether a run of this plan, or of this click, is there already."""
        sql = "SELECT 1 FROM runs WHERE plan_sha256=? OR token=?"
        return bool(self.file.rows(sql, plan_sha256, token))

    def plan(self, run_id: str) -> Plan:
        """The plan that a run was queued with, verified again.

        Raises JournalError JOURNAL_BROKEN for one that was changed, or is another run's.
        """
        row = self.file.rows("SELECT plan, plan_sha256 FROM runs WHERE run_id=?", run_id)[0]
        try:
            plan = Plan.from_json_text(unpack(row["plan"]), f"the plan of run {run_id}")
        except (PlanError, RefusedError) as error:
            raise changed() from error
        if plan.sha256 != row["plan_sha256"]:
            raise changed()
        return plan

    def entries(
        self, run_id: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Links of the chain in order, of all runs or of one."""
        where = "seq>? AND run_id=?" if run_id else "seq>?"
        values: tuple[Any, ...] = (after, run_id) if run_id else (after,)
        most = -1 if limit is None else limit
        rows = self.file.rows(
            f"SELECT * FROM entries WHERE {where} ORDER BY seq LIMIT ?", *values, most
        )
        return [entry(row) for row in rows]

    def each_entry(self, after: int = 0) -> Iterator[Entry]:
        """The links of the chain after this one, in order, of which few are in memory at once."""
        while found := self.entries(after=after, limit=_AT_ONCE):
            yield from found
            after = found[-1].seq

    def first_entry(self) -> int:
        """The number of the oldest link that was not archived; 0: there is none."""
        return int(self.file.rows("SELECT min(seq) AS seq FROM entries")[0]["seq"] or 0)

    def begins(self) -> Begins | None:
        """Where the journal begins, if what came before was archived; None: it has all."""
        found = self.entries(limit=1)
        return Begins(found[0].seq, parse_time(found[0].at)) if found and found[0].seq > 1 else None

    def has_run(self, run_id: str) -> bool:
        """Whether a run is in it, open or closed."""
        return bool(self.file.rows("SELECT 1 FROM runs WHERE run_id=?", run_id))

    def moved_to(self) -> dict[Path, datetime]:
        """The folders that runs of this journal were moved to, as far as its links tell, and before
        when each of these runs was over.
        """
        links = self.file.rows("SELECT * FROM entries WHERE kind='archived' ORDER BY seq")
        found: dict[Path, datetime] = {}
        for link in map(entry, links):
            folder, at = Path(link.body["folder"]), link.body.get("before")
            before = parse_time(at or link.at)
            found[folder] = max(before, found.get(folder, before))
        return found

    def commits_kept(self, run_id: str) -> str | None:
        """The sha256 of all commits of a run's archive, as the chain tells; None: it does not."""
        sql = "SELECT * FROM entries WHERE run_id=? AND kind='kept' ORDER BY seq DESC"
        bodies = (entry(row).body for row in self.file.rows(sql, run_id))
        told = (body.get("commits_sha256") for body in bodies)
        return next((sha256 for sha256 in told if sha256), None)

    def told_since(self, since: datetime, kind: str) -> list[Entry]:
        """The links of a kind that belong to no run and were written since then, in order."""
        sql = "SELECT * FROM entries WHERE run_id IS NULL AND kind=? AND at>=? ORDER BY seq"
        return [entry(row) for row in self.file.rows(sql, kind, format_time(since))]

    def has_link(self, seq: int, sha256: str) -> bool:
        """Whether this very link is in it."""
        return bool(self.file.rows("SELECT 1 FROM entries WHERE seq=? AND hash=?", seq, sha256))

    def newest_first(self, run_id: str) -> Iterator[Entry]:
        """Links of a run back from the newest, each read as it is asked for."""
        sql = "SELECT * FROM entries WHERE run_id=? AND seq<=? ORDER BY seq DESC LIMIT 1"
        before = self.newest_entry()
        while rows := self.file.rows(sql, run_id, before):
            yield (found := entry(rows[0]))
            before = found.seq - 1

    def newest_entry(self) -> int:
        """The number of the newest link of the chain; 0: none. It tells cheaply what is new."""
        return int(self.file.rows("SELECT max(seq) AS seq FROM entries")[0]["seq"] or 0)

    def verify(self, *, as_archive: bool = False) -> Verification:
        """Check the whole chain, and that runs, policies and requests are as it tells.

        `as_archive`: the file is one that `archive` made. It may begin anywhere and knows no
        switches, so that whoever looks must say so: no mark in a file is believed.
        """
        found = self.verify_on(Chain(), as_archive=as_archive)[1]
        # Of two files that SQLite mixed indexes may lead past rows that are there.
        whole = [str(row[0]) for row in self.file.rows("PRAGMA integrity_check(1)")]
        odd = [] if as_archive else uneven(self.file.rows)
        odd += [] if whole == ["ok"] else whole
        return replace(found, problems=(*found.problems, *odd))

    def verify_on(self, chain: Chain, *, as_archive: bool = False) -> tuple[Chain, Verification]:
        """The same from where `chain` was folded to: only what is new is read; and the next one.

        What was changed behind its back in links folded before, and in what those of them that
        queued a run froze, is not seen: begin anew for that.
        """
        # Before the moment that is read: what is kept beside the file never leads it.
        lost = None if as_archive else self.file.lost()
        self._fold(chain)
        with self.file.reading():  # runs and links of one moment, or one contradicts the other
            folded = chain if self._begins_with(chain) else Chain()
            self._fold(folded)
            cut = self._cut_since(chain)
            wrong = self._wrongly_marked(as_archive=as_archive)
            wrong += folded.wrong_runs(self.file.rows(_RUN_STATES))
            wrong += folded.wrong_requests(self.file.rows(_REQUEST_STATES))
            if not as_archive:
                wrong += folded.unexplained_start()
                wrong += folded.wrong_switches(self.file.rows(SWITCHES))
                wrong += folded.wrong_read_only(self.file.rows(READ_ONLY))
        problems = (*folded.problems, *wrong, *cut, *([lost.message] if lost else []))
        found = Verification(folded.entries, problems, folded.first)
        return (chain if cut else folded), found

    def _fold(self, chain: Chain) -> None:
        sql = "SELECT * FROM entries WHERE seq>? ORDER BY seq LIMIT ?"
        while rows := self.file.rows(sql, chain.newest, _FOLDED_AT_ONCE):
            chain.fold(rows, partial(not_as_queued, self.file))

    def _wrongly_marked(self, *, as_archive: bool) -> list[str]:
        """That the file is not marked as what it is said to be."""
        marked = self.is_archive()
        if marked and not as_archive:
            return ["it is marked as an archive: if it is one, verify it with --as-archive"]
        return ["it is not marked as an archive"] if as_archive and not marked else []

    def _begins_with(self, chain: Chain) -> bool:
        """Whether the journal's oldest link is still the one that the fold began with."""
        return chain.newest == 0 or self.first_entry() == chain.first

    def _cut_since(self, chain: Chain) -> list[str]:
        """That the newest link of a fold is gone or another now, and was not archived either."""
        if chain.newest == 0 or self.first_entry() > chain.newest:
            return []
        newest = self.file.rows("SELECT hash FROM entries WHERE seq=?", chain.newest)
        if [row["hash"] for row in newest] == [chain.newest_hash]:
            return []
        return [f"entry {chain.newest} was there a while ago, and is gone or another one"]

    def is_archive(self) -> bool:
        """Whether it holds what another journal has archived: nothing is purged from it."""
        return self.file.is_archive()

    def baseline(self, run_id: str) -> Sample | None:
        """Sizes of all replicas just before the first request, as the receipt wrote them."""
        text = self.file.rows("SELECT baseline FROM runs WHERE run_id=?", run_id)[0]["baseline"]
        return Stored(text, Sample.from_json).value if text else None

    def queued_as(self, token: str) -> str | None:
        """The run that one click or command has queued; None: none."""
        found = self.file.rows("SELECT run_id FROM runs WHERE token=?", token)
        return str(found[0]["run_id"]) if found else None

    def wish(self, run_id: str) -> str | None:
        """What was asked of the worker last."""
        return self.head(run_id).wish

    def read_only(self) -> bool:
        """Whether the journal's switch stops every purge."""
        rows = self.file.rows(READ_ONLY)
        return bool(rows and rows[0]["value"])

    def stopped(self) -> tuple[str, str] | None:
        """Who stopped every purge by the journal's switch, and when (as stored: which stop it is);
        None: it stops nothing.
        """
        rows = self.file.rows("SELECT who, at FROM switches WHERE name='read_only' AND value<>0")
        return (str(rows[0]["who"]), str(rows[0]["at"])) if rows else None

    def stale(self, older_than: timedelta, now: datetime) -> list[RunRow]:
        """Open runs, and closed ones still to be watched, whose worker gives no sign of life.

        A sign from the future is none: the clock was set back.
        """
        # Asked several times a second: of most runs a final receipt is a link of the chain, and
        # they need not be read to know it.
        found = self.file.rows(
            f"SELECT {_HEAD} FROM runs WHERE rowid IN ("
            "SELECT rowid FROM runs WHERE closed_at IS NULL UNION "
            "SELECT rowid FROM runs WHERE watched_until >= ? AND NOT EXISTS ("
            "SELECT 1 FROM entries WHERE entries.run_id=runs.run_id AND kind='receipt')) "
            "ORDER BY rowid DESC",
            watched_since(now),
        )
        return [
            run
            for run in map(run_row, found)
            if (run.heartbeat_at is None or abs(now - run.heartbeat_at) > older_than)
            and (run.open or watching(run, now))
        ]


def told_by_journal(settings: Settings, ask: Callable[[JournalReads], _T]) -> _T | None:
    """What this machine's journal tells; None where there is none, or this user may not read it:
    whoever sends has it open.
    """
    path = journal_in(settings.state_dir)
    with suppress(OSError, JournalError):
        if path.is_file():
            with closing(JournalReads(path, on_network=settings.state_dir_on_network)) as journal:
                return ask(journal)
    return None
