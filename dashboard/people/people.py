"""Who may do what: roles of people by name or by the claims of a sign-in, asked when they act.

A page that hides a button is a courtesy. `require` is the check: the server asks it in Python at
each place where something is queued, switched or declared, and looks the role up again there.
"""

from __future__ import annotations

import stat
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args
from urllib.parse import urlsplit

from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError, SettingsError
from dashboard.settings.people import EVERYBODY, PeopleSettings, gone, read_again, same_sign_in
from dashboard.settings.settings import Settings, source_of
from dashboard.settings.values import check_keys, is_loopback

Role = Literal["viewer", "operator", "approver"]
How = Literal["oidc", "local"]
# What a provider said of somebody, by the claim's name: any of it may be anything.
Claims = Mapping[str, object]
ROLES: tuple[Role, ...] = get_args(Role)
_CLOCKS_APART = timedelta(minutes=5)
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody, as seen a moment ago: signed in with a provider (`oidc`), or at this machine.

    `role` None: may not even look. `claims` are the provider's; a local operator has none.
    """

    name: str
    role: Role | None
    how: How
    claims: Claims = field(default_factory=dict, repr=False, compare=False)

    def may(self, role: Role) -> bool:
        """Whether this role, or a higher one, is theirs."""
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(role)


# A plain name proves nothing: it has every right without [people], and none with them.
Who = Actor | str


def name_of(who: Who) -> str:
    """The name under which the journal keeps what somebody does."""
    return who.name if isinstance(who, Actor) else who


def actor_of(settings: Settings, claims: Claims | None, now: datetime | None = None) -> Actor:
    """Who acts: by the claims of their sign-in, or (None) as this machine's operator.

    Raises RefusedError NOT_SIGNED_IN, SIGN_IN_EXPIRED, NAME_MISSING or NAME_NOT_VERIFIED, and
    SettingsError. Without a section [people] everybody is the local operator, who may do all.
    """
    people = current(settings)
    if people is None:
        return Actor(settings.operator, "approver", "local")
    if claims is None:
        return Actor(settings.operator, role_of(people, settings.operator), "local")
    name = _signed_in_name(people, claims, now or utc_now())
    return Actor(name, role_of(people, name, role_values(people, claims)), "oidc", claims)


def require(
    settings: Settings, who: Who, role: Role, what: str, now: datetime | None = None
) -> str:
    """The name of one who may; the role is looked up now, whatever it was a moment ago.

    `what` completes "may not …". Raises RefusedError ROLE_TOO_LOW and as `actor_of` does.
    """
    people = current(settings)
    if people is None:
        return name_of(who)
    again = _again(settings, people, who, now)
    if again.may(role):
        return again.name
    seen = f"is {article(again.role)}" if again.role else "has no role here"
    raise RefusedError(
        f"{again.name or 'nobody'} {seen} and may not {what}: that takes {article(role)}",
        _ask(people, role),
        code="ROLE_TOO_LOW",
    )


def deciding_role(settings: Settings) -> Role:
    """Who may set off what no second person is asked about: a policy, a sweep."""
    return "approver" if second_person(settings) else "operator"


def second_person(settings: Settings) -> bool:
    """Whether somebody else must approve each purge."""
    people = current(settings)
    return people is not None and people.second_person


def current(settings: Settings) -> PeopleSettings | None:
    """[people] as the settings file has it now; None: it has none. Raises SettingsError.

    `settings` may be as old as the page or process that holds them: of those without the section
    nobody may go on as if it had not come.
    """
    source = source_of(settings)
    if source is None:
        return settings.people
    found = read_again(source)
    if found is None and settings.people is not None:
        raise gone(source)
    same_sign_in(source, settings.people, found)
    return found


def role_of(people: PeopleSettings, name: str, values: Sequence[str] = ()) -> Role | None:
    """The highest role that a name, or the values of its role claim, have; None: none."""
    if _named(people, name, people.approvers) or set(values) & set(people.approver_values):
        return "approver"
    if _named(people, name, people.operators) or set(values) & set(people.operator_values):
        return "operator"
    if EVERYBODY in people.viewers or _named(people, name, people.viewers):
        return "viewer"
    return None


def role_values(people: PeopleSettings, claims: Claims) -> tuple[str, ...]:
    """Those values of the role claim that make a role; one text counts as a list of one."""
    found = claims.get(people.role_claim) if people.role_claim else None
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    telling = {*people.operator_values, *people.approver_values}
    return tuple(sorted({value for value in listed if isinstance(value, str)} & telling))


def same_person(one: str, other: str) -> bool:
    """Whether two names may be one person's; in doubt they are, since a second one is asked for."""
    return _folded(one) == _folded(other)


def _again(settings: Settings, people: PeopleSettings, who: Who, now: datetime | None) -> Actor:
    if isinstance(who, str):
        return Actor(who, None, "local")
    if who.how == "oidc":
        return actor_of(settings, who.claims, now)
    return Actor(who.name, role_of(people, who.name), "local")


