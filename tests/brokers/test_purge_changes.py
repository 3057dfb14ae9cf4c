"""A cluster or a plan file that changed after the preview: what was not shown is not purged."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until
from tests.brokers.purge_proof import Left, assert_proved, assert_untouched
from tests.brokers.workload import ANSWERS_WITHIN


def planned(bench: Bench) -> tuple[str, Plan]:
    """A topic of 100 records with a plan up to its group's commit, 60."""
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    return topic, bench.plan(topic)


def assert_refused(bench: Bench, view: RunView, topic: str, guard: str, *words: str) -> None:
    """Nothing was sent, the guard is named, and its words name what an operator looks for."""
    row = view.partitions[0]
    assert (view.exit_code, row.error, row.was_sent) == (3, guard, False)
    assert view.to_json()["error"]["code"] == "REFUSED"
    for word in words:
        assert word in str(row.message)
        assert word in view.to_json()["error"]["message"]
    assert_proved(bench, view, "refused", Left(topic, 0, "not_done", range(100)))


def test_a_group_born_below_the_target_after_the_plan_refuses(bench: Bench) -> None:
    topic, plan = planned(bench)
    bench.commit("purge-born-later", topic, {0: 10})
    view = bench.apply(plan)
    assert_refused(bench, view, topic, "unread-by-group", "purge-born-later", "10", "50 records")


def test_a_group_reset_backwards_after_the_plan_refuses(bench: Bench) -> None:
    topic, plan = planned(bench)
    assert plan.partitions[0].groups[0].committed_offset == 60
    bench.commit("purge-g", topic, {0: 59})
    view = bench.apply(plan)
    assert_refused(bench, view, topic, "unread-by-group", "purge-g", "59", "1 records")


@pytest.mark.further
def test_an_accepted_loss_is_no_more_than_what_the_plan_showed(bench: Bench) -> None:
    topic, _ = planned(bench)
    lifted = ("unread-by-group:purge-g=its records are of no use",)
    first = bench.plan(topic, to="offset:80", override=lifted)
    shown = preview(first, utc_now()).groups[0]
    assert (shown.loss_if_earliest, shown.loss_if_latest) == (20, 40)
    bench.commit("purge-g", topic, {0: 50})  # reset backwards: more would be lost
    assert_refused(bench, bench.apply(first), topic, "unread-by-group", "moved back")
    view = bench.apply(bench.plan(topic, to="offset:80", override=lifted))
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(80, 100)))


def test_a_loss_accepted_on_one_topic_is_not_accepted_on_another(bench: Bench) -> None:
    topic, _ = planned(bench)
    other = bench.topic(100)
    bench.commit("purge-h", other, {0: 100})
    lifted = ("unread-by-group:purge-g=its records are of no use",)
    plan = bench.plan(topic, other, to="offset:80", override=lifted)
    assert [p.free for p in plan.partitions] == [True, True]
    bench.commit("purge-g", other, {0: 5})  # its first commit there, after the plan
    view = bench.apply(plan)
    rows = {row.topic: row for row in view.partitions}
    assert (rows[other].error, rows[other].was_sent) == ("unread-by-group", False)
    assert f"lifted it elsewhere, not on {other}-0" in str(rows[other].message)
    sent, kept = Left(topic, 0, "done", range(80, 100)), Left(other, 0, "not_done", range(100))
    assert_proved(bench, view, "partial", sent, kept)


def test_a_topic_recreated_after_the_plan_refuses(bench: Bench) -> None:
    topic, plan = planned(bench)
    bench.admin.delete_topics([topic])[topic].result(ANSWERS_WITHIN)
    time.sleep(0.5)
    bench.topic(100, name=topic)
    assert_refused(bench, bench.apply(plan), topic, "topic-id-changed", topic)


