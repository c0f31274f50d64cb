//! Which jobs: the flags of every command that takes some.

use clap::Args;
use clap::builder::PossibleValuesParser;
use semel_core::ids::Name;
use semel_core::job::State;
use semel_core::store::{JobFilter, Store};

use crate::clock;
use crate::commands::keys;
use crate::duration::Moment;
use crate::listing::said;
use crate::problem::Problem;

/// Which jobs. Everything that is said has to hold.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    /// In this state
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub state: Option<String>,
    /// In this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<Name>,
    /// Of this task
    #[arg(long, value_name = "NAME")]
    pub task: Option<Name>,
    /// With this key: its text, its digest or the beginning of it
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Submitted since then: 2h (ago) or 2026-11-20T03:00:00Z
    #[arg(long, value_name = "WHEN")]
    pub since: Option<Moment>,
    /// Submitted before then
    #[arg(long, value_name = "WHEN")]
    pub until: Option<Moment>,
}

fn states() -> PossibleValuesParser {
    PossibleValuesParser::new(State::ALL.map(State::word))
}

impl FilterArgs {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.state.is_none()
            && self.queue.is_none()
            && self.task.is_none()
            && self.key.is_none()
            && self.error.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// What was said, as a server is asked.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let now = clock::now();
        let moment = |moment: Option<Moment>| moment.map(|moment| moment.resolve(now).to_string());
        said([
            ("state", self.state.clone()),
            ("queue", self.queue.as_ref().map(ToString::to_string)),
            ("task", self.task.as_ref().map(ToString::to_string)),
            ("key", self.key.clone()),
            ("error", self.error.clone()),
            ("since", moment(self.since)),
            ("until", moment(self.until)),
        ])
    }

    /// The filter; a key that was said by its text is looked up.
    pub async fn resolve(&self, store: &dyn Store) -> Result<JobFilter, Problem> {
        let now = clock::now();
        let key = match &self.key {
            Some(said) => Some(keys::find(store, said).await?.key.digest),
            None => None,
        };
        Ok(JobFilter {
            state: self.state.as_deref().and_then(state),
            queue: self.queue.clone(),
            task: self.task.clone(),
            key,
            error: self.error.clone(),
            since: self.since.map(|moment| moment.resolve(now)),
            until: self.until.map(|moment| moment.resolve(now)),
            dead_letters: false,
        })
    }
}

fn state(word: &str) -> Option<State> {
    State::ALL.into_iter().find(|state| state.word() == word)
}
