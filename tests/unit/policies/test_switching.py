"""The switch of a policy: by its sentence and a name only, and only as it is defined then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.people.people import Actor, Who
from dashboard.policies.service.switching import is_for, standing, switch_off, switch_on
from dashboard.purge.journal.journal import Journal
from dashboard.settings.people import PeopleSettings
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.policies.examples import NOON, policy

SENTENCE = "switch on policy p on prod-eu as a125ce785629"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterStore:
    found = ClusterStore(Store(str(tmp_path)), "c1")
    found.write_connection("127.0.0.1:9", None, "prod-eu")
    return found


def switched_on(
    journal: Journal,
    cluster: ClusterStore,
    of: Policy,
    *,
    typed: str = SENTENCE,
    who: Who = "ada",
    settings: Settings | None = None,
) -> None:
    found = settings or Settings()
    switch_on(found, journal, cluster, of, typed=typed, who=who, from_where="here", now=NOON)


def test_on_by_its_sentence_and_off_by_a_name(journal: Journal, cluster: ClusterStore) -> None:
    assert standing(policy(), journal.policy_states("c1").get("p")) == "off"

    for who in ("ada", "eve"):  # who types the sentence confirms it, on or not
        switched_on(journal, cluster, policy(), who=who)
    state = journal.policy_states("c1")["p"]
    assert (standing(policy(), state), state.who) == ("on", "eve")

    for who in (" bob ", "eve"):
        switch_off(Settings(), journal, cluster, "p", who=who, from_where="here", now=NOON)
    state = journal.policy_states("c1")["p"]
    assert (standing(policy(), state), state.who) == ("off", "bob")
    assert [entry.body["typed"] for entry in journal.entries()] == [SENTENCE, SENTENCE, ""]


def test_off_in_a_journal_that_never_had_it_on_is_refused_and_names_the_journal(
    journal: Journal, cluster: ClusterStore, tmp_path: Path
) -> None:
    switched_on(journal, cluster, policy())
    for name in ("q", "P"):
        with pytest.raises(RefusedError) as refused:
            switch_off(Settings(), journal, cluster, name, who="ada", from_where="here", now=NOON)
        assert refused.value.code == "POLICY_NOT_ON"
        assert f"{tmp_path}/journal.sqlite" in refused.value.message
        assert "LOWWATER_STATE_DIR" in refused.value.next_step
    assert [*journal.policy_states("c1")] == ["p"]
    assert len(journal.entries()) == 1


def test_a_policy_that_is_defined_otherwise_since_is_not_on(
    journal: Journal, cluster: ClusterStore
) -> None:
    switched_on(journal, cluster, policy())
    state = journal.policy_states("c1")["p"]

    assert standing(policy("most_partitions_per_hour = 5"), state) == "changed"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"typed": SENTENCE.replace("-eu", "-us")}, "CONFIRMATION_MISMATCH"),
        ({"typed": SENTENCE[:-1]}, "CONFIRMATION_MISMATCH"),
        ({"typed": ""}, "CONFIRMATION_MISMATCH"),
        ({"who": "  "}, "WHO_MISSING"),
        ({"settings": replace(Settings(), read_only=True)}, "READ_ONLY"),
    ],
)
def test_refused_and_left_off(
    journal: Journal, cluster: ClusterStore, changes: dict[str, str], code: str
) -> None:
    with pytest.raises(LowwaterError) as error:
        switched_on(journal, cluster, policy(), **changes)  # type: ignore[arg-type]

    assert error.value.code == code
    assert journal.policy_states("c1") == {}


def test_an_approvers_switch_refuses_on_but_not_off(
    journal: Journal, cluster: ClusterStore
) -> None:
    switched_on(journal, cluster, policy())
    journal.set_read_only(True, "eve", NOON)
    with pytest.raises(LowwaterError, match="switched every purge off"):
        switched_on(journal, cluster, policy())

    switch_off(Settings(), journal, cluster, "p", who="ada", from_where="here", now=NOON)
    assert standing(policy(), journal.policy_states("c1")["p"]) == "off"


def test_with_a_second_person_only_an_approver_lets_it_waive_one_more_group(
    journal: Journal, cluster: ClusterStore
) -> None:
    two = PeopleSettings(operators=("bob",), approvers=("ann",), second_person=True)
    strict = replace(Settings(), people=two)
    ann, bob = (Actor(name, None, "local") for name in ("ann", "bob"))
    switched_on(journal, cluster, policy(), who=ann, settings=strict)
    wider = policy('waive = { "old" = "gone since May" }')
    assert standing(wider, journal.policy_states("c1")["p"]) == "changed"

    sentence = wider.confirmation("prod-eu")
    with pytest.raises(LowwaterError) as error:
        switched_on(journal, cluster, wider, typed=sentence, who=bob, settings=strict)
    assert error.value.code == "ROLE_TOO_LOW"
    assert standing(wider, journal.policy_states("c1")["p"]) == "changed"
    switched_on(journal, cluster, wider, typed=sentence, who=ann, settings=strict)
    assert standing(wider, journal.policy_states("c1")["p"]) == "on"


def test_a_policy_of_another_cluster_is_not_switched_on_here(
    journal: Journal, cluster: ClusterStore
) -> None:
    assert is_for(policy('cluster = "prod-eu"'), cluster)
    assert is_for(policy('cluster = "c1"'), cluster)
    elsewhere = policy('cluster = "test"')
    assert not is_for(elsewhere, cluster)
    with pytest.raises(LowwaterError, match="is for cluster test"):
        switched_on(journal, cluster, elsewhere)


def test_where_clusters_share_a_name_the_sentence_tells_them_apart(
    journal: Journal, cluster: ClusterStore
) -> None:
    ClusterStore(cluster.store, "c2").write_connection("h:2", None, cluster.name)
    with pytest.raises(LowwaterError) as error:
        switched_on(journal, cluster, policy(), typed=policy().confirmation(cluster.name))
    assert error.value.code == "CONFIRMATION_MISMATCH"
    switched_on(journal, cluster, policy(), typed=policy().confirmation(f"{cluster.name} (c1)"))
    assert standing(policy(), journal.policy_states("c1")["p"]) == "on"
