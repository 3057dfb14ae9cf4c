"""What the preview broker changes in Kafka's sources: two message fields, two calls."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard.errors import DemoError

_FOLDER = "common/message/"
_RELEASED, _PREVIEW = "0-2", "0-3"
# Where KafkaApis hands a request on, and where it copies a partition's result into the answer.
_CALL = "replicaManager.deleteRecords("
_RESULT = ".setLowWatermark(partitionResult.lowWatermark)"


def patch_apis(source: str) -> str:
    """KafkaApis.scala that asks LeaderOnlyPreview and answers the leader's log start.

    Raises DemoError PREVIEW_SOURCE_UNKNOWN when a place to change is not there exactly once.
    """
    asked = "new LeaderOnlyPreview(replicaManager).deleteRecords("
    asked += "deleteRecordsRequest.data.leaderOnly, "
    told = f"{_RESULT}.setLeaderLogStartOffset(partitionResult.leaderLogStartOffset)"
    for anchor, instead in ((_CALL, asked), (_RESULT, told)):
        if source.count(anchor) != 1:
            raise _unknown(f"KafkaApis.scala has {source.count(anchor)} times {anchor!r}, not once")
        source = source.replace(anchor, instead)
    return source


def patch_schemas(clients_jar: Path, into: Path) -> None:
    """All message schemas of Kafka's clients jar, DeleteRecords with version 3.

    Raises DemoError PREVIEW_SOURCE_UNKNOWN when DeleteRecords is not as released.
    """
    changed: dict[str, Callable[[Any], None]] = {
        "DeleteRecordsRequest.json": _patch_request,
        "DeleteRecordsResponse.json": _patch_response,
    }
    into.mkdir()
    with zipfile.ZipFile(clients_jar) as jar:
        for name in jar.namelist():
            if name.startswith(_FOLDER) and name.endswith(".json"):
                file = name.removeprefix(_FOLDER)
                text = jar.read(name).decode()
                change = changed.pop(file, None)
                (into / file).write_text(_patched(text, change) if change else text)
    if changed:
        raise _unknown(f"the clients jar has no {min(changed)}")


def _patched(text: str, change: Callable[[Any], None]) -> str:
    comment = "//"
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(comment))
    schema = json.loads("\n".join(lines))
    if schema["validVersions"] != _RELEASED:
        raise _unknown(f"{schema['name']} has versions {schema['validVersions']}")
    schema["validVersions"] = _PREVIEW
    change(schema)
    return json.dumps(schema)


def _patch_request(schema: Any) -> None:
    schema["fields"].append(
        {"name": "LeaderOnly", "type": "bool", "versions": "3+", "default": "false"}
    )


def _patch_response(schema: Any) -> None:
    partition = _fields(_fields(schema, "Topics"), "Partitions")["fields"]
    after = [field["name"] for field in partition].index("LowWatermark") + 1
    # Ignorable: answers of older versions leave it out.
    start = {"name": "LeaderLogStartOffset", "type": "int64", "versions": "3+", "default": "-1"}
    partition.insert(after, {**start, "ignorable": True})


def _fields(schema: Any, name: str) -> Any:
    return next(field for field in schema["fields"] if field["name"] == name)


def _unknown(what: str) -> DemoError:
    return DemoError(
        f"this source is not the one that the leader-only preview knows: {what}",
        "Clear the cache folder and try again, or run the demo without --leader-only-preview.",
        code="PREVIEW_SOURCE_UNKNOWN",
    )
