"""The shape of the sample cluster: topics, groups and how far each group has read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SampleTopic:
    """One topic. `groups` maps a group to the share of the log it has committed past (0..1).

    `record_bytes` is the size of a record at the start and at the end of the log, so that bytes
    per offset are not constant. `skew` multiplies the records of partition 0.
    """

    topic: str
    partitions: int
    records: int
    record_bytes: tuple[int, int]
    groups: dict[str, float] = field(default_factory=dict)
    owner: str | None = None
    guards: tuple[str, ...] = ()
    cleanup: str = "delete"
    skew: int = 1
    is_internal: bool = False
    log_start: int = 0
    unstable: int = 0  # records of open transactions below the high watermark


TOPICS: tuple[SampleTopic, ...] = (
    SampleTopic("orders", 6, 900_000, (900, 1500), {"billing": 0.94, "billing-replay": 0.61},
                owner="team-checkout", log_start=120_000),
    SampleTopic("payments", 4, 500_000, (700, 700), {"payments-svc": 0.995},
                owner="team-payments"),
    SampleTopic("clickstream", 8, 2_000_000, (350, 450), {"clicks-etl": 0.88, "ad-hoc": 0.72}),
    SampleTopic("audit-log", 3, 400_000, (800, 800), guards=("no-committed-offset",)),
    SampleTopic("inventory", 3, 150_000, (300, 300), {"stock-view": 1.0},
                guards=("not-deletable",), cleanup="compact"),
    SampleTopic("customer-state", 3, 200_000, (600, 600), {"crm-sync": 0.9},
                owner="team-crm", cleanup="compact,delete"),
    SampleTopic("tiny-events", 12, 40, (120, 120), {"tiny-reader": 1.0}, owner="team-core"),
    SampleTopic("skewed", 4, 60_000, (900, 900), {"skew-reader": 0.8}, owner="team-core", skew=14),
    SampleTopic("reports-old", 3, 450_000, (1000, 1000), {"old-reporting": 0.05},
                owner="team-bi"),
    SampleTopic("tx-ledger", 2, 250_000, (500, 500), {"ledger": 0.97}, owner="team-finance",
                unstable=900),
    SampleTopic("counts-app-store-repartition", 3, 120_000, (250, 250), {"counts-app": 0.98},
                owner="team-core"),
    SampleTopic("metrics-raw", 4, 700_000, (200, 200), guards=("members-without-commits",)),
    SampleTopic("__consumer_offsets", 5, 30_000, (90, 90), guards=("system-topic",),
                cleanup="compact", is_internal=True),
)  # fmt: skip

# group -> (type, state, members)
GROUPS: dict[str, tuple[str, str, int]] = {
    "ad-hoc": ("classic", "Empty", 0),
    "billing": ("consumer", "Stable", 3),
    "billing-replay": ("consumer", "Stable", 1),
    "clicks-etl": ("classic", "Stable", 4),
    "counts-app": ("streams", "Stable", 2),
    "crm-sync": ("classic", "Stable", 1),
    "ledger": ("consumer", "Stable", 1),
    "metrics-tail": ("classic", "Stable", 1),
    "old-reporting": ("classic", "Empty", 0),
    "payments-svc": ("consumer", "Stable", 2),
    "skew-reader": ("classic", "Stable", 1),
    "stock-view": ("classic", "Stable", 1),
    "tiny-reader": ("classic", "Stable", 1),
}


def large_topics() -> tuple[SampleTopic, ...]:
    """500 topics of 10 partitions: 15,000 replica rows on three brokers."""
    return tuple(
        SampleTopic(
            f"topic-{number:03d}", 10, 20_000 + 731 * number, (200, 600),
            {f"group-{number % 40:02d}": 0.9, f"replay-{number % 7}": 0.3 + (number % 60) / 100},
            owner="team-core" if number % 3 else None,
        )
        for number in range(500)
    )  # fmt: skip
