"""Disks that nobody took stock of: their bytes, and the lines that tell what they are."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.core.words import binary
from dashboard.orphans.missing import MissingInventory
from dashboard.views import formats

SHOWN = 6


def show(missing: Sequence[MissingInventory], hosts: Mapping[int, str]) -> None:
    """One card for all of them. `hosts`: where each broker is."""
    if not missing:
        return
    with st.container(border=True):
        st.html(
            f'<div class="lw lw-card"><h3>▨ {title(missing)}</h3><p>Indexes, other files, or '
            "orphans: an inventory tells them apart. It reads, and changes nothing.</p></div>"
        )
        st.code(lines(missing[:SHOWN], hosts), language=None, wrap_lines=True)
        rest = len(missing) - SHOWN
        if rest > 0:
            st.caption(f"and {formats.plural(rest, 'broker')} more: lowwater orphans lists them.")
        given = " ".join(f"--inventory {m.broker_id}.inventory" for m in missing[:SHOWN])
        st.caption(f"Then collect or watch with {given}, and each later one.")
        with st.expander("Without ssh: the line for sh on the host itself"):
            for line, brokers in _by_line(missing[:SHOWN]).items():
                st.caption(f"broker {', '.join(map(str, brokers))}")
                st.code(line, language=None, wrap_lines=True)


def title(missing: Sequence[MissingInventory]) -> str:
    """`12.3 GiB unexplained on brokers 1, 2: no inventory`."""
    sizes = [broker.unexplained_bytes for broker in missing]
    known = sum(size or 0 for size in sizes)
    size = "An unknown part" if None in sizes and not known else binary(known)
    if None in sizes and known:
        size = f"At least {size}"
    ids = ", ".join(str(broker.broker_id) for broker in missing[:SHOWN])
    more = ", …" if len(missing) > SHOWN else ""
    noun = "broker" if len(missing) == 1 else "brokers"
    return f"{size} unexplained on {noun} {ids}{more}: no inventory"


def lines(missing: Sequence[MissingInventory], hosts: Mapping[int, str]) -> str:
    """Two lines per broker, to run here: list its disk by ssh, and read the listing."""
    found = []
    for broker in missing:
        listing = f"{broker.broker_id}.listing"
        dirs = shlex.quote(",".join(broker.log_dirs))
        host = shlex.quote(hosts.get(broker.broker_id) or f"BROKER-{broker.broker_id}")
        host = f"-- {host}" if host.startswith("-") else host  # to ssh it would be an option
        found += [
            f"lowwater inventory command --log-dirs {dirs} | ssh {host} sh > {listing}",
            f"lowwater inventory read {listing} --broker {broker.broker_id} "
            f"--out {broker.broker_id}.inventory",
        ]
    return "\n".join(found)


def _by_line(missing: Sequence[MissingInventory]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for broker in missing:
        found.setdefault(broker.line, []).append(broker.broker_id)
    return found
