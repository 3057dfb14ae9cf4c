"""States that every page has: each says what is, why, and what to do next; never a traceback."""

from __future__ import annotations

import functools
import logging
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple, ParamSpec

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.store import attempts
from dashboard.store.snapshot_files import Kind
from dashboard.ui.components.markup import text, to
from dashboard.ui.session import access, routes
from dashboard.ui.session.context import (
    Screen,
    Tables,
    choices,
    open_cluster,
    settings,
    show_newest,
    store,
    this_page,
)
from dashboard.views import formats
from dashboard.views.facts import known_total

_P = ParamSpec("_P")
_POLL = timedelta(seconds=2)
_LOG = logging.getLogger("lowwater.dashboard")
_TITLES = {
    "NO_ANALYSIS": "The first analysis is not finished",
    "CLUSTER_AMBIGUOUS": "Which cluster?",
    "CLUSTER_NOT_FOUND": "That cluster is not here",
    "CLUSTER_UNREACHABLE": "The cluster does not answer",
    "CLUSTER_CHANGED": "Another cluster answers there",
    "TLS_FAILED": "The TLS connection was refused",
    "AUTHENTICATION_FAILED": "The login was refused",
    "SNAPSHOT_NOT_FOUND": "That is no longer kept",
    "STORE_UNREADABLE": "A file of the data folder cannot be read",
    "SCHEMA_TOO_NEW": "The data was written by a newer release",
    "READ_ONLY": "Purges are switched off",
    "PLAN_EXPIRED": "The plan has expired",
    "TOPIC_BUSY": "Another purge is running on this topic",
    "CHOICE_CHANGED": "Something changed meanwhile",
    "CONFIRMATION_MISMATCH": "The sentence does not match",
    "PLAN_ALREADY_APPLIED": "This plan has run already",
    "PLAN_EDITED": "The plan is not the one that was previewed",
    "RUN_NOT_FOUND": "There is no such run",
    "NOT_SIGNED_IN": "Nobody is signed in",
    "SIGN_IN_EXPIRED": "Sign in again",
    "NAME_MISSING": "The sign-in gives no name",
    "NAME_NOT_VERIFIED": "The address is not verified",
    "ROLE_TOO_LOW": "That takes another role",
    "PEOPLE_GONE": "Nobody's role is known",
}
_BY_CLASS = {
    "SettingsError": "A setting cannot be used",
    "PlanError": "That plan cannot be used",
    "RefusedError": "Refused: nothing was sent",
    "ClusterError": "The cluster does not answer",
    "BrokerError": "A broker does not answer",
    "JournalError": "The purge journal cannot be used",
    "UsageError": "That cannot be used as it is",
    "StoreError": "The data folder cannot be used",
}


def show(title: str, what: str, next_step: str = "", *, warn: bool = False) -> None:
    """One designed message: a title, what it is about, and the next step."""
    follow = f"<p><b>Next:</b> {text(next_step)}</p>" if next_step else ""
    kind = " warn" if warn else ""
    st.html(
        f'<div class="lw lw-state{kind}" role="status"><h2>{text(title)}</h2>'
        f"<p>{text(what)}</p>{follow}</div>"
    )


def show_error(error: LowwaterError) -> None:
    """An error of the tree in words; its code stays visible for the ticket."""
    if error.code == "NO_SNAPSHOT":
        no_snapshot(error)
        return
    if error.code == "SNAPSHOT_NOT_FOUND":
        show_newest()  # what this session looked at is gone: the next rerun takes what is there
    title = _TITLES.get(error.code) or _BY_CLASS.get(type(error).__name__, "That did not work")
    show(f"{title} ({error.code})", error.message, error.next_step, warn=True)
    if error.code in ("CLUSTER_AMBIGUOUS", "CLUSTER_NOT_FOUND"):
        _choose()


def guarded(body: Callable[_P, None]) -> Callable[_P, None]:
    """Run a fragment for those who may look, now; an error becomes a designed message.

    It keeps the screen that its page was drawn with, but goes by the settings of now.
    """

    @functools.wraps(body)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        access.check()
        body(*map(_with_settings, args), **kwargs)  # type: ignore[arg-type]

    return caught(run)


def _with_settings(given: object) -> object:
    return replace(given, settings=settings()) if isinstance(given, Screen) else given


def caught(body: Callable[_P, None]) -> Callable[_P, None]:
    """Run a page so that an error becomes a designed message."""

    @functools.wraps(body)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            body(*args, **kwargs)
        except LowwaterError as error:
            show_error(error)
        except Exception:
            _LOG.exception("a page failed")
            show(
                "This page failed (INTERNAL)",
                "A defect of Lowwater, not of your cluster; nothing was changed.",
                "Reload the page. The server's log has the details for a report.",
                warn=True,
            )

    return run


def no_analysis(screen: Screen) -> None:
    """A snapshot is there, findings are not: what runs, and how long it takes."""
    rows = formats.plural(sum(screen.manifest.tables.values()), "row")
    show(
        "The first analysis is not finished",
        f"The snapshot of {formats.ago(screen.manifest.taken_at, screen.now)} holds {rows}. "
        "lowwater watch analyzes it by itself: the first time takes about ten seconds, as Spark "
        "starts; later ones about one. This page shows it as soon as it is there.",
        f"Wait for it, or run: lowwater analyze --data {shlex.quote(screen.settings.data)}",
    )
    st.progress(0.5, text="Step 1 of 2: collected. Step 2: the analysis.")
    _wait("findings")


