"""Who uses a page, and what they may: a courtesy to readers; `people.require` is the check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.core.errors import LowwaterError, RefusedError, UsageError
from dashboard.people import people
from dashboard.people.people import Actor, Role, Who
from dashboard.ui.components import markup, states
from dashboard.ui.session import context

_T = TypeVar("_T")
_LOOK = "look at these pages"


def signs_in() -> bool:
    """Whether people sign in with a provider; decided when the server starts."""
    section = context.settings().people
    return section is not None and section.oidc_secrets is not None


def claims() -> Mapping[str, Any]:
    """What the provider signed of the person behind this browser session; empty: nobody is."""
    return dict(st.user.to_dict())


def actor() -> Actor:
    """Who that is, with the role they have now. Raises as `people.actor_of` does."""
    return people.actor_of(context.settings(), claims() if signs_in() else None)


def check() -> None:
    """Raises RefusedError unless the person may look at pages; nothing without [people]."""
    if context.settings().people is not None:
        people.require(context.settings(), actor(), "viewer", _LOOK)


def at_click(make: Callable[[], _T]) -> Callable[[], _T]:
    """A download for those who may still look when they click: no page runs for it again."""
    who = actor()

    def made() -> _T:
        people.require(context.settings(), who, "viewer", _LOOK)
        return make()

    return made


def may(role: Role) -> bool:
    """Whether to offer what this role may do."""
    return actor().may(role)


def name() -> str:
    """The name under which the journal keeps what this person does."""
    return actor().name


def who(key: str, drawn: str) -> Who:
    """Who acts, for a callback: the person signed in, whatever was typed; else whom the field `key`
    names at the click, or `drawn` where it is there no more. Raises UsageError WHO_MISSING.

    Streamlit makes one run of a changed name and a click that come while the page is busy.
    """
    if context.settings().people is not None:
        return actor()
    named = str(st.session_state.get(key, drawn) or "").strip()
    if not named:
        raise UsageError(
            "nobody is named who does this: nothing was done",
            "Say who you are: the journal keeps it.",
            code="WHO_MISSING",
        )
    return named


def ask_who(place: DeltaGenerator, label: str, key: str) -> str:
    """The field for the name; one that is known is shown and cannot be changed."""
    known = context.settings().people is not None
    return place.text_input(label, value=name(), key=key, disabled=known) or ""


def only(role: Role, what: str) -> bool:
    """True for those who may; others read who may `what` instead of a button."""
    found = actor()
    if found.may(role):
        return True
    is_here = people.article(found.role) if found.role else "nobody"
    said = f"{what} takes {people.article(role)}; {found.name} is {is_here} here."
    st.html(f'<div class="lw"><small>{markup.text(said)}</small></div>')
    return False


# The way in and out: what somebody sees who is not signed in, or may not look.


def admitted() -> bool:
    """Whether the person may look; else the reason is drawn, and the button that helps."""
    try:
        check()
    except LowwaterError as error:
        _way_in(error)
        return False
    return True


def _way_in(error: LowwaterError) -> None:
    if not signs_in() or not isinstance(error, RefusedError):
        states.show_error(error)
        return
    if error.code == "NOT_SIGNED_IN":
        states.show(
            "Sign in to Lowwater",
            "What you may do here depends on who you are. Your provider asks for your password; "
            "Lowwater never sees it.",
        )
    else:
        states.show_error(error)
    with st.container(horizontal=True):
        st.button("Sign in", type="primary", key="sign-in", on_click=st.login)
        if error.code != "NOT_SIGNED_IN":
            sign_out()


def sign_out() -> None:
    """The button that forgets who this browser is; nothing where nobody signs in."""
    if signs_in():
        st.button("Sign out", key="sign-out", on_click=st.logout, type="tertiary")
