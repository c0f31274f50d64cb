//! Campaigns: processes that are killed in the middle of effects, and the books compared afterwards.
//!
//! The default is a short run. `cargo xtask faults effects` runs them whole.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod aim;
mod calls;
mod child;
mod postgres_kills;
mod process;
mod provider;
mod random;
#[path = "../../../semel-redis/tests/server/mod.rs"]
mod redis;
mod relay_kills;
mod speed;
#[path = "../outbox/stage/mod.rs"]
mod stage;
mod step_kills;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|first| first == child::WORD) {
        return child::run(&words[2..]);
    }
    let arguments = Arguments::from_args();
    if !arguments.list {
        stage::begin();
    }
    let trials = vec![
        trial("a_relay_killed_at_every_statement_of_sqlite", relay_kills::sqlite),
        trial(
            "a_relay_killed_at_every_statement_of_postgres",
            relay_kills::postgres,
        ),
        trial("postgres_killed_under_load", postgres_kills::campaign),
        trial("workers_killed_at_step_boundaries_on_sqlite", step_kills::sqlite),
        trial("workers_killed_at_step_boundaries_on_redis", step_kills::redis),
        trial("the_relay_keeps_up", speed::campaign),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    stage::end();
    conclusion.exit_code()
}

/// A campaign says its figures, or panics with what was wrong.
fn trial<Campaign>(name: &str, campaign: fn(bool) -> Campaign) -> Trial
where
    Campaign: Future<Output = String> + 'static,
{
    Trial::test(name, move || {
        let full = std::env::var("SEMEL_CAMPAIGN").is_ok_and(|value| value == "full");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build();
        let told = runtime.map_err(Failed::from)?.block_on(campaign(full));
        eprintln!("{told}");
        Ok(())
    })
}
