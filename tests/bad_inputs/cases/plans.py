"""Plan files: torn, edited, sealed again by hand, expired, of another cluster."""

from __future__ import annotations

from typing import Any

from tests.bad_inputs.case import (
    Case,
    Make,
    both,
    cut,
    drop,
    folder,
    gone,
    hours_ago,
    json_of,
    put,
    raw,
    sealed,
    text,
    toml,
)

FILE = "plan.json"
APPLY = f"apply {FILE} --mode wait-all --confirm '$CONFIRM'"
P = ("partitions", 0)
DEEP = '{"version":1,"partitions":' + "[" * 100_000


def torn(name: str, make: Make, word: str, code: str = "PLAN_INVALID", exit_: int = 1) -> Case:
    return Case(name, make, f"preview {FILE}", code, exit_, word)


def forged(name: str, change: Any, word: str) -> Case:
    """Sealed again with its own right hash: what is in it is no plan."""
    return Case(f"forged: {name}", sealed(FILE, change), APPLY, "PLAN_INVALID", 1, word)


def refused(name: str, make: Make | None, words: str, code: str, word: str) -> Case:
    return Case(name, make, words, code, 3, word)


def guarded(document: dict[str, Any]) -> None:
    for row in document["partitions"]:
        row["guards"] = [{"name": "reassigning", "reason": "r", "lift": "l"}]


def overridden(name: str) -> Any:
    override = {"name": name, "group_id": None, "reason": "r", "by": "x",
                "at": "2026-03-01T04:00:00.000Z"}  # fmt: skip
    return put("overrides", [override])


