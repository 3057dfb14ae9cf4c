"""All clusters of the data folder, a row each: how each stands, by the numbers of its own pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import streamlit as st

from dashboard.core.errors import JournalError, StoreError
from dashboard.settings.sections import Price
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from dashboard.ui import making_room
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.making_room import Room
from dashboard.ui.purge import runs
from dashboard.ui.session import collector, context, routes
from dashboard.ui.session.collector import Standing
from dashboard.ui.session.context import Choice, Screen, Tables
from dashboard.ui.session.header import alert_html, alerts_of
from dashboard.views import formats, headline
from dashboard.views.colours import RECLAIMABLE
from dashboard.views.facts import committed_facts


@dataclass(frozen=True, slots=True)
class Overlook:
    """One cluster. What is None is not known; `trouble` says why nothing of it could be read.

    `room` is the log dir that needs room most. `running` purges are open, `today` of this day;
    `alerts` are those of the cluster's own header. `key` names it in addresses, if one has to.
    """

    choice: Choice
    key: str
    trouble: str = ""
    standing: Standing | None = None
    taken_at: datetime | None = None
    numbers: headline.Headline | None = None
    room: Room | None = None
    running: int | None = None
    today: int | None = None
    alerts: tuple[str, ...] = ()
    price: Price | None = field(default=None, repr=False)

    @property
    def urgent(self) -> bool:
        """Whether a disk needs room now, as Overview's red banner tells."""
        return self.room is not None and self.room.urgent

    @property
    def calm(self) -> bool:
        """Whether nobody has to look at it."""
        warned = self.standing is None or bool(self.standing.warnings)
        return not (self.trouble or self.urgent or self.alerts or warned)


def overlook(
    settings: Settings, cluster: ClusterStore, choice: Choice, now: datetime, *, key: str
) -> Overlook:
    """What there is of one cluster, and in its own words what is wrong where something is."""
    running, today = _purges(cluster.cluster_id, now)
    alerts = tuple(alerts_of(cluster.cluster_id, cluster=key))
    price = settings.price.of(choice.name, choice.cluster_id)
    known = Overlook(choice, key, running=running, today=today, alerts=alerts, price=price)
    try:
        return _looked(settings, cluster, known, now)
    except StoreError as error:
        return replace(known, trouble=f"{error.message} ({error.code})")


def _looked(settings: Settings, cluster: ClusterStore, known: Overlook, now: datetime) -> Overlook:
    snapshot = Tables(cluster, "snapshots", cluster.latest_snapshot())
    screen = Screen(settings, cluster, snapshot.manifest, snapshot, None, now)
    analysis, numbers, room = cluster.latest("findings"), None, None
    if analysis is not None:
        numbers, room = _numbers(cluster, cluster.path, analysis)
    return replace(
        known,
        standing=collector.standing(screen, now),
        taken_at=snapshot.manifest.taken_at,
        numbers=numbers,
        room=room,
    )


@st.cache_resource(max_entries=200, show_spinner="Reading each cluster's newest findings …")
def _numbers(
    _cluster: ClusterStore, path: str, analysis: str
) -> tuple[headline.Headline, Room | None]:
    """Of one analysis, read once: what Overview's sentence and its first disk say."""
    del path  # part of the key: two clusters may hold the same id
    disks = _cluster.read("findings", analysis, "disks")
    facts = committed_facts(_cluster, analysis)
    numbers = headline.headline(facts, _cluster.read("findings", analysis, "blockers"), disks)
    found = making_room.rooms(disks, _cluster.read("findings", analysis, "growth"))
    return numbers, found[0] if found else None


def _purges(cluster_id: str, now: datetime) -> tuple[int | None, int | None]:
    """How many are open, and how many of this day, as Overview lists them."""
    try:
        found = runs.of_today(cluster_id, runs.past_runs(cluster_id), now)
    except JournalError:
        return None, None
    return sum(run.open for run in found), len(found)


def worst_first(found: Iterable[Overlook]) -> list[Overlook]:
    """Those that somebody must look at, the fullest disk first; then the calm ones alike."""

    def order(one: Overlook) -> tuple[bool, bool, float, str]:
        share = one.room.used_share if one.room else None
        return (one.calm, not one.urgent, -(share or 0), one.choice.label)

    return sorted(found, key=order)


