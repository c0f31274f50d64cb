//! Outbox and inbox, each case on SQLite and on a real Postgres server that is private to the tests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod events;
mod examples;
mod hostile;
mod inbox;
mod looking;
mod order;
mod stage;
mod tls;

use std::future::Future;
use std::pin::Pin;

use libtest_mimic::{Arguments, Trial};
use stage::Kind;

type Case = fn(Kind) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($module:ident::$name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), (|kind| Box::pin($module::$name(kind))) as Case)),*]
    };
}

fn main() {
    let cases = cases![
        events::business_and_event_are_one_transaction,
        events::an_event_becomes_one_job_with_its_id_as_key,
        events::an_event_that_was_sent_before_gives_the_same_job,
        events::the_insert_that_is_documented_works_from_other_programs,
        events::what_makes_no_sense_is_refused_before_anything_is_done,
        events::a_relay_hears_of_an_event_at_once,
        events::while_the_store_does_not_answer_nothing_is_marked,
        order::several_relays_keep_the_order_of_each_partition,
        order::no_event_is_taken_by_two_relays,
        order::a_failing_event_holds_back_its_own_partition_only,
        order::an_event_that_keeps_failing_is_parked_and_the_others_go_on,
        order::poison_is_parked_at_once,
        order::a_thousand_stuck_events_do_not_block_the_relay,
        order::a_closed_task_is_waited_for_however_long,
        order::one_that_is_refused_holds_back_those_behind_it_also_one_by_one,
        order::a_damaged_record_holds_up_its_partition_only,
        order::a_relay_that_stands_still_holds_up_its_partition_only,
        order::what_a_relay_has_that_stands_still_is_taken_by_another,
        order::a_relay_that_waits_for_the_store_keeps_its_events,
        hostile::a_row_that_makes_no_sense_is_parked_and_stops_nobody,
        hostile::a_clock_that_was_set_back_holds_nothing_up,
        hostile::statistics_of_a_time_when_nothing_waited_slow_nobody,
        hostile::what_is_written_between_looking_and_waiting_is_heard,
        hostile::opening_an_outbox_waits_for_nobody,
        hostile::what_is_missing_of_the_tables_is_made,
        looking::status_tells_the_lag,
        looking::pruning_touches_only_what_was_sent,
        looking::an_audit_finds_rows_without_an_event_and_a_rebuild_writes_them,
        looking::a_rebuild_does_not_repeat_what_was_pruned,
        inbox::effect_and_record_commit_together,
        inbox::an_effect_that_fails_leaves_nothing_even_where_the_caller_commits,
        inbox::an_effect_is_carried_out_once_and_its_output_kept,
        inbox::an_older_delivery_changes_nothing,
        inbox::of_many_deliveries_at_once_one_carries_it_out,
        inbox::a_job_has_its_effect_once_through_retry_and_replay,
        examples::payment_service,
    ];
    let arguments = Arguments::from_args();
    if !arguments.list {
        stage::begin();
    }
    let trials = cases.iter().flat_map(|(name, case)| {
        [Kind::Sqlite, Kind::Postgres].map(|kind| {
            let (case, word) = (*case, format!("{kind:?}").to_lowercase());
            Trial::test(format!("{word}::{name}"), move || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(4)
                    .enable_all()
                    .build()?;
                runtime.block_on(case(kind));
                Ok(())
            })
        })
    });
    let encrypted = Trial::test(
        "postgres::tls::a_connection_is_encrypted_and_the_server_proves_itself",
        || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(tls::a_connection_is_encrypted_and_the_server_proves_itself());
            Ok(())
        },
    );
    let conclusion = libtest_mimic::run(&arguments, trials.chain([encrypted]).collect());
    stage::end();
    conclusion.exit();
}
