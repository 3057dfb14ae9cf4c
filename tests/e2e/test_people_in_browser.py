"""People sign in with a provider, in a real browser: what each may do, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.core.errors import ApprovalRequired
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.people.people import Actor
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.targets import Target
from dashboard.settings.settings import load
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until
from tests.brokers.purge_proof import Left, assert_proved
from tests.pages.purges import SENTENCE, a_plan
from tests.support import sample_store
from tests.support.browser import (
    browser_page,
    dashboard_server,
    fresh_page,
    keep_screenshot,
)
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider

pytestmark = pytest.mark.browser
EVE, BOB, ANN = "eve@example.org", "bob@example.org", "ann@example.org"
COOKIE_SECRET = "cookie-secret-0815-0123456789abcdef0123456789abcdef"
SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"

[people]
viewers = ["*"]
operators = {operators}
approvers = ["ann@example.org", "ada"]
role_claim = "groups"
operator_values = ["kafka-operators"]
second_person = true
approval_expires_after = "{expires}"
oidc_secrets = "{folder}/oidc.toml"

[topics."*"]
owner = "team-e2e"
readers = "groups"
declared_by = "ada"
declared_at = "2026-03-01"
"""
SECRETS = f"""[auth]
redirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"
cookie_secret = "{COOKIE_SECRET}"
client_id = "{CLIENT_ID}"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "URL/.well-known/openid-configuration"
client_kwargs = {{ scope = "openid email profile groups", code_challenge_method = "S256" }}
"""


