"""Policies as short texts of a settings file, and the rows that rules judge."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime

from dashboard.domain.model import TopicPartition
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.section import policy_settings
from dashboard.settings.purge import LIFTABLE_GUARDS

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday


def policy(text: str = "", name: str = "p") -> Policy:
    """The policy that these lines describe; of topic `t` where they name none."""
    table = tomllib.loads(text)
    if not table.keys() & {"preset", "topics", "topics_regex"}:
        table["topics"] = ["t"]
    return policy_settings({name: table}, "here", LIFTABLE_GUARDS)[0]


def t(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)
