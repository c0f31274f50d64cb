//! The words of a policy, on the command line and in `semel.toml` alike.

use clap::ValueEnum;
use semel_core::dedup::{OnDuplicate, OnMismatch, Scope, Unit};
use semel_core::ids::Name;
use serde::Deserialize;

use crate::problem::Refused;

/// A calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitWord {
    /// A minute of the clock.
    Minute,
    /// An hour of the clock.
    Hour,
    /// A day in the zone.
    Day,
    /// Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
}

impl From<UnitWord> for Unit {
    fn from(word: UnitWord) -> Self {
        match word {
            UnitWord::Minute => Unit::Minute,
            UnitWord::Hour => Unit::Hour,
            UnitWord::Day => Unit::Day,
            UnitWord::Week => Unit::Week,
            UnitWord::Month => Unit::Month,
        }
    }
}

/// How long a key is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum HoldWord {
    /// Until the first lease.
    #[value(alias = "until-started")]
    UntilStarted,
    /// Until the job has ended.
    #[value(alias = "until-finished")]
    UntilFinished,
    /// For a time from the submission.
    Window,
    /// Until released by hand.
    Forever,
}

/// What a submission wants when its key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum AnswerWord {
    /// The job that holds it.
    #[value(alias = "use-existing")]
    UseExisting,
    /// An error.
    Reject,
    /// To put its content into it.
    Replace,
    /// To run after it.
    Latest,
}

impl From<AnswerWord> for OnDuplicate {
    fn from(word: AnswerWord) -> Self {
        match word {
            AnswerWord::UseExisting => OnDuplicate::UseExisting,
            AnswerWord::Reject => OnDuplicate::Reject,
            AnswerWord::Replace => OnDuplicate::Replace,
            AnswerWord::Latest => OnDuplicate::Latest,
        }
    }
}

/// What a submission wants when its key means something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchWord {
    /// An error.
    Conflict,
    /// To be treated as equal.
    Ignore,
}

impl From<MismatchWord> for OnMismatch {
    fn from(word: MismatchWord) -> Self {
        match word {
            MismatchWord::Conflict => OnMismatch::Conflict,
            MismatchWord::Ignore => OnMismatch::Ignore,
        }
    }
}

/// An end that frees a kept key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseWord {
    /// The job failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
}

/// Where a key must be unique.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ScopeWord(Scope);

impl ScopeWord {
    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.0
    }
}

impl std::str::FromStr for ScopeWord {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        Ok(ScopeWord(match text {
            "task" => Scope::Task,
            "queue" => Scope::Queue,
            "global" => Scope::Global,
            other => match other.strip_prefix("custom:") {
                Some(name) => Scope::Custom(Name::new(name).map_err(Refused::from)?),
                None => return Err(Refused::new("allowed are task, queue, global or custom:NAME")),
            },
        }))
    }
}

impl TryFrom<String> for ScopeWord {
    type Error = Refused;

    fn try_from(text: String) -> Result<Self, Refused> {
        text.parse()
    }
}
