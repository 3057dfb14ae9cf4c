"""What the used bytes of each log dir are made of, and of which disk nobody knows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import streamlit as st

from dashboard.core.words import binary
from dashboard.domain.acts import CHECKPOINT_ENTRY, KINDS, STRAY
from dashboard.orphans.verdicts import MissingInventory
from dashboard.store.finding_rows import DiskRow, OrphanRow
from dashboard.ui.components import in_browser, markup
from dashboard.views import colours, formats

# One bar per log dir: what its used bytes are made of, orphans by kind.

SHOWN = 12
_HAIRLINE = 0.05  # as in disks: below this share Kafka's bytes alone are the bar
# The look of each part; several share one, the words below the bar tell them apart.
_LOOKS = {
    "live": "live", "future": "future", "indexes": "index", "delete": "delete",
    "stray": "orphan", "deleted topic": "deleted", "recreated topic": "deleted",
    "unexplained": "not",
}  # fmt: skip
_BESIDE = (("future", "future_bytes"), ("indexes", "index_bytes"), ("delete", "delete_bytes"))
_NEEDED = ("live_bytes", "held_bytes", "reclaimable_bytes")


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one kind on one log dir; `orphan`: the cluster does not know them."""

    word: str
    size_bytes: int
    orphan: bool = False

    @property
    def look(self) -> str:
        """The end of its class name."""
        return _LOOKS.get(self.word, "moved" if self.orphan else "live")


@dataclass(frozen=True, slots=True)
class DirBar:
    """One log dir. `earlier`: orphans that were seen before, and that nobody looked for now."""

    broker_id: int
    log_dir: str
    parts: tuple[Part, ...]
    used_bytes: int | None
    inventory_at: datetime | None
    earlier: int
    error: str | None

    @property
    def orphan_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts if part.orphan)

    @property
    def drawn(self) -> tuple[Part, ...]:
        """Without the unexplained rest where it would leave the others a hairline."""
        listed = [part for part in self.parts if part.word != "unexplained"]
        whole = sum(part.size_bytes for part in self.parts)
        known = sum(part.size_bytes for part in listed)
        return tuple(listed) if known < _HAIRLINE * whole else self.parts


def bars(disks: Sequence[DiskRow], orphans: Sequence[OrphanRow]) -> list[DirBar]:
    """From the findings `disks` and `orphans`; most orphan bytes first, then most unexplained."""
    by_dir: dict[tuple[int, str | None], list[OrphanRow]] = {}
    for row in orphans:
        if row.kind != CHECKPOINT_ENTRY:
            by_dir.setdefault((row.broker_id, row.log_dir), []).append(row)
    found = [_bar(row, by_dir.get((row.broker_id, row.log_dir), [])) for row in disks]
    return sorted(found, key=lambda bar: (-bar.orphan_bytes, -_rest(bar), bar.broker_id))


def _rest(bar: DirBar) -> int:
    return sum(part.size_bytes for part in bar.parts if part.word == "unexplained")


def _bar(row: DiskRow, orphans: Sequence[OrphanRow]) -> DirBar:
    counted = (row.stray_bytes or 0) + (row.orphan_bytes or 0)
    return DirBar(
        row.broker_id,
        row.log_dir or "unknown log dir",
        tuple(part for part in _parts(row, orphans, counted) if part.size_bytes),
        row.used_bytes,
        row.inventory_at,
        0 if counted else len(orphans),
        row.error,
    )


def _parts(row: DiskRow, orphans: Sequence[OrphanRow], counted: int) -> Iterator[Part]:
    yield Part("live", sum(getattr(row, name) or 0 for name in _NEEDED))
    yield from (Part(word, getattr(row, column) or 0) for word, column in _BESIDE)
    sums = dict.fromkeys(KINDS, 0)
    for orphan in orphans:
        sums[orphan.kind] += orphan.on_disk or 0
    left = counted
    for kind in KINDS[1:]:
        size = min(sums[kind], left)
        left -= size
        yield Part(kind.replace("-", " "), size, orphan=True)
    # What no row explains is a -stray folder of which nothing more is said.
    yield Part(STRAY, left, orphan=True)
    yield Part("unexplained", row.unexplained_bytes or 0)


def bars_html(found: Sequence[DirBar], now: datetime) -> str:
    """The bars with a legend; orphans are named under theirs, every part has its bytes on hover."""
    shown = "".join(_drawn(bar, now) for bar in found[:SHOWN])
    rest = len(found) - SHOWN
    more = f"<small>and {formats.plural(rest, 'log dir')} with less</small>" if rest > 0 else ""
    seen = {part.word for bar in found[:SHOWN] for part in bar.parts}
    legend = "".join(_swatch(word) for word in _LEGEND if word in seen)
    return (
        f'<div class="lw"><h2>What each log dir is made of</h2>{shown}{more}<p>{legend}</p></div>'
    )


_LEGEND = ("live", "future", "indexes", "delete", "unexplained")


