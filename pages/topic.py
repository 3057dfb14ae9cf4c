"""Topic: what one topic holds, who holds it back, where it lies, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.sums import whole_sum
from dashboard.safety.unseen_readers import of_finding, suspicion
from dashboard.settings.sections import Price, beside
from dashboard.store.finding_rows import Blocker, GrowthRow
from dashboard.topics.retention_fit import SHORTER, span
from dashboard.ui import lags, over_time, reclaimable, segments
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import plain, text
from dashboard.ui.growth.advice import FIT_TABLE
from dashboard.ui.growth.choice import KEEPS, deletable, known_of
from dashboard.ui.growth.scenario import Scenario, effect_of
from dashboard.ui.growth.what_if import outcomes
from dashboard.ui.purge import looking, runs
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, facts_of, findings_of, rows_of
from dashboard.ui.session.header import analyzed
from dashboard.views import formats, headline
from dashboard.views.colours import HELD, RECLAIMABLE
from dashboard.views.headline import alive_said
from dashboard.views.topic_rows import CAPPED, TopicRow

_RUNS = 5
_PLACE = [("broker_id", "ascending"), ("log_dir", "ascending")]
_UNSEEN = "unseen_readers"
_OWN = "DYNAMIC_TOPIC_CONFIG"
_LOOKED_AT = 200  # runs of the cluster: older ones stand on Audit


def show() -> None:
    """The topic that the address names, by the findings alone."""
    if (opened := analyzed()) is None:
        return
    screen, findings = opened
    name = routes.named()
    row = next((row for row in rows_of(screen) if row.topic == name), None)
    if row is None:
        states.show(
            f"No topic {name}" if name else "Which topic?",
            "The newest analysis knows none of that name.",
            "Find one by the box in the header.",
        )
        return
    st.html(f'<div class="lw lw-sentence">{sentence(row, screen.price)}</div>')
    main, side = st.columns([4, 1.6], gap="medium")
    with main:
        over_time.topic_line(screen, name)
        st.html(reclaimable.topic_html(facts_of(screen), findings.table("holds"), name))
        looking.offer_topic(screen, name)
        markup.draw(places_html(screen, name))
        markup.draw(segments.of_topic_html(screen, name, row.partitions))
        markup.draw(configs_html(screen, name))
    blockers = blockers_of(screen, name)
    with side:
        show_answers(screen, row, blockers)
        show_groups(screen, blockers)
        show_unseen(screen, row.topic)
        show_followers(screen, name)
        show_purges(screen, name)


def sentence(row: TopicRow, price: Price | None = None) -> str:
    """On disk, consumed, held back, by whom; what it costs where a price is set."""
    owner = f"readers declared by {text(row.owner)}" if row.owner else "readers not declared"
    given = beside(price, row.reclaimable_bytes)
    cost = f" It costs about {text(price.a_month(row.size_bytes))}." if price else ""
    return (
        f"<strong>{text(row.topic)}</strong> has {markup.size(row.size_bytes)} on disk in "
        f"{formats.plural(row.partitions, 'partition')}: "
        f"{markup.strong(markup.size(row.reclaimable_bytes), RECLAIMABLE)}{text(given)} consumed "
        f"by every known group, {markup.size(row.at_once_bytes)} of it would leave at once; "
        f"{markup.strong(markup.size(row.held_bytes), HELD)} held back.<br><small>{owner}; all "
        f"replicas together.{cost}</small>"
    )


def show_answers(screen: Screen, row: TopicRow, blockers: Sequence[Blocker]) -> None:
    """Each answer with its bytes; nothing here changes the cluster."""
    st.html('<div class="lw"><h2>What can be done</h2></div>')
    if row.free_partitions and row.free_bytes:
        cost = plain(beside(screen.price, row.free_bytes))
        label = f"Plan a purge: {formats.size(row.free_bytes)} below its targets{cost}"
        if st.button(label, type="primary", key="topic-purge"):
            routes.plan_purge([row.topic])
    _say(waiting(row))
    waive(row, blockers, screen.price)
    shorten(screen, row.topic)


def waiting(row: TopicRow) -> str:
    """What comes by itself."""
    later, held = row.later_bytes, (row.held_bytes or 0) - row.capped_bytes
    said = f"Wait: {formats.size(later)} of what is consumed leave once active segments roll."
    if row.held_by:
        said += f" {formats.size(held)} are held back until {row.held_by} has read on."
    if row.capped_bytes:
        said += f" {formats.size(row.capped_bytes)} are held back by {CAPPED}, until that is over."
    if row.guarded_bytes != 0:
        guards = ", ".join(row.guards)
        said += f" {formats.size(row.guarded_bytes)} are held by guards: {guards}."
    return said


def waive(row: TopicRow, blockers: Sequence[Blocker], price: Price | None) -> None:
    """The groups whose waiver would free something, each with a plan."""
    freeing = [b for b in blockers if b.bytes_freed_if_waived]
    if not freeing:
        _say("Waive: no group alone keeps anything here that would leave at once.")
    if freeing:
        _say("Waive: a group that shall not count loses what it has not read here; with a reason.")
    for blocker in freeing:
        group = blocker.group_id
        size = headline.at_least([blocker]) + formats.size(blocker.bytes_freed_if_waived)
        cost = plain(beside(price, blocker.bytes_freed_if_waived))
        label = f"Waive {plain(group)}: {size} at once{cost}"
        if st.button(label, key=f"waive {group}"):
            routes.plan_purge([row.topic], [group])


def shorten(screen: Screen, topic: str) -> None:
    """What would leave if records were kept for less: by the retention that fits its declared
    readers, and by any other one, as the page Growth counts it.
    """
    if not deletable(screen, [topic]):
        _say("Shorten retention: it is compacted, so retention deletes nothing.")
        return
    if fits := fitting(screen, topic):
        _say(fits)
        routes.link("growth", "The change as text, on Growth")
    keep = st.selectbox("Keep records for", list(KEEPS), index=None, key=f"topic-keep-{topic}",
                        placeholder="today's retention")  # fmt: skip
    if keep is None:
        if not fits:
            _say("Shorten retention: choose for how long, and see what would leave.")
        return
    known = known_of(screen)
    asked = Scenario(keep=KEEPS[keep], kept=frozenset({topic}))
    gone = [o.gone for o in outcomes(known.disks, known.parts, effect_of(known, asked))]
    least, likely, most = (
        formats.size(whole_sum(getattr(g, side) for g in gone))
        for side in ("soonest", "likely", "latest")
    )
    _say(f"Shorten retention to {keep}: {likely} leave ({least} to {most}), whether read or not.")


def fitting(screen: Screen, topic: str) -> str:
    """The retention that fits its declared readers, where it is shorter; else nothing."""
    found = findings_of(screen)
    if FIT_TABLE not in found.manifest.tables:
        return ""
    table = found.table(FIT_TABLE)
    rows = table.filter(pc.equal(table["topic"], topic)).to_pylist()
    if not rows or rows[0]["verdict"] != SHORTER:
        return ""
    low, likely, high = (
        formats.size(rows[0][f"freed_{side}_bytes"]) for side in ("low", "likely", "high")
    )
    return (
        f"Shorten retention: {span(rows[0]['fits_ms'])} fit its declared readers, it is "
        f"{span(rows[0]['retention_ms'])}; {likely} would leave ({low} to {high})."
    )


def _say(said: str) -> None:
    answer, _, rest = said.partition(": ")
    st.html(f'<div class="lw"><p><b>{text(answer)}: </b>{text(rest)}</p></div>')


def blockers_of(screen: Screen, topic: str) -> list[Blocker]:
    """The findings' rows of its groups, those that hold back most first."""
    table = findings_of(screen).table("blockers")
    rows = records(table.filter(pc.equal(table["topic"], topic)), Blocker)
    return sorted(rows, key=lambda row: (-(row.bytes_held_alone or 0), row.group_id))


