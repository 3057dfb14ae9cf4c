"""The sample store with one group whose id is 255 odd characters: Kafka takes any text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.store.snapshots import ClusterStore
from tests.support import sample_store
from tests.support.sample_topics import GROUPS, TOPICS

ODD = ("ü\n\t\r\x1b[2J\"'`\\</script><b>💧\u202e%s{}$(x);--" * 9)[:255]
_INSTEAD_OF = "billing-replay"


def write(root: Path, monkeypatch: pytest.MonkeyPatch, group_id: str = ODD) -> ClusterStore:
    """The plain sample, with that group instead of the one that holds back most of `orders`."""
    monkeypatch.setitem(GROUPS, group_id, GROUPS[_INSTEAD_OF])
    topics = [
        replace(
            topic, groups={group_id if g == _INSTEAD_OF else g: s for g, s in topic.groups.items()}
        )
        for topic in TOPICS
    ]
    monkeypatch.setattr(sample_store, "TOPICS", tuple(topics))
    return sample_store.write(root)
