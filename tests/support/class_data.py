"""Kafka's classes, parsed once and mapped at each start of a broker (Java's AppCDS).

A broker that is started and used takes a third less processor time with them, and a run starts
dozens. They lie in the cache folder, for each Java and each class path.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import shutil
import signal
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dashboard.core.errors import DemoError
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars

_TERMINATED = 128 + signal.SIGTERM  # how Java ends once it has done all that it does at its end


def archived(jars: KafkaJars, cache_dir: Path) -> KafkaJars:
    """The same jars with their class-data archive, made on first use.

    Without it while another process makes it: nobody waits.
    """
    target = cache_dir / "class-data" / f"kafka-{jars.version}-{_key(jars)}.jsa"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not target.is_file():
                _make(jars, target)
        except (BlockingIOError, DemoError, KafkaException):
            pass  # brokers start without it, too
    return dataclasses.replace(jars, class_data=target) if target.is_file() else jars


def java(jars: KafkaJars) -> list[str]:
    """How a program among these jars is started, for one that soon ends; its name comes next."""
    archive = [f"-XX:SharedArchiveFile={jars.class_data}"] if jars.class_data else []
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable"]
    return [jars.java, *quick, *archive, "-cp", jars.class_path]


def _key(jars: KafkaJars) -> str:
    """Java takes an archive only with the class path, files and build that it was made of."""
    java = Path(shutil.which(jars.java) or jars.java).resolve()
    build = java.parent.parent / "release"
    files = [build, *([jars.patch] if jars.patch else [])]
    seen = [(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists()]
    return hashlib.sha256(repr([jars.class_path, str(java), seen]).encode()).hexdigest()[:12]


def _make(jars: KafkaJars, target: Path) -> None:
    """One broker serves a topic and a group, and writes as it ends which classes that took."""
    work = target.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)  # of a run that was ended half-way
    part = work / target.name
    try:
        flags = {1: [f"-XX:ArchiveClassesAtExit={part}", "-Xlog:cds=off"]}
        with LocalCluster(work, jars, brokers=1, jvm_flags=flags) as broker:
            _use(broker.bootstrap)
            broker.stop_broker(1)
            ended = broker._processes[1].returncode
        if ended == _TERMINATED and part.is_file():  # one that was killed may be half an archive
            part.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _use(bootstrap: str) -> None:
    address = {"bootstrap.servers": bootstrap}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    producer = Producer({**address, "acks": "all"})
    producer.produce("t", b"x")
    producer.flush(30)
    consumer = Consumer({**address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    consumer.poll(30)
    consumer.commit(asynchronous=False)
    consumer.close()