CASES = [
    torn("not there", gone(FILE), FILE, "FILE_UNREADABLE"),
    torn("a folder", folder(FILE), FILE, "FILE_UNREADABLE"),
    torn("bytes that are no text", raw(FILE, b"\x80\x81"), "UTF-8", "FILE_UNREADABLE"),
    torn("empty", text(FILE, ""), "not JSON"),
    torn("cut in half", cut(FILE, 700), "not JSON"),
    torn("lists too deep to read", text(FILE, DEEP), "not JSON"),
    torn("another file's text", text(FILE, "{}"), "no plan of version 1"),
    torn("a list", text(FILE, "[]"), "no plan of version 1"),
    torn("a later version", json_of(FILE, put("version", 2)), "no plan of version 1"),
    torn("a version that is true", json_of(FILE, put("version", True)), "no plan of version 1"),
    torn("not a number in it", json_of(FILE, put("target", float("nan"))), "is not a plan"),
    torn("half a character in it", json_of(FILE, put("target", "\ud800")), "is not a plan"),
    torn("a target edited", json_of(FILE, put(*P, "target_offset", 846_001)), "sha256",
         "PLAN_EDITED", 3),
    torn("no sha256", json_of(FILE, drop("sha256")), "sha256", "PLAN_EDITED", 3),
    torn("a sha256 that is a number", json_of(FILE, put("sha256", 5)), "sha256", "PLAN_EDITED", 3),
    torn("a file of verdicts", both(gone(FILE), text(FILE, '{"version":1,"rows":[]}')), "sha256",
         "PLAN_EDITED", 3),
    forged("no partitions", drop("partitions"), "partitions"),
    forged("partitions that are a number", put("partitions", 5), "not a plan"),
    forged("a partition that is a list", put(*P, []), "not a plan"),
    forged("a partition without its target", drop(*P, "target_offset"), "target_offset"),
    forged("a target below zero", put(*P, "target_offset", -1), "target_offset"),
    forged("a target of half a record", put(*P, "target_offset", 5.0), "target_offset"),
    forged("a target in quotes", put(*P, "target_offset", "5"), "target_offset"),
    forged("a target that is true", put(*P, "target_offset", True), "target_offset"),
    forged("a target past 64 bits", put(*P, "target_offset", 2**63), "target_offset"),
    forged("a partition's number below zero", put(*P, "partition", -1), "partition"),
    forged("a partition's number past 32 bits", put(*P, "partition", 2**31), "partition"),
    forged("a partition that stands twice",
           lambda d: d["partitions"].append(dict(d["partitions"][0])), "twice"),
    forged("a topic that is a number", put(*P, "topic", 5), "topic"),
    forged("a topic without a name", put(*P, "topic", ""), "topic"),
    forged("a topic's id that is a list", put(*P, "topic_id", []), "topic_id"),
    forged("a high watermark in quotes", put(*P, "high_watermark", "9"), "high_watermark"),
    forged("a high watermark with a fraction", put(*P, "high_watermark", 900_000.0),
           "high_watermark"),
    forged("a log start of a word", put(*P, "log_start_offset", "x"), "log_start_offset"),
    forged("an epoch with a fraction", put(*P, "leader_epoch", 1.5), "leader_epoch"),
    forged("guards that are text", put(*P, "guards", "none"), "not a plan"),
    forged("a guard without a reason", put(*P, "guards", [{"name": "x"}]), "not a plan"),
    forged("a guard that is a number", put(*P, "guards", [{"name": 5, "reason": "", "lift": ""}]),
           "guard"),
    forged("groups that are null", put(*P, "groups", None), "not a plan"),
    forged("a group's offset in quotes", put(*P, "groups", 0, "committed_offset", "5"),
           "committed_offset"),
    forged("a guard lifted there that is a number", put(*P, "lifted", [{"name": 5}]), "lifted"),
    forged("an estimate that is a list", put(*P, "estimate", []), "not a plan"),
    forged("an estimate of a word", put(*P, "estimate", "bytes_at_once", "many"), "bytes_at_once"),
    forged("an estimate of a broker that is a word", put(*P, "estimate", "replicas", {"a": 1}),
           "not a plan"),
    forged("an estimate of a replica of a word", put(*P, "estimate", "replicas", {"1": "x"}),
           "replicas"),
    forged("the most of a cleaned replica of a word",
           put(*P, "estimate", "cleaned_high", {"1": "x"}), "cleaned_high"),
    forged("a memory that began with a number", put("known_since", 5), "known_since"),
    forged("a memory that began at no snapshot", put("known_since", "9999"), "known_since"),
    forged("a key that no plan has", put("note", "hello"), "keys or values"),
    forged("a key that no partition has", put(*P, "note", "hello"), "keys or values"),
    forged("a time without a zone", put("created_at", "2026-03-01T04:00:00"), "created_at"),
    forged("a time that is a number", put("expires_at", 5), "expires_at"),
    forged("a cluster without a name", put("cluster_id", None), "cluster_id"),
    forged("a cluster's name that is a list", put("cluster_name", ["prod"]), "cluster_name"),
    forged("a planner that is a number", put("created_by", 1), "created_by"),
    forged("a target that is a list", put("target", []), "target"),
    forged("waivers that are text", put("waivers", "all"), "not a plan"),
    forged("a waiver that moves by a word", put("waivers", 0, "move", "yes"), "not a plan"),
    forged("a waiver without a reason", put("waivers", 0, "reason", None), "reason"),
    forged("an override without a name", put("overrides", [{}]), "not a plan"),
    forged("an override whose group is a number", overridden(5), "name"),
    forged("declarations of other words", put("declarations", [{"who": "me"}]), "not a plan"),
    forged("a declared window of a word", put("declarations", 0, "replay_window_ms", "day"),
           "replay_window_ms"),
    forged("groups chosen by a number", put("chosen_groups", [5]), "chosen_groups"),
    forged("readings of other words", put("unseen_readers", [{"topic": "t"}]), "keys or values"),
    forged("readings that were until a number", put("unseen_readers", 0, "until", 5), "until"),
    forged("readings that are nothing", put("unseen_readers", []), "keys or values"),
    refused("edited and sealed again after its preview", sealed(FILE, put("created_by", "eve")),
            f"{APPLY} --sha256 $SHA", "PLAN_EDITED", "previewed"),
    refused("another sentence", None, APPLY.replace("$CONFIRM", "yes"), "CONFIRMATION_MISMATCH",
            "yes"),
    refused("an empty sentence", None, APPLY.replace("$CONFIRM", ""), "CONFIRMATION_MISMATCH",
            "confirmation"),
    refused("no hash to compare with", None, f"{APPLY} --sha256 ''", "PLAN_EDITED", "previewed"),
    refused("expired", sealed(FILE, hours_ago("created_at", "expires_at")), APPLY, "PLAN_EXPIRED",
            "expired"),
    refused("all guarded", sealed(FILE, guarded), APPLY, "NOTHING_FREE", "no partition free"),
    refused("an override that the settings forbid", both(
            sealed(FILE, overridden("under-replicated")),
            toml('[purge]\nliftable_guards = ["over-limit"]')), APPLY, "NOT_LIFTABLE",
            "under-replicated"),
    refused("an override of what nobody lifts", sealed(FILE, overridden("system-topic")), APPLY,
            "NOT_LIFTABLE", "system-topic"),
    refused("applied already", None, APPLY.replace(FILE, "applied.json"), "PLAN_ALREADY_APPLIED",
            "applied already"),
    refused("while all purges are off", toml("read_only = true"), APPLY, "READ_ONLY", "settings"),
    refused("guarded, for Kafka's tool", sealed(FILE, guarded),
            f"report --format offsets-json --plan {FILE} --out o", "NOTHING_FREE", "guards"),
    Case("of a cluster that the data folder does not know",
         sealed(FILE, put("cluster_id", "elsewhere")), APPLY, "CLUSTER_NOT_FOUND", 1, "elsewhere"),
    Case("of another cluster, in a report", sealed(FILE, put("cluster_id", "elsewhere")),
         f"report --format html --plan {FILE} --out o.html", "CLUSTER_MISMATCH", 1, "elsewhere"),
    Case("looked at live without data", gone("data"), f"preview {FILE} --live", "NO_SNAPSHOT", 1,
         "data"),
    Case("looked at live while no broker answers", None, f"preview {FILE} --live",
         "CLUSTER_UNREACHABLE", 4, "127.0.0.1:1"),
]  # fmt: skip
