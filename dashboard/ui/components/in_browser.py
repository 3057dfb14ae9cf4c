"""What pages do in the browser itself: `/` leads to the search, and a button copies the lines
beside it. The script is put on the page once, for all that the others draw.
"""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit import components

FIND = "lw-find"  # the key of the search box
# `/` from anywhere on the page but another field; in a dialog the keys are its own. Where pages are
# neither on this machine nor behind TLS a browser keeps its clipboard: then the lines are marked.
_SCRIPT = """
const FIELD = "input, textarea, select, [contenteditable=true], [role=dialog] *";
const typed = (event) => {
  const at = document.activeElement;
  const plain = !(event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented);
  const box = document.querySelector(".st-key-%s input");
  if (event.key !== "/" || !plain || !box || (at && at.matches(FIELD))) return;
  event.preventDefault();
  box.focus();
  box.select();
};
const clicked = async (event) => {
  const button = event.target instanceof Element && event.target.closest(".lw-copy button");
  if (!button) return;
  const lines = button.parentElement.querySelector("code");
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(lines.textContent);
  } catch {
    getSelection().selectAllChildren(lines);
    said = "Marked: press Ctrl+C";
  }
  button.textContent = said;
  setTimeout(() => { button.textContent = "Copy"; }, 3000);
};
export default () => {
  document.addEventListener("keydown", typed);
  document.addEventListener("click", clicked);
  return () => {
    document.removeEventListener("keydown", typed);
    document.removeEventListener("click", clicked);
  };
};
"""


def listen() -> None:
    """Put the script on the page; once per run of the page."""
    with st.container(key="lw-script"):  # out of sight, and of the page's rhythm
        components.v2.component("lowwater_script", js=_SCRIPT % FIND)(key="lw-script-of")


def copyable(lines: str) -> None:
    """Lines to copy, as they are. Streamlit's own box for code fetches a highlighter of all
    languages for them, a quarter of what a first visit may carry.
    """
    st.html(
        f'<div class="lw lw-copy"><pre><code>{escape(lines)}</code></pre>'
        '<button type="button" aria-live="polite">Copy</button></div>'
    )
