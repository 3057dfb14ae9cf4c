"""Listings of a broker's disk, as the shell line prints them and as a terminal tears them."""

from __future__ import annotations

from tests.bad_inputs.case import Case, Make, bytes_of, cut, folder, gone, raw, text

FILE = "listing"
CALL = f"inventory read {FILE} --broker 1 --out new"
HEAD = '#lowwater-listing 1 ["/logs"]\n'
AT = "#at 2026-03-01T04:00:00Z\n"
META = "./meta.properties:cluster.id=C\n./meta.properties:node.id=1\n"


def bad(name: str, make: Make | None, code: str, word: str, exit_: int = 1) -> Case:
    return Case(name, make, CALL, code, exit_, word)


def invalid(name: str, body: str, word: str) -> Case:
    return bad(name, text(FILE, body), "LISTING_INVALID", word)


def short(name: str, body: str, word: str) -> Case:
    return bad(name, text(FILE, HEAD + AT + body), "LISTING_CUT_SHORT", word)


CASES = [
    bad("not there", gone(FILE), "FILE_UNREADABLE", FILE),
    bad("a folder", folder(FILE), "FILE_UNREADABLE", FILE),
    bad("empty", cut(FILE, 0), "LISTING_INVALID", "header"),
    bad("zeros", raw(FILE, b"\0" * 100_000), "LISTING_INVALID", "header"),
    bad("one line without an end", raw(FILE, b"x" * 1_000_000), "LISTING_INVALID", "header"),
    bad("a shell's complaint", text(FILE, "sh: 1: find: not found\n"), "LISTING_INVALID",
        "header"),
    invalid("a later version", HEAD.replace(" 1 ", " 2 "), "version 2"),
    invalid("a version of a thousand digits", HEAD.replace(" 1 ", f" {'9' * 5000} "), "header"),
    invalid("a version in another script", HEAD.replace(" 1 ", " ² "), "header"),
    invalid("no log dirs", "#lowwater-listing 1\n", "log dirs"),
    invalid("an empty list of log dirs", "#lowwater-listing 1 []\n", "log dirs"),
    invalid("log dirs that are text", '#lowwater-listing 1 "/logs"\n', "log dirs"),
    invalid("log dirs of numbers", "#lowwater-listing 1 [5]\n", "log dirs"),
    invalid("a log dir that is relative", '#lowwater-listing 1 ["logs"]\n', "log dirs"),
    invalid("a log dir twice", '#lowwater-listing 1 ["/a","/a"]\n', "log dirs"),
    invalid("log dirs of brackets", "#lowwater-listing 1 " + "[" * 30_000 + "\n", "log dirs"),
    invalid("no time", HEAD + "#dir 0\n", "when it was made"),
    invalid("a time without a zone", HEAD + "#at 2026-03-01T04:00:00\n", "when it was made"),
    invalid("a time that is none", HEAD + "#at noon\n", "when it was made"),
    short("nothing after its time", "", "/logs"),
    short("another log dir than it says", "#dir 1\n", "/logs"),
    short("no files", f"#dir 0\n{META}", "#contents"),
    short("contents without their ending", f"#dir 0\n{META}#contents\n", "#contents"),
    short("contents that a signal ended", f"#dir 0\n{META}#contents 137\n", "137"),
    short("contents whose ending has a thousand digits",
          f"#dir 0\n{META}#contents {'9' * 5000}\n", "#contents"),
    short("contents whose ending is in another script", f"#dir 0\n{META}#contents ²\n",
          "#contents"),
    short("files that a shell did not start",
          f"#dir 0\n{META}#contents 0\nd\t1\t1\t1.0\t\n#files 127\n", "127"),
    short("no end", f"#dir 0\n{META}#contents 0\nd\t1\t1\t1.0\t\n#files 0\n", "end"),
    bad("find without its words", text(
        FILE, f"{HEAD}{AT}#dir 0\n{META}#contents 0\n#files 1\n#end\n"),
        "LISTING_WITHOUT_FILES", "/logs"),
    bad("no log dir that opened", text(FILE, f"{HEAD}{AT}#missing 0\n#end\n"),
        "LOG_DIR_UNREADABLE", "/logs", 4),
    bad("another broker's", bytes_of(FILE, lambda b: b.replace(b"node.id=1", b"node.id=2")),
        "BROKER_MISMATCH", "broker 2"),
    bad("without its identity", bytes_of(FILE, lambda b: b.replace(b"./meta.properties:", b"./x:")),
        "NOT_A_LOG_DIR", "meta.properties"),
    *(bad(f"torn after {part} of its parts", bytes_of(FILE, lambda b, part=part: b"#".join(
        b.split(b"#")[:part])), "LISTING_CUT_SHORT", "cut short") for part in (3, 4, 5, 6)),
]  # fmt: skip
