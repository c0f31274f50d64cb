//! A submission while it is being put together.

use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::submission::{Policy, Submission};

use crate::ids::fresh_token;
use crate::submit::wish::Wish;
use crate::task::{Settings, TaskPolicy};

/// What was said so far, and what its task says.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) submission: Submission,
    pub(super) wish: Wish,
    standing: TaskPolicy,
    /// The policy of a submission that came as a whole.
    given: Option<Policy>,
}

impl Draft {
    pub(super) fn new(task: &str, input: Result<Json, Invalid>, settings: Settings) -> Result<Self, Invalid> {
        let mut submission = Submission::new(fresh_token(), Name::new(task)?, input?);
        if let Some(queue) = settings.queue {
            submission.queue = Name::new(queue)?;
        }
        submission.max_attempts = settings.max_attempts.unwrap_or(submission.max_attempts);
        submission.max_deliveries = settings.max_deliveries.unwrap_or(submission.max_deliveries);
        submission.priority = settings.priority.unwrap_or(submission.priority);
        submission.content.timeout = settings.timeout.map(Into::into);
        Ok(Draft {
            submission,
            wish: Wish::default(),
            standing: settings.policy,
            given: None,
        })
    }

    /// A submission that came as a whole, with its policy.
    pub(super) fn whole(submission: Submission) -> Self {
        Draft {
            given: Some(submission.policy.clone()),
            submission,
            wish: Wish::default(),
            standing: TaskPolicy::Unsaid,
        }
    }

    pub(super) fn finish(self) -> Result<Submission, Invalid> {
        let mut submission = self.submission;
        submission.policy = match self.given {
            Some(policy) => self.wish.beside(policy)?,
            None => self.wish.policy(submission.task.as_str(), self.standing)?,
        };
        crate::worker::carry_trace(&mut submission.content.headers);
        Ok(submission)
    }
}
