"""Requests that fit, of a cluster that they do not fit."""

from __future__ import annotations

import dataclasses
from typing import Any

from dashboard.core.errors import ClusterError
from tests.bad_inputs.case import Case, both, gone, live, text

PLAN = "plan --topic orders --to committed --out p"
REACHED = ("data/*/connection.json",)  # how that cluster was reached just now
KAFKA = "delete-records --bootstrap-server h:1 --offset-json-file offsets.json"


def refused(name: str, change: Any, words: str, code: str, word: str) -> Case:
    return Case(name, live(change), words, code, 3, word)


def wrong(name: str, words: str, code: str, word: str) -> Case:
    return Case(name, live(), words, code, 1, word)


def group(**values: Any) -> Any:
    """Group `a` is of this type, or has so many members."""

    def change(cluster: Any) -> None:
        listing = cluster.groups

        def groups(*topics: Any, **how: Any) -> Any:
            found = listing(*topics, **how)
            said = (dataclasses.replace(g, **values) if g.group_id == "a" else g
                    for g in found.groups)  # fmt: skip
            return dataclasses.replace(found, groups=tuple(said))

        cluster.groups = groups

    return change


def no_configs(cluster: Any) -> None:
    cluster.configs = lambda *_: ()


def silent(cluster: Any) -> None:
    def cluster_id() -> str:
        raise ClusterError("nobody answers", "Start it.")

    cluster.cluster_id = cluster_id


CASES = [
    refused("a topic that is not there",
            lambda c: c.topic_errors.update(orders="UNKNOWN_TOPIC_OR_PARTITION"), PLAN,
            "TOPIC_NOT_FOUND", "orders"),
    refused("a topic that may not be described",
            lambda c: c.topic_errors.update(orders="TOPIC_AUTHORIZATION_FAILED"), PLAN,
            "TOPIC_NOT_FOUND", "AUTHORIZATION"),
    refused("configs that may not be read", no_configs, PLAN, "CONFIGS_UNREADABLE", "orders"),
    refused("another cluster at that address", lambda c: setattr(c, "id", "other"), PLAN,
            "CLUSTER_MISMATCH", "other"),
    refused("a plan of another cluster, looked at live", lambda c: setattr(c, "id", "other"),
            "preview plan.json --live", "CLUSTER_MISMATCH", "other"),
    refused("a group with members to move", group(members=2), f"{PLAN} --waive a=x --move-waived",
            "MOVE_GROUP_ALIVE", "2 members"),
    refused("a group that nobody can count to move", group(members=None),
            f"{PLAN} --waive a=x --move-waived", "MOVE_GROUP_ALIVE", "a "),
    refused("a share group to move", group(type="share"), f"{PLAN} --waive a=x --move-waived",
            "MOVE_SHARE_GROUP", "share group"),
    Case("no answer", live(silent), PLAN, "CLUSTER_UNREACHABLE", 4, "nobody answers"),
    wrong("a group that nobody knows", f"{PLAN} --groups billling", "GROUP_NOT_FOUND", "billling"),
    wrong("a waived group that nobody knows", f"{PLAN} --waive 'billling=gone'",
          "GROUP_NOT_FOUND", "billling"),
    wrong("a waiver without a reason", f"{PLAN} --waive a=", "WAIVER_INVALID", "a="),
    wrong("a waiver of a group that may be two", f"{PLAN} --waive a=b=c", "GROUP_AMBIGUOUS", "a=b"),
    wrong("an override for a group that may be two", f"{PLAN} --override unread-by-group:a=b=c",
          "GROUP_AMBIGUOUS", "a=b"),
    wrong("a waiver of an open quote", f"""{PLAN} --waive '"a=why'""", "WAIVER_INVALID", "REASON"),
    wrong("a waiver of blanks", f"{PLAN} --waive ' = '", "WAIVER_INVALID", "expected GROUP=REASON"),
    wrong("a waiver of nothing", f"{PLAN} --waive ''", "WAIVER_INVALID", "expected GROUP=REASON"),
    wrong("an override without a reason", f"{PLAN} --override over-limit", "OVERRIDE_INVALID",
          "over-limit"),
    wrong("an override of no guard", f"{PLAN} --override all=yes", "OVERRIDE_INVALID", "all=yes"),
    wrong("an override that nobody may give", f"{PLAN} --override system-topic=x", "NOT_LIFTABLE",
          "system-topic"),
    wrong("a reason that is no text", f"{PLAN} --override over-limit=\udcff", "USAGE",
          "--override"),
    wrong("a waiver that is no text", f"{PLAN} --waive a=\udcff", "USAGE", "--waive"),
    wrong("a topic that is no text", PLAN.replace("orders", "\udcff"), "USAGE",
          "--topic"),
    Case("an empty topic", live(), PLAN.replace("orders", "''"), "TOPIC_NOT_FOUND", 3, "topic"),
    Case("a partition that is not there", both(live(), text("offsets.json",
         '{"partitions":[{"topic":"orders","partition":9,"offset":5}]}')),
         "plan --from-file offsets.json --out p", "PARTITION_NOT_FOUND", 1, "partition 9"),
    Case("a delete of a partition that is not there", both(live(), text("offsets.json",
         '{"partitions":[{"topic":"orders","partition":9,"offset":5}]}')),
         KAFKA, "PARTITION_NOT_FOUND", 1, "partition 9", REACHED),
    Case("a delete that nobody confirms", live(), KAFKA, "CONFIRMATION_REQUIRED", 1,
         "nothing was deleted", REACHED),
    Case("a plan without data", gone("data"), PLAN, "NO_SNAPSHOT", 1, "data"),
    Case("a collect that reaches nobody", None, "collect --bootstrap-server 127.0.0.1:1",
         "CLUSTER_UNREACHABLE", 4, "127.0.0.1:1"),
    Case("a collect of a name that is no host", None,
         "collect --bootstrap-server nowhere.invalid:1", "CLUSTER_UNREACHABLE", 4,
         "nowhere.invalid"),
]  # fmt: skip
