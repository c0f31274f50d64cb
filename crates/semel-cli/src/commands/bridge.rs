//! `semel bridge`

use std::time::Duration;

use clap::{Args, Subcommand};
use semel::Name;
use semel_resque::{Bridge, Crossed, Error, Resque};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Page, plural};
use crate::session::{Session, asked_to_stop};

/// `semel bridge …`
#[derive(Debug, Subcommand)]
pub enum BridgeCommand {
    /// Share queues with Resque's producers and workers
    Resque(ResqueArgs),
}

/// Arguments of `semel bridge resque`.
#[derive(Debug, Args)]
#[command(after_help = "\
A queue crosses in one direction: with --in, what Resque's producers push
becomes jobs; with --out, jobs become payloads that Resque's workers pop.
A class is a task, its arguments are the input. Runs until it is asked to
stop; killed at any moment and started again, it loses nothing and gives
nothing twice.

Example:
  semel bridge resque --redis redis://localhost/0 --in mail --out reports")]
pub struct ResqueArgs {
    /// The Redis of Resque
    #[arg(long, value_name = "URL")]
    pub redis: String,
    /// Payloads of this queue become jobs; can be repeated
    #[arg(long = "in", value_name = "QUEUE", required_unless_present = "outward")]
    pub inward: Vec<Name>,
    /// Jobs of this queue become payloads; can be repeated
    #[arg(long = "out", value_name = "QUEUE", id = "outward")]
    pub outward: Vec<Name>,
    /// This queue is kept by resque-uniqueue; can be repeated
    #[arg(long, value_name = "QUEUE")]
    pub unique: Vec<Name>,
    /// The prefix of Resque's keys
    #[arg(long, value_name = "NAME", default_value = "resque")]
    pub resque_namespace: String,
    /// How long to wait before looking at empty queues again, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub poll_ms: u64,
    /// Stop once nothing is left
    #[arg(long)]
    pub drain: bool,
}

/// Carries out a command.
pub async fn run(command: BridgeCommand, session: &Session) -> Result<Exit, Problem> {
    let BridgeCommand::Resque(args) = command;
    let resque = Resque::new(&args.redis, &args.resque_namespace)?;
    let client = session.create().await?;
    let bridge = Bridge::new(resque, client.store().clone())
        .inward(args.inward)
        .outward(args.outward)
        .unique(args.unique)
        .poll(Duration::from_millis(args.poll_ms));
    let crossed = match args.drain {
        true => bridge.drain().await?,
        false => bridge.run_until(asked_to_stop()).await?,
    };
    if session.json() {
        session.screen.print_json(&crossed)?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    tell(&crossed, &mut page);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn tell(crossed: &Crossed, page: &mut Page) {
    if crossed.is_nothing() {
        page.say("Nothing crossed.");
        return;
    }
    let lines = [
        (crossed.submitted, "payload became a job", "payloads became jobs"),
        (
            crossed.absorbed,
            "payload was absorbed by an equal job",
            "payloads were absorbed by equal jobs",
        ),
        (crossed.pushed, "job became a payload", "jobs became payloads"),
        (
            crossed.present,
            "job's payload was in the unique queue",
            "jobs' payloads were in the unique queue",
        ),
        (
            crossed.repeated,
            "job had been pushed before",
            "jobs had been pushed before",
        ),
        (
            crossed.mended,
            "wedged queue was mended",
            "times a wedged queue was mended",
        ),
        (
            crossed.dropped,
            "payload was in a unique queue twice",
            "payloads were in a unique queue twice",
        ),
    ];
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for (count, one, many) in lines {
        if count > 0 {
            page.say(format!("{}.", plural(number(count), one, many)));
        }
    }
    if crossed.failed > 0 {
        let failed = plural(number(crossed.failed), "payload is", "payloads are");
        page.say(format!(
            "{failed} in Resque's failed list: nobody can run what it says."
        ));
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::Store(error) => error.into(),
            Error::Redis(_) => Problem::new(Exit::Unavailable, "redis_unavailable", error.to_string()),
        }
    }
}
