"""What a policy is: topics, target, pace and limits of purges that nobody confirms one by one."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from dashboard.core.canonical import digest
from dashboard.settings.policies.words import ALWAYS, Trigger, Window

REPARTITION = "repartition"  # the preset
REPARTITION_SUFFIX = "-repartition"
# What the preset lifts by itself, of topics of known Streams applications alone.
PRESET_LIFTS = {"readers-undeclared": "a Streams repartition topic is read by its application only"}


@dataclass(frozen=True, slots=True)
class Policy:
    """One [policies.NAME]: topics, target, pace and limits of purges that nobody confirms singly.

    `min_purge_interval` is KIP-811's: the least time between two starts of a partition's purge.
    `globs` and `regex` narrow a preset. No windows means always; budgets of None mean no limit.
    `overrides` maps a guard of POLICY_LIFTABLE to why it is lifted, `waive` a group to why its
    offsets do not count while no coordinator lists it.
    """

    name: str
    preset: str | None = None
    globs: tuple[str, ...] = ()
    regex: str | None = None
    target: str = "committed"
    committed_by: str = "all"  # "owner": the owning group's commits alone count for the target
    owner: str | None = None  # a group; None where the preset finds it by the topic's name
    mode: str = "wait-all"
    min_purge_interval: timedelta = timedelta(seconds=30)
    most_bytes_per_hour: int | None = None
    most_partitions_per_hour: int | None = None
    windows: tuple[Window, ...] = ()
    timezone: str = "UTC"
    trigger: Trigger = ALWAYS
    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    waive: Mapping[str, str] = field(default_factory=dict, hash=False)
    cluster: str | None = None

    def matches(self, topic: str) -> bool:
        """Whether the policy is for a topic of this name; a regex must match all of it."""
        if self.preset == REPARTITION and not topic.endswith(REPARTITION_SUFFIX):
            return False
        if self.globs:
            return any(fnmatch.fnmatchcase(topic, glob) for glob in self.globs)
        if self.regex is not None:
            return re.fullmatch(self.regex, topic) is not None
        return self.preset is not None

    @property
    def definition_sha256(self) -> str:
        """Hex sha256 of all that decides what is purged, and when: another one is another policy.

        Spelling (the order of globs, the text of a window) changes nothing.
        """
        windows = [[sorted(w.days), w.start_minute, w.end_minute] for w in self.windows]
        return digest(
            {
                "version": 1,
                "name": self.name,
                "preset": self.preset,
                "globs": sorted(self.globs),
                "regex": self.regex,
                "target": self.target,
                "committed_by": self.committed_by,
                "owner": self.owner,
                "mode": self.mode,
                "min_purge_interval_ms": self.min_purge_interval // timedelta(milliseconds=1),
                "most_bytes_per_hour": self.most_bytes_per_hour,
                "most_partitions_per_hour": self.most_partitions_per_hour,
                "windows": sorted(windows),
                "timezone": self.timezone,
                "trigger": [self.trigger.kind, self.trigger.share, self.trigger.bytes_per_hour],
                "overrides": dict(self.overrides),
                "cluster": self.cluster,
                # Only where there is one: what was confirmed before it could be written stays on.
                **({"waive": dict(self.waive)} if self.waive else {}),
            }
        )

    def confirmation(self, cluster_name: str) -> str:
        """The sentence that an operator repeats to switch it on, as it was defined when shown."""
        return f"switch on policy {self.name} on {cluster_name} as {self.definition_sha256[:12]}"
