"""The messages by which an approver's browser approved a purge, sent again by somebody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from dashboard.purge.journal.journal import Journal, open_default
from dashboard.settings.settings import load
from tests.e2e.test_people_in_browser import (
    ANN,
    BOB,
    COOKIE_SECRET,
    EVE,
    SECRETS,
    Place,
    asked_for,
    browsers,
    signed_in,
    type_sentence,
)
from tests.pages.purges import SENTENCE
from tests.support import marked, sample_store
from tests.support.browser import dashboard_server
from tests.support.journals import unbind
from tests.support.oidc_provider import CLIENT_SECRET, oidc_provider

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Cookies = dict[str, str]
# Whoever has one of them can sign cookies, or act as this server towards the provider.
SIGNING = (COOKIE_SECRET.encode(), CLIENT_SECRET.encode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with oidc_provider({EVE: {}, BOB: {}, ANN: {}}) as provider:
        made = Place(tmp_path, provider)
        made.write()
        (tmp_path / "oidc.toml").touch(0o600)
        (tmp_path / "oidc.toml").write_text(SECRETS.replace("URL", provider.url))
        monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
        sample_store.write(tmp_path / "data", "plain")
        yield made


def test_what_an_approver_sent_queues_nothing_for_a_viewer_or_a_stranger(place: Place) -> None:
    journal = open_default(load())
    request_id = asked_for(journal)
    journal.close()
    again = place.folder / "again"
    shutil.copytree(place.folder / "state", again)
    unbind(again / "journal.sqlite")
    sent = messages_of_an_approval(request_id)
    settings = place.folder / "lowwater.toml"
    settings.write_text(settings.read_text().replace(f"{place.folder}/state", str(again)))
    before = Journal(again / "journal.sqlite")

    log = place.folder / "server.log"
    with dashboard_server({}, log=log) as url, browsers() as browser:
        viewer = cookies_of(signed_in(browser, url, EVE, "viewer"))
        approver = cookies_of(signed_in(browser, url, ANN, "approver"))
        stranger = {name: value for name, value in viewer.items() if "xsrf" in name}

        assert b"takes an approver" in replayed(url, viewer, sent)
        assert b"Sign in" in replayed(url, stranger, sent)
        # Another page in the approver's browser sends the cookies along, but cannot read the token.
        assert b"Sign in" in replayed(url, approver, sent, token=stranger["_streamlit_xsrf"])
        assert before.runs() == []
        assert before.request(request_id).state == "asked"
        assert not [e for e in before.entries() if e.kind in ("approved", "queued")]

        # For whom it is meant it does queue a purge: one, though two windows send it at once.
        with ThreadPoolExecutor(2) as windows:
            list(windows.map(lambda _: replayed(url, approver, sent), range(2)))
        assert marked.marked_processes(place.folder, SIGNING) == []
        (run,) = before.runs()
        assert (run.who, run.approved_by) == (BOB, ANN)
    before.close()
    assert not marked.marks_in(log.read_bytes(), SIGNING)
    assert not marked.marks_in((again / "journal.sqlite").read_bytes(), SIGNING)


def messages_of_an_approval(request_id: str) -> list[bytes]:
    """What Ann's browser sends from opening the request to the click that approves it."""
    sent: list[bytes] = []
    with dashboard_server({}) as url, browsers() as browser:
        ann = signed_in(browser, url, ANN, "approver")
        ann.on(
            "websocket",
            lambda socket: socket.on("framesent", lambda it: sent.append(bytes(it))),
        )
        ann.goto(f"{url}/purge?request={request_id}")
        type_sentence(ann, SENTENCE)
        button = ann.get_by_role("button", name="Approve and purge")
        expect(button).to_be_enabled()
        button.click()
        expect(ann.get_by_text("approved by ann@example.org")).to_be_visible()
    reruns = [it for it in sent if BackMsg.FromString(it).WhichOneof("type") == "rerun_script"]
    # Of the letters typed one by one the last few are enough: each message holds all fields.
    whole = [it for it in reruns[:-4] if not BackMsg.FromString(it).rerun_script.fragment_id]
    return whole + reruns[-4:]


def cookies_of(page: Page) -> Cookies:
    return {c["name"]: c["value"] for c in page.context.cookies()}


def replayed(url: str, cookies: Cookies, sent: Sequence[bytes], token: str | None = None) -> bytes:
    """Send the messages with these cookies, each when the last was answered; all answers."""
    answers = b""
    with connect(
        f"{url.replace('http', 'ws')}/_stcore/stream",
        origin=url,  # type: ignore[arg-type]
        subprotocols=["streamlit", token or cookies["_streamlit_xsrf"]],  # type: ignore[list-item]
        additional_headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())},
        max_size=None,
    ) as socket:
        for message in sent:
            socket.send(message)
            # A part of a page that this person does not see answers nothing.
            with suppress(TimeoutError):
                answers += answered(socket)
    assert not marked.marks_in(answers, SIGNING)
    return answers


def answered(socket: ClientConnection) -> bytes:
    """All that is said until the script has run. Raises TimeoutError when it does not."""
    found = b""
    while True:
        answer = socket.recv(timeout=5)
        assert isinstance(answer, bytes)
        found += answer
        if ForwardMsg.FromString(answer).WhichOneof("type") == "script_finished":
            return found
