"""A real Kafka Streams application in a JVM of its own, built from here over Py4J."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, get_field, launch_gateway

from dashboard.demo.kafka.jars import Artifact, KafkaJars, cause, resolve, retrieve
from dashboard.settings import settings
from tests.brokers.workload import until

_VERSION = "4.3.1"  # whatever the brokers are: not every Kafka version has published its Streams
_SERDE = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
_CONFIG = {
    "default.key.serde": _SERDE,
    "default.value.serde": _SERDE,
    "auto.offset.reset": "earliest",
}

_IN_MEMORY = {
    "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers"
    "$InMemoryDslStoreSuppliers"
}


@contextmanager
def streams_app(
    application: str, topics: tuple[str, str], config: Mapping[str, str]
) -> Iterator[None]:
    """Copies records of the first topic to the other; those with a key are repartitioned too.

    The repartition topic is APPLICATION-by-key-repartition. The application is running inside, and
    commits what it has read when it is left.
    """
    with _running(application, config, lambda builder, jvm: _copies(builder, jvm, topics)):
        yield


@contextmanager
def tables_app(
    application: str, table: str, global_table: str, config: Mapping[str, str]
) -> Iterator[Callable[[str], int]]:
    """Keeps a table of one topic and a global table of the other, in memory: empty at each start.

    The table's source is its own changelog (topology.optimization). Inside, the call tells how
    many entries the store named `table` or `global` has.
    """
    config = {"topology.optimization": "all", **_IN_MEMORY, **config}

    def build(builder: Any, jvm: Any) -> None:
        named = getattr(jvm.org.apache.kafka.streams.kstream.Materialized, "as")
        builder.table(table, named("table"))
        builder.globalTable(global_table, named("global"))

    with _running(application, config, build) as (app, jvm):
        streams = jvm.org.apache.kafka.streams

        def entries(store: str) -> int:
            kind = streams.state.QueryableStoreTypes.keyValueStore()
            asked = streams.StoreQueryParameters.fromNameAndType(store, kind)
            return int(app.store(asked).approximateNumEntries())

        yield entries


@contextmanager
def counting_app(
    application: str, topic: str, config: Mapping[str, str]
) -> Iterator[Callable[[], dict[bytes, int]]]:
    """Counts the records of a topic by their key, behind APPLICATION-by-key-repartition.

    The counts are in memory: each start restores them from their changelog. Inside, the call tells
    them by key.
    """

    def build(builder: Any, jvm: Any) -> None:
        kept = getattr(jvm.org.apache.kafka.streams.kstream.Materialized, "as")("counts")
        builder.stream(topic).repartition(_by_key(jvm)).groupByKey().count(kept)

    with _running(application, {**_IN_MEMORY, **config}, build) as (app, jvm):
        streams = jvm.org.apache.kafka.streams
        kind = streams.state.QueryableStoreTypes.keyValueStore()
        asked = streams.StoreQueryParameters.fromNameAndType("counts", kind)

        def counts() -> dict[bytes, int]:
            entries, found = app.store(asked).all(), {}
            while entries.hasNext():
                entry = entries.next()
                found[bytes(get_field(entry, "key"))] = int(get_field(entry, "value"))
            entries.close()
            return found

        yield counts


@contextmanager
def _running(
    application: str, config: Mapping[str, str], build: Callable[[Any, Any], None]
) -> Iterator[tuple[Any, Any]]:
    cache_dir = settings.load().cache_dir
    jars = resolve(_VERSION, cache_dir)
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, secret = launch_gateway(
        jarpath=str(py4j), classpath=os.pathsep.join([str(_jar(jars, cache_dir)), jars.class_path]),
        java_path=jars.java, javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1"], die_on_exit=True,
        redirect_stdout=subprocess.DEVNULL, enable_auth=True,
    )[:2]  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        app = _started(gateway.jvm, build, {"application.id": application, **config})
        try:
            until(lambda: app.state().toString() == "RUNNING", 180)
            yield app, gateway.jvm
        finally:
            app.close()
    finally:
        gateway.shutdown()


def _started(jvm: Any, build: Callable[[Any, Any], None], config: Mapping[str, str]) -> Any:
    properties = jvm.java.util.Properties()
    for key, value in {**_CONFIG, **config}.items():
        properties.setProperty(key, value)
    streams = jvm.org.apache.kafka.streams
    builder = streams.StreamsBuilder()
    build(builder, jvm)
    app = streams.KafkaStreams(builder.build(properties), properties)
    app.start()
    return app


def _copies(builder: Any, jvm: Any, topics: tuple[str, str]) -> None:
    records = builder.stream(topics[0])
    records.to(topics[1])
    records.repartition(_by_key(jvm)).to(topics[1])


def _by_key(jvm: Any) -> Any:
    return getattr(jvm.org.apache.kafka.streams.kstream.Repartitioned, "as")("by-key")


def _jar(jars: KafkaJars, cache_dir: Path) -> Path:
    """Kafka's Streams, downloaded on first use; without state stores it needs nothing else."""
    home = cache_dir / f"kafka-streams-{jars.version}"
    jar = home / "jars" / f"kafka-streams-{jars.version}.jar"
    if not jar.is_file():
        home.mkdir(parents=True, exist_ok=True)
        wanted = [Artifact("org.apache.kafka", "kafka-streams", jars.version)]
        failure = retrieve(jars.java, home, wanted, jar.parent)
        assert failure is None, cause(failure)
    return jar
