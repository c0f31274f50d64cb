//! What is done in bulk, and to which.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use semel_core::error::Invalid;
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::store::{JobFilter, KeyFilter};
use semel_core::view::Job;

/// What is done to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Ends jobs that have not ended.
    Cancel,
    /// Gives failed and cancelled jobs a new life.
    Retry,
    /// Makes fresh jobs of dead letters.
    Replay,
    /// Frees keys.
    Release,
    /// Removes jobs that have ended.
    Delete,
}

impl Action {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Action::Cancel => "cancel",
            Action::Retry => "retry",
            Action::Replay => "replay",
            Action::Release => "release",
            Action::Delete => "delete",
        }
    }

    /// Whether a job's state allows it.
    pub(super) fn applies_to(self, job: &Job) -> bool {
        match self {
            Action::Cancel => !job.state.is_terminal(),
            Action::Delete => job.state.is_terminal(),
            Action::Retry => {
                matches!(job.state, State::Failed | State::Cancelled)
                    && job.replayed_as.is_none()
                    && !job.stub
            }
            Action::Replay => job.state == State::Failed && job.replayed_as.is_none() && !job.stub,
            Action::Release => job.key.as_ref().is_some_and(|key| key.held),
        }
    }
}

/// Which jobs or keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Jobs; to release, the keys they hold.
    Jobs(JobFilter),
    /// Those of them whose last error is of this group (see [`semel_core::view::error_group`]), and no other's.
    Grouped(JobFilter, String),
    /// Keys; only to release them.
    Keys(KeyFilter),
}

impl From<JobFilter> for Selection {
    fn from(filter: JobFilter) -> Self {
        Selection::Jobs(filter)
    }
}

impl From<KeyFilter> for Selection {
    fn from(filter: KeyFilter) -> Self {
        Selection::Keys(filter)
    }
}

impl Selection {
    /// What was asked for, as JSON.
    pub(super) fn describe(&self) -> Result<Json, Invalid> {
        Json::of(&match self {
            Selection::Jobs(filter) => jobs(filter),
            Selection::Grouped(filter, group) => {
                let mut said = jobs(filter);
                said["error_group"] = group.as_str().into();
                said
            }
            Selection::Keys(filter) => json!({
                "text": filter.text,
                "scope": filter.scope,
                "task": filter.task,
                "job": filter.job,
            }),
        })
    }
}

fn jobs(filter: &JobFilter) -> Value {
    json!({
        "state": filter.state,
        "queue": filter.queue,
        "task": filter.task,
        "key": filter.key,
        "error": filter.error,
        "since": filter.since.map(|at| at.to_string()),
        "until": filter.until.map(|at| at.to_string()),
        "dead_letters": filter.dead_letters,
    })
}
