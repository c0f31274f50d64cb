//! Workers as processes: stopped past their lease and woken, killed in the middle of things, idle, and told of work
//! by another process.
//!
//! The default is a short run. The whole campaign: `SEMEL_CAMPAIGN=full cargo test --release --test worker_processes
//! -- --nocapture --test-threads 1`.

mod child;
mod idle;
mod kills;
mod pickup;
mod place;
mod signals;
mod zombies;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == child::WORD) {
        return child::run(&arguments[2..]);
    }
    let trials = vec![
        trial("zombies_write_nothing", zombies::campaign),
        trial("killed_workers_leave_every_job_to_end_once", kills::campaign),
        trial("a_second_signal_cuts_the_grace_short", signals::campaign),
        trial("an_idle_worker_costs_next_to_nothing", idle::campaign),
        trial("work_of_another_process_is_picked_up_soon", pickup::campaign),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A campaign says its figures, or what was wrong.
fn trial<Campaign>(name: &str, campaign: fn(bool) -> Campaign) -> Trial
where
    Campaign: Future<Output = String> + 'static,
{
    Trial::test(name, move || {
        let full = std::env::var("SEMEL_CAMPAIGN").is_ok_and(|value| value == "full");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let told = runtime.map_err(Failed::from)?.block_on(campaign(full));
        eprintln!("{told}");
        Ok(())
    })
}
