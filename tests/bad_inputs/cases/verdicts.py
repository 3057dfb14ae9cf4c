"""Files of verdicts on orphans, and sweeps that do not fit."""

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
    live,
    pipe_to,
    put,
    raw,
    sealed,
    text,
)

FILE = "verdicts.json"
SWEEP = "orphans sweep --log-dirs logs --bootstrap-server h:1"
CALL = f"{SWEEP} --verdicts {FILE}"
R = ("rows", 0)


def torn(name: str, make: Make, word: str, code: str = "VERDICTS_INVALID", exit_: int = 1) -> Case:
    return Case(name, both(live(), make), CALL, code, exit_, word)


def forged(name: str, change: Any, word: str) -> Case:
    return Case(f"forged: {name}", both(live(), sealed(FILE, change)), CALL, "VERDICTS_INVALID", 1,
                word)  # fmt: skip


def refused(  # noqa: PLR0917 a table's columns
    name: str, make: Make, code: str, word: str, words: str = CALL, exit_: int = 3
) -> Case:
    return Case(name, both(live(), make), words, code, exit_, word)


def of_broker(broker: int, cluster: str = "sAmpLeCLusTer0000000x1") -> Make:
    return text("logs/meta.properties", f"cluster.id={cluster}\nnode.id={broker}\n")


CASES = [
    torn("not there", gone(FILE), FILE, "FILE_UNREADABLE"),
    torn("a folder", folder(FILE), FILE, "FILE_UNREADABLE"),
    torn("bytes that are no text", raw(FILE, b"\xff"), "UTF-8", "FILE_UNREADABLE"),
    torn("empty", cut(FILE, 0), "not JSON"),
    torn("cut in half", cut(FILE, 900), "not JSON"),
    torn("lists too deep to read", text(FILE, '{"rows":' + "[" * 100_000), "not JSON"),
    torn("a plan", text(FILE, '{"partitions":[],"version":1}'), "sha256", "VERDICTS_CHANGED", 3),
    torn("a list", text(FILE, "[]"), "version 1"),
    torn("a later version", json_of(FILE, put("version", 2)), "version 1"),
    torn("a verdict edited", json_of(FILE, put(*R, "verdict", "removable")), "sha256",
         "VERDICTS_CHANGED", 3),
    torn("a size edited", json_of(FILE, put(*R, "size_bytes", 1)), "sha256", "VERDICTS_CHANGED",
         3),
    torn("no sha256", json_of(FILE, drop("sha256")), "sha256", "VERDICTS_CHANGED", 3),
    forged("no rows", drop("rows"), "rows"),
    forged("rows that are text", put("rows", "all"), "not a file of verdicts"),
    forged("a row that is a list", put(*R, []), "not a file of verdicts"),
    forged("a row without its folder", drop(*R, "directory"), "directory"),
    forged("a folder outside", put(*R, "directory", ".."), "directory"),
    forged("a folder by a path", put(*R, "directory", "a/../../etc"), "directory"),
    forged("a folder with a line break", put(*R, "directory", "a\nb"), "directory"),
    forged("a folder without a name", put(*R, "directory", ""), "directory"),
    forged("a log dir that is relative", put(*R, "log_dir", "logs"), "log_dir"),
    forged("a log dir that goes up", put(*R, "log_dir", "/logs/../etc"), "log_dir"),
    forged("a log dir with a zero", put(*R, "log_dir", "/logs\0"), "log_dir"),
    forged("a broker in quotes", put(*R, "broker_id", "1"), "broker_id"),
    forged("a partition below zero", put(*R, "partition", -1), "partition"),
    forged("a partition that is true", put(*R, "partition", True), "partition"),
    forged("a size with a fraction", put(*R, "size_bytes", 1.0), "size_bytes"),
    forged("a size past 64 bits", put(*R, "size_bytes", 2**63), "size_bytes"),
    forged("a topic's id that is none", put(*R, "topic_id", "short"), "topic_id"),
    forged("an unknown kind", put(*R, "kind", "spare"), "spare"),
    forged("an unknown verdict", put(*R, "verdict", "sure"), "sure"),
    forged("a removable folder of no age", lambda d: next(
        r for r in d["rows"] if r["verdict"] == "removable").update(newest_at=None), "removable"),
    forged("a removable folder with a time to look again", lambda d: next(
        r for r in d["rows"] if r["verdict"] == "removable").update(check_at=d["created_at"]),
        "check_at"),
    forged("a folder twice", lambda d: d["rows"].append(dict(d["rows"][0])), "twice"),
    forged("a key that no verdict has", put(*R, "force", True), "keys or values"),
    forged("valid for a year", put("expires_at", "2027-11-30T00:00:00.000Z"), "expires_at"),
    forged("a time that is a number", put("created_at", 5), "created_at"),
    forged("no cluster", put("cluster_id", ""), "cluster_id"),
    refused("expired", sealed(FILE, hours_ago("created_at", "expires_at")), "VERDICTS_EXPIRED",
            "expired"),
    refused("of the day after tomorrow", both(
            of_broker(1), sealed(FILE, hours_ago("created_at", "expires_at", hours=-48))),
            "VERDICTS_FROM_THE_FUTURE", "clock"),
    refused("of another cluster", both(
            of_broker(1), sealed(FILE, put("cluster_id", "elsewhere"))), "CLUSTER_MISMATCH",
            "elsewhere"),
    refused("a script of another cluster", sealed(FILE, put("cluster_id", "elsewhere")),
            "CLUSTER_MISMATCH", "elsewhere", f"{CALL} --script"),
    refused("a broker that is not of this cluster", of_broker(77), "NODE_MISMATCH", "77"),
    refused("a log dir of another cluster", of_broker(1, "C"), "CLUSTER_MISMATCH", "C"),
    refused("a log dir whose broker runs elsewhere", of_broker(1), "NOT_ITS_DISK", "logs"),
    refused("a log dir by two names", both(of_broker(1), pipe_to("aside", "logs")),
            "LOG_DIR_TWICE", "same folder", CALL.replace("logs", "logs,logs/../logs")),
    refused("no log dir", gone("logs"), "LOG_DIR_UNREADABLE", "logs", exit_=4),
    refused("a log dir without its identity", gone("logs/meta.properties"), "LOG_DIR_UNREADABLE",
            "logs", exit_=4),
    refused("no log dir to verify", gone("logs"), "LOG_DIR_UNREADABLE", "logs",
            "orphans sweep --log-dirs logs --verify", 4),
    refused("a log that was edited", text(".lowwater-quarantine/sweep.log", "{}\n"),
            "SWEEP_LOG_BROKEN", "quarantine", "orphans sweep --log-dirs logs --verify", 70),
]  # fmt: skip
