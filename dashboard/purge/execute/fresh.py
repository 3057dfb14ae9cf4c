"""How long a look at the cluster counts: one rule for all that a run sends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.clock import Mark, Stopwatch

# What was looked at longer ago is looked at again before it is sent. A look that itself takes long
# (8 s for 65,000 groups) counts from its beginning, and so needs more, within bounds.
_FRESH_FOR, _MOST_FRESH_FOR = timedelta(seconds=5), timedelta(seconds=30)
OUTDATED = "LAST_LOOK_OUTDATED"


@dataclass(frozen=True, slots=True)
class Fresh:
    """A look at the cluster, and how long it counts from when it began."""

    watch: Stopwatch
    began: Mark
    most: timedelta

    @classmethod
    def now_ready(cls, watch: Stopwatch, began: Mark) -> Fresh:
        """A look that began then, now that all is ready to send."""
        return cls(watch, began, fresh_for(watch.since(began)))

    @property
    def age(self) -> timedelta:
        return self.watch.since(self.began)

    @property
    def over(self) -> bool:
        return self.age >= self.most

    @property
    def outdated(self) -> str:
        return (
            f"{self.age.total_seconds():.0f} s passed from the beginning of the last look at the "
            f"cluster until a request could leave; after {self.most.total_seconds():.0f} s it no "
            "longer counts"
        )


def fresh_for(took: timedelta) -> timedelta:
    """How long a look counts, from its beginning, that took so long until all was ready to send."""
    return min(_MOST_FRESH_FOR, max(_FRESH_FOR, 2 * took))
