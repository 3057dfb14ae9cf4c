"""The protocol is loaded without kafka-python's clients, which stay there for who asks for them."""

from __future__ import annotations

import subprocess
import sys

PROOF = """
import sys
import dashboard.cluster.live
assert "kafka.protocol.api_message" in sys.modules
assert not {"kafka.admin", "kafka.consumer", "kafka.net"} & set(sys.modules)
from kafka import KafkaConsumer
import kafka
assert kafka.consumer.KafkaConsumer is KafkaConsumer
assert kafka.errors.for_code(6).errno == 6
"""


def test_clients_are_left_out_and_can_still_be_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROOF], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
