"""`python -m tests.soak --minutes 60 --every 20 --seed N`: exit 1 when a check did not hold."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.soak import evidence, report, verdict, visits, world
from tests.soak.faults import Faults
from tests.soak.operators import Loader, Operator, Service, call
from tests.soak.place import Place, furnish
from tests.soak.proc import Process
from tests.soak.sampler import Sampler
from tests.soak.schedule import schedule
from tests.soak.verdict import Check
from tests.soak.world import World

OPERATORS = 2
RESTS_WITHIN_SECONDS = 300.0
GONE_WITHIN_SECONDS = 20.0


def main() -> int:
    """One soak; 0 when every check held."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=20, help="seconds between faults")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None, help="a folder that does not exist yet")
    parser.add_argument("--judge", type=Path, help="only judge the files of an earlier soak")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background Ctrl-C is ignored otherwise
        signal.signal(number, signal.default_int_handler)
    if options.judge:
        return judged(options.judge, options.minutes * 60)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    folder = options.out or Path("artifacts") / f"soak-{seed}"
    say(f"seed {seed}: {options.minutes:g} minutes, a fault every {options.every:g} s, in {folder}")
    if folder.exists():
        say(f"{folder} exists already: remove it, or name another with --out")
        return 1
    with ExitStack() as ending:
        place = furnish(folder, ending)
        checks, trends = soaked(place, ending, seed, options.minutes * 60, options.every)
    told = {"seed": seed, "seconds": options.minutes * 60, "every": options.every}
    print(report.write(place, told, checks, trends))
    return int(not all(check.held for check in checks))


def judged(folder: Path, seconds: float) -> int:
    """What an earlier soak, or one that still runs, wrote down: its checks once more."""
    checks, trends = verdict.of_files(Place(folder.resolve()), seconds)
    print("\n".join(report.table(checks, trends)))
    return int(not all(check.held for check in checks))


def soaked(
    place: Place, ending: ExitStack, seed: int, seconds: float, every: float
) -> tuple[list[Check], list[Any]]:
    """The demo from its start to its end, and what was found."""
    demo = world.start(place)
    ending.callback(demo.clear)
    place.began = time.monotonic()
    say(f"the demo is up: {demo.url}")
    ended, at_rest, sampled = threading.Event(), threading.Event(), threading.Event()
    sampler = Sampler(demo, sampled)
    busy: list[threading.Thread] = [
        Operator(demo, f"operator-{i}", f"{seed}-{i}", ended) for i in range(OPERATORS)
    ]
    service = Service(demo, ended, at_rest)
    busy += [Loader(demo, seconds, ended), visits.Visitor(demo, ended)]
    for thread in (sampler, service, *busy):
        thread.start()
    Faults(demo, seed).run(schedule(seed, seconds, every), seconds, say)
    time.sleep(max(0.0, seconds - place.seconds))
    ended.set()
    for thread in busy:
        thread.join(400)
    say(f"{place.seconds:6.0f} s  no more faults: waiting for runs and receipts")
    checks = [rested(demo)]
    at_rest.set()
    service.join(400)
    sampled.set()
    sampler.join(60)
    checks += at_the_end(demo)
    code = demo.down()
    checks += gone(demo, code)
    written, trends = verdict.of_files(place, seconds)
    return checks + written, trends


def rested(demo: World) -> Check:
    """Every run closed and every receipt final, within some minutes of peace."""
    until = time.monotonic() + RESTS_WITHIN_SECONDS
    while True:
        runs = (call(demo, "runs")["answer"] or {}).get("runs", [])
        restless = [r for r in runs if r["receipt"] is None or not r["receipt"]["final"]]
        restless = [r for r in restless if r["state"] not in ("refused", "cancelled")]
        restless = [r for r in restless if not r["counts"].get("reverted")]  # watched for an hour
        if not restless or time.monotonic() > until:
            left = [f"{r['run_id']} {r['state']} {r['receipt']}"[:400] for r in restless]
            return Check("every receipt became final", not left, left)
        time.sleep(5)


def at_the_end(demo: World) -> list[Check]:
    """What only the running demo can tell."""
    found = evidence.receipts(demo)
    (demo.place.folder / "receipts.json").write_text(report.as_json(asdict(found)))
    verified = call(demo, "runs", "--verify")
    chain = (verified["answer"] or {}).get("verification", {})
    lost = _told(lambda: evidence.losses(demo))
    demo.place.note("visit", wrong=_told(lambda: visits.look(demo, "page")))
    demo.place.note("visit", wrong=visits.answers(demo.url))
    until = time.monotonic() + 60
    while (workers := _workers(demo, found.reverted)) and time.monotonic() < until:
        time.sleep(1)
    _keep_logs(demo)
    return [
        *verdict.runs(found),
        Check("the journal's chain verifies", bool(chain.get("ok")), [str(chain)]),
        Check("no record was lost to a purge but by its targets", not lost, lost),
        Check("every worker ended by itself", not workers, [str(w.command) for w in workers]),
    ]


def gone(demo: World, code: int | None) -> list[Check]:
    """Ctrl-C ended the demo, and no process and no folder of it is left."""
    until = time.monotonic() + GONE_WITHIN_SECONDS
    demo.bury()
    while (left := [p for p in demo.family() if p.pid != os.getpid()]) and time.monotonic() < until:
        time.sleep(0.5)
    found = [f"{p.pid} {p.state} {' '.join(p.command)[:200]}" for p in left]
    room = [str(demo.room)] if demo.room.exists() else []
    file = [str(f) for f in [demo.place.state / "demo.json"] if f.exists()]
    return [
        Check("the demo ended in order", code == 130, [f"exit {code}"]),
        Check("no process and no folder is left", not (found + room + file), found + room + file),
    ]


def _workers(demo: World, reverted: list[str]) -> list[Process]:
    """Workers that still run; those of runs whose records came back watch on, and are ended."""
    left, watching = [], {evidence.holder(demo.place.state, run_id) for run_id in reverted}
    for worker in demo.children("dashboard.purge.jobs.worker"):
        if worker.pid in watching:
            os.kill(worker.pid, signal.SIGTERM)
        else:
            left.append(worker)
    return left


def _told(look: Callable[[], list[str]]) -> list[str]:
    """What a look found; that it was not possible counts as found."""
    try:
        return look()
    except Exception as error:
        return [f"no look was possible: {type(error).__name__}: {str(error)[:400]}"]


def _keep_logs(demo: World) -> None:
    """The logs of the demo's room and of the workers go when it ends: keep them."""
    kept = demo.place.folder / "logs"
    for file in demo.room.glob("*.log"):
        shutil.copy(file, kept / file.name)
    for home in (demo.room / "kafka").glob("broker-*"):
        (kept / "brokers").mkdir(exist_ok=True)
        shutil.copy(home / "broker.log", kept / "brokers" / f"{home.name}.txt")
    if (demo.place.state / "logs").exists():
        shutil.copytree(demo.place.state / "logs", kept / "workers", dirs_exist_ok=True)


def say(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
