"""What keeps a run from sending: wishes, the switches, and the policy that no longer stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.errors import RefusedError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.journal.journal_wishes import silent

PAUSED, CANCELLED, READ_ONLY = "PAUSED", "CANCELLED", "READ_ONLY"


@dataclass(frozen=True, slots=True)
class Holding:
    """An operator's wish, the read-only switch, a policy's run's policy.

    `may_begin` raises RefusedError, see `asked`; `withdrawn` says why the policy no longer stands.
    """

    journal: Journal
    run_id: str
    now: Callable[[], datetime]
    read_only: Callable[[], str | None]
    may_begin: Callable[[bool], None]
    withdrawn: Callable[[], RefusedError | None]

    def asked(self) -> str | None:
        """CANCELLED or READ_ONLY: nothing more is sent; PAUSED: not now; None: go on.

        Raises RefusedError when the policy was withdrawn, paused or not: nothing more is sent
        either. `may_begin` is asked each time: a run may wait long, in a pause or for its cluster.
        """
        run = self._run()
        if run.wish == "cancel" or self.read_only():
            return CANCELLED if run.wish == "cancel" else READ_ONLY
        if (gone := self.withdrawn()) is not None:
            raise gone
        if run.wish == "pause":
            if run.state != "paused":
                self.journal.set_run(self.run_id, "paused", self.now())
            return PAUSED
        self.may_begin(True)
        if run.state == "paused":
            self.journal.set_run(self.run_id, "running", self.now())
        return None

    def may_send(self) -> bool:
        """Whether nobody wishes otherwise: asked before each request, from any thread."""
        if silent(self.journal.head(self.run_id), self.now()):
            return False
        if self.journal.wish(self.run_id) is not None or self.read_only():
            return False
        try:
            self.may_begin(False)
        except RefusedError:
            return False  # the next round says why
        return self.withdrawn() is None

    def _run(self) -> RunRow:
        self.journal.carried(self.run_id, self.now())  # somebody may have claimed it meanwhile
        run = self.journal.head(self.run_id)
        if run.wish is None and silent(run, self.now()):
            # The machine stood still, and this thread goes on before the one that beats.
            self.journal.beat(self.run_id, self.now())
            return self.journal.head(self.run_id)
        return run
