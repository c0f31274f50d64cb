//! What to measure, where, and how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What `--help` says.
pub(crate) const HELP: &str = "\
semel-bench: a store beside the most its disk or server could do, in the same run

  --store URL      redis://… or s3://…: measure there, under names of its own that are removed afterwards
                   (default: the embedded store, in files of its own)
  --dir PATH       make the files here; it has to be on the disk that matters (default /var/tmp)
  --waiting N[,N]  also measure the lifecycle with N jobs waiting behind (default 1000000)
  --full           with 1,000,000 and 5,000,000 waiting; takes some minutes more
  --quick          a few seconds with small counts: shows that it runs, not how fast
  --rounds N       slices of about a second of each measurement (default 5)
  --jobs N         slices of so many jobs instead, on Redis each in a store of its own that has just begun: to compare
                   with what is measured so
  --only G[,G]     some of: singles, callers, bulk, duplicates, process, lifecycle, sizes, syncs, requests
  --seed N         another load (default 1)
  --json           one JSON object per line instead of the table
";

/// Measurements that belong together and take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One submission at a time.
    Singles,
    /// 64 callers at once.
    Callers,
    /// Many submissions in one call.
    Bulk,
    /// Submissions whose key is held.
    Duplicates,
    /// Claims and settlements.
    Process,
    /// Whole lives.
    Lifecycle,
    /// Bytes on disk or in the server's memory.
    Sizes,
    /// Fsyncs, of the embedded store.
    Syncs,
    /// Requests, of a store in a bucket.
    Requests,
}

impl Group {
    /// Every group, in the order of measuring.
    pub const ALL: [Group; 9] = [
        Group::Singles,
        Group::Callers,
        Group::Bulk,
        Group::Duplicates,
        Group::Process,
        Group::Lifecycle,
        Group::Sizes,
        Group::Syncs,
        Group::Requests,
    ];

    /// The word for this group.
    pub fn word(self) -> &'static str {
        match self {
            Group::Singles => "singles",
            Group::Callers => "callers",
            Group::Bulk => "bulk",
            Group::Duplicates => "duplicates",
            Group::Process => "process",
            Group::Lifecycle => "lifecycle",
            Group::Sizes => "sizes",
            Group::Syncs => "syncs",
            Group::Requests => "requests",
        }
    }

    fn parse(word: &str) -> Result<Self> {
        let found = Group::ALL.into_iter().find(|group| group.word() == word);
        found.with_context(|| format!("there is no group {word:?}; hint: see --help"))
    }
}

/// What to measure, where, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL of a server to measure on; none is the embedded store.
    pub store: Option<String>,
    /// Where the temporary directory is made.
    pub dir: PathBuf,
    /// What is measured; where nothing is said, everything there is for the store.
    pub groups: Option<Vec<Group>>,
    /// Jobs waiting behind a lifecycle; none is always measured too.
    pub waiting: Vec<usize>,
    /// Slices of each measurement, after a first that is not counted.
    pub rounds: usize,
    /// How long a slice is to take.
    pub slice: Duration,
    /// How many jobs a slice has instead.
    pub jobs: Option<usize>,
    /// Run each file in first, until its log is written over instead of growing.
    pub steady: bool,
    /// Keys that are held while duplicates come in.
    pub held: usize,
    /// Jobs in the files whose size is compared.
    pub sized: usize,
    /// Decides tokens and inputs.
    pub seed: u64,
    /// Print JSON lines.
    pub json: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            store: None,
            dir: default_dir(),
            groups: None,
            waiting: vec![1_000_000],
            rounds: 5,
            slice: Duration::from_secs(1),
            jobs: None,
            steady: true,
            held: 100_000,
            sized: 200_000,
            seed: 1,
            json: false,
        }
    }
}

/// `/tmp` is often held in memory, `/var/tmp` is not.
fn default_dir() -> PathBuf {
    let kept = Path::new("/var/tmp");
    if kept.is_dir() {
        kept.to_owned()
    } else {
        std::env::temp_dir()
    }
}

impl Settings {
    /// Small counts: shows that everything runs, not how fast.
    pub fn quick() -> Self {
        Settings {
            waiting: vec![3_000],
            rounds: 1,
            slice: Duration::from_millis(20),
            steady: false,
            held: 2_000,
            sized: 5_000,
            ..Settings::default()
        }
    }

    /// Reads arguments; `None` if help was asked for.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Self>> {
        let args: Vec<String> = args.into_iter().collect();
        let is_quick = args.iter().any(|arg| arg == "--quick");
        let mut settings = if is_quick {
            Settings::quick()
        } else {
            Settings::default()
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .with_context(|| format!("{arg} needs a value; hint: see --help"))
            };
            match arg.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => {}
                "--full" => settings.waiting = vec![1_000_000, 5_000_000],
                "--json" => settings.json = true,
                "--store" => settings.store = Some(value()?),
                "--rounds" => settings.rounds = number::<usize>(&value()?)?.max(1),
                "--jobs" => settings.jobs = Some(number::<usize>(&value()?)?.max(1)),
                "--dir" => settings.dir = value()?.into(),
                "--seed" => settings.seed = number(&value()?)?,
                "--waiting" => settings.waiting = list(&value()?, number)?,
                "--only" => settings.groups = Some(list(&value()?, Group::parse)?),
                _ => bail!("unknown argument {arg:?}; hint: see --help"),
            }
        }
        settings.waiting.retain(|waiting| *waiting > 0);
        settings.waiting.sort_unstable();
        settings.waiting.dedup();
        Ok(Some(settings))
    }
}

fn list<T>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    text.split(',').map(read).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    let plain = text.replace('_', "");
    plain
        .parse()
        .ok()
        .with_context(|| format!("{text:?} has to be a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Settings>> {
        Settings::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_say_what_is_measured() {
        let settings = parse("--only bulk,sizes --json --waiting 0,2_000,1000 --jobs 10_000")
            .unwrap()
            .unwrap();
        assert_eq!(settings.groups.as_deref(), Some(&[Group::Bulk, Group::Sizes][..]));
        assert_eq!(settings.waiting, [1_000, 2_000]);
        assert!(settings.json);
        assert_eq!(settings.jobs, Some(10_000));
        assert_eq!(parse("--full").unwrap().unwrap().waiting, [1_000_000, 5_000_000]);
        assert!(parse("--help").unwrap().is_none());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(parse("--fast").is_err());
        assert!(parse("--only speed").is_err());
        assert!(parse("--seed").is_err());
        assert!(parse("--seed many").is_err());
    }
}
