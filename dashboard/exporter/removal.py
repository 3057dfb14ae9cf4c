"""What a service that removes orphans says of itself, as Prometheus families."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dashboard.orphans.removal import FAILED, ON, STANDBY, Round
from dashboard.orphans.removal_story import ACTS, Story
from dashboard.orphans.sweep.sweep_items import Item

_LABEL = ["broker_id"]


def removal_families(last: Round | None) -> list[Metric]:
    """Of the last round; totals are of the sweeps' logs, so that no restart begins them anew."""
    if last is None:
        return []
    acting = GaugeMetricFamily(
        "lowwater_orphan_service_state",
        "1 for what the last round was: on, off (it only tells), standby (another acts), failed.",
        labels=["state"],
    )
    for state in (ON, "off", STANDBY, FAILED):
        acting.add_metric([state], int(last.state == state))
    at = GaugeMetricFamily(
        "lowwater_orphan_service_round_timestamp_seconds", "Unix time of the last round."
    )
    at.add_metric([], last.at.timestamp())
    return [acting, at, *_refused(last), *_acts(last.stories), *_lying(last.stories)]


def _refused(last: Round) -> list[Metric]:
    found = GaugeMetricFamily(
        "lowwater_orphan_service_refused_folders",
        "Folders that the last round left where they are, by the code of the reason.",
        labels=[*_LABEL, "code"],
    )
    report = last.report
    codes = [row.code or "" for row in report.rows if row.state == "refused"] if report else []
    for code in sorted(set(codes)):
        assert report is not None
        found.add_metric([str(report.broker_id), code], codes.count(code))
    return [found]


def _acts(stories: Sequence[Story]) -> list[Metric]:
    folders = CounterMetricFamily(
        "lowwater_orphan_acts_folders",
        "Folders that sweeps of this broker moved, put back, restored, deleted, or found lost.",
        labels=[*_LABEL, "act"],
    )
    size = CounterMetricFamily(
        "lowwater_orphan_acts_bytes", "Bytes of disk of these folders.", labels=[*_LABEL, "act"]
    )
    done: dict[tuple[str, str], list[Item]] = {}
    for story in stories:
        of_broker: dict[str, list[Item]] = {act: [] for act in ACTS}
        for act, item in story.acts():
            of_broker[act].append(item)
        for act, found in of_broker.items():
            done.setdefault((str(story.broker_id), act), []).extend(found)
    for key, found in sorted(done.items()):
        folders.add_metric(list(key), len(found))
        size.add_metric(list(key), sum(item.allocated_bytes for item in found))
    return [folders, size]


def _lying(stories: Sequence[Story]) -> list[Metric]:
    folders = GaugeMetricFamily(
        "lowwater_orphan_quarantined_folders", "Folders that lie in quarantine.", labels=_LABEL
    )
    size = GaugeMetricFamily(
        "lowwater_orphan_quarantined_bytes", "Bytes of disk of these folders.", labels=_LABEL
    )
    for broker in sorted({str(story.broker_id) for story in stories}):
        found = [i for s in stories if str(s.broker_id) == broker for i in s.lying]
        folders.add_metric([broker], len(found))
        size.add_metric([broker], sum(item.allocated_bytes for item in found))
    return [folders, size]