def show_groups(screen: Screen, blockers: Sequence[Blocker]) -> None:
    """Its groups, whether anybody reads on for them, each a link to its own page."""
    st.html('<div class="lw"><h2>Groups</h2></div>')
    for row in blockers:
        size = headline.at_least([row], "bytes_held_alone") + formats.size(row.bytes_held_alone)
        held = f" holds back {size}" if row.bytes_held_alone else ""
        alive = markup.plain(alive_said([row], screen.now))
        label = f"**{markup.plain(row.group_id)}**{held}{',' if held else ':'} {alive}"
        routes.link("group", label, name=row.group_id)
    if not blockers:
        st.caption("No group has committed an offset here.")


def show_unseen(screen: Screen, topic: str) -> None:
    """Whether somebody reads it whom no group shows, in the words of the guard; else nothing."""
    found = findings_of(screen)
    if _UNSEEN not in found.manifest.tables:
        return
    table = found.table(_UNSEEN)
    for row in table.filter(pc.equal(table["topic"], topic)).to_pylist():
        if guard := suspicion(of_finding(row)):
            said = f"{guard.reason} A plan measures it anew, and further back."
            title = "A reader that no group shows?"
            st.html(f'<div class="lw"><p><b>{title}</b> {text(said)}</p></div>')


def places_html(screen: Screen, topic: str) -> str:
    """The log dirs that it lies in: its growth there, and when that disk is full."""
    growth = findings_of(screen).table("growth")
    disks = headline.of_disks(growth)
    here = growth.filter(pc.fill_null(pc.equal(growth["topic"], topic), False))
    rows = [
        (
            f"broker {row.broker_id} · {text(row.log_dir)}",
            formats.signed(row.growth_per_hour),
            text(headline.said(disks.get((row.broker_id, row.log_dir)))),
        )
        for row in records(here.sort_by(_PLACE), GrowthRow)
        if row.log_dir is not None
    ]
    if not rows:
        return ""
    heads = ("Log dir", "It grows by an hour", "The disk")
    return f'<div class="lw"><h2>Where it lies</h2>{markup.table(heads, rows, (1,))}</div>'