def sentence_html(found: Sequence[Overlook]) -> str:
    """What all of them come to, as far as it is known."""
    known = [one.numbers.consumed_bytes for one in found if one.numbers]
    sizes = [size for size in known if size is not None]
    clusters = formats.plural(len(found), "cluster")
    said = f"<strong>{text(clusters)}</strong>"
    if sizes:
        size = markup.strong(markup.size(sum(sizes)), RECLAIMABLE)
        said += f": {size} are consumed by every known group"
        rest = len(found) - len(sizes)
        said += f", and what {formats.plural(rest, 'more')} have is not known" if rest else ""
    wanted = [one for one in found if not one.calm]
    names = ", ".join(f"<b>{text(one.choice.label)}</b>" for one in wanted)
    said += f". Look at {names}." if wanted else ". Nothing needs anybody now."
    return f'<div class="lw lw-sentence">{said}</div>'


_HEADS = ("Cluster", "State", "Fullest disk", "Reclaimable", "Purges", "Newest snapshot")


def table_html(found: Sequence[Overlook], now: datetime) -> str:
    """A row per cluster; its name leads to its Overview, the rest to the page that tells of it."""
    rows = (_row(one, now) for one in found)
    return f'<div class="lw lw-fleet">{markup.table(_HEADS, rows)}</div>'


def _row(one: Overlook, now: datetime) -> tuple[str, ...]:
    key = one.key
    name = markup.to(routes.address("overview", cluster=key), one.choice.label)
    return (
        f"<b>{name}</b>",
        "<br>".join([_state(one), *map(alert_html, one.alerts)]),
        _disk(one, key),
        _reclaimable(one, key),
        _running(one, key),
        "none" if one.taken_at is None else markup.ago(one.taken_at, now),
    )


def _state(one: Overlook) -> str:
    if one.trouble:
        return f"✖ {text(one.trouble)}"
    if one.standing is None:
        return formats.UNKNOWN
    told = [markup.hover(one.standing.brokers, one.standing.each_broker)]
    told += [f"⚠ {text(warning)}" for warning in one.standing.warnings]
    if (failure := one.standing.failure) is not None:
        told.append(f"<b>The cluster cannot be read ({text(failure.code)})</b>")
        told += [f"{text(failure.message)}.", f"<b>Next:</b> {text(failure.next)}"]
    return "<br>".join(told)


def _disk(one: Overlook, key: str) -> str:
    if one.room is None:
        return formats.MISSING if one.trouble else formats.UNKNOWN
    broker = str(one.room.broker_id)
    label = markup.to(routes.address("broker", cluster=key, name=broker), one.room.label)
    mark = "<b>⚠ needs room</b><br>" if one.urgent else ""
    when = headline.said(one.room.growth)
    below = "when it is full is not known yet" if when == formats.UNKNOWN else when
    return f"{mark}{label}<br><small>{text(below)}</small>"


def _reclaimable(one: Overlook, key: str) -> str:
    if one.numbers is None:
        return formats.MISSING if one.trouble else "no analysis yet"
    consumed, at_once = one.numbers.consumed_bytes, one.numbers.at_once_bytes
    cost = one.price.a_month(consumed) if one.price else ""
    below = [f"{markup.size(at_once)} at once", *([text(cost)] if cost else [])]
    if one.numbers.guarded:
        below.append(markup.hover("guards hold more", one.numbers.guards_said))
    address = routes.address("reclaimable", cluster=key)
    shown = markup.to(address, formats.size(consumed))
    return f"<b>{shown}</b><br><small>{'<br>'.join(below)}</small>"


def _running(one: Overlook, key: str) -> str:
    if one.running is None:
        return formats.UNKNOWN
    count = formats.number(one.running)
    running = f"<b>{count} running</b>" if one.running else "none running"
    audit = markup.to(routes.address("audit", cluster=key), f"{formats.number(one.today)} today")
    return f"{running}<br><small>{audit}</small>"


def never_collected(settings: Settings, among: Sequence[Choice]) -> list[str]:
    """Clusters that the settings name, of which the data folder has nothing."""
    here = {name for each in among for name in (each.name, each.cluster_id)}
    return sorted(set(settings.clusters) - here)


def look_at_all(settings: Settings, now: datetime) -> list[Overlook]:
    """Each cluster of the data folder. Raises StoreError where that cannot be read."""
    held, among = context.store(), context.choices()
    several = context.several()
    return [
        overlook(
            settings,
            ClusterStore(held, each.cluster_id),
            each,
            now,
            key=each.key if several else "",
        )
        for each in among
    ]
