"""Every guard by name: why it blocks a purge, in words with facts, and what lifts it.

The purge's planner and the analysis both use these texts, so that a partition says the same in
the findings, on the pages and in a plan. Whether a guard applies is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dashboard.core.visible import pair
from dashboard.domain.model import Guard
from dashboard.settings.settings import LIFTABLE_GUARDS

# Why a target is not known: facts of target-unresolved.
UNREAD = "the leader's offsets were not read"
NO_SNAPSHOT = "no kept snapshot is as old as the replay window"
RESTARTED = "its log ends below where it ended when the replay window began: it was begun anew"
UNMEASURED = (
    "nobody can tell whether its log is the one that was measured: collect and analyze again"
)
SHORTENED = (
    "its log ended at {was} when its bytes were measured; it is the same, and committed, up to "
    "{now} alone: plan again, and collect and analyze if that stays so"
)
UNTOLD = "where leader epoch {epoch} of a kept snapshot ends by now cannot be read ({error})"

# These stand whatever is overridden: past them nobody can say what a purge would lose.
NEVER_LIFTABLE = (
    "groups-incomplete",
    "cluster-mismatch",
    "topic-id-changed",
    "not-deletable",
    "system-topic",
    "beyond-last-stable-offset",
    "target-unresolved",
)


@dataclass(frozen=True, slots=True)
class _Text:
    reason: str  # with {facts}
    # With {facts}, {override}, and of a group {waiver}, as words of a command line.
    lift: str


def _override(what: str) -> str:
    return f"{what}; or --override {{override}} when their loss is accepted."


_TEXTS: dict[str, _Text] = {
    "groups-incomplete": _Text(
        "The list of consumer groups is incomplete ({why}), so a reader may be missing from it.",
        "Not liftable: give the right or restore what is named, then plan again.",
    ),
    "cluster-mismatch": _Text(
        "The plan is for cluster {planned}, but cluster {found} answered.",
        "Not liftable: connect to the planned cluster, or plan on this one.",
    ),
    "topic-id-changed": _Text(
        "Topic {topic} was planned with id {planned} and now has id {found}: it was recreated.",
        "Not liftable: its offsets mean other records now; plan again.",
    ),
    "not-deletable": _Text(
        "cleanup.policy of {topic} is {policy}, without delete: brokers refuse DeleteRecords.",
        "Not liftable: set cleanup.policy to delete or compact,delete first.",
    ),
    "system-topic": _Text(
        "{topic} holds the state of Kafka or of a tool beside it, not messages to be consumed.",
        "Not liftable: leave it to the tool that owns it.",
    ),
    "beyond-last-stable-offset": _Text(
        "Target {target_offset} is past the last stable offset {last_stable_offset}: "
        "an open transaction, or nothing written there yet.",
        "Not liftable: choose a lower target, or plan again once the transaction has ended.",
    ),
    "target-unresolved": _Text(
        "No target offset is known: {why}.",
        "Not liftable: plan again when it can be read, or choose another kind of target.",
    ),
    "unread-by-group": _Text(
        "Group {group_id} committed {committed_offset}: {records} records below the target "
        "{target_offset} are unread by it.",
        "Let it read on; or --waive {waiver} when it is gone for good; "
        "or --override {override} when its loss is accepted.",
    ),
    "no-committed-offset": _Text(
        "{who}: what was read here is unknown.",
        _override("Commit an offset, or waive the group"),
    ),
    "no-history": _Text(
        "The data folder {data} holds no snapshot of this cluster: no group that is gone, no "
        "replay window and no measured bytes count.",
        _override("Name the folder that lowwater collect fills (--data)"),
    ),
    "stale-history": _Text(
        "{why}: a group that came and went since then is known to nobody.",
        _override(
            "Let lowwater watch (or lowwater collect) see all groups again, and ask whether one "
            "came and went meanwhile"
        ),
    ),
    "readers-undeclared": _Text(
        "It is not declared that the groups of {topic} are all its readers; others may read it "
        "without committing.",
        _override("Declare its readers (owner, groups, replay window)"),
    ),
    "unseen-reader-suspected": _Text(
        "{topic} sends out {bytes_out} an hour where its groups explain {explained}: "
        "somebody reads it without committing.",
        _override("Find the reader and let it commit"),
    ),
    "members-without-commits": _Text(
        "Group {group_id} has members that read this partition and no committed offset here.",
        _override("Let the group commit"),
    ),
    "share-group": _Text(
        "Share group {group_id} may still want records below the target ({why}).",
        _override("Let it acknowledge them"),
    ),
    "changelog-source": _Text(
        "{topic} may be the source of a state store ({why}): Kafka Streams restores from it "
        "whatever its groups committed.",
        _override("{ends}"),
    ),
    "remote-storage": _Text(
        "{topic} has remote storage, where records are kept for long on purpose: a purge deletes "
        "them there as well as on brokers' disks, whoever still reads them from afar.",
        _override("Use remote retention"),
    ),
    "under-replicated": _Text(
        "Replicas on {brokers} are not in sync: waiting for all would stall, and one that is "
        "elected later could bring records back.",
        _override("Wait until every replica is in sync"),
    ),
    "reassigning": _Text(
        "The partition is being reassigned (adding {adding}, removing {removing}).",
        _override("Wait until the reassignment ends"),
    ),
    "leader-log-dir-move": _Text(
        "The leader, broker {broker_id}, is moving the partition to {log_dir}: waiting for all "
        "replicas waits for that move too.",
        _override("Wait until the move ends"),
    ),
    "unclean-election-enabled": _Text(
        "unclean.leader.election.enable is true for {topic}: a replica that missed the purge "
        "may become leader and bring records back.",
        _override("Set it to false"),
    ),
    "over-limit": _Text(
        "The plan has {partitions} partitions; settings allow {limit} in one run.",
        _override("Plan fewer topics at a time"),
    ),
}


# The same guards where they could not be judged: what is not known is not "no".
_UNTOLD = {
    "reassigning": "Whether the partition is being reassigned cannot be told: {why}.",
    "leader-log-dir-move": "Whether the leader is moving the partition to another log dir cannot "
    "be told: {why}. Lifted, the purge is leader_done at most until it can be.",
}
_UNSEEN = "Whether somebody reads {topic} without committing cannot be told since {until}: {why}."


_ELSEWHERE_LIFT = _override(
    "Mount the data folder again, or name the one that lowwater watch filled then (--data)"
)


def guard(name: str, **facts: Any) -> Guard:
    """The guard `name` with its reason and lift filled from `facts`.

    Facts by guard: groups-incomplete why · cluster-mismatch planned, found · topic-id-changed
    topic, planned, found · not-deletable topic, policy · system-topic topic ·
    beyond-last-stable-offset target_offset, last_stable_offset · target-unresolved why ·
    unread-by-group group_id, committed_offset, target_offset, records ·
    no-committed-offset who, and the group_id if it is of one · readers-undeclared topic ·
    unseen-reader-suspected topic, bytes_out, explained · members-without-commits group_id ·
    share-group group_id, why · changelog-source topic, why, ends · remote-storage topic ·
    under-replicated brokers · reassigning adding, removing · leader-log-dir-move broker_id,
    log_dir · unclean-election-enabled topic · over-limit partitions, limit · no-history data ·
    stale-history why.
    Raises KeyError for an unknown name or a missing fact: both are defects of the caller.
    """
    text, group_id = _TEXTS[name], facts.get("group_id")
    facts = {**(_of_all(name) if group_id is None else words(name, group_id)), **facts}
    return Guard(name, text.reason.format_map(facts), text.lift.format_map(facts))


def _of_all(name: str) -> dict[str, str]:
    return {"override": f'"{name}=WHY"'}


@lru_cache(maxsize=1 << 14)  # an analysis asks for the same groups in each bucket
def words(name: str, group_id: str) -> Mapping[str, str]:
    """`waiver` and `override`: the words of a command line that lift this guard for a group."""
    return {"waiver": pair(group_id), "override": pair(group_id, before=f"{name}:")}


def untold(name: str, why: str) -> Guard:
    """`reassigning` or `leader-log-dir-move` where nobody can tell whether it is so."""
    lift = _TEXTS[name].lift.format_map(_of_all(name))
    return Guard(name, _UNTOLD[name].format(why=why), lift)


def elsewhere(data: str, since: str | None, run: str, before: str | None) -> Guard:
    """`no-history` where the folder does not go on from the history that `run` rested on.

    Both times are of the clocks of then, and prove nothing; `since` None: the folder is empty.
    """
    began = "has no snapshot of it" if since is None else f"began at {since}"
    return Guard(
        "no-history",
        f"The data folder {data}, which {began}, does not go on from the history of this "
        f"cluster that {run} rested on, which began at {before}: this is another folder, or its "
        "history was lost, and groups that are gone, replay windows and measured bytes may be "
        "missing here.",
        _ELSEWHERE_LIFT.format_map(_of_all("no-history")),
    )


def unmeasured(topic: str, until: str, why: str, before: str | None) -> Guard:
    """`unseen-reader-suspected` where it cannot be measured any more; `before`: what was seen."""
    told = _UNSEEN.format(topic=topic, until=until, why=why)
    name = "unseen-reader-suspected"
    lift = _override("Collect with broker metrics again").format_map(_of_all(name))
    return Guard(name, f"{told} Then it {before}." if before else told, lift)


def share_why(*, reads_topic: bool, error: str | None) -> str:
    """Why a share group is unknown: the `why` of guard share-group. `error` is Kafka's name."""
    if reads_topic and not error:
        return "it reads this topic, and its start offset here is not known"
    return f"its topics cannot be read{f', {error}' if error else ''}"


def names() -> tuple[str, ...]:
    """Every guard's name: the never liftable ones first, then the liftable ones."""
    return NEVER_LIFTABLE + LIFTABLE_GUARDS
