//! `semel bench`

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use semel_bench::{Group, Settings};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Arguments of `semel bench`.
#[derive(Debug, Args)]
#[command(
    after_help = "Measures the embedded store in files of its own, beside the raw SQLite ceiling\nof the same run; your store is not touched. With --json one object per line:\n{\"peer\":\"semel\",\"metric\":…,\"value\":…,\"unit\":…}."
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
        if !self.only.is_empty() {
            settings.groups = Group::ALL
                .into_iter()
                .filter(|group| self.only.iter().any(|word| word == group.word()))
                .collect();
        }
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings
    }
}

/// Measures, with progress on the error output.
pub fn run(args: BenchArgs, session: &Session) -> Result<Exit, Problem> {
    let report = semel_bench::measure(&args.settings())?;
    let text = match session.json() {
        true => report.json_lines()?,
        false => report.table(),
    };
    session.screen.write(&text)?;
    Ok(Exit::Done)
}
