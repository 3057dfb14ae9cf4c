"""The mode explains itself from live data; it recommends in words and never switches by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard.core.errors import ClusterError
from dashboard.purge.forecast import forecast as forecasts
from dashboard.purge.forecast.forecast import Forecast, judge
from dashboard.purge.forecast.reading import Reading
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import PurgeSettings
from tests.pages.conftest import Open, read, said
from tests.pages.purges import SENTENCE, Requests, confirmation
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.forecasts import EVEN, KEY, reading, state

BEHIND = reading({1: 1000, 2: 400, 3: 1000}, {1: 1000, 2: 400, 3: 1000},
                 partition=state(isr=(1, 3)))  # fmt: skip
SINCE = {KEY: [(NOW - timedelta(seconds=39), 400)]}


@pytest.fixture
def seen(requests: Requests, monkeypatch: pytest.MonkeyPatch) -> list[Reading | ClusterError]:
    """What the cluster shows, look after look; the last one stays."""
    del requests
    shown: list[Reading | ClusterError] = [reading(EVEN)]

    def foresee(*_: object) -> Forecast:
        now = shown.pop(0) if len(shown) > 1 else shown[0]
        if isinstance(now, ClusterError):
            raise now
        return judge(now, SINCE, PurgeSettings())

    monkeypatch.setattr(forecasts, "forecast", foresee)
    return shown


def captions(app: object, key: str = "plan-mode") -> list[str]:
    return list(map(read, app.radio(key=key).proto.captions))  # type: ignore[attr-defined]


def test_each_mode_has_its_time_and_its_risk(open_page: Open, seen: list[object]) -> None:
    app = open_page("purge", topics="orders")

    wait_all, verified = captions(app)
    (native,) = captions(app, "plan-mode-refused")
    assert wait_all.startswith("1 partition in at most about 0.5 s. The safest")
    assert native.startswith("Broker 1 speaks v2: its partitions would be refused with UNSUPPORTED")
    assert "each leader is read back" in verified
    assert "can bring records back" in native
    assert "The same risk as leader only." in verified
    assert "Every live replica keeps up" in said(app)


@pytest.mark.further
def test_a_mode_that_every_leader_refuses_cannot_be_chosen(
    open_page: Open, seen: list[object]
) -> None:
    seen[:] = [reading(EVEN, versions={1: 3, 2: 3, 3: 3}), reading(EVEN)]
    app = open_page("purge", topics="orders")
    assert len(captions(app)) == 3
    app.radio(key="plan-mode").set_value("leader-only").run()

    app.button(key="forecast-refresh").click().run()
    assert app.radio(key="plan-mode-refused").disabled
    assert app.radio(key="plan-mode").options == ["Wait for all replicas", "Leader only, verified"]
    assert app.radio(key="plan-mode").value == "wait-all"


def test_a_follower_behind_is_named_and_wait_all_stays_chosen(
    open_page: Open, seen: list[object]
) -> None:
    seen[:] = [BEHIND]
    app = open_page("purge", topics="orders")
    text = said(app)

    assert "Broker 2 is 41 s behind (600 records); waiting for all replicas would time out" in text
    assert "is out of sync on 1 partition" in text
    assert app.radio(key="plan-mode").value == "wait-all"


def test_refresh_asks_again_and_a_click_elsewhere_does_not(
    open_page: Open, seen: list[object]
) -> None:
    seen[:] = [BEHIND, reading(EVEN)]
    app = open_page("purge", topics="orders")
    app.radio(key="plan-mode").set_value("leader-only-verified").run()
    assert "would time out" in said(app)

    app.button(key="forecast-refresh").click().run()
    assert "Every live replica keeps up" in said(app)
    assert app.radio(key="plan-mode").value == "leader-only-verified"


def test_without_a_forecast_the_modes_can_still_be_chosen(
    open_page: Open, seen: list[object]
) -> None:
    seen[:] = [ClusterError("no broker of h:1 answered", "Check the bootstrap address.")]
    app = open_page("purge", topics="orders")

    assert "How long it would take is not known: no broker of h:1 answered" in said(app)
    assert len(captions(app)) == 3


@pytest.mark.further_but("wait-all-leader-only-verified")
@pytest.mark.parametrize(
    ("shown", "then"),
    [("leader-only-verified", "wait-all"), ("wait-all", "leader-only-verified")],
)
def test_a_click_never_sends_another_mode_than_the_one_that_is_chosen(
    open_page: Open, requests: Requests, journal: Journal, shown: str, then: str
) -> None:
    """Streamlit makes one run of a choice and a click that come while the page is busy."""
    app = open_page("purge", topics="orders")
    app.radio(key="plan-mode").set_value(shown).run()
    confirmation(app)(SENTENCE)
    app.radio(key="plan-mode").set_value(then)
    app.button(key="queue-run").click().run()
    assert journal.runs() == []
    assert "CHOICE_CHANGED" in said(app) and "nothing was queued" in said(app)

    app.button(key="queue-run").click().run()
    assert [run.mode for run in journal.runs()] == [then]


def test_a_click_sends_no_plan_that_was_made_anew_meanwhile(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="refine").click()
    app.button(key="queue-run").click().run()
    assert len(requests) == 2
    assert journal.runs() == []
    assert "was made anew while the page was busy" in said(app)


def test_a_sentence_that_was_changed_before_the_click_queues_nothing(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    next(f for f in app.text_input if f.label == "Confirmation").set_value("no")
    app.button(key="queue-run").click().run()
    assert journal.runs() == []
    assert "CONFIRMATION_MISMATCH" in said(app)


def test_the_journal_keeps_the_name_that_stands_there_at_the_click(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.text_input(key="confirm-who").set_value(" ")
    app.button(key="queue-run").click().run()
    assert journal.runs() == []
    assert "WHO_MISSING" in said(app)

    app.text_input(key="confirm-who").set_value("bob").run()
    app.text_input(key="confirm-who").set_value("carol ")
    app.button(key="queue-run").click().run()
    assert [run.who for run in journal.runs()] == ["carol"]
