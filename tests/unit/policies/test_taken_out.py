"""A policy that was taken out of the settings waits for a person, should it come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.core.errors import RefusedError
from dashboard.policies.checking import check
from dashboard.policies.service.switching import on_and_undefined, standing, switch_off
from dashboard.purge.journal.gate import refuse_off
from tests.unit.policies.service_room import ServiceRoom

TOPIC = "billing-sum-repartition"


@pytest.fixture
def room(tmp_path: Path) -> ServiceRoom:
    made = ServiceRoom(tmp_path)
    made.live.topic(TOPIC)
    consumed(made)
    return made


def consumed(room: ServiceRoom) -> None:
    room.live.produce(TOPIC, 10)
    room.live.commit("billing", TOPIC)


def without(room: ServiceRoom) -> str:
    """The settings file loses its policies; what it said."""
    file = room.write()
    text = file.read_text()
    file.write_text(text[: text.index("[policies")])
    return text


def test_it_is_held_when_the_file_comes_back(room: ServiceRoom) -> None:
    text = without(room)
    service = room.service()
    room.pass_time(service, 6)
    (room.folder / "lowwater.toml").write_text(text)
    room.pass_time(service, 120)

    state = room.journal.policy_states(room.live.id)["streams"]
    (policy,) = room.settings.policies
    assert (standing(policy, state), room.live.log_start(TOPIC)) == ("held", 0)
    assert room.status()["state"] == "held"
    assert "the settings did not define it" in room.status()["reason"]
    (entry,) = (e for e in room.journal.entries() if e.kind == "policy-held")
    assert (entry.body["policy"], entry.body["code"]) == ("streams", "POLICY_TAKEN_OUT")
    with pytest.raises(RefusedError) as refused:
        refuse_off(state, "streams", policy.definition_sha256, "prod")
    assert refused.value.code == "POLICY_TAKEN_OUT"
    (checked,) = check(service.site, room.live, [policy])
    assert str(checked.held_by).startswith("POLICY_TAKEN_OUT: at ")

    room.switch_on(policy)
    room.pass_time(service, 60)
    assert room.live.log_start(TOPIC) == 10


@pytest.mark.further
def test_a_file_that_is_wrong_holds_nothing_for_later(room: ServiceRoom) -> None:
    file = room.write()
    text = file.read_text()
    service = room.service()
    file.write_text("[policies")
    room.pass_time(service, 6)
    file.write_text(text)
    room.pass_time(service, 60)

    assert room.live.log_start(TOPIC) == 10


def test_it_is_undefined_here_where_the_settings_name_another_cluster(room: ServiceRoom) -> None:
    states = room.journal.policy_states(room.live.id)
    (policy,) = room.settings.policies
    for cluster, names in (
        (None, []),
        (room.store.name, []),
        (room.live.id, []),
        ("us", ["streams"]),
    ):
        found = on_and_undefined(states.values(), [replace(policy, cluster=cluster)], room.store)
        assert [state.name for state in found] == names


def test_it_is_switched_off_without_being_defined(room: ServiceRoom) -> None:
    states = room.journal.policy_states(room.live.id)
    assert [state.name for state in on_and_undefined(states.values(), (), room.store)] == [
        "streams"
    ]

    switch_off(
        room.settings, room.journal, room.store, "streams", who="eve", from_where="here",
        now=room.clock(),
    )  # fmt: skip
    states = room.journal.policy_states(room.live.id)
    assert not states["streams"].enabled
    assert on_and_undefined(states.values(), (), room.store) == ()
