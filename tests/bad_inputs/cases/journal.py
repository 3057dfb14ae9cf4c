"""The purge journal: torn, edited, of rows that no release wrote."""

from __future__ import annotations

from tests.bad_inputs.case import Case, Make, bytes_of, cut, sql

FILE = "state/journal.sqlite"
RUN = "run $RUN"
Z = "z1:AAAA"


def bad(name: str, make: Make, words: str = RUN, code: str = "JOURNAL_BROKEN",
        word: str = "journal") -> Case:  # fmt: skip
    return Case(name, make, words, code, 70, word)


def torn(name: str, make: Make, words: str = "runs") -> Case:
    return bad(name, make, words, "JOURNAL_FAILED", FILE)


def edited(name: str, *statements: str, words: str = "runs --verify") -> Case:
    return bad(name, sql(*statements), words)


CASES = [
    torn("text", bytes_of(FILE, lambda _: b"run 1: done\n" * 100)),
    torn("cut short", cut(FILE, 5000)),
    torn("a page of zeros", bytes_of(FILE, lambda b: b[:4096] + bytes(4096) + b[8192:])),
    torn("a schema of noise", bytes_of(FILE, lambda b: b[:100] + b"\xaa" * 3996 + b[4096:])),
    torn("a plan's apply on a torn one", cut(FILE, 5000),
         "apply plan.json --mode wait-all --confirm '$CONFIRM'"),
    torn("a report of a torn one", cut(FILE, 5000), "report --format html --out o.html"),
    torn("an export of a torn one", cut(FILE, 5000), "runs --export all.json"),
    edited("an entry edited", "UPDATE entries SET body='{}' WHERE seq=1"),
    edited("an entry that is no JSON", "UPDATE entries SET body='{' WHERE seq=1"),
    edited("an entry that is packed wrongly", f"UPDATE entries SET body='{Z}' WHERE seq=1"),
    edited("an entry packed in other letters", "UPDATE entries SET body='z1:ä' WHERE seq=1"),
    edited("an entry that is a list", "UPDATE entries SET body='[]' WHERE seq=1"),
    edited("an entry whose time was moved", "UPDATE entries SET at='2026' WHERE seq=2"),
    edited("an entry gone", "DELETE FROM entries WHERE seq=2"),
    edited("the newest entry gone", "DELETE FROM entries WHERE seq=(SELECT max(seq) FROM entries)"),
    edited("a state that the chain does not tell", "UPDATE runs SET state='cancelled'"),
    edited("a run gone", "DELETE FROM entries WHERE kind='queued'"),
    edited("a policy switched on by hand", "INSERT INTO policy_switches VALUES "
           "('c','p',1,'x','eve','2026-03-01T04:00:00.000Z','here')"),
    edited("another name of who queued a run", "UPDATE runs SET who='eve'"),
    edited("another sentence than was typed", "UPDATE runs SET typed='yes'"),
    edited("another plan than was queued", "UPDATE runs SET plan='{}'"),
    edited("a run's partition that is gone", "DELETE FROM run_partitions WHERE partition=0"),
    edited("purges allowed again by hand", "INSERT INTO switches VALUES "
           "('read_only',0,'eve','2026-03-01T04:00:00.000Z')"),
    edited("marked as an archive", "INSERT INTO switches VALUES "
           "('archive',1,'eve','2026-03-01T04:00:00.000Z')"),
    Case("verified as an archive that it is not", None, "runs --verify --as-archive",
         "JOURNAL_BROKEN", 70, "not marked"),
    edited("a run's time that is none", "UPDATE runs SET queued_at='noon'", words=RUN),
    edited("a run's time without a zone", "UPDATE runs SET closed_at='2026-03-01T04:00:00'",
           words=RUN),
    edited("a run's options that are no JSON", "UPDATE runs SET options='{'", words=RUN),
    edited("a run's options of other words", """UPDATE runs SET options='{"fast":true}'""",
           words=RUN),
    edited("a run's options that are a list", "UPDATE runs SET options='[]'", words=RUN),
    edited("a run's connection that is no JSON", "UPDATE runs SET connection='{'", words=RUN),
    edited("a run's receipt that is no JSON", "UPDATE runs SET receipt='{'", words=RUN),
    edited("a run's receipt that is a number", "UPDATE runs SET receipt='5'", words=RUN),
    edited("a run's receipt that is packed wrongly", f"UPDATE runs SET receipt='{Z}'", words=RUN),
    edited("a run's partition that is no JSON", "UPDATE run_partitions SET body='{'", words=RUN),
    edited("a run's partition of other words", "UPDATE run_partitions SET body='{}'", words=RUN),
    edited("a run's partition that is a list", "UPDATE run_partitions SET body='[]'", words=RUN),
    edited("a run's partition that is packed wrongly", "UPDATE run_partitions SET body='r1:AAAA'",
           words="runs"),
    edited("a run's partition in brackets",
           f"UPDATE run_partitions SET body='{'[' * 100_000}'", words=RUN),
    edited("an export of a plan that was edited", "UPDATE runs SET plan='{}'",
           words="runs --export all.json"),
    edited("an export of an entry that is no JSON", "UPDATE entries SET body='{' WHERE seq=1",
           words="runs --export all.json"),
    edited("a report of a run that cannot be read",
           "UPDATE runs SET options='{', cluster_id='sAmpLeCLusTer0000000x1'",
           words="report --format html --out o.html"),
    Case("a run that is closed already", None, "run $RUN --cancel", "RUN_CLOSED", 3, "done"),
    Case("a pause of a run that is closed", None, "run $RUN --pause", "RUN_CLOSED", 3, "done"),
    Case("a topic that another run holds",
         sql("UPDATE run_topics SET cluster_id='sAmpLeCLusTer0000000x1' WHERE open=1"),
         "apply plan.json --mode wait-all --confirm '$CONFIRM'", "TOPIC_BUSY", 3, "$OPEN"),
    Case("all purges switched off by an approver",
         sql("INSERT INTO switches VALUES ('read_only',1,'ann','2026-03-01T04:00:00.000Z')"),
         "apply plan.json --mode wait-all --confirm '$CONFIRM'", "READ_ONLY", 3, "journal"),
]  # fmt: skip
