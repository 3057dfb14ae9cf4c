"""What texts and files of the repository call: held against the command line's own parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dashboard.cli import main
from dashboard.cli.parser import new_parser, parse


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of `lowwater WORDS…`. Raises UsageError for what the verb does not take."""
    parser, verbs = new_parser()
    for module in main._modules().values():
        module.add_parser(verbs)
    return parse(parser, verbs, list(words))
