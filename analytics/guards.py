"""Which guards stand on a partition and target: the purge's rules as column expressions.

Rules mirror `dashboard/purge/guards.py`, which judges again from live facts before anything is
sent; the texts are shared (`dashboard/guard_texts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from dashboard.guard_texts import guard

_MARK = "\x00"
_GUARD_TYPE = "array<struct<name:string,reason:string,lift:string>>"


def guards(incomplete: Sequence[str]) -> Column:
    """All guards of a row as `[{name, reason, lift}]`, never null, in the purge's order.

    `incomplete` are the snapshot's reasons why its group list may lack a reader. The row has the
    columns of `readers.with_targets` and `moments.with_moments`, and `target_offset`.
    """
    # A target at or below the log start deletes nothing, so only the topic's nature matters.
    moves = F.coalesce(F.col("target_offset") > F.col("log_start_offset"), F.lit(False))
    return F.concat(
        _standing(_topic_guards(incomplete)),
        F.when(F.col("target_offset").isNull(), F.array(_nobody())).otherwise(_no_guards()),
        F.when(moves, _reader_guards()).otherwise(_no_guards()),
        F.when(moves, _standing(_moment_guards())).otherwise(_no_guards()),
    )


def _topic_guards(incomplete: Sequence[str]) -> list[tuple[Column, Column]]:
    policy = F.col("cleanup_policy")
    return [
        (
            F.lit(bool(incomplete)),
            _guard("groups-incomplete", why=F.lit("; ".join(incomplete))),
        ),
        (F.col("is_system"), _guard("system-topic", topic=F.col("topic"))),
        (
            ~F.contains(policy, F.lit("delete")),
            _guard("not-deletable", topic=F.col("topic"), policy=policy),
        ),
    ]


def _reader_guards() -> Column:
    target, stable = F.col("target_offset"), F.col("last_stable_offset")
    beyond = _guard(
        "beyond-last-stable-offset",
        target_offset=target,
        last_stable_offset=F.coalesce(stable.cast("string"), F.lit("unknown")),
    )
    return F.concat(
        _standing([(stable.isNull() | (target > stable), beyond)]),
        F.transform(
            F.filter("positions", lambda p: p["committed_offset"] < F.col("target_offset")),
            _unread,
        ),
        F.when(F.size("positions") == 0, F.array(_nobody())).otherwise(_no_guards()),
        F.transform("silent_members", lambda g: _guard("members-without-commits", group_id=g)),
        F.transform(
            "silent_groups",
            lambda g: _guard("no-committed-offset", who=F.concat(F.lit("Group "), g)),
        ),
        F.transform("share_groups", _share),
    )


def _moment_guards() -> list[tuple[Column, Column]]:
    topic = F.col("topic")
    return [
        (~F.col("readers_declared"), _guard("readers-undeclared", topic=topic)),
        (
            F.col("changelog_why").isNotNull(),
            _guard("changelog-source", topic=topic, why=F.col("changelog_why")),
        ),
        (F.col("remote_storage"), _guard("remote-storage", topic=topic)),
        (
            F.size("behind_brokers") > 0,
            _guard("under-replicated", brokers=_brokers(F.col("behind_brokers"))),
        ),
        (
            F.col("adding").isNotNull(),
            _guard(
                "reassigning",
                adding=F.col("adding").cast("string"),
                removing=F.col("removing").cast("string"),
            ),
        ),
        (
            F.col("leader_moves_to").isNotNull(),
            _guard(
                "leader-log-dir-move",
                broker_id=F.col("leader_id"),
                log_dir=F.col("leader_moves_to"),
            ),
        ),
        (F.col("unclean_election"), _guard("unclean-election-enabled", topic=topic)),
    ]


def _unread(position: Column) -> Column:
    committed = position["committed_offset"]
    start = F.greatest(committed, F.coalesce("log_start_offset", F.lit(0)))
    return _guard(
        "unread-by-group",
        group_id=position["group_id"],
        committed_offset=committed,
        target_offset=F.col("target_offset"),
        records=F.col("target_offset") - start,
    )


def _share(group: Column) -> Column:
    why = F.when(group["knows_topic"], F.lit("its members read this topic")).otherwise(
        F.lit("its topics cannot be read")
    )
    return _guard("share-group", group_id=group["group_id"], why=why)


def _nobody() -> Column:
    return _guard("no-committed-offset", who=F.lit("No group"))


def _brokers(ids: Column) -> Column:
    return F.concat_ws(
        " and ", F.transform(ids, lambda i: F.concat(F.lit("broker "), i.cast("string")))
    )


def _standing(conditions: Sequence[tuple[Column, Column]]) -> Column:
    found = F.array(*(F.when(F.coalesce(when, F.lit(False)), text) for when, text in conditions))
    return F.filter(found, lambda g: g.isNotNull()).cast(_GUARD_TYPE)


def _no_guards() -> Column:
    return F.array().cast(_GUARD_TYPE)


def _guard(name: str, **facts: Column) -> Column:
    """The shared text with columns in the places of its facts."""
    text = guard(name, **{fact: f"{_MARK}{fact}{_MARK}" for fact in facts})
    return F.struct(
        F.lit(name).alias("name"),
        _filled(text.reason, facts).alias("reason"),
        _filled(text.lift, facts).alias("lift"),
    )


def _filled(text: str, facts: dict[str, Column]) -> Column:
    # Between two marks stands a fact's name, so the odd pieces are names.
    pieces = [
        facts[piece].cast("string") if index % 2 else F.lit(piece)
        for index, piece in enumerate(text.split(_MARK))
    ]
    return F.concat(*pieces)
