"""Growth: when is each disk full, and what would change it?"""

from __future__ import annotations

import streamlit as st

from dashboard.ui.components import markup, states
from dashboard.ui.growth import growth_choice, growth_table, growth_topics, retention_table
from dashboard.ui.growth.growth_loading import known_of
from dashboard.ui.growth.growth_scenario import Known, Scenario, effect_of
from dashboard.ui.growth.growth_what_if import Outcome, outcomes
from dashboard.ui.session.header import analyzed


def show() -> None:
    """Load, choose what might be changed, show every log dir today and then."""
    if (opened := analyzed(follows=True)) is None:
        return
    screen, findings = opened
    findings.read("reclaimable", "holds", "curves", "blockers", "growth", "disks")
    known = known_of(screen)
    if not known.disks:
        states.show(
            "No log dir is known",
            "No broker told its log dirs, so nobody can say when a disk is full.",
            "Give the client DESCRIBE on the cluster, then collect and analyze again.",
        )
        return
    main, side = st.columns([4, 1.3], gap="medium")
    with side:
        asked = growth_choice.choose(screen)
    found = outcomes(known.disks, known.parts, effect_of(known, asked))
    with main:
        show_disks(known, asked, found)
        growth_topics.show(screen, growth_table.soonest_first(found))
    retention_table.show(screen)


def show_disks(known: Known, asked: Scenario, found: list[Outcome]) -> None:
    """The sentence, the table, and what it assumes."""
    sentence = growth_table.sentence_html(found, asked)
    st.html(f'<div class="lw lw-sentence">{sentence}</div>')
    st.html(growth_table.table_html(found, asked))
    lines = [f"<p>{markup.text(line)}</p>" for line in growth_table.assumptions(known, asked)]
    markup.draw(f'<div class="lw quiet">{"".join(lines)}</div>' if lines else "")


show()
