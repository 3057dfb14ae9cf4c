"""The data folder: snapshots, findings, their manifests and tables, and what lies beside them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.bad_inputs.case import (
    Case,
    Make,
    both,
    bytes_of,
    cut,
    drop,
    folder,
    gone,
    json_of,
    live,
    parquet,
    put,
    raw,
    text,
)

CLUSTER = "data/sAmpLeCLusTer0000000x1"
FINDINGS = f"{CLUSTER}/findings/*/"
MANIFEST = f"{FINDINGS}manifest.json"
HOLDS = f"{FINDINGS}holds.parquet"
OLD = "20200101T000000000Z-0000"
DEEP = b"[" * 100_000


def bad(name: str, make: Make | None, word: str, code: str = "STORE_UNREADABLE",
        words: str = "findings holds") -> Case:  # fmt: skip
    return Case(name, make, words, code, 1, word)


def column(name: str, kind: pa.DataType) -> Any:
    """A column of another type."""

    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(at, name, pa.nulls(table.num_rows, kind))

    return change


CASES = [
    bad("no folder", gone("data"), "data", "NO_SNAPSHOT"),
    bad("an empty folder", both(gone("data"), text("data/x", "")), "data", "NO_SNAPSHOT"),
    bad("a file for the folder", both(gone("data"), text("data", "")), "data"),
    bad("a cluster that is not there", None, "elsewhere", "CLUSTER_NOT_FOUND",
        "findings holds --cluster elsewhere"),
    bad("a cluster by a path", None, "../data", "CLUSTER_NOT_FOUND",
        "findings holds --cluster ../data"),
    bad("two clusters", text("data/other/connection.json", "{}"), "several",
        "CLUSTER_AMBIGUOUS"),
    bad("two clusters of one name", text("data/other/connection.json", '{"name":"prod-eu"}'),
        "prod-eu", "CLUSTER_AMBIGUOUS", "findings holds --cluster prod-eu"),
    bad("no analysis", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS"),
    bad("no analysis for followers", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS",
        "followers"),
    bad("no analysis for idle topics", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS",
        "idle"),
    bad("no analysis for retention", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS",
        "retention"),
    bad("no analysis for orphans", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS",
        "orphans"),
    bad("no analysis for a report", gone(f"{CLUSTER}/findings"), "prod-eu", "NO_ANALYSIS",
        "report --format html --out o.html"),
    bad("no analysis for a triage", both(live(), gone(f"{CLUSTER}/findings")),
        "prod-eu", "NO_ANALYSIS", "triage --broker 1 --need 1GiB --within 1h --out p"),
    bad("no snapshot to analyze", gone(f"{CLUSTER}/snapshots"), "prod-eu", "NO_SNAPSHOT",
        "analyze"),
    bad("a newest analysis of nobody", text(f"{CLUSTER}/findings/LATEST", OLD), OLD,
        "SNAPSHOT_NOT_FOUND"),
    bad("a newest analysis that is empty", text(f"{CLUSTER}/findings/LATEST", " \n"), "prod-eu",
        "NO_ANALYSIS"),
    bad("a newest analysis that is no text", raw(f"{CLUSTER}/findings/LATEST", b"\xff"), "LATEST"),
    bad("a newest analysis with a zero", raw(f"{CLUSTER}/findings/LATEST", b"a\0b"), "LATEST"),
    bad("a newest analysis outside", text(f"{CLUSTER}/findings/LATEST", "../../.."), "LATEST"),
    bad("a newest analysis of a long name", text(f"{CLUSTER}/findings/LATEST", "x" * 5000),
        "LATEST"),
    bad("a newest analysis that is a folder", folder(f"{CLUSTER}/findings/LATEST"), "LATEST"),
    bad("a manifest without content", cut(MANIFEST, 0), "manifest.json"),
    bad("a manifest cut in half", cut(MANIFEST, 60), "manifest.json"),
    bad("a manifest that is a folder", folder(MANIFEST), "manifest.json"),
    bad("a manifest that is no text", bytes_of(MANIFEST, lambda _: b"\xff\xfe"), "manifest.json"),
    bad("a manifest of brackets", bytes_of(MANIFEST, lambda _: DEEP), "manifest.json"),
    bad("a manifest that is a list", bytes_of(MANIFEST, lambda _: b"[]"), "manifest.json"),
    bad("a manifest of a newer release", json_of(MANIFEST, put("schema_version", [3, 0])),
        "3.0", "SCHEMA_TOO_NEW"),
    bad("a manifest whose version is a word", json_of(MANIFEST, put("schema_version", "1.2")),
        "manifest.json"),
    bad("a manifest whose version is of words",
        json_of(MANIFEST, put("schema_version", ["1", "2"])), "manifest.json"),
    bad("a manifest without tables", json_of(MANIFEST, drop("tables")), "manifest.json"),
    bad("a manifest whose tables are a list", json_of(MANIFEST, put("tables", ["holds"])),
        "manifest.json"),
    bad("a manifest with rows below zero", json_of(MANIFEST, put("tables", "holds", -1)),
        "manifest.json"),
    bad("a manifest with rows of a word", json_of(MANIFEST, put("tables", "holds", "x")),
        "manifest.json"),
    bad("a manifest with more rows", json_of(MANIFEST, put("tables", "holds", 10**6)),
        "holds.parquet"),
    bad("a manifest of another folder", json_of(MANIFEST, put("id", OLD)),
        "manifest of 20200101"),
    bad("a manifest whose id is a list", json_of(MANIFEST, put("id", [])), "manifest.json"),
    bad("a manifest without a zone in its time",
        json_of(MANIFEST, put("taken_at", "2026-03-01T04:00:00")), "manifest.json"),
    bad("a manifest whose seconds are a word", json_of(MANIFEST, put("seconds", "x")),
        "manifest.json"),
    bad("a manifest whose seconds are past all", json_of(MANIFEST, put("seconds", 10**400)),
        "manifest.json"),
    bad("a manifest whose details are text", json_of(MANIFEST, put("details", "x")),
        "manifest.json"),
    bad("a table that is gone", gone(HOLDS), "holds.parquet"),
    bad("a table that is a folder", folder(HOLDS), "holds.parquet"),
    bad("a table without content", cut(HOLDS, 0), "holds.parquet"),
    bad("a table cut short", cut(HOLDS, 500), "holds.parquet"),
    bad("a table without its beginning", bytes_of(HOLDS, lambda b: b[100:]), "holds.parquet"),
    bad("a table of zeros", bytes_of(HOLDS, lambda b: bytes(len(b))), "holds.parquet"),
    bad("a table with torn pages", bytes_of(HOLDS, lambda b: b[:4] + b"\xaa" * 400 + b[404:]),
        "holds.parquet"),
    bad("a table without its key", parquet(HOLDS, lambda t: t.drop_columns(["group_id"])),
        "group_id"),
    bad("a table whose offsets are texts", parquet(HOLDS, column("committed_offset", pa.string())),
        "committed_offset"),
    bad("a table with fewer rows", parquet(HOLDS, lambda t: t.slice(1)), "holds.parquet"),
    bad("a connection of brackets", bytes_of(f"{CLUSTER}/connection.json", lambda _: DEEP),
        "connection.json"),
    bad("a connection that is no JSON", cut(f"{CLUSTER}/connection.json", 10), "connection.json"),
    bad("a connection that is no text", raw(f"{CLUSTER}/connection.json", b"\xff\xff"),
        "connection.json"),
    bad("a connection that is a list", text(f"{CLUSTER}/connection.json", "[]"),
        "connection.json"),
    bad("a connection whose address is a number",
        json_of(f"{CLUSTER}/connection.json", put("bootstrap_servers", 9092)), "connection.json",
        words="plan --topic orders --to committed --out p"),
    bad("a connection whose config is a list",
        json_of(f"{CLUSTER}/connection.json", put("client_config", ["a"])), "connection.json",
        words="plan --topic orders --to committed --out p"),
    bad("a connection whose name is a number",
        json_of(f"{CLUSTER}/connection.json", put("name", 7)), "connection.json"),
    bad("a connection whose config is gone",
        json_of(f"{CLUSTER}/connection.json", put("client_config", "none.properties")),
        "none.properties", "CLIENT_CONFIG_UNREADABLE",
        "plan --topic orders --to committed --out p"),
    bad("a connection without an address",
        json_of(f"{CLUSTER}/connection.json", drop("bootstrap_servers")), "prod-eu",
        "CONNECTION_UNKNOWN", "plan --topic orders --to committed --out p"),
    *(
        bad(f"declarations that are {what}",
            both(live(), text(f"{CLUSTER}/declarations.json", body)), "declarations",
            code, "plan --topic orders --to committed --out p")
        for what, body, code in (
            ("no JSON", "{", "STORE_UNREADABLE"),
            ("a list", "[]", "STORE_UNREADABLE"),
            ("text", '{"topics":"all"}', "STORE_UNREADABLE"),
            ("lists", '{"topics":[[]]}', "STORE_UNREADABLE"),
            ("without topics' names", '{"topics":[{"owner":"me"}]}', "STORE_UNREADABLE"),
            ("of numbers", '{"topics":[{"glob":5}]}', "STORE_UNREADABLE"),
            ("of other words", '{"topics":[{"glob":"*","who":"me"}]}', "SETTINGS_KEY_UNKNOWN"),
            ("of other readers", '{"topics":[{"glob":"*","readers":"x"}]}', "SETTINGS_INVALID"),
            ("of no time", '{"topics":[{"glob":"*","replay_window":"x"}]}', "SETTINGS_INVALID"),
        )
    ),
    bad("orphans that are torn", cut(f"{FINDINGS}orphans.parquet", 300), "orphans.parquet",
        words="orphans --out v.json"),
    bad("disks that are torn", cut(f"{FINDINGS}disks.parquet", 300), "disks.parquet",
        words="report --format html --out o.html"),
    bad("a table that is torn, for CSV files", cut(f"{FINDINGS}curves.parquet", 300),
        "curves.parquet", words="report --format csv --out tables"),
    bad("a table that is torn, for an archive", cut(f"{FINDINGS}curves.parquet", 300),
        "curves.parquet", words="report --format parquet --out tables.zip"),
    bad("followers that are torn", cut(f"{FINDINGS}slow_followers.parquet", 300),
        "slow_followers.parquet", words="followers"),
    bad("idle topics that are torn", cut(f"{FINDINGS}idle_topics.parquet", 300),
        "idle_topics.parquet", words="idle"),
    bad("an address of a store without a host", None, "memory:", "NO_SNAPSHOT",
        "findings holds --data memory://"),
]  # fmt: skip
