"""The look that Streamlit's theme has no words for: header, figures, bars, strips, lists."""

from __future__ import annotations

import streamlit as st

from dashboard.ui.components.markup import name_of
from dashboard.views import colours
from dashboard.views.colours import Meaning

_MEANINGS = (
    colours.RECLAIMABLE,
    colours.HELD,
    colours.LIVE,
    colours.ORPHAN,
    colours.UNKNOWN,
    colours.GUARDED,
    colours.DANGER,
)
_HATCH = "repeating-linear-gradient(135deg,#94a3b8 0 4px,#cbd5e1 4px 8px)"
_PALE_HATCH = "repeating-linear-gradient(135deg,#cbd5e1 0 4px,#e2e8f0 4px 8px)"
_LAYOUT = """
.stMainBlockContainer{padding:.5rem 1.5rem 2rem;max-width:2400px}
.stAppHeader{background:transparent;pointer-events:none}
.stAppHeader button{pointer-events:auto}
[data-testid=stLayoutWrapper]:has(>.st-key-lw-nav){position:sticky;top:0;z-index:99;
 background:var(--lw-page);border-bottom:1px solid var(--lw-line);padding-bottom:4px}
.st-key-lw-nav{gap:2px 4px}
.stMainBlockContainer .st-key-lw-nav [data-testid=stPageLink-NavLink] p{text-decoration:none;
 white-space:nowrap;font-size:15px}
.lw-here a{padding:0 8px;font-weight:700;text-decoration:none;box-shadow:0 2px 0 currentColor}
.lw-switch{position:relative}
.lw-switch b{overflow-wrap:anywhere}
.lw-switch summary{cursor:pointer;padding:2px 10px;border-radius:6px;
 border:1px solid var(--lw-line)}
.lw-switch ul{position:absolute;right:0;z-index:100;margin:2px 0;padding:6px 0;list-style:none;
 min-width:200px;max-height:70vh;overflow-y:auto;background:var(--lw-panel);
 border:1px solid var(--lw-line);border-radius:6px}
.lw-switch li a{display:block;padding:5px 14px;overflow-wrap:anywhere}
[data-testid=stVerticalBlock]{gap:.75rem}
[data-testid=stLayoutWrapper]:has(>.st-key-lw-script){display:none}
[data-testid=stMultiSelect] [data-baseweb=select]>div:first-child{max-height:110px;
 overflow-y:auto}
[data-testid=stWidgetLabel] p,button[kind=tertiary]:enabled p,
 button[data-selected=true] p{color:var(--lw-ink)}
.stMainBlockContainer [data-testid=stPageLink-NavLink]:not(:hover){background:transparent}
.stMainBlockContainer [data-testid=stPageLink-NavLink] p{font-weight:400;white-space:normal;
 text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:3px}
.stMainBlockContainer [data-testid=stPageLink-NavLink]:hover p{text-decoration-thickness:2px}
.stApp a:focus-visible,.stApp summary:focus-visible,.stApp button:focus-visible{
 outline:3px solid #2f6fd6;outline-offset:2px}
.lw{font-size:15px;line-height:1.45;font-variant-numeric:tabular-nums}
.lw abbr{text-decoration:none;border-bottom:1px dotted currentColor;cursor:help;white-space:nowrap}
.lw a{color:inherit}
.lw h2,.lw h3{font-size:16px;font-weight:650;margin:0 0 6px;padding:0}
.lw h2 small,.lw h3 small{font-weight:400;margin-left:6px}
.lw p{margin:0 0 4px}
.lw small,.lw .quiet{font-size:13px;color:var(--lw-quiet)}
.lw-head{padding:6px 12px;
 border-radius:6px;background:var(--lw-panel);border-left:4px solid var(--lw-line)}
[data-stale=true]:has(.lw-head){opacity:1;transition:none}
.lw-head.warn{background:var(--lw-warn);border-left-color:#b45309}
.lw-head h1{font-size:16px;font-weight:700;display:inline;padding:0;margin:0}
.lw-sentence{font-size:19px;line-height:1.5}
.lw-sentence strong:first-child{font-size:27px}
.lw-key{display:inline-flex;gap:6px;align-items:center;margin-right:14px;font-size:13px}
.lw-key i{width:12px;height:12px;border-radius:2px;display:inline-block}
.lw-disk{display:grid;grid-template-columns:auto 1fr 156px;gap:10px;align-items:center;
 margin:4px 0}
.lw-disk>span{white-space:nowrap;min-width:92px}
.lw-bar{display:flex;height:22px;border-radius:3px;overflow:hidden;background:var(--lw-free)}
.lw-bar span{display:block;min-width:0;border-right:1px solid var(--lw-page)}
.lw-bar span.seen{min-width:5px}
.lw-fill-future{background:#7f8ca0}.lw-fill-index{background:#a3aebd}.lw-fill-delete{background:#475569}
.lw-fill-deleted{background:repeating-linear-gradient(90deg,#7c2d6b 0 3px,#b06a9e 3px 6px)}
.lw-fill-moved{background:#b06a9e}
.lw-card h3{font-size:15px;overflow-wrap:anywhere}
.lw-card dl{display:grid;grid-template-columns:104px 1fr;gap:2px 8px;margin:6px 0;font-size:14px}
.lw-card dt{color:var(--lw-quiet)}
.lw-card dl,.lw-card dt,.lw-card dd{padding:0}
.lw-card dt,.lw-card dd{margin:0;font-size:14px}
.lw-card p code{white-space:nowrap}
.lw-card dd{overflow-wrap:anywhere}
.lw-slow{border-left:4px solid #2f6fd6;padding:2px 0 2px 16px;font-size:17px}
.lw-slow h2{font-size:20px}
.lw-heat{overflow-x:auto}
.lw-heat table{width:100%;border-collapse:separate;border-spacing:2px;font-size:13px}
.lw-heat th{font-weight:400;text-align:left;padding:2px 6px;max-width:210px;overflow:hidden;
 text-overflow:ellipsis;white-space:nowrap}
.lw-heat thead th{text-align:center;color:var(--lw-quiet)}
.lw-heat td{min-width:72px;text-align:center;padding:3px 6px;border-radius:2px;white-space:nowrap}
.lw-heat td.none{background:none}
.lw-list{list-style:none;margin:0;padding:0}
.lw-list li{display:grid;grid-template-columns:1fr auto;gap:0 10px;padding:5px 0;
 border-bottom:1px solid var(--lw-line)}
.lw-list li small{grid-column:1/-1}
.lw-list li>*{overflow:hidden;text-overflow:ellipsis}
.lw-state{border-left:4px solid var(--lw-line);background:var(--lw-panel);padding:14px 18px;
 border-radius:6px;margin:8px 0}
.lw-state.warn{border-left-color:#b45309;background:var(--lw-warn)}
.lw-state.danger{border-left:6px solid #b91c1c;background:var(--lw-alarm)}
.lw-state.alert{border-left:6px solid #c2410c;background:var(--lw-warn)}
.lw-state ul{margin:4px 0 0;padding-left:20px;font-size:14px}
.lw-state h2{font-size:18px}
.lw-state code,.lw code{font-size:13px;background:var(--lw-code);padding:1px 5px;border-radius:3px;
 color:inherit}
.lw-copy{position:relative}
.lw-copy pre{margin:0;padding:10px 84px 10px 12px;border-radius:6px;background:var(--lw-code);
 white-space:pre-wrap;overflow-wrap:anywhere}
.lw-copy pre code{background:none;padding:0;line-height:1.5}
.lw-copy button{position:absolute;top:6px;right:8px;padding:1px 10px;border-radius:6px;
 font-family:inherit;font-size:13px;cursor:pointer;color:var(--lw-ink);
 background:var(--lw-page);border:1px solid var(--lw-line)}
.lw-strips{display:grid;grid-template-columns:auto auto 1fr auto auto;gap:8px 12px;
 align-items:center}
.lw-strip{position:relative;height:20px;border-radius:2px;background:#64748b;min-width:120px}
.lw-strip .done{position:absolute;inset:0 auto 0 0;background:#0f766e;border-radius:2px 0 0 2px}
.lw-strip .held{position:absolute;top:0;bottom:0;background:#b45309}
.lw-strip .tick{position:absolute;top:-2px;bottom:-2px;width:2px;background:var(--lw-ink)}
.lw-strip .tick i{position:absolute;top:2px;font:600 12px sans-serif;color:#fff}
.lw-strip .target{position:absolute;top:-5px;width:0;height:0;margin-left:-6px;
 border:6px solid transparent;border-top:9px solid var(--lw-ink)}
.lw-wide{overflow-x:auto}
.lw-table{width:100%;border-collapse:collapse;font-size:14px}
.lw-table th{text-align:left;font-weight:600;font-size:13px;color:var(--lw-quiet)}
.lw-table td,.lw-table th{padding:3px 12px 3px 0;border-bottom:1px solid var(--lw-line)}
.lw-fleet td{min-width:92px}
.lw-table td code{white-space:nowrap}
.lw-records td{vertical-align:top;overflow-wrap:anywhere;min-width:64px}
.lw-table td.n,.lw-table th.n{text-align:right}
.lw-counts{display:flex;gap:8px 22px;flex-wrap:wrap}
.lw-counts div{min-width:84px}
.lw-counts b{font-size:22px;display:block}
.lw-tiles div{flex:1 1 130px;padding:6px 12px;border-radius:6px;background:var(--lw-panel)}
.lw-tiles small{display:block}
@media(max-width:640px){
[data-testid=stLayoutWrapper]:has(>.st-key-lw-nav){position:static}
.st-key-lw-nav{gap:0}
.st-key-lw-top [data-testid=stHorizontalBlock]{gap:.5rem}
.st-key-lw-top [data-testid=stColumn]{min-width:0;width:auto;flex:1 1 auto}
.st-key-lw-top [data-testid=stColumn]:first-child{flex-basis:100%}
.lw-switch ul{right:auto;left:0}
.lw-strips{grid-template-columns:1fr auto;gap:4px 12px}
.lw-strips .lw-strip{grid-column:1/-1}
.lw-strips>small:nth-child(3){display:none}
.lw-disk{grid-template-columns:1fr auto;gap:2px 10px;margin:8px 0}
.lw-disk .lw-bar{grid-column:1/-1;order:3}
.lw-sentence{overflow-wrap:anywhere}
}
"""
_RED_BUTTON = """
[class*=st-key-danger] button[data-testid=stBaseButton-primary]{background:#b91c1c;
 border-color:#b91c1c;color:#fff}
[class*=st-key-danger] button[data-testid=stBaseButton-primary]:hover{background:#991b1b}
[class*=st-key-danger] button[data-testid=stBaseButton-primary]:disabled{background:transparent;
 color:var(--lw-quiet);border-color:var(--lw-line)}
"""
_LIGHT = (
    "--lw-ink:#0b1220;--lw-quiet:#475569;--lw-line:#d5dbe3;--lw-panel:#f3f5f8;--lw-page:#fff;"
    "--lw-warn:#fdf1de;--lw-alarm:#fdeaea;--lw-free:#e8ecf1;--lw-code:#e6eaf0"
)
_DARK = (
    "--lw-ink:#f1f5f9;--lw-quiet:#b3bfce;--lw-line:#3b4657;--lw-panel:#1b2431;--lw-page:#0e1420;"
    "--lw-warn:#3b2a10;--lw-alarm:#3d1517;--lw-free:#2a3444;--lw-code:#2a3444"
)


def dark() -> bool:
    """Whether the reader's browser shows the dark theme."""
    return st.context.theme.type == "dark"


def apply() -> None:
    """Put the style on the page; once per rerun, before anything else."""
    is_dark = dark()
    rules = [f":root{{{_DARK if is_dark else _LIGHT}}}", _LAYOUT, _RED_BUTTON]
    rules += [_rule(meaning, is_dark) for meaning in _MEANINGS]
    rules += [
        f".lw-lag-{at}{{background:{fill};color:{ink}}}"
        for at, (fill, ink) in enumerate(colours.LAG_ON_DARK if is_dark else colours.LAG_ON_LIGHT)
    ]
    rules.append(f".lw-lag-unknown{{background:{_PALE_HATCH};color:#0b1220}}")
    st.html("<style>" + "".join(rules).replace("\n", "") + "</style>")


def _rule(meaning: Meaning, is_dark: bool) -> str:
    fill = _HATCH if meaning in (colours.UNKNOWN, colours.GUARDED) else meaning.fill
    ink = meaning.on_dark if is_dark else meaning.on_light
    name = name_of(meaning)
    return f".lw-fill-{name}{{background:{fill}}}.lw-{name}{{color:{ink}}}"
