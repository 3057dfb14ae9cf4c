"""Is a stored run still the one that was queued? Its link of the chain is held against it.

Only what never changes once a run is queued is compared, so that a run is compared once, when its
link is folded. What a link of an earlier version does not tell is not compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.core.errors import JournalError
from dashboard.purge.journal.journal_file import JournalFile
from dashboard.purge.journal.journal_pack import unpack

_PAGE = """SELECT topic, partition, body FROM run_partitions
  WHERE run_id=? AND (topic, partition) > (?, ?) ORDER BY topic, partition LIMIT 2000"""
_MOVES = """SELECT group_id, topic, partition, body FROM run_moves
  WHERE run_id=? ORDER BY group_id, topic, partition"""
_AT_ONCE = 1 << 20  # characters
_COLUMNS = (
    "plan_id", "plan_sha256", "cluster_id", "cluster_name", "mode", "who", "from_where", "typed",
    "options", "connection", "queued_at",
)  # fmt: skip
_RUN = f"""SELECT plan, {", ".join(_COLUMNS)},
  (SELECT definition_sha256 FROM run_policies WHERE run_policies.run_id = runs.run_id)
    AS definition_sha256
  FROM runs WHERE run_id=?"""


def not_as_queued(file: JournalFile, run_id: str, told: Mapping[str, Any]) -> list[str]:
    """How a run differs from the body of its link `queued`; nothing for one that is gone.

    Raises JournalError when the file cannot be read.
    """
    # The run last: one that was archived meanwhile is gone then, not half there.
    try:
        wrong = [*_wrong_targets(file, run_id, told), *_wrong_moves(file, run_id, told)]
    except (TypeError, ValueError):
        wrong = [f"what run {run_id} was queued with cannot be read"]
    found = file.rows(_RUN, run_id)
    if not found:
        return []
    run = found[0]
    frozen = (*_COLUMNS, "definition_sha256")
    names = [name for name in frozen if name in told and told[name] != run[name]]
    if names:
        wrong.insert(0, f"run {run_id} was queued with another {', '.join(names)}")
    if not _sealed_with(run["plan"], run["plan_sha256"]):
        wrong.append(f"the plan of run {run_id} was changed after it was queued")
    return wrong


def _wrong_targets(file: JournalFile, run_id: str, told: Mapping[str, Any]) -> list[str]:
    if "partitions" not in told:
        return []
    left = {(topic, partition): target for topic, partition, target in told["partitions"]}
    wrong = []
    for topic, partition, body in _partitions(file, run_id):
        if not _has_target(body, left.pop((topic, partition), None)):
            wrong.append(f"{topic}-{partition} of run {run_id} was queued with another target")
    return wrong + [f"{topic}-{partition} of run {run_id} is missing" for topic, partition in left]


def _partitions(file: JournalFile, run_id: str) -> Iterator[tuple[str, int, str]]:
    """A page at a time: a run may have 100,000."""
    after: tuple[str, int] = ("", -1)
    while rows := file.rows(_PAGE, run_id, *after):
        yield from ((row["topic"], row["partition"], row["body"]) for row in rows)
        after = (rows[-1]["topic"], rows[-1]["partition"])


def _has_target(stored: str, target: Any) -> bool:
    """Whether a row that is read has this target: most are told by their text, ten times sooner.

    A text with the key once, as we write it, is read with that target; any other one is read.
    """
    try:
        text = unpack(stored)
    except JournalError:
        return False
    once = text.count("target_offset") == 1 and "\\" not in text
    if once and f'"target_offset":{target},' in text:
        return True
    return target is not None and _value(text, "target_offset") == target


def _wrong_moves(file: JournalFile, run_id: str, told: Mapping[str, Any]) -> list[str]:
    """A link tells moves only where there are any."""
    names = ("from_offset", "to_offset")
    found = {
        (row["group_id"], row["topic"], row["partition"]): [_value(row["body"], n) for n in names]
        for row in file.rows(_MOVES, run_id)
    }
    told_moves = told.get("moves", ())
    asked = {(group, topic, number): steps for group, topic, number, *steps in told_moves}
    return [
        f"the move of group {group} on {topic}-{number} of run {run_id} is not as it was queued"
        for group, topic, number in sorted(found.keys() | asked.keys())
        if found.get((group, topic, number)) != asked.get((group, topic, number))
    ]


def _value(stored: str, name: str) -> Any:
    """A value of a stored object; None for a text that is none any more: it equals no offset."""
    try:
        return json.loads(unpack(stored)).get(name)
    except (JournalError, ValueError, AttributeError, RecursionError):
        return None


def _sealed_with(stored: str, sha256: str) -> bool:
    """Whether a plan's text has this hash: without reading it, which takes many times as long.

    The text is canonical, so what was hashed is the text without the key `sha256`.
    """
    try:
        text = unpack(stored)
    except JournalError:
        return False
    own = f'"sha256":"{sha256}",'
    at = text.find(own)
    found = hashlib.sha256()
    for start, end in ((0, at), (at + len(own), len(text))):
        for begin in range(start, end, _AT_ONCE):  # a plan may be megabytes
            found.update(text[begin : min(begin + _AT_ONCE, end)].encode())
    return at >= 0 and found.hexdigest() == sha256
