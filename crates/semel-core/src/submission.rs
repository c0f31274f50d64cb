//! A request to run a job, before it is admitted.

use std::collections::BTreeMap;

use crate::dedup::{Dedup, Key, OnDuplicate, key};
use crate::error::Invalid;
use crate::ids::{Name, Token};
use crate::json::Json;
use crate::limits;
use crate::time::{Millis, Timestamp};

/// What a handler is given; what `replace` takes over (contract 2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The input.
    pub input: Json,
    /// Small texts that travel with the job, such as trace context.
    pub headers: BTreeMap<String, String>,
    /// A JSON object for people and tools.
    pub meta: Option<Json>,
    /// How long one attempt may take.
    pub timeout: Option<Millis>,
}

/// When a job may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RunAt {
    /// At once.
    #[default]
    Now,
    /// At a moment.
    At(Timestamp),
    /// A while after the submission.
    After(Millis),
}

impl RunAt {
    /// The moment, given the store's time.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            RunAt::Now => now,
            RunAt::At(at) => at,
            RunAt::After(delay) => now.plus(delay),
        }
    }
}

/// Which deduplication a submission asks for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// Nothing said: a queue that was declared unique adds its own (contract 2.15).
    #[default]
    Unsaid,
    /// None, even on a unique queue.
    None,
    /// This one.
    Dedup(Box<Dedup>),
}

impl From<Dedup> for Policy {
    fn from(policy: Dedup) -> Self {
        Policy::Dedup(Box::new(policy))
    }
}

/// A request to run a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Makes a repeated submission the same one; the id of the job, if one is admitted, derives from it.
    pub token: Token,
    /// The kind of work.
    pub task: Name,
    /// Where it waits.
    pub queue: Name,
    /// What the handler gets.
    pub content: Content,
    /// −100 to 100, larger first.
    pub priority: i8,
    /// When it may start.
    pub run_at: RunAt,
    /// How many attempts may end in an error.
    pub max_attempts: u32,
    /// How many leases may expire.
    pub max_deliveries: u32,
    /// The deduplication asked for.
    pub policy: Policy,
    /// Who submits, for the ledger.
    pub producer: Option<Name>,
}

impl Submission {
    /// A submission with every optional part at its default.
    pub fn new(token: Token, task: Name, input: Json) -> Self {
        Submission {
            token,
            task,
            queue: limits::default_queue(),
            content: Content {
                input,
                headers: BTreeMap::new(),
                meta: None,
                timeout: None,
            },
            priority: 0,
            run_at: RunAt::Now,
            max_attempts: limits::MAX_ATTEMPTS,
            max_deliveries: limits::MAX_DELIVERIES,
            policy: Policy::Unsaid,
            producer: None,
        }
    }

    /// Refuses what makes no sense (contract 8.1, 2.17). Says nothing about keys being held.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        limits::check_priority(self.priority)?;
        limits::check_counts(self.max_attempts, self.max_deliveries)?;
        limits::check_content(&self.content)?;
        let run_at = self.run_at.resolve(now);
        if run_at > Timestamp::MAX || run_at.as_millis() < 0 {
            return Err(Invalid::new(
                "run_at",
                "a moment from 1970 to the end of the year 9999",
            ));
        }
        if let Policy::Dedup(policy) = &self.policy {
            policy.check()?;
            let debounced = matches!(policy.on_duplicate, OnDuplicate::Debounce { .. });
            if debounced && self.run_at != RunAt::Now {
                return Err(Invalid::new(
                    "run_at with debounce",
                    "no run_at: debounce says when the job starts",
                ));
            }
        }
        Ok(())
    }
}

/// A checked submission with its key.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The submission as it came.
    pub submission: Submission,
    /// Its key, if its policy gives it one.
    pub key: Option<Key>,
}

impl Prepared {
    /// Checks a submission and derives its key; what every store does first with what it is given.
    pub fn new(namespace: &Name, submission: Submission, now: Timestamp) -> Result<Self, Invalid> {
        submission.check(now)?;
        let key = match &submission.policy {
            Policy::Dedup(policy) => Some(key::derive(namespace, &submission, policy, now)?),
            Policy::Unsaid | Policy::None => None,
        };
        Ok(Prepared { submission, key })
    }

    /// The policy that was asked for or added.
    pub fn policy(&self) -> Option<&Dedup> {
        match &self.submission.policy {
            Policy::Dedup(policy) => Some(policy),
            Policy::Unsaid | Policy::None => None,
        }
    }

    /// Gives a submission that said nothing the policy of its unique queue (contract 2.15).
    pub fn with_queue_policy(mut self, namespace: &Name, now: Timestamp) -> Result<Self, Invalid> {
        if self.submission.policy == Policy::Unsaid {
            let policy = Dedup::of_unique_queue();
            self.key = Some(key::derive(namespace, &self.submission, &policy, now)?);
            self.submission.policy = policy.into();
        }
        Ok(self)
    }
}