def configs_html(screen: Screen, topic: str) -> str:
    """Its settings as the snapshot has them: its own, and folded those that the brokers give it."""
    table = screen.snapshot.table("configs")
    of = pc.and_(pc.equal(table["scope"], "topic"), pc.equal(table["name"], topic))
    found = table.filter(of).sort_by("key")
    is_own = pc.fill_null(pc.equal(found["source"], _OWN), False)
    own, rest = found.filter(is_own), found.filter(pc.invert(is_own))
    if not found.num_rows:
        return ""
    shown = _configs(own) if own.num_rows else "<p>None of its own.</p>"
    if rest.num_rows:
        count = formats.plural(rest.num_rows, "setting")
        shown += f"<details><summary>{count} of the brokers</summary>{_configs(rest)}</details>"
    return f'<div class="lw"><h2>Settings</h2>{shown}</div>'


def _configs(found: pa.Table) -> str:
    columns = (found[name].to_pylist() for name in ("key", "value", "source"))
    rows = (
        (text(key), markup.setting(value), text(source or ""))
        for key, value, source in zip(*columns, strict=True)
    )
    return markup.table(("Setting", "Value", "Source"), rows)


def show_followers(screen: Screen, topic: str) -> None:
    """For whom a purge that waits for all would wait."""
    if "slow_followers" not in findings_of(screen).manifest.tables:
        return
    followers: pa.Table = findings_of(screen).table("slow_followers")
    st.html(lags.held_html(lags.held(followers, topic), topic))


def show_purges(screen: Screen, topic: str) -> None:
    """Its newest purges; all of them stand on Audit."""
    st.html('<div class="lw"><h2>Purges</h2></div>')
    newest = runs.past_runs(screen.cluster.cluster_id)[:_LOOKED_AT]
    topics = runs.open_journal().topics_of([run.run_id for run in newest])
    found = runs.fold(run for run in newest if topic in topics[run.run_id])[:_RUNS]
    runs.links(found, screen.now)
    routes.link("audit", "All purges of it" if found else "No purge of it yet", topic=topic)


show()
