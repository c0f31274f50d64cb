//! `semel demo`: four ways to do work twice, side by side, on a store of their own.
//!
//! This process is the producers. Workers are processes that are killed and restarted meanwhile; the
//! outside world is one more process, and what it wrote down is what the table at the end is made from.

mod scenes;
mod show;
mod tally;
mod troop;
mod worker;
mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use semel::Client;
use tempfile::TempDir;

use crate::commands::demo::scenes::Producers;
use crate::commands::demo::tally::Tally;
use crate::commands::demo::troop::Troop;
use crate::commands::serve::Beside;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// The file of the effects, in the demo's directory.
const EFFECTS: &str = "effects.jsonl";
/// How long the last jobs may take once nothing is submitted any more.
const DRAIN: Duration = Duration::from_secs(60);

/// Arguments of `semel demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Four scenarios at once: a payment button pressed twice, a retry storm, a webhook
sent three times, a cron run that overlaps the one before. Worker processes are
killed (kill -9) and restarted meanwhile. What really happened is written down by
another process, the outside world; the table at the end is made from its log.

The exit code is 0 if nothing was done twice and nothing was lost.")]
pub struct DemoArgs {
    /// How long to submit; the last jobs take a few seconds more
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Keep the store and the log of effects in this directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Show the dashboard meanwhile, and keep it up until Ctrl-C
    #[arg(long)]
    pub serve: bool,
    /// Which part of the demo this process plays.
    #[arg(long, hide = true, requires = "dir")]
    pub part: Option<Part>,
    /// The directory of the demo, for its parts.
    #[arg(long, hide = true)]
    pub dir: Option<PathBuf>,
    /// Where the outside world listens, for workers.
    #[arg(long, hide = true)]
    pub world: Option<String>,
}

/// A process of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What effects happen to.
    World,
    /// Who runs jobs.
    Worker,
}

/// Runs the demo, or a part of it.
pub async fn run(args: DemoArgs, session: &Session) -> Result<Exit, Problem> {
    match (args.part, &args.dir) {
        (Some(Part::World), Some(dir)) => world::run(dir).await,
        (Some(Part::Worker), Some(dir)) => worker::run(dir, args.world.as_deref().unwrap_or_default()).await,
        _ => play(&args, session).await,
    }
}

/// Where the demo lives.
enum Place {
    Kept(PathBuf),
    Passing(TempDir),
}

impl Place {
    fn new(keep: Option<&Path>) -> Result<Self, Problem> {
        match keep {
            Some(dir) => {
                std::fs::create_dir_all(dir)
                    .map_err(|error| trouble(format!("{} cannot be made", dir.display()), &error))?;
                if store_file(dir).exists() {
                    let message = format!("there is a demo in {} already", dir.display());
                    return Err(Problem::usage(message).hint("name another directory"));
                }
                Ok(Place::Kept(dir.to_owned()))
            }
            None => tempfile::Builder::new()
                .prefix("semel-demo-")
                .tempdir()
                .map(Place::Passing)
                .map_err(|error| trouble("no temporary directory can be made", &error)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Place::Kept(dir) => dir,
            Place::Passing(dir) => dir.path(),
        }
    }
}

fn store_file(dir: &Path) -> PathBuf {
    dir.join("demo.db")
}

fn store_url(dir: &Path) -> String {
    format!("sqlite:{}", store_file(dir).display())
}

/// Something of this machine went wrong.
fn trouble(what: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Exit::Other, "other", format!("{what}: {error}"))
}

async fn play(args: &DemoArgs, session: &Session) -> Result<Exit, Problem> {
    let place = Place::new(args.keep.as_deref())?;
    let dir = place.path();
    let client = semel::connect(store_url(dir)).name("demo").await?;
    let dashboard = match args.serve {
        true => Some(Beside::start(client.clone(), session).await?),
        false => None,
    };
    let url = dashboard.as_ref().map(|dashboard| dashboard.url.clone());
    show::begin(args.seconds, dir, url.as_deref(), session)?;
    let mut troop = Troop::start(dir).await?;
    let producers = Producers::start(&client, Duration::from_secs(args.seconds));
    let submitting = async {
        while !producers.are_done() {
            troop.kill_one().await?;
            show::progress(&client, &producers, &troop, dir, session).await?;
        }
        Ok::<(), Problem>(())
    };
    submitting.await?;
    let submitted = producers.finish().await?;
    let drained = tokio::time::timeout(DRAIN, drain(&client)).await.is_ok();
    let killed = troop.stop().await?;
    let tally = Tally::take(&client, dir, submitted, killed).await?;
    show::end(&tally, drained, matches!(place, Place::Kept(_)), dir, session)?;
    let exit = if drained && tally.is_good() {
        Exit::Done
    } else {
        Exit::Other
    };
    if let Some(dashboard) = dashboard {
        show::still_up(&dashboard.url, session)?;
        dashboard.until_told_to_stop(session).await;
    }
    Ok(exit)
}

/// Waits until nothing waits or runs any more.
async fn drain(client: &Client) {
    loop {
        let left = client.store().stats().await.map(|stats| {
            let jobs = stats.jobs.iter();
            let open = jobs.filter(|(state, _)| !state.is_terminal());
            open.map(|(_, n)| *n).sum::<i64>()
        });
        if matches!(left, Ok(0)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
