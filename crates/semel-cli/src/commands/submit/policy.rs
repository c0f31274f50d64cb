//! The policy of a submission, from flags or from `[tasks.NAME.dedup]`: the same names, the same meaning.

mod words;

pub use words::{AnswerWord, HoldWord, MismatchWord, ReleaseWord, ScopeWord, UnitWord};

use clap::Args;
use semel::{Dedup, Submit};
use semel_core::dedup::{self as core, HoldKind, Period, ReleaseOn};
use semel_core::error::Invalid;
use semel_core::submission::Policy;
use semel_core::time::Millis;
use serde::Deserialize;

use crate::duration::Length;

/// What makes two submissions the same, for how long, and what then (contract 2).
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Deduplication")]
pub struct PolicyArgs {
    /// One job for this key, kept 30 days; another input is a conflict
    #[arg(long, short = 'k', value_name = "KEY")]
    pub key: Option<String>,
    /// One job per task and input at a time
    #[arg(long)]
    pub unique: bool,
    /// The same, but lets another in if the first still waits after this
    #[arg(long, value_name = "DURATION")]
    pub unique_for: Option<Length>,
    /// One job per calendar period: minute, hour, day, week, month
    #[arg(long, value_name = "PERIOD", hide_possible_values = true)]
    pub once_per: Option<UnitWord>,
    /// The time zone of the period [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "once_per")]
    pub zone: Option<String>,
    /// While a job with this key is active, reject others
    #[arg(long, value_name = "KEY")]
    pub exclusive: Option<String>,
    /// The newest submission wins, and runs after the one that is running
    #[arg(long)]
    pub latest: bool,
    /// Start when things have been quiet for this long
    #[arg(long, value_name = "DURATION")]
    pub debounce: Option<Length>,
    /// At the latest this long after the first submission
    #[arg(long, value_name = "DURATION", requires = "debounce")]
    pub max_wait: Option<Length>,
    /// Make the key from the input at these JSON pointers
    #[arg(long, value_name = "/A,/B", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Make the key from the input without these JSON pointers
    #[arg(long, value_name = "/A,/B", value_delimiter = ',')]
    pub except: Vec<String>,
    /// By fields, but another input with the same fields is another job
    #[arg(long, value_name = "/A,/B", value_delimiter = ',')]
    pub hybrid: Vec<String>,
    /// A fresh key per submission
    #[arg(long)]
    pub generated: bool,
    /// Where the key is unique: task, queue, global, custom:NAME
    #[arg(long, value_name = "SCOPE")]
    pub scope: Option<ScopeWord>,
    /// How long the key is kept: until_started, until_finished, window, forever
    #[arg(long, value_name = "HOLD", hide_possible_values = true)]
    pub hold: Option<HoldWord>,
    /// A bound in time for the hold; with --key instead of 30 days
    #[arg(long, value_name = "DURATION")]
    pub ttl: Option<Length>,
    /// Keep the key for a while after the job has ended
    #[arg(long, value_name = "DURATION")]
    pub cool_down: Option<Length>,
    /// Free a kept key when the job ends so: failed, cancelled
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub release_on: Vec<ReleaseWord>,
    /// When the key is held: use_existing, reject, replace, latest
    #[arg(long, value_name = "ANSWER", hide_possible_values = true)]
    pub on_duplicate: Option<AnswerWord>,
    /// When a key comes back with another input: conflict, ignore
    #[arg(long, value_name = "ANSWER", hide_possible_values = true)]
    pub on_mismatch: Option<MismatchWord>,
    /// Let these headers enter the key
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub key_headers: Vec<String>,
    /// Let these members of the metadata enter the key
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub key_meta: Vec<String>,
    /// Admit in any case and note what would have happened
    #[arg(long)]
    pub observe: bool,
    /// No deduplication, also on a unique queue
    #[arg(long)]
    pub no_dedup: bool,
}