def written_before(screen: Screen, findings: Tables, table: str) -> bool:
    """Say so where an older release wrote the findings, without this table; whether it did."""
    if table in findings.manifest.tables:
        return False
    show(
        "These findings are older than this page",
        f"The analysis of {formats.ago(findings.manifest.taken_at, screen.now)} was written by "
        f"an older release, which did not look for this (no table {table}).",
        f"Analyze again: lowwater analyze --data {shlex.quote(screen.settings.data)}",
    )
    return True


def no_snapshot(error: LowwaterError) -> None:
    """Nothing is there yet: what runs, how long, and what to type if nothing runs."""
    show(
        "No snapshot yet (NO_SNAPSHOT)",
        f"{error.message}. The first one takes a few seconds, its analysis about ten more. This "
        "page shows them as soon as they are there.",
        error.next_step,
    )
    st.progress(0.0, text="Step 1 of 2: collect. Step 2: analyze.")
    _first_attempt()
    _wait("snapshots")


@st.fragment(run_every=_POLL)
def _first_attempt() -> None:
    """Why there is still nothing, where the first attempts to collect fail."""
    try:
        made = attempts.first(store())
    except LowwaterError as error:
        show(f"Whether anybody collects is not known ({error.code})", error.message, warn=True)
        return
    if made is None or (failure := made.failure) is None:
        return
    show(
        f"The first attempt to collect failed ({failure.code})",
        f"{formats.ago(made.ended_at, utc_now())}: {failure.message}.",
        failure.next,
        warn=True,
    )


@st.fragment(run_every=_POLL)
def _wait(kind: Kind) -> None:
    """Draw the page once more when the first snapshot or analysis is there."""
    try:
        found = open_cluster().latest(kind)
    except LowwaterError:
        return
    if found:
        show_newest()
        st.rerun(scope="app")


def notes(screen: Screen) -> None:
    """What the reader must know before any number: missing brokers, age, missing rights."""
    for broker in screen.missing_brokers:
        show(
            f"Broker {broker.broker_id} did not answer",
            f"{broker.error or 'No reason given'}. Its replicas and disks are missing from "
            "every number on this page.",
            "Bring it back or check its listener; the next snapshot includes it by itself.",
            warn=True,
        )
    if screen.groups_incomplete:
        show(
            "The list of consumer groups is incomplete",
            "; ".join(screen.groups_incomplete) + ". A reader may be missing from it, so every "
            "partition is guarded here (groups-incomplete). A plan asks the cluster again; "
            "but such a list is no memory of groups, and where all are, stale-history stands.",
            "Give Lowwater's principal DESCRIBE on the cluster and on all groups; "
            "lowwater doctor lists each right and what its absence costs.",
            warn=True,
        )


def _choose() -> None:
    """A link to this very place for each cluster that is here."""
    page = this_page()
    links = (to(routes.here(page, each.key), each.label) for each in choices())
    st.html(f'<div class="lw"><ul>{"".join(f"<li>{link}</li>" for link in links)}</ul></div>')


# `How do you know?`: the estimator, the snapshot and the interval behind a number.

_METHODS = {
    "segments": "whole segments below the target, from an inventory of the log dirs: exact",
    "history": "the curve of offsets to bytes that past snapshots of each replica draw",
    "proportional": "size times the share of offsets below the target, per replica: right while "
    "records keep their size; the interval allows sizes that changed",
}


class Evidence(NamedTuple):
    """What the bytes of some facts stand on: `consumed` of their `partitions`, low to high over all
    replicas, and by which methods.
    """

    consumed: int
    partitions: int
    low_bytes: int | None
    high_bytes: int | None
    methods: tuple[str, ...]


def evidence(facts: pa.Table) -> Evidence:
    """Of the consumed partitions among these facts."""
    read = facts.select(["bytes_low", "bytes_high", "method"]).filter(facts["consumed"])
    low, high = known_total(read, "bytes_low"), known_total(read, "bytes_high")
    methods = sorted(m for m in pc.unique(read["method"]).to_pylist() if m)
    return Evidence(read.num_rows, facts.num_rows, low, high, tuple(methods))


def how_do_you_know(screen: Screen, found: Evidence) -> None:
    """A popover for the bytes of consumed partitions: estimator, interval, snapshot, analysis."""
    low, high = found.low_bytes, found.high_bytes
    between = f"{formats.size(low)} to {formats.size(high)}, all replicas together"
    if low is None:
        between = "unknown: no replica's size could be read (DescribeLogDirs)"
    estimators = "; ".join(f"{m}: {_said(m)}" for m in found.methods) or "none needed"
    analysis = screen.findings.id if screen.findings else "none"
    pairs = (
        ("Interval", between),
        ("Estimator", estimators),
        ("Partitions", f"{formats.number(found.consumed)} of {formats.number(found.partitions)}"),
        ("Snapshot", f"{screen.manifest.id}, {formats.utc(screen.manifest.taken_at)}"),
        ("Analysis", analysis),
        ("Consumed", "below the lowest committed offset of every group seen in any kept snapshot"),
        ("Declared", "its owner said, by name and date, that its groups are all its readers"),
    )
    lines = "".join(f"<p><b>{name}</b>: {text(value)}</p>" for name, value in pairs)
    with st.popover("How do you know?", type="tertiary"):
        st.html(f'<div class="lw">{lines}</div>')


def _said(method: str) -> str:
    """What an estimator does; its name may say behind a comma how many replicas answered."""
    return _METHODS.get(method.partition(",")[0], "see docs/estimators.md")
