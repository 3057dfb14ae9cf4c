"""`lowwater restore`: the records of an archive into a topic again, compared afterwards."""

from __future__ import annotations

import argparse
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_connection, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines
from dashboard.core.words import called, plural
from dashboard.domain.acts import Restoration
from dashboard.people import people

if TYPE_CHECKING:
    from dashboard.archive.opened import Archive
    from dashboard.archive.restore import Progress, Restored
    from dashboard.archive.restored_topic import Setting
    from dashboard.settings.policies.policy import Policy
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_REPORT_SECONDS = 2.0
_COLUMNS = ("partition", "records", "of", "from", "to", "there before", "strangers", "error")
_DESCRIPTION = """\
Writes the records of an archive into a new topic, in order, to the same partitions, with
their times, keys, values and headers; then reads all of them back and compares each.
Whatever ends it, Ctrl-C too, the same command goes on behind what the topic holds.
It deletes nothing, so the read-only switch does not stop it."""


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "restore",
        description=_DESCRIPTION,
        examples=(
            "lowwater restore s3://kept/CLUSTER_ID/RUN_ID --to-topic orders-restored",
            "lowwater restore kept/CLUSTER_ID/RUN_ID --topic orders --to-topic o2 --partitions 0,3",
            "lowwater restore kept/CLUSTER_ID/RUN_ID --to-topic orders --existing",
        ),
    )
    add_connection(parser)
    parser.add_argument("archive", metavar="ARCHIVE", help="a run's folder, or archive.json in it")
    parser.add_argument("--to-topic", metavar="NAME", required=True, help="where to; made for it")
    parser.add_argument("--topic", help="which one, where the archive holds several")
    parser.add_argument(
        "--existing", action="store_true", help="write behind what the topic holds already"
    )
    parser.add_argument("--partitions", metavar="N,…", help="these alone")
    parser.add_argument(
        "--compression", choices=COMPRESSIONS, default="lz4", help="of what is sent (lz4)"
    )
    parser.add_argument(
        "--offsets-out",
        metavar="FILE",
        help="Parquet: the new offset of each old one; else below the state folder",
    )


def run(args: argparse.Namespace) -> int:
    """Restore. Raises UsageError, SettingsError, ArchiveError, RefusedError, ClusterError."""
    from dashboard.archive.opened import open_archive

    partitions = _partitions(args.partitions)
    if not _TOPIC.fullmatch(args.to_topic) or args.to_topic in (".", ".."):
        raise UsageError(
            f"--to-topic {args.to_topic} is no name of a topic",
            "Write 1 to 249 letters, digits, dots, underscores and hyphens.",
            code="TOPIC_INVALID",
        )
    if args.offsets_out:
        output.check_writable(args.offsets_out)
    settings = context.read_settings(args)
    people.require(settings, context.actor(settings), "operator", "restore records")
    archive = open_archive(args.archive, settings.archive.key_file)
    target = _target(args, settings)
    done, of_cluster = _restore(args, settings, archive, partitions, target)
    cluster_id, name = of_cluster.cluster_id, context.name_of(of_cluster, target)
    policies, servers = purged_by(settings.policies, args.to_topic), target.bootstrap_servers
    value = {**_to_json(done, archive, cluster_id, servers), "policies": policies}
    where = called(name, cluster_id, shared=name != cluster_id)
    output.emit(value, _text(done, where, servers, policies), as_json=args.json)
    return 0 if done.whole else 2


def purged_by(policies: Iterable[Policy], topic: str) -> list[str]:
    """The names of policies, on or off, that are for a topic of this name: by their times the
    records that come back are old, and the next purge takes them again.
    """
    return sorted(policy.name for policy in policies if policy.matches(topic))


