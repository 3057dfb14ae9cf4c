"""`python -m dashboard.policies.doctor`: what the doctor finds, as a JSON object; see `apart`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence

from msgspec import to_builtins

from dashboard.core.clock import parse_time
from dashboard.core.errors import LowwaterError
from dashboard.policies.apart import KEY
from dashboard.policies.doctor.repartition import diagnose
from dashboard.purge.journal.journal import open_default
from dashboard.settings.settings import load
from dashboard.store.snapshots import Store


def main(argv: Sequence[str] | None = None) -> int:
    """Print the findings of one cluster, or an error; the exit code of the error tree."""
    parser = argparse.ArgumentParser(prog="dashboard.policies.doctor")
    parser.add_argument("--data", required=True)
    parser.add_argument("--cluster", required=True, help="its id")
    parser.add_argument("--now", required=True, type=parse_time)
    parser.add_argument("--settings")
    args = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr)
    try:
        settings = load(args.settings)
        journal = open_default(settings)
        try:
            store = Store(args.data).cluster(args.cluster)
            found = diagnose(store, journal, settings, args.now)
        finally:
            journal.close()
    except LowwaterError as error:
        print(json.dumps(error.to_json()))
        return error.exit_code
    print(json.dumps({KEY: to_builtins(found)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