def test_what_was_read_of_a_topic_recreated_before_the_plan_counts_for_nothing(
    bench: Bench,
) -> None:
    topic, late = bench.topic(100), f"purge-late-{uuid.uuid4().hex[:8]}"
    bench.commit(late, topic, {0: 90})
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(live, bench.store, now=utc_now, progress=print)
        bench.admin.delete_topics([topic])[topic].result(20)
        time.sleep(0.5)
        bench.topic(100, name=topic)
        # Its coordinator drops the commits a moment after the topic is gone.
        until(lambda: all(o.group_id != late for o in live.groups(()).offsets), 30)

    nobody = bench.plan(topic).partitions[0]
    assert nobody.target_offset is None
    assert [g.name for g in nobody.guards] == ["no-committed-offset"]

    bench.commit("purge-g", topic, {0: 60})
    beside = bench.plan(topic).partitions[0]
    assert (beside.target_offset, [g.name for g in beside.guards]) == (60, ["no-committed-offset"])
    assert f"last known offset of group {late} is not of this log" in beside.guards[0].reason

    waived = bench.plan(topic, waive=(f"{late}=it read the old topic alone",))
    assert_proved(bench, bench.apply(waived), "done", Left(topic, 0, "done", range(60, 100)))


def test_a_topic_deleted_after_the_plan_refuses(bench: Bench) -> None:
    topic, plan = planned(bench)
    bench.admin.delete_topics([topic])[topic].result(ANSWERS_WITHIN)
    # Brokers hear of it after the controller: until then its commits alone are missing.
    until(lambda: topic not in bench.admin.list_topics(timeout=ANSWERS_WITHIN).topics, 30)
    time.sleep(0.5)
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "topic-id-changed")
    assert "deleted" in str(view.partitions[0].message)
    assert bench.journal.verify().ok


def test_retention_that_passed_the_target_meanwhile_leaves_nothing_to_do(bench: Bench) -> None:
    topic = bench.topic(3000)
    bench.commit("purge-g", topic, {0: 600})
    plan = bench.plan(topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for name, value in (("retention.bytes", "1"), ("file.delete.delay.ms", "1000")):
        resource.add_incremental_config(
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        )
    bench.admin.incremental_alter_configs([resource])[resource].result(ANSWERS_WITHIN)
    until(lambda: (bench.log_start(topic) or 0) > 600)
    start = bench.log_start(topic)
    assert start is not None

    view = bench.apply(plan, watch=True)
    row = view.partitions[0]
    assert (row.was_sent, row.leader_log_start_offset, row.error) == (False, start, None)
    until(lambda: bench.journal.run(view.run.run_id).run.receipt_final)
    receipt = bench.journal.run(view.run.run_id).run.receipt
    assert receipt is not None
    assert (receipt.predicted_bytes, receipt.freed_bytes) == (0, 0)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(start, 3000)))


def test_a_plan_edited_by_hand_is_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, plan = planned(bench)
    text = plan.to_json_text().replace('"target_offset":60', '"target_offset":90')
    code, error = apply_file(bench, tmp_path, text, plan, capsys)
    assert (code, error["code"]) == (3, "PLAN_EDITED")
    assert "Plan again" in error["next"]
    assert_untouched(bench, topic, 100)


def test_a_plan_edited_and_hashed_again_after_its_preview_is_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, plan = planned(bench)
    edited = replace(plan, partitions=(replace(plan.partitions[0], target_offset=50),))
    code, error = apply_file(bench, tmp_path, edited.to_json_text(), plan, capsys)
    assert (code, error["code"]) == (3, "PLAN_EDITED")
    with pytest.raises(RefusedError) as refused:  # what the page sends: the sha256 it showed
        bench.enqueue(edited, sha256=plan.sha256)
    assert refused.value.code == "PLAN_EDITED"
    assert_untouched(bench, topic, 100)


def test_a_plan_forged_past_a_groups_offset_is_refused_by_what_is_read_live(bench: Bench) -> None:
    topic, plan = planned(bench)
    forged = replace(plan.partitions[0], target_offset=90, groups=(), guards=())
    view = bench.apply(replace(plan, partitions=(forged,)))
    assert_refused(bench, view, topic, "unread-by-group", "purge-g", "30 records")


def apply_file(
    bench: Bench,
    folder: Path,
    text: str,
    previewed: Plan,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, dict[str, str]]:
    """`lowwater apply` of a file with the sha256 that was previewed: exit code and error."""
    file = folder / "plan.json"
    file.write_text(text)
    words = ["apply", str(file), "--mode", "wait-all", "--confirm", previewed.confirmation]
    words += ["--sha256", previewed.sha256, "--data", bench.settings.data, "--json"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
        patched.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
        code = main(words)
    return code, json.loads(capsys.readouterr().out)["error"]
