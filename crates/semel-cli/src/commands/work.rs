//! `semel work`

pub mod child;
mod drain;
pub mod exec;
mod tell;

use std::sync::Arc;

use clap::Args;
use semel::{Client, Worker};
use semel_core::ids::Name;
use semel_core::limits;

use crate::commands::work::exec::Exec;
use crate::commands::work::tell::Teller;
use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::plural;
use crate::session::Session;
use crate::target;

/// Arguments of `semel work`.
#[derive(Debug, Args)]
#[command(after_help = "\
CMD is run by sh for each job: the input on stdin, the output on stdout (JSON,
else taken as text), lines on stderr go to the job's log. Its environment has
SEMEL_JOB_ID, SEMEL_ATTEMPT, SEMEL_MAX_ATTEMPTS, SEMEL_KEY, SEMEL_TASK,
SEMEL_QUEUE, SEMEL_ORIGIN and SEMEL_STORE. How it exits is how the job fares:

    0   complete
   75   retry later, at no cost (--retry-after)
   65   fail now, whatever attempts are left
  else  an error: retried with backoff until the attempts are used up

A job that is cancelled gets SIGTERM. The worker itself stops in order on
SIGTERM or Ctrl-C: running jobs may finish within the grace, the rest is handed
back; a second signal cuts that short.

Example:
  semel work --task thumbnail --exec './thumbnail.sh' --concurrency 4")]
pub struct WorkArgs {
    /// The kind of work; may be repeated
    #[arg(long = "task", value_name = "NAME", required = true)]
    pub tasks: Vec<Name>,
    /// The command to run for each job
    #[arg(long, value_name = "CMD")]
    pub exec: String,
    /// Only from this queue; may be repeated [default: all]
    #[arg(long = "queue", value_name = "NAME")]
    pub queues: Vec<Name>,
    /// Jobs at once [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub concurrency: Option<u16>,
    /// After so long without a sign of life a job is given to another
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub lease: Length,
    /// How long running jobs may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = "25s")]
    pub grace: Length,
    /// When exit code 75 is tried again
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub retry_after: Length,
    /// What operators know this worker by
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// End once nothing is queued or running any more
    #[arg(long)]
    pub drain: bool,
}

/// Works until told to stop.
pub async fn run(mut args: WorkArgs, session: &Session) -> Result<Exit, Problem> {
    limits::check_lease(args.lease.into())?;
    args.tasks.sort();
    args.tasks.dedup();
    let client = session.create().await?;
    let slots = args.concurrency.map_or_else(processors, usize::from);
    begin(&args, slots, &client, session).await?;
    let teller = Teller::new(session.screen.clone());
    let exec = Arc::new(Exec {
        command: args.exec.clone(),
        retry_after: args.retry_after.into(),
        store: session.settings.store.value.clone(),
        teller: teller.clone(),
    });
    let mut worker = Worker::new(&client, exec)
        .concurrency(slots)
        .queues(args.queues.iter().map(Name::as_str))
        .lease(args.lease.into())
        .grace(args.grace.into())
        .retention(session.settings.retention())
        .version(env!("CARGO_PKG_VERSION"));
    if let Some(name) = &args.name {
        worker = worker.name(name);
    }
    for task in &args.tasks {
        worker = worker.task_json(task, exec::handle);
    }
    let report = match args.drain {
        false => worker.run().await?,
        true => {
            worker
                .run_until(drain::until_drained(&client, &args.tasks, &args.queues))
                .await?
        }
    };
    teller.ended(&report)?;
    Ok(Exit::Done)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

async fn begin(args: &WorkArgs, slots: usize, client: &Client, session: &Session) -> Result<(), Problem> {
    if session.json() {
        return Ok(());
    }
    let mut page = session.page();
    let tasks: Vec<&str> = args.tasks.iter().map(Name::as_str).collect();
    let slots = plural(i64::try_from(slots).unwrap_or(i64::MAX), "job", "jobs");
    page.say(format!(
        "Working on {}, {slots} at once. Ctrl-C stops in order.",
        tasks.join(", ")
    ));
    let lanes = client.store().stats().await?.lanes;
    for task in &args.tasks {
        if let Some(hint) = target::unseen("task", task, lanes.iter().map(|lane| &lane.task)) {
            page.hint(hint);
        }
    }
    page.blank();
    session.screen.print(&page)
}