def _partitions(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        found = frozenset(int(word) for word in text.split(","))
    except ValueError:
        found = frozenset()
    if not found or min(found) < 0:
        raise UsageError(
            f"--partitions {text} is no list of partitions", "Write numbers, such as 0,3."
        )
    return found


def _restore(
    args: argparse.Namespace,
    settings: Settings,
    archive: Archive,
    partitions: frozenset[int] | None,
    target: context.Target,
) -> tuple[Restored, ClusterStore]:
    from dashboard.archive.restore import Goal, Restore
    from dashboard.archive.restored_topic import Notes
    from dashboard.cluster.live import connect
    from dashboard.cluster.produce import RecordClient
    from dashboard.store import own_reads

    store = context.open_store(settings.data)
    with connect(target.client, settings.broker_timeout) as live:
        cluster_id = live.cluster_id()
        meant = context.known_as if args.name else context.reached_cluster
        of_cluster = meant(store, cluster_id, target)
        folder = settings.state_dir / "restores" / cluster_id
        name = f"restore-{archive.run.run_id}"
        goal = Goal(args.to_topic, args.existing, partitions)
        with (
            own_reads.reading(of_cluster, name, output.progress) as took,
            context.open_journal(settings) as journal,
            RecordClient(target.client, cluster_id, args.compression, took=took) as client,
        ):
            restore = Restore(
                archive, archive.topic(args.topic), live, client, Notes(folder),
                settings.broker_timeout.total_seconds(), _reporter(),
            )  # fmt: skip
            begun = Restoration(
                "begun", archive.run.cluster_id, archive.run.run_id, archive.url,
                restore.topic.topic, cluster_id, args.to_topic, 0, False,
                context.actor(settings).name, socket.gethostname(),
                None if partitions is None else tuple(sorted(partitions)),
            )  # fmt: skip
            journal.tell_of_archive(begun, utc_now())
            offsets_file = Path(args.offsets_out or restore.notes.offsets_file(args.to_topic))
            done = restore.run(goal, utc_now(), offsets_file)
            ended = replace(begun, act="done", records=done.records, whole=done.whole)
            journal.tell_of_archive(ended, utc_now())
        return done, of_cluster


def _target(args: argparse.Namespace, settings: Settings) -> context.Target:
    """The cluster whose address a flag tells; else that of the data folder, or of the settings."""
    addressed = "bootstrap.servers" in context.overrides_of(args)
    known = None if addressed else context.known_target(args, settings)
    if known is None:
        return context.target(args, settings)
    return replace(known, name=args.name or known.name)


def _reporter() -> Callable[[Progress], None]:
    """Tells every two seconds how far it is, and each step's end."""
    last = time.monotonic()

    def report(found: Progress) -> None:
        nonlocal last
        done = found.records == found.of_records
        if not done and time.monotonic() - last < _REPORT_SECONDS:
            return
        last = time.monotonic()
        to_go = found.seconds_to_go
        said = f"{found.step} {found.records} of {plural(found.of_records, 'record')}"
        if found.of_raw_bytes:
            said += (
                f", {output.size(found.raw_bytes)} of {output.size(found.of_raw_bytes)}, "
                f"{output.size(int(found.raw_bytes / max(found.seconds, 1e-3)))}/s"
            )
        output.progress(said + (f", {to_go:.0f} s to go" if to_go and not done else ""))

    return report


def _to_json(done: Restored, archive: Archive, cluster_id: str, servers: str) -> dict[str, Any]:
    from dashboard.archive.restore import NOT_THE_SAME

    return {
        "archive": archive.url,
        "run_id": archive.run.run_id,
        "topic": done.topic.topic,
        "to_topic": done.to_topic,
        "to_cluster_id": cluster_id,
        "made": done.new is not None,
        "state": "restored" if done.whole else "differs",
        "records": done.records,
        "partitions": [
            {
                "partition": one.partition, "records": one.records, "of_records": one.of_records,
                "bytes": one.raw_bytes, "first_offset": one.first_offset,
                "next_offset": one.next_offset, "resumed_at": one.resumed_at,
                "strangers": one.strangers, "doubled": one.doubled, "error": one.error,
            }
            for one in done.partitions
        ],
        "settings": [_setting(one) for one in done.new.changed] if done.new else [],
        "line": done.new.line(servers) if done.new else None,
        "not_the_same": list(NOT_THE_SAME),
        "offsets_file": str(done.offsets_file),
        "write_seconds": round(done.write_seconds, 3),
        "compare_seconds": round(done.compare_seconds, 3),
    }  # fmt: skip


def _setting(one: Setting) -> dict[str, str | None]:
    return {"name": one.name, "was": one.was, "now": one.now, "why": one.why}


def _text(done: Restored, where: str, servers: str, policies: Sequence[str]) -> str:
    from dashboard.archive.restore import NOT_THE_SAME

    rows = [
        {
            "partition": one.partition, "records": one.records, "of": one.of_records,
            "from": one.first_offset, "to": one.next_offset, "there before": one.resumed_at,
            "strangers": one.strangers, "error": one.error,
        }
        for one in done.partitions
    ]  # fmt: skip
    told = f"{plural(done.records, 'record')} in topic {done.to_topic} of cluster {where}"
    said = "every one as it was archived" if done.whole else "not all as they were archived"
    lines = [output.table(rows, _COLUMNS), f"{told}, {said}"]
    lines += [f"not the same: {one}" for one in NOT_THE_SAME]
    lines.append(f"old and new offsets: {done.offsets_file}")
    lines += [
        f"policy {name} is for topics of this name: while it is on it purges these records again"
        for name in policies
    ]
    if done.new is not None:
        lines += [
            f"{one.name} is {one.now or 'not set'}, was {one.was or 'not set'}: {one.why}"
            for one in done.new.changed
        ]
        lines += ["the line that gives the topic its old settings:", done.new.line(servers)]
    return in_lines(lines)
