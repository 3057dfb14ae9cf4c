"""The demo's workload as a process: loads the topics first if asked, then reads and writes on."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException

from dashboard.demo import load
from dashboard.demo.clients import LOG
from dashboard.demo.readers import SilentReader, group_readers
from dashboard.demo.truth import TOPICS
from dashboard.demo.writers import TransactionalWriter, Writer
from dashboard.errors import DemoError
from dashboard.stop import Stop

TICK_SECONDS = 1.0


class Actor(Protocol):
    """Anything that does a little work a second."""

    def tick(self) -> None: ...

    def close(self) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m dashboard.demo.workload --bootstrap H:P [--load] [--ready-file F]`; 0 when asked
    to end, 1 when the first load failed."""
    parser = argparse.ArgumentParser(prog="workload")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--load", action="store_true", help="create and fill the topics first")
    parser.add_argument("--ready-file", type=Path, help="written once the topics are loaded")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    ended = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        loaded = first_load(options.bootstrap) if options.load else {}
    except DemoError as error:
        LOG.error("%s", error.message)
        return 1
    if options.ready_file:
        options.ready_file.write_text(json.dumps(loaded))
    run(actors(options.bootstrap), ended)
    return 0


def first_load(bootstrap: str) -> dict[str, float]:
    """Creates and fills the topics, commits the groups; record bytes and seconds."""
    began = time.monotonic()
    load.create_topics(bootstrap, TOPICS)
    size = load.produce_first_load(bootstrap, TOPICS, now_ms=int(time.time() * 1000))
    load.commit_offsets(bootstrap, TOPICS)
    return {"record_bytes": size, "seconds": round(time.monotonic() - began, 1)}


def actors(bootstrap: str) -> list[Actor]:
    """Everybody who reads and writes."""
    silent = [SilentReader(bootstrap, topic) for topic in TOPICS if topic.reads_without_commit]
    return [
        Writer(bootstrap, TOPICS),
        TransactionalWriter(bootstrap, TOPICS),
        *group_readers(bootstrap, TOPICS),
        *silent,
    ]


def run(everybody: Sequence[Actor], ended: Stop) -> None:
    """Lets everybody work once a second until `ended`; one that fails is named and tried again."""
    while not ended.wait(TICK_SECONDS):
        for actor in everybody:
            try:
                actor.tick()
            except KafkaException as error:
                LOG.warning("%s: %s", type(actor).__name__, error)
    for actor in everybody:
        try:
            actor.close()
        except KafkaException as error:
            LOG.info("%s: %s", type(actor).__name__, error)


if __name__ == "__main__":
    raise SystemExit(main())
