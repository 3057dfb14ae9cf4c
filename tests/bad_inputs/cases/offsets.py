"""Offsets files of Kafka's delete-records tool, and targets as `--to` spells them."""

from __future__ import annotations

from tests.bad_inputs.case import Case, Make, folder, gone, raw, text
from tests.bad_inputs.cases.flags import DIGITS, LONG

FILE = "offsets.json"
CALL = f"plan --from-file {FILE} --out p"
ONE = '"partitions":[{"topic":"t","partition":0,"offset":5}]'
DEEP = '{"partitions":' + "[" * 100_000


def file(name: str, make: Make | None, code: str, word: str) -> Case:
    return Case(f"file: {name}", make, CALL, code, 1, word)


def doc(name: str, body: str, word: str) -> Case:
    return file(name, text(FILE, body), "OFFSETS_INVALID", word)


def row(name: str, body: str, word: str) -> Case:
    return doc(name, '{"partitions":[' + body + '],"version":1}', word)


def to(name: str, target: str, code: str = "TARGET_INVALID", word: str = "") -> Case:
    return Case(f"target: {name}", None, f"plan --topic orders --to '{target}' --out p", code, 1,
                word or target[:40])  # fmt: skip


CASES = [
    file("not there", gone(FILE), "FILE_UNREADABLE", FILE),
    file("a folder", folder(FILE), "FILE_UNREADABLE", FILE),
    file("bytes that are no text", raw(FILE, b"\xff\xff"), "FILE_UNREADABLE", "UTF-8"),
    Case("file: a name too long", None, CALL.replace(FILE, LONG), "FILE_UNREADABLE", 1, "xxx"),
    Case("file: none for delete-records", gone(FILE),
         f"delete-records --bootstrap-server 127.0.0.1:1 --offset-json-file {FILE}",
         "FILE_UNREADABLE", 1, FILE),
    Case("file: no JSON for delete-records", text(FILE, "orders 0 5"),
         f"delete-records --bootstrap-server 127.0.0.1:1 --offset-json-file {FILE}",
         "OFFSETS_INVALID", 1, "not JSON"),
    doc("empty", "", "not JSON"),
    doc("cut short", '{"partitions":[', "not JSON"),
    doc("a mark of byte order", "\ufeff{}", "not JSON"),
    doc("lists too deep to read", DEEP, "not JSON"),
    doc("a list", "[]", "$: Expected `object`"),
    doc("null", "null", "$: Expected `object`"),
    doc("a number of five thousand digits", f'{{"version":{DIGITS}}}', "not JSON"),
    doc("no partitions", '{"version":1}', "$.partitions"),
    doc("partitions that are text", '{"partitions":"orders"}', "$.partitions"),
    doc("an empty list", '{"partitions":[]}', "$.partitions"),
    doc("a later version", f'{{{ONE},"version":2}}', "$.version"),
    doc("a version that is true", f'{{{ONE},"version":true}}', "$.version"),
    doc("a version that is not a number", f'{{{ONE},"version":NaN}}', "$.version"),
    doc("an unknown key", f'{{{ONE},"versions":1}}', "$.versions"),
    doc("a key twice", '{"partitions":[],"partitions":[]}', "twice"),
    row("a row that is a list", "[]", "$.partitions[0]"),
    row("a row without a topic", '{"partition":0,"offset":5}', "$.partitions[0].topic"),
    row("a topic without a name", '{"topic":"","partition":0,"offset":5}',
        "$.partitions[0].topic"),
    row("a topic that is a number", '{"topic":1,"partition":0,"offset":5}',
        "$.partitions[0].topic"),
    row("a row without an offset", '{"topic":"orders","partition":0}', "$.partitions[0].offset"),
    row("an offset in quotes", '{"topic":"t","partition":0,"offset":"5"}',
        "$.partitions[0].offset"),
    row("an offset with a fraction", '{"topic":"t","partition":0,"offset":5.0}',
        "$.partitions[0].offset"),
    row("an offset that is infinite", '{"topic":"t","partition":0,"offset":Infinity}',
        "$.partitions[0].offset"),
    row("an offset that is true", '{"topic":"t","partition":0,"offset":true}',
        "$.partitions[0].offset"),
    row("an offset below the high watermark's", '{"topic":"t","partition":0,"offset":-2}',
        "$.partitions[0].offset"),
    row("an offset past 64 bits", f'{{"topic":"t","partition":0,"offset":{2**63}}}',
        "$.partitions[0].offset"),
    row("a partition below zero", '{"topic":"t","partition":-1,"offset":5}',
        "$.partitions[0].partition"),
    row("a partition past 32 bits", f'{{"topic":"t","partition":{2**31},"offset":5}}',
        "$.partitions[0].partition"),
    row("a partition twice", '{"topic":"t","partition":0,"offset":5},'
        '{"topic":"t","partition":0,"offset":6}', "second time"),
    row("an unknown key of a row", '{"topic":"t","partition":0,"offset":5,"leader":1}',
        "$.partitions[0].leader"),
    row("a topic that is half a character", '{"topic":"\\ud800","partition":0,"offset":5}',
        "$.partitions[0].topic"),
    to("nothing", "", "USAGE", "--to"),
    to("blanks", "  ", word="not a target"),
    to("a word", "everything"),
    to("a typo", "commited"),
    to("committed with more", "committed:x"),
    to("an offset without a number", "offset:"),
    to("an offset below", "offset:-2"),
    to("an offset with a plus", "offset:+5"),
    to("an offset in another script", "offset:\u0665"),
    to("an offset past 64 bits", f"offset:{2**63}"),
    to("an offset of a thousand digits", f"offset:{DIGITS}"),
    to("no time", "timestamp:", word="timestamp"),
    to("a time without a zone", "timestamp:2026-03-01T04:00:00", "TIME_INVALID", "2026-03-01"),
    to("a day that is none", "timestamp:2026-02-30T04:00:00Z", "TIME_INVALID", "2026-02-30"),
    to("a word for a time", "timestamp:yesterday", "TIME_INVALID", "yesterday"),
    to("a time before the first year", "timestamp:0001-01-01T00:00:00+14:00", "TIME_INVALID",
       "0001"),
    to("nothing to keep", "keep:", word="keep"),
    to("no time to keep", "keep:0h", "KEEP_INVALID", "0h"),
    to("no bytes to keep", "keep:0GiB", "KEEP_INVALID", "0GiB"),
    to("decimal units to keep", "keep:10GB", "KEEP_INVALID", "10GB"),
    to("a word to keep", "keep:all", "KEEP_INVALID", "all"),
    to("bytes past 64 bits to keep", "keep:9000PiB", "KEEP_INVALID", "9000PiB"),
    to("a time of a thousand digits to keep", f"keep:{DIGITS}h", "KEEP_INVALID", "9999"),
    to("a time before the first year to keep", "keep:900000000d", "KEEP_INVALID", "900000000d"),
]  # fmt: skip