class Place(NamedTuple):
    """Settings of people, and the provider they sign in with."""

    folder: Path
    provider: OidcProvider

    def write(self, operators: str = f'["{BOB}"]', expires: str = "30m") -> None:
        """The settings as they are from now on."""
        text = SETTINGS.format(folder=self.folder, operators=operators, expires=expires)
        (self.folder / "lowwater.toml").write_text(text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    people = {
        EVE: {}, BOB: {}, ANN: {}, "gus@example.org": {"groups": ["kafka-operators"]},
        "liar@example.org": {"email": ANN, "email_verified": False},
    }  # fmt: skip
    with oidc_provider(people) as provider:
        made = Place(tmp_path, provider)
        made.write()
        secrets = tmp_path / "oidc.toml"
        secrets.touch(0o600)
        secrets.write_text(SECRETS.replace("URL", provider.url))
        monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
        yield made


@contextmanager
def browsers() -> Iterator[Browser]:
    with browser_page() as page:
        assert page.context.browser is not None
        yield page.context.browser


def sign_in(page: Page, url: str, name: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name=name).click()


def signed_in(browser: Browser, url: str, name: str, role: str) -> Page:
    """A browser in which this person is signed in, on Overview."""
    page = fresh_page(browser)
    sign_in(page, url, name)
    expect(page.get_by_text(f"{name} ({role})")).to_be_visible()
    return page


def asked_for(journal: Journal) -> str:
    """A purge of the sample store that Bob asked for."""
    plan = a_plan(PlanRequest(("orders",), Target("committed"), by=BOB))
    bob = Actor(BOB, None, "local")
    with pytest.raises(ApprovalRequired) as told:
        queue.enqueue(
            load(), journal, plan, mode="wait-all", confirm=SENTENCE, sha256=plan.sha256,
            who=bob, token="click", start=False,
        )  # fmt: skip
    return told.value.request_id


def user_cookies(page: Page) -> list[Any]:
    """The cookie that says who this browser is, if it has one."""
    return [c for c in page.context.cookies() if c["name"] == "_streamlit_user"]


def type_sentence(page: Page, sentence: str) -> None:
    page.get_by_label("Confirmation", exact=True).click()
    page.keyboard.type(sentence, delay=5)


def test_a_viewer_is_refused_an_approver_approves_and_a_lost_role_is_gone(place: Place) -> None:
    sample_store.write(place.folder / "data", "plain")
    journal = open_default(load())
    first = asked_for(journal)

    with ExitStack() as stack:
        url = stack.enter_context(dashboard_server({}))
        browser = stack.enter_context(browsers())
        eve = signed_in(browser, url, EVE, "viewer")
        eve.goto(f"{url}/purge?request={first}")
        expect(eve.get_by_text("Approving a purge takes an approver")).to_be_visible()
        expect(eve.get_by_role("button", name="Approve and purge")).to_have_count(0)
        keep_screenshot(eve, "people-viewer")

        ann = signed_in(browser, url, ANN, "approver")
        ann.goto(f"{url}/purge?request={first}")
        type_sentence(ann, SENTENCE)
        button = ann.get_by_role("button", name="Approve and purge")
        expect(button).to_be_enabled()
        keep_screenshot(ann, "people-approve")
        text = (place.folder / "lowwater.toml").read_text()
        (place.folder / "lowwater.toml").write_text(text.replace(ANN, "zoe@example.org"))
        button.click()
        expect(ann.get_by_text("ann@example.org is a viewer").first).to_be_visible()
        assert journal.runs() == []

        place.write()
        ann.reload()
        type_sentence(ann, SENTENCE)
        expect(button).to_be_enabled()
        button.click()
        expect(ann.get_by_text("approved by ann@example.org")).to_be_visible()
        (cookie,) = user_cookies(ann)
        assert cookie["httpOnly"]

    (run,) = journal.runs()
    assert (run.who, run.approved_by) == (BOB, ANN)
    (approval,) = (e for e in journal.entries() if e.kind == "approved")
    assert approval.body["how"] == "oidc"
    assert journal.verify().ok
    journal.close()


@pytest.mark.slow
def test_what_is_no_sign_in(place: Place) -> None:
    sample_store.write(place.folder / "data", "plain")
    with dashboard_server({}) as url, browsers() as browser:
        liar = fresh_page(browser)
        sign_in(liar, url, "liar@example.org")
        expect(liar.get_by_text("NAME_NOT_VERIFIED")).to_be_visible()
        keep_screenshot(liar, "people-not-verified")

        place.provider.strange = True
        forged = fresh_page(browser)
        sign_in(forged, url, ANN)
        expect(forged.get_by_text("Sign in to Lowwater")).to_be_visible()
        assert not user_cookies(forged)
        place.provider.strange = False

        place.provider.age = timedelta(hours=13).total_seconds()
        old = fresh_page(browser)
        sign_in(old, url, ANN)
        expect(old.get_by_text("SIGN_IN_EXPIRED")).to_be_visible()
        place.provider.age = 0
        old.get_by_role("button", name="Sign in").click()
        old.get_by_role("link", name=ANN).click()
        expect(old.get_by_text(f"{ANN} (approver)")).to_be_visible()

        old.get_by_role("button", name="Sign out").click()
        expect(old.get_by_text("Sign in to Lowwater")).to_be_visible()
        keep_screenshot(old, "people-sign-in")
        # The page empties at once; the cookie goes with the redirect that follows.
        until(lambda: not user_cookies(old))

        tampered = signed_in(browser, url, EVE, "viewer")
        (cookie,) = user_cookies(tampered)
        changed = cookie["value"][:20] + "A" + cookie["value"][21:]
        tampered.context.add_cookies([{**cookie, "value": changed}])
        tampered.reload()
        expect(tampered.get_by_text("Sign in to Lowwater")).to_be_visible()


@pytest.mark.slow
def test_an_approval_that_expired_while_its_page_was_open(place: Place) -> None:
    sample_store.write(place.folder / "data", "plain")
    place.write(expires="25s")
    journal = open_default(load())
    with dashboard_server({}) as url, browsers() as browser:
        ann = signed_in(browser, url, ANN, "approver")
        request_id = asked_for(journal)
        ann.goto(f"{url}/purge?request={request_id}")
        type_sentence(ann, SENTENCE)
        button = ann.get_by_role("button", name="Approve and purge")
        expect(button).to_be_enabled()
        left = journal.request(request_id).asked.expires_at - utc_now()
        ann.wait_for_timeout(max(left.total_seconds() + 0.5, 0) * 1000)
        button.click()
        expect(ann.get_by_text("REQUEST_EXPIRED")).to_be_visible()
    assert journal.runs() == []
    journal.close()


@pytest.mark.slow
@pytest.mark.brokers
def test_one_asks_another_approves_and_the_records_are_gone(
    place: Place, cluster: LocalCluster
) -> None:
    bench = Bench(cluster.bootstrap, cluster.cluster_id, place.folder)
    place.write()  # in place of what the bench wrote there
    topic = bench.topic(100)
    bench.commit("e2e-people", topic, {0: 60})
    assert main(["collect", "--bootstrap-server", cluster.bootstrap, "--name", "test"]) == 0
    with dashboard_server({}) as url, browsers() as browser:
        gus = signed_in(browser, url, "gus@example.org", "operator")
        gus.goto(f"{url}/purge?topics={topic}")
        type_sentence(gus, f"purge {topic} on test")
        ask = gus.get_by_role("button", name="Ask to purge 1 topic")
        expect(ask).to_be_enabled()
        keep_screenshot(gus, "people-ask")
        ask.click()
        expect(gus.get_by_text("You asked for it")).to_be_visible()
        assert bench.journal.runs() == []

        ann = signed_in(browser, url, ANN, "approver")
        ann.goto(f"{url}/purge")
        ann.get_by_text("asks to purge").click()
        type_sentence(ann, f"purge {topic} on test")
        ann.get_by_role("button", name="Approve and purge").click()
        expect(ann.get_by_text("done · run")).to_be_visible()
        keep_screenshot(ann, "people-approved")
    (run,) = bench.journal.runs()
    assert (run.who, run.approved_by) == ("gus@example.org", ANN)
    view = bench.wait(run.run_id)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))
    bench.kill_worker(run.run_id)
    bench.close()
