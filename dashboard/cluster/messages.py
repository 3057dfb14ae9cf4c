"""Kafka messages that kafka-python lacks: DeleteRecords v3, describing new kinds of groups."""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage

from dashboard.cluster import schemas


class DeleteRecordsRequest(ApiMessage):  # type: ignore[misc]
    """DeleteRecords v0-v3; v3 adds LeaderOnly (KIP-1343): answer without waiting for followers."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        json["validVersions"] = "0-3"
        json["fields"].append(
            {"name": "LeaderOnly", "type": "bool", "versions": "3+", "default": "false"}
        )
        return json


class DeleteRecordsResponse(ApiMessage):  # type: ignore[misc]
    """DeleteRecords v0-v3; v3 adds each leader's own log start offset after the low watermark."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        json["validVersions"] = "0-3"
        topics = next(f for f in json["fields"] if f["name"] == "Topics")
        partitions = next(f for f in topics["fields"] if f["name"] == "Partitions")["fields"]
        after = next(i for i, f in enumerate(partitions) if f["name"] == "LowWatermark") + 1
        partitions.insert(
            after,
            {
                "name": "LeaderLogStartOffset",
                "type": "int64",
                "versions": "3+",
                "default": "-1",
                "ignorable": True,
            },
        )
        return json


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Describes groups of the new consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Members and assignments of groups of the new consumer protocol."""


class ShareGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Describes share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Members and assignments of share groups."""