def _signed_in_name(people: PeopleSettings, claims: Claims, now: datetime) -> str:
    if claims.get("is_logged_in") is not True:
        raise RefusedError("nobody is signed in", "Sign in first.", code="NOT_SIGNED_IN")
    since = _signed_in_at(claims)
    if since is None or not now - people.sign_in_lasts < since <= now + _CLOCKS_APART:
        raise RefusedError(
            "the sign-in is older than sign_in_lasts of [people] allows, or does not say how old",
            "Sign in again.",
            code="SIGN_IN_EXPIRED",
        )
    name = claims.get(people.name_claim)
    # People may choose what some claims say: what turns text around, or never ends, is no name.
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 254:
        raise RefusedError(
            f"the provider's claim {people.name_claim} is empty or missing",
            "Have the provider send it, or set name_claim of [people] to one that it sends.",
            code="NAME_MISSING",
        )
    if people.name_claim == "email" and claims.get("email_verified") is not True:
        raise RefusedError(
            f"the provider does not vouch for the address {name} (email_verified)",
            "Verify it there, or set name_claim of [people] to a claim that nobody can choose.",
            code="NAME_NOT_VERIFIED",
        )
    return name.strip()


def _signed_in_at(claims: Claims) -> datetime | None:
    """When the provider signed the token: its own clock, its claim `iat`."""
    issued = claims.get("iat")
    if isinstance(issued, bool) or not isinstance(issued, int | float):
        return None
    try:
        return datetime.fromtimestamp(issued, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _named(people: PeopleSettings, name: str, listed: Sequence[str]) -> bool:
    """Addresses are compared without case, and only where that is plain; other claims exactly."""
    if name == EVERYBODY:
        return False
    if people.name_claim == "email" and name.isascii():
        return name.lower() in {other.lower() for other in listed if other.isascii()}
    return name in listed


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def article(role: Role) -> str:
    """A role with its article, for sentences."""
    return f"a {role}" if role == "viewer" else f"an {role}"


def _ask(people: PeopleSettings, role: Role) -> str:
    """Whom to ask: those who approve; of many the first."""
    named = [*people.approvers, *(f"one of {value}" for value in people.approver_values)]
    if not named:
        return f"Name {article(role)} in [people] of the settings."
    more = ", …" if len(named) > _MOST_NAMED else ""
    return f"Ask {', '.join(named[:_MOST_NAMED])}{more}: they decide who is {article(role)}."


# The file of `oidc_secrets`: can people sign in by it? Its content is never shown or kept.

_NEEDED = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_LEAST_SECRET = 32  # characters: what signs the cookies must not be guessed
_CALLBACK = "/oauth2callback"


def check(path: Path, origin: str, port: int) -> None:
    """Whether Streamlit's login can use the file for pages that browsers know under `origin`.

    Raises SettingsError OIDC_SECRETS_INVALID, which names the key and never a secret.
    """
    auth = _auth(path)
    where = f"{path}, [auth]"
    check_keys(auth, (*_NEEDED, "client_kwargs"), where)
    for key in _NEEDED:
        if not isinstance(auth.get(key), str) or not auth[key].strip():
            _refuse(f"{where}: '{key}' is missing or no text", f'Write {key} = "…".')
    if len(auth["cookie_secret"]) < _LEAST_SECRET:
        _refuse(
            f"{where}: cookie_secret is shorter than {_LEAST_SECRET} characters",
            "Make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'.",
        )
    if not isinstance(auth.get("client_kwargs", {}), dict):
        _refuse(f"{where}: client_kwargs is no table", 'Write { scope = "openid email" }.')
    _safe_address(auth["server_metadata_url"], f"{where}: server_metadata_url")
    # Streamlit takes a cookie of this very origin alone: any other spelling signs nobody in.
    if auth["redirect_uri"].replace("{port}", str(port)) != origin + _CALLBACK:
        _refuse(
            f"{where}: redirect_uri is not the address of these pages, {origin}",
            f'Write redirect_uri = "{origin}{_CALLBACK}", and let the provider know it; behind a '
            "proxy start with --behind-proxy and its address.",
        )


def _auth(path: Path) -> dict[str, Any]:
    try:
        mode = path.stat().st_mode
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(f"the oidc_secrets {path} cannot be read: {error.strerror}", "Check its rights.")
    except (ValueError, RecursionError):
        _refuse(f"the oidc_secrets {path} is no TOML (not shown, it is a secret)", "Correct it.")
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        _refuse(
            f"the oidc_secrets {path} can be read or written by others",
            f"Whoever reads it can sign in as anybody. Run: chmod 600 {path}.",
        )
    if not isinstance(table.get("auth"), dict) or len(table) > 1:
        # Streamlit puts other entries into the environment, which child processes inherit.
        _refuse(f"{path} holds something else than one section [auth]", "Leave only that.")
    return dict(table["auth"])


def _safe_address(address: str, what: str) -> None:
    """https, or http on this machine: what comes back decides who somebody is."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        _refuse(f"{what} is no address", "Write it with https://.")
    if not host or parts.scheme not in ("http", "https"):
        _refuse(f"{what} is no address", "Write it with https://.")
    if parts.scheme == "http" and not is_loopback(host):
        _refuse(f"{what} is plain http to another machine", "Write it with https://.")


def _refuse(message: str, next_step: str) -> NoReturn:
    """Without a cause: a library's own message may quote the file."""
    raise SettingsError(message, next_step, code="OIDC_SECRETS_INVALID") from None