impl PolicyArgs {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == PolicyArgs::default()
    }

    /// The submission with this policy.
    pub fn apply(&self, submit: Submit) -> Result<Submit, Invalid> {
        let preset = self.preset(submit.clone())?;
        if !self.has_details() {
            return Ok(preset);
        }
        let invalid = |error| match error {
            semel::Error::Invalid(invalid) => invalid,
            other => Invalid::new("policy", "one that makes sense").found(other.to_string()),
        };
        match preset.submission().map_err(invalid)?.policy {
            Policy::Dedup(base) => Ok(submit.dedup(self.detailed(*base)?)),
            Policy::Unsaid | Policy::None => Err(Invalid::new("a policy without a key", "a key beside it").hint(
                "say what the key is made from: --key, --unique, --fields, --except, --hybrid or --once-per",
            )),
        }
    }

    /// What the library has a word for; it also judges which of them go together.
    fn preset(&self, mut submit: Submit) -> Result<Submit, Invalid> {
        if let Some(key) = &self.key {
            submit = submit.idempotency_key(key);
        }
        if !self.fields.is_empty() {
            submit = submit.by_fields(&self.fields);
        }
        if !self.except.is_empty() {
            submit = submit.by_input_except(&self.except);
        }
        if !self.hybrid.is_empty() {
            submit = submit.by_hybrid(&self.hybrid);
        }
        if self.unique {
            submit = submit.unique();
        }
        if let Some(ttl) = self.unique_for {
            submit = submit.unique_for(ttl.into());
        }
        if let Some(unit) = self.once_per {
            submit = submit.once_per(Period::new(unit.into(), self.zone.as_deref().unwrap_or("UTC"))?);
        }
        if let Some(key) = &self.exclusive {
            submit = submit.exclusive(key);
        }
        if self.latest {
            submit = submit.latest();
        }
        if let Some(delay) = self.debounce {
            submit = submit.debounce(delay.into(), self.max_wait.map(Into::into));
        }
        if self.generated {
            submit = submit.dedup(Dedup::generated());
        }
        if self.no_dedup {
            submit = submit.without_dedup();
        }
        Ok(submit)
    }

    fn has_details(&self) -> bool {
        self.scope.is_some()
            || self.hold.is_some()
            || self.ttl.is_some()
            || self.cool_down.is_some()
            || !self.release_on.is_empty()
            || self.on_duplicate.is_some()
            || self.on_mismatch.is_some()
            || !self.key_headers.is_empty()
            || !self.key_meta.is_empty()
            || self.observe
    }

    fn detailed(&self, mut policy: core::Dedup) -> Result<core::Dedup, Invalid> {
        if let Some(scope) = &self.scope {
            policy.scope = scope.scope().clone();
        }
        policy.hold = self.held(policy.hold);
        policy.on_duplicate = self.on_duplicate.map_or(policy.on_duplicate, Into::into);
        policy.on_mismatch = self.on_mismatch.map_or(policy.on_mismatch, Into::into);
        policy.headers.extend(self.key_headers.iter().cloned());
        policy.meta.extend(self.key_meta.iter().cloned());
        if self.observe {
            policy = policy.observe();
        }
        policy.check()?;
        Ok(policy)
    }

    fn held(&self, usual: core::Hold) -> core::Hold {
        let mut hold = match self.hold {
            None => usual,
            Some(HoldWord::UntilStarted) => core::Hold::until_started(),
            Some(HoldWord::UntilFinished) => core::Hold::until_finished(),
            Some(HoldWord::Window) => core::Hold::window(core::Hold::DEFAULT_WINDOW),
            Some(HoldWord::Forever) => core::Hold::forever(),
        };
        if self.ttl.is_some() && self.hold.is_none() && hold.kind == HoldKind::Forever {
            hold = core::Hold::window(core::Hold::DEFAULT_WINDOW);
        }
        hold.ttl = self.ttl.map(Millis::from).or(hold.ttl);
        hold.cool_down = self.cool_down.map(Millis::from).or(hold.cool_down);
        if !self.release_on.is_empty() {
            hold.release_on = ReleaseOn {
                failed: self.release_on.contains(&ReleaseWord::Failed),
                cancelled: self.release_on.contains(&ReleaseWord::Cancelled),
            };
        }
        hold
    }
}
