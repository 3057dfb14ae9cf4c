"""Inventory files, and log dirs that are none."""

from __future__ import annotations

import pyarrow as pa

from tests.bad_inputs.case import (
    Case,
    Make,
    both,
    bytes_of,
    cut,
    drop,
    folder,
    footer,
    found,
    gone,
    live,
    parquet,
    put,
    raw,
    text,
)

FILE = "1.inventory"
COLLECT = f"collect --bootstrap-server 127.0.0.1:1 --inventory {FILE}"
SCAN = "inventory scan --log-dirs logs --broker 1 --out new"


def bad(name: str, make: Make | None, word: str = FILE, code: str = "INVENTORY_UNREADABLE",
        words: str = COLLECT) -> Case:  # fmt: skip
    return Case(name, make, words, code, 1, word)


def said(name: str, change: object, word: str = FILE) -> Case:
    return bad(name, footer(FILE, change), word)  # type: ignore[arg-type]


CASES = [
    bad("not there", gone(FILE)),
    bad("a folder", folder(FILE)),
    bad("a name too long", None, "xxx", words=COLLECT.replace(FILE, "x" * 5000)),
    bad("empty", cut(FILE, 0)),
    bad("text", text(FILE, "broker 1")),
    bad("cut short", cut(FILE, 800)),
    bad("without its beginning", bytes_of(FILE, lambda b: b[50:])),
    bad("of zeros", bytes_of(FILE, lambda b: bytes(len(b)))),
    bad("with torn pages", bytes_of(FILE, lambda b: b[:4] + b"\xaa" * 200 + b[204:])),
    bad("a snapshot's table",
        bytes_of(FILE, lambda _: found("data/*/snapshots/*/topics.parquet")[0].read_bytes())),
    said("a footer whose log dirs are a number", put("log_dirs", 5)),
    said("a footer whose gaps have no reason", put("gaps", [{"path": "x"}])),
    bad("a footer that is gone", parquet(FILE, lambda t: t.replace_schema_metadata({}))),
    bad("a footer of a newer release", footer(FILE, put("schema_version", [9, 0])), "9.0",
        "INVENTORY_TOO_NEW"),
    said("a footer without a version", drop("schema_version")),
    said("a footer whose version is a word", put("schema_version", "1.0")),
    said("a footer without a broker", drop("broker_id")),
    said("a footer whose broker is a word", put("broker_id", "one")),
    said("a footer whose broker is a fraction", put("broker_id", 1.5)),
    said("a footer whose cluster is a number", put("cluster_id", 5)),
    said("a footer without a cluster", put("cluster_id", None)),
    said("a footer whose time has no zone", put("scanned_at", "2026-03-01T04:00:00")),
    said("a footer whose time is null", put("scanned_at", None)),
    said("a footer whose log dirs are text", put("log_dirs", "logs")),
    said("a footer without log dirs", drop("log_dirs")),
    said("a footer whose log dir has no name", put("log_dirs", [{"path": "x"}])),
    said("a footer whose log dir's name is a number", put("log_dirs", 0, "log_dir", 5)),
    said("a footer whose gaps are text", put("gaps", "none")),
    said("a footer with gaps that it does not name", put("gaps_total", 5)),
    said("a footer whose gaps are counted by a word", put("gaps_total", "five")),
    bad("a column of another type", parquet(FILE, lambda t: t.set_column(
        t.column_names.index("log_bytes"), "log_bytes", pa.array(["x"] * t.num_rows)))),
    bad("without the column that tells rows apart", parquet(
        FILE, lambda t: t.drop_columns(["record"]))),
    bad("twice", None, "both of broker 1", "INVENTORY_TWICE", f"{COLLECT} --inventory {FILE}"),
    Case("of another cluster", live(), COLLECT, "INVENTORY_OF_OTHER_CLUSTER", 1, "cluster C",
         ("data/*/connection.json",)),
    Case("a scan of no log dir", gone("logs"), SCAN, "LOG_DIR_UNREADABLE", 4, "logs"),
    Case("a scan of a file", None, SCAN.replace("logs", "text"), "LOG_DIR_UNREADABLE", 4, "text"),
    bad("a scan of a log dir by two names", None, "same folder", "LOG_DIR_TWICE",
        SCAN.replace("logs", "logs,logs/../logs")),
    bad("a scan of a log dir without its identity", gone("logs/meta.properties"), "logs",
        "NOT_A_LOG_DIR", SCAN),
    bad("a scan of any folder", None, "state", "NOT_A_LOG_DIR", SCAN.replace("logs", "state")),
    bad("a scan of another broker's disk", None, "broker 1, not to broker 2", "BROKER_MISMATCH",
        SCAN.replace("broker 1", "broker 2")),
    bad("a scan of an identity that says nothing", text("logs/meta.properties", "version=1\n"),
        "logs", "NOT_A_LOG_DIR", SCAN),
    bad("a scan of an identity that is no text", raw("logs/meta.properties", b"\xff" * 100),
        "logs", "NOT_A_LOG_DIR", SCAN),
    bad("a scan of two clusters' log dirs",
        both(text("other/meta.properties", "cluster.id=D\nnode.id=1\n")), "cluster D",
        "CLUSTER_MISMATCH", SCAN.replace("logs", "logs,other")),
]  # fmt: skip