def _swatch(word: str) -> str:
    return f'<span class="lw-key"><i class="lw-fill-{_LOOKS[word]}"></i>{word}</span>'


def _drawn(bar: DirBar, now: datetime) -> str:
    short = bar.log_dir if len(bar.log_dir) <= 8 else f"…{bar.log_dir[-7:]}"
    label = f"<span>broker {markup.hover(f'{bar.broker_id} · {short}', bar.log_dir)}</span>"
    whole = sum(part.size_bytes for part in bar.drawn) or 1
    parts = "".join(_segment(part, whole) for part in bar.drawn)
    if not bar.parts:
        parts = '<span class="lw-fill-not" style="width:100%"></span>'
    said = ", ".join(f"{part.word} {formats.size(part.size_bytes)}" for part in bar.parts)
    name = markup.text(f"broker {bar.broker_id} {bar.log_dir}: {said or 'unknown'}")
    return (
        f'<div class="lw-disk">{label}<div><div class="lw-bar" role="img" aria-label="{name}">'
        f"{parts}</div><small>{_words(bar)}</small></div><small>{_end(bar, now)}</small></div>"
    )


def _segment(part: Part, whole: int) -> str:
    hover = f"{part.word}: {formats.size(part.size_bytes)} ({formats.exact_size(part.size_bytes)})"
    seen = " seen" if part.orphan else ""
    return (
        f'<span class="lw-fill-{part.look}{seen}" title="{markup.text(hover)}" '
        f'style="width:{100 * part.size_bytes / whole:.3f}%"></span>'
    )


def _words(bar: DirBar) -> str:
    """Its orphans by kind, largest first; else that there is none, or that nobody looked."""
    if not bar.parts:
        return markup.text(bar.error or "no bytes told")
    orphans = sorted((p for p in bar.parts if p.orphan), key=lambda part: -part.size_bytes)
    words = [_key(part) for part in orphans]
    if bar.earlier:
        count = formats.plural(bar.earlier, "orphan")
        words.append(f"{count} seen earlier, not measured now: take a new inventory")
    elif not words and bar.inventory_at is not None:
        words.append("no orphan")
    rest = _rest(bar)
    if rest and bar.inventory_at is None:
        words.append(f"▨ {markup.size(rest)} unexplained: indexes, other files, or orphans")
    return "".join(words)


def _key(part: Part) -> str:
    css = markup.css_class(colours.ORPHAN)
    said = f"{colours.ORPHAN.icon} {markup.text(part.word)} {markup.size(part.size_bytes)}"
    return (
        f'<span class="lw-key"><i class="lw-fill-{part.look}"></i>'
        f'<span class="{css}">{said}</span></span>'
    )


def _end(bar: DirBar, now: datetime) -> str:
    used = "size not told" if bar.used_bytes is None else f"{markup.size(bar.used_bytes)} used"
    if bar.inventory_at is None:
        return f"{used}<br><b>no inventory</b>"
    return f"{used}<br>inventory {markup.ago(bar.inventory_at, now)}"


# Disks that nobody took stock of: their bytes, and the lines that tell what they are.

MISSING_SHOWN = 6


def show_missing(missing: Sequence[MissingInventory], hosts: Mapping[int, str]) -> None:
    """One card for all of them. `hosts`: where each broker is."""
    if not missing:
        return
    with st.container(border=True):
        st.html(
            f'<div class="lw lw-card"><h3>▨ {missing_title(missing)}</h3><p>Indexes, other files, '
            "or orphans: an inventory tells them apart. It reads, and changes nothing.</p></div>"
        )
        in_browser.copyable(missing_lines(missing[:MISSING_SHOWN], hosts))
        rest = len(missing) - MISSING_SHOWN
        if rest > 0:
            st.caption(f"and {formats.plural(rest, 'broker')} more: lowwater orphans lists them.")
        given = " ".join(f"--inventory {m.broker_id}.inventory" for m in missing[:MISSING_SHOWN])
        st.caption(f"Then collect or watch with {given}, and each later one.")
        with st.expander("Without ssh: the line for sh on the host itself"):
            for line, brokers in _by_line(missing[:MISSING_SHOWN]).items():
                st.caption(f"broker {', '.join(map(str, brokers))}")
                in_browser.copyable(line)


def missing_title(missing: Sequence[MissingInventory]) -> str:
    """`12.3 GiB unexplained on brokers 1, 2: no inventory`."""
    sizes = [broker.unexplained_bytes for broker in missing]
    known = sum(size or 0 for size in sizes)
    size = "An unknown part" if None in sizes and not known else binary(known)
    if None in sizes and known:
        size = f"At least {size}"
    ids = ", ".join(str(broker.broker_id) for broker in missing[:MISSING_SHOWN])
    more = ", …" if len(missing) > MISSING_SHOWN else ""
    noun = "broker" if len(missing) == 1 else "brokers"
    return f"{size} unexplained on {noun} {ids}{more}: no inventory"


def missing_lines(missing: Sequence[MissingInventory], hosts: Mapping[int, str]) -> str:
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
