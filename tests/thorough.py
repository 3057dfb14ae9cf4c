"""What only `make test-all` runs: what costs most and another test holds as well.

`make test` holds each rule of the product, `make test-further` what else is worth a run of each
change (`tests/levels.py`). What follows are further variants on real brokers, Spark and browsers,
which `make test-all` runs on every Kafka version. Whoever changes what stands here runs it by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

_KILLED = "test_a_worker_killed_between_intent_and_journal_is_followed_by_one_that_reads_first"

# Who holds the rule in one of those -> files, tests, or single variants of one.
BESIDE: dict[str, tuple[str, ...]] = {
    "another variant of the same test": (
        "tests/unit/test_forked_workers.py::"
        "test_it_leads_a_session_stands_where_we_do_and_takes_its_run",
        "tests/brokers/test_records.py::test_what_compaction_took_leaves_holes_and_no_error",
        "tests/brokers/test_move_waived.py::"
        "test_a_living_group_is_refused_at_planning_and_at_the_move[classic]",
        "tests/brokers/test_move_waived.py::"
        "test_a_worker_killed_around_the_move_is_followed_by_one_that_reads_first[before-sending]",
        "tests/brokers/test_purge_workers.py::"
        "test_the_rest_follows_a_canary_whose_worker_was_killed_once_it_is_done[before-sending]",
        f"tests/brokers/test_purge_workers.py::{_KILLED}[before-sending-leader-only-verified]",
        f"tests/brokers/test_purge_workers.py::{_KILLED}[after-the-answer-wait-all]",
        "tests/spark/test_in_buckets.py::"
        "test_findings_are_equal_in_any_number_of_buckets[buckets0]",
        "tests/spark/test_in_buckets.py::test_so_are_those_of_topics_made_anew",
        "tests/e2e/test_links_in_browser.py::"
        "test_a_link_is_underlined_and_has_a_focus_mark[dark]",
        "tests/e2e/test_links_in_browser.py::test_newer_data_does_not_close_an_open_report",
        "tests/e2e/test_links_in_browser.py::test_show_newer_data_does_not_move_the_page",
        "tests/simulation/test_simulation.py::"
        "test_no_fault_loses_a_wanted_record_or_makes_a_run_tell_an_untruth[50]",
        "tests/spark/test_curves.py::test_a_full_analysis_gives_the_tables_that_were_carried_on",
        "tests/pages/test_numbers_agree.py::test_growth_of_topics_and_what_is_not_kafkas_add_up_to_"
        "the_disks[20,000 partitions]",
        "tests/pages/test_numbers_agree.py::test_the_pages_of_a_group_and_of_its_topic_say_the_same"
        "[20,000 partitions-gone]",
        "tests/pages/test_numbers_agree.py::test_the_pages_of_a_group_and_of_its_topic_say_the_same"
        "[20,000 partitions-slow]",
        "tests/pages/test_numbers_agree.py::test_what_a_group_holds_back_and_what_its_waiver_adds"
        "[20,000 partitions-gone]",
        "tests/pages/test_numbers_agree.py::test_what_a_group_holds_back_and_what_its_waiver_adds"
        "[20,000 partitions-slow]",
        "tests/pages/test_numbers_agree.py::test_what_guards_hold[20,000 partitions]",
        "tests/pages/test_numbers_agree.py::test_when_a_disk_is_full[20,000 partitions]",
        "tests/spark/test_in_buckets.py::"
        "test_so_are_slow_followers_orphans_and_what_lies_on_disks",
        "tests/spark/test_memory_limits.py::test_a_task_that_has_too_little"
        "[killed-a task's Python was killed]",
        "tests/unit/analytics/test_memory_of_groups.py::"
        "test_a_topic_is_not_forgotten_because_no_snapshot_is_older_than_its_absence[True]",
        "tests/unit/analytics/test_rolled_back.py::"
        "test_what_only_an_older_releases_analysis_remembers_is_not_forgotten[without0-True]",
        "tests/unit/analytics/test_rolled_back.py::"
        "test_what_only_an_older_releases_analysis_remembers_is_not_forgotten[without1-False]",
        "tests/unit/analytics/test_tasks.py::test_curves_in_more_buckets_are_read_file_by_file[1]",
        "tests/unit/analytics/test_tasks.py::test_curves_in_more_buckets_are_read_file_by_file[16]",
        "tests/unit/purge/test_suspicions_end.py::"
        "test_snapshots_of_each_five_minutes_end_it_after_a_day_without_a_restart[3]",
        "tests/unit/purge/test_unseen_readers.py::test_a_group_that_catches_up_on_a_backlog_is_no_"
        "cover_for_who_was_suspected[2.1-True]",
        "tests/unit/purge/test_unseen_readers.py::test_a_group_that_catches_up_on_a_backlog_is_no_"
        "cover_for_who_was_suspected[4-True]",
        "tests/unit/analytics/test_unseen.py::"
        "test_tasks_find_in_any_number_of_buckets_what_a_plan_reads[buckets0]",
        "tests/unit/analytics/test_rolled_back.py::"
        "test_what_only_an_older_releases_analysis_remembers_is_not_forgotten[without0-False]",
        "tests/unit/purge/test_journal_archive.py::"
        "test_killed_before_any_statement_nothing_is_lost[1]",
        "tests/unit/purge/test_journal_archive.py::"
        "test_killed_before_any_statement_nothing_is_lost[2]",
        "tests/unit/purge/test_journal_archive.py::"
        "test_killed_before_any_statement_nothing_is_lost[3]",
        "tests/unit/purge/test_suspicions_end.py::"
        "test_snapshots_of_each_five_minutes_end_it_after_a_day_without_a_restart[None]",
        "tests/unit/purge/test_suspicions_end.py::"
        "test_a_restart_may_have_hidden_who_read_within_the_hour_before_it",
        "tests/unit/purge/test_unseen_readers.py::"
        "test_a_group_that_catches_up_on_a_backlog_is_no_cover_for_who_was_suspected[0-False]",
        "tests/unit/purge/test_unseen_readers.py::"
        "test_a_group_that_catches_up_on_a_backlog_is_no_cover_for_who_was_suspected[1-False]",
        "tests/unit/purge/test_unseen_readers.py::"
        "test_an_offset_that_is_seen_for_the_first_time_ends_no_suspicion[not told]",
        "tests/unit/policies/test_patience.py::"
        "test_a_refused_application_is_left_alone_for_longer_each_time_and_no_other",
        "tests/brokers/test_purge_workers.py::"
        "test_the_rest_follows_a_canary_whose_worker_was_killed_once_it_is_done[after-the-answer]",
        "tests/brokers/test_purge_workers.py::"
        "test_a_worker_killed_between_intent_and_journal_is_followed_by_one_that_reads_"
        "first[after-the-answer-leader-only-verified]",
        "tests/brokers/test_move_waived.py::"
        "test_a_living_group_is_refused_at_planning_and_at_the_move[consumer]",
        "tests/brokers/test_move_waived.py::"
        "test_a_worker_killed_around_the_move_is_followed_by_one_that_reads_"
        "first[after-the-answer]",
        "tests/brokers/test_low_watermark.py::"
        "test_of_a_stopped_follower_nothing_is_told_and_nobody_waits",
        "tests/brokers/test_preview_purge.py::"
        "test_a_hanging_follower_neither_delays_the_answer_nor_fills_the_purgatory",
        "tests/brokers/test_records.py::test_a_cluster_without_groups_gets_no_offsets_topic",
        "tests/pages/test_numbers_agree.py::test_what_can_be_given_back[20,000 partitions]",
        "tests/pages/test_numbers_agree.py::"
        "test_a_disk_is_as_full_as_fast_and_as_easily_emptied_wherever_it_"
        "stands[20,000 partitions]",
        "tests/simulation/test_simulation.py::"
        "test_no_fault_loses_a_wanted_record_or_makes_a_run_tell_an_untruth[25]",
        "tests/simulation/test_simulation.py::"
        "test_no_fault_loses_a_wanted_record_or_makes_a_run_tell_an_untruth[75]",
        "tests/spark/test_in_buckets.py::test_what_one_bucket_knows_counts_in_every_other",
    ),
    "the simulation plays it": (
        "tests/brokers/test_group_patterns.py::"
        "test_a_pattern_shows_while_the_coordinator_has_not_resolved_it_for_a_new_topic",
        "tests/brokers/test_move_waived.py::test_a_group_that_moved_back_after_the_plan_stays_where_it_is",
        "tests/brokers/test_preview_reverted.py",
        "tests/brokers/test_purge_changes.py::test_a_group_reset_backwards_after_the_plan_refuses",
        "tests/brokers/test_purge_changes.py::"
        "test_what_was_read_of_a_topic_recreated_before_the_plan_counts_for_nothing",
        "tests/brokers/test_purge_changes.py::"
        "test_retention_that_passed_the_target_meanwhile_leaves_nothing_to_do",
        "tests/brokers/test_rights_differ.py",
        "tests/brokers/test_wanted_records.py::"
        "test_a_log_that_lost_its_end_keeps_what_it_grew_past_an_old_commit",
        "tests/brokers/test_kept_offsets.py::"
        "test_an_offset_of_an_earlier_topic_holds_its_group_back",
        "tests/brokers/test_purge_faults.py::"
        "test_a_leader_that_moves_while_wait_all_hangs_is_read_before_anything_is_sent_again",
    ),
    "unit tests on fakes hold the rule, other tests the real thing's words": (
        "tests/brokers/test_cli.py::test_a_group_born_after_the_plan_refuses_the_run",
        "tests/brokers/test_cli.py::test_ctrl_c_while_waiting_leaves_the_worker_to_its_work",
        "tests/brokers/test_cli.py::"
        "test_an_offsets_file_keeps_guarded_partitions_and_sends_the_others",
        "tests/brokers/test_forecast.py::test_a_healthy_cluster_answers_at_once_and_tells_its_versions",
        "tests/brokers/test_guards.py::test_a_partition_that_moves_between_brokers",
        "tests/brokers/test_move_waived.py::"
        "test_a_coordinator_that_hangs_got_nothing_and_is_asked_again",
        "tests/brokers/test_policies.py::"
        "test_a_policy_that_ends_while_its_run_is_half_sent_sends_nothing_more",
        "tests/brokers/test_policies_reread.py::"
        "test_a_file_that_is_wrong_by_now_stops_purging_and_says_why",
        "tests/brokers/test_preview_purge.py::"
        "test_delete_records_leader_only_does_what_it_can_and_fails_loudly_for_the_rest",
        "tests/brokers/test_purge.py::test_a_run_is_cancelled_before_anything_is_sent",
        "tests/brokers/test_purge.py::test_the_read_only_switch_stops_every_purge",
        "tests/brokers/test_purge.py::test_the_same_click_twice_is_one_run",
        "tests/brokers/test_purge_changes.py::"
        "test_a_loss_accepted_on_one_topic_is_not_accepted_on_another",
        "tests/brokers/test_purge_changes.py::test_a_topic_deleted_after_the_plan_refuses",
        "tests/brokers/test_purge_full_disk.py::"
        "test_an_operator_on_a_full_disk_is_told_and_can_still_read",
        "tests/brokers/test_purge_rights.py::test_a_move_needs_read_on_the_group_and_the_topic",
        "tests/brokers/test_purge_targets.py::test_an_open_transaction_below_the_target_blocks_it",
        "tests/brokers/test_streams_groups.py::"
        "test_a_source_topic_is_held_back_before_the_applications_first_commit_on_it",
        "tests/brokers/test_sweep.py::test_a_wrong_cluster_and_a_copy_of_a_disk_are_refused",
        "tests/brokers/test_targets_more.py::test_the_newest_hours_stay",
        "tests/brokers/test_group_patterns.py::"
        "test_what_a_classic_pattern_matches_shows_when_its_client_has_refreshed",
        "tests/brokers/test_policies_reread.py::test_another_journal_takes_a_restart",
        "tests/brokers/test_purge_full_disk.py::"
        "test_full_between_answer_and_journal_the_next_worker_reads_and_sends_nothing",
        "tests/brokers/test_purge_full_disk.py::"
        "test_a_worker_that_starts_on_a_full_disk_says_so_and_the_run_waits",
        "tests/brokers/test_remote_storage.py",
        "tests/brokers/test_sweep.py::test_a_live_folder_with_a_forged_verdict_stays",
        "tests/spark/test_orphan_truth.py",
        "tests/spark/test_orphans.py::"
        "test_describe_log_dirs_alone_shows_orphans_without_an_inventory",
        "tests/spark/test_orphans.py::test_the_same_old_scan_is_no_second_look",
        "tests/spark/test_orphans.py::"
        "test_what_a_living_partition_is_past_reaches_the_verdict_of_its_folder",
        "tests/brokers/test_streams_groups.py::"
        "test_tables_are_whole_after_a_purge_and_a_start_without_state",
        "tests/brokers/test_streams_purges.py::"
        "test_an_applications_purges_are_counted_and_ours_beside_them_keep_their_interval",
        "tests/brokers/test_policies.py::test_as_often_as_commits_is_a_tenth_of_a_second_at_least",
        "tests/brokers/test_broker_metrics.py",
        "tests/brokers/test_collect.py::test_any_suspended_broker_costs_its_own_rows_and_its_time",
        "tests/brokers/test_followers.py",
        "tests/brokers/test_forecast.py::"
        "test_a_run_keeps_how_long_its_requests_took_beside_the_forecast",
        "tests/brokers/test_orphans_service.py",
        "tests/brokers/test_policies_reread.py::test_what_is_written_counts_at_the_next_look",
        "tests/brokers/test_purge_log_dir_move.py",
        "tests/brokers/test_share_groups.py",
        "tests/brokers/test_sweep.py::test_the_script_sweeps_a_real_disk_and_its_line_undoes_it",
        "tests/spark/test_analysis.py::test_a_group_that_is_gone_or_moves_is_remembered",
        "tests/spark/test_analysis.py::"
        "test_an_application_is_remembered_as_long_as_its_offsets_or_a_snapshot_are",
        "tests/spark/test_in_buckets.py::test_a_task_that_is_killed_after_it_wrote_leaves_nothing",
        "tests/spark/test_orphans.py::test_an_inventory_explains_the_disk",
        "tests/spark/test_unseen.py",
    ),
    "tests of the pages hold it without a browser": (
        "tests/e2e/test_clusters_in_browser.py::"
        "test_what_was_chosen_for_one_cluster_is_not_chosen_in_another",
        "tests/e2e/test_declaring_in_browser.py",
        "tests/e2e/test_outage_in_browser.py",
        "tests/e2e/test_people_in_browser.py",
        "tests/e2e/test_picking_in_browser.py::test_many_topics_are_counted_and_named",
        "tests/e2e/test_picking_in_browser.py::test_nothing_offers_all_matches_at_once",
        "tests/e2e/test_policies_in_browser.py",
        "tests/e2e/test_purge_in_browser.py::"
        "test_leader_only_verified_is_chosen_by_what_the_brokers_say",
        "tests/e2e/test_two_operators_in_browser.py",
        "tests/e2e/test_clusters_in_browser.py::"
        "test_an_address_without_a_cluster_asks_which_and_leads_on",
        "tests/e2e/test_clusters_in_browser.py::test_no_page_is_wider_than_a_narrow_screen",
        "tests/e2e/test_clusters_in_browser.py::"
        "test_the_fleet_leads_to_each_cluster_and_breaks_no_rule",
        "tests/e2e/test_clusters_in_browser.py::"
        "test_the_row_of_pages_keeps_the_cluster_and_back_is_one_step",
        "tests/e2e/test_links_in_browser.py::test_a_button_copies_the_lines_beside_it",
        "tests/e2e/test_links_in_browser.py::test_a_page_that_follows_keeps_its_place",
        "tests/e2e/test_links_in_browser.py::"
        "test_a_slash_leads_to_the_search_from_anywhere_but_another_field",
        "tests/e2e/test_stopping_in_browser.py",
    ),
    "make bench measures it": ("tests/e2e/test_first_visit.py",),
    "it is beside the product: accidents of the demo, the wheel, kernels of notebooks": (
        "tests/brokers/test_demo.py::"
        "test_what_is_broken_is_seen_on_the_cluster_and_whole_again_when_healed",
        "tests/brokers/test_demo.py::test_a_killed_supervisor_leaves_no_process_and_no_folder",
        "tests/brokers/test_demo.py::"
        "test_what_even_the_guardian_could_not_clear_goes_with_the_next_down",
        "tests/brokers/test_local_cluster.py::test_a_stopped_broker_leaves_and_comes_back_on_its_port",
        "tests/brokers/test_local_cluster.py::test_scram_users_are_made_after_the_start",
        "tests/brokers/test_local_cluster.py::test_a_wrong_secret_is_refused_and_the_right_one_is_not",
        "tests/brokers/test_local_cluster.py::"
        "test_class_data_that_java_cannot_read_or_find_stops_nothing",
        "tests/e2e/test_wheel.py",
        "tests/unit/test_supply_chain.py::test_the_wheel_is_built_twice_the_same",
        "tests/spark/test_notebooks.py::test_it_runs_headless_in_a_kernel_of_its_own",
        "tests/brokers/test_local_cluster.py::test_tls_wants_the_authority_that_signed_the_broker",
        "tests/spark/test_notebooks.py::"
        "test_findings_without_traffic_and_idle_topics_are_shown_without",
    ),
}  # fmt: skip


def unknown(tests: Iterable[str]) -> list[str]:
    """Names that none of the tests bears: whoever renames one renames it here as well."""
    there = [*tests]
    return [n for n in chain.from_iterable(BESIDE.values()) if not any(_holds(n, t) for t in there)]


def is_thorough(test: str) -> bool:
    """Whether only `make test-all` runs a test, by its node id relative to the repository."""
    function = test.split("[", 1)[0]
    return not _NAMES.isdisjoint((test, function, function.split("::", 1)[0]))


_NAMES = frozenset(chain.from_iterable(BESIDE.values()))


def _holds(name: str, test: str) -> bool:
    return test == name or test.startswith((f"{name}::", f"{name}["))
