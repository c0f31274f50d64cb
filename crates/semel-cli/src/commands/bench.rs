//! `semel bench`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use semel_bench::{Group, Settings};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;
use crate::settings::{Source, Sourced};

/// Arguments of `semel bench`.
#[derive(Debug, Args)]
#[command(
    after_help = "Measures the embedded store in files of its own, beside the raw SQLite ceiling\nof the same run. With --store redis://… or s3://… it measures on that server,\nbeside plain writes to it, under names of its own that it removes afterwards;\na server that only the environment or semel.toml names is left in peace. Your\nown jobs are never touched. With --json one object per line:\n{\"peer\":\"semel\",\"metric\":…,\"value\":…,\"unit\":…}."
)]
pub struct BenchArgs {
    /// Make the files here, on the disk that matters [default: /var/tmp]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Also measure with so many jobs waiting behind
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub waiting: Vec<usize>,
    /// With one and with five million jobs waiting; takes some minutes more
    #[arg(long, conflicts_with_all = ["waiting", "quick"])]
    pub full: bool,
    /// A few seconds with small counts: shows that it runs, not how fast
    #[arg(long)]
    pub quick: bool,
    /// Slices of about a second of each measurement [default: 5]
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroUsize>,
    /// Slices of so many jobs instead, on Redis each in a store that has just
    /// begun: to compare with what is measured so
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Only these groups of measurements
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = groups())]
    pub only: Vec<String>,
    /// Another load
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

fn groups() -> PossibleValuesParser {
    PossibleValuesParser::new(Group::ALL.map(Group::word))
}

impl BenchArgs {
    fn settings(self) -> Settings {
        let mut settings = match self.quick {
            true => Settings::quick(),
            false => Settings::default(),
        };
        if let Some(dir) = self.dir {
            settings.dir = dir;
        }
        if self.full {
            settings.waiting = vec![1_000_000, 5_000_000];
        }
        if !self.waiting.is_empty() {
            settings.waiting = self.waiting;
            settings.waiting.retain(|waiting| *waiting > 0);
        }
        if let Some(rounds) = self.rounds {
            settings.rounds = rounds.get();
        }
        settings.jobs = self.jobs.map(NonZeroUsize::get);
        if !self.only.is_empty() {
            let asked = Group::ALL
                .into_iter()
                .filter(|group| self.only.iter().any(|word| word == group.word()));
            settings.groups = Some(asked.collect());
        }
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings
    }
}

/// The server to measure on. A measurement is a burden: only one that was named for it bears it.
fn server(store: &Sourced<String>) -> Option<String> {
    let embedded = ["sqlite:", "memory:"];
    let is_server = !embedded.iter().any(|scheme| store.value.starts_with(scheme));
    (matches!(store.source, Source::Flag(_)) && is_server).then(|| store.value.clone())
}

/// Measures, with progress on the error output.
pub fn run(args: BenchArgs, session: &Session) -> Result<Exit, Problem> {
    let mut settings = args.settings();
    settings.store = server(&session.settings.store);
    let report = semel_bench::measure(&settings)?;
    let text = match session.json() {
        true => report.json_lines()?,
        false => report.table(),
    };
    session.screen.write(&text)?;
    Ok(Exit::Done)
}
