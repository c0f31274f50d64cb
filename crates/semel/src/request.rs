//! A submission as JSON: what is sent over HTTP, typed on a command line, kept in a spool or a schedule.

mod dedup;

pub use dedup::{DedupRequest, DuplicateWord, PeriodRequest, ReleaseWord, ScopeWord};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use semel_core::error::Invalid;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::submission::{Policy, RunAt, Submission};
use semel_core::time::{Millis, Timestamp};

use crate::ids::fresh_token;
use crate::submit::wish::{Shape, Source, Wish};
use crate::task::TaskPolicy;

/// A submission as JSON. Unknown members are refused.
///
/// ```
/// use semel::SubmitRequest;
///
/// let request: SubmitRequest = serde_json::from_str(
///     r#"{"task": "charge_customer", "input": {"order": 7}, "idempotency_key": "ORD-7", "delay_ms": 5000}"#,
/// )?;
/// let submission = request.submission()?;
/// assert_eq!(submission.task.as_str(), "charge_customer");
/// assert!(serde_json::from_str::<SubmitRequest>(r#"{"task": "t", "input": 1, "prio": 3}"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The kind of work.
    pub task: String,
    /// What the handler gets.
    pub input: Json,
    /// Makes a repeated submission the same one; one is made where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Where it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// One job for this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How long that key is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_ttl_ms: Option<u64>,
    /// Where that key must be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_scope: Option<ScopeWord>,
    /// The name of a custom scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_scope_name: Option<String>,
    /// One job per input at a time; `false`: no deduplication, also on a unique queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// One job per input at a time, for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_for_ms: Option<u64>,
    /// A whole policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupRequest>,
    /// Not before this moment, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// Not before a while has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// −100 to 100, larger first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// How many attempts may end in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How many leases may expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Small texts that travel with the job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A JSON object for people and tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// Who submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// For whoever answers: wait so long for the job to end. No part of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl SubmitRequest {
    /// A request with every optional part left out.
    pub fn new(task: impl Into<String>, input: Json) -> Self {
        SubmitRequest {
            task: task.into(),
            input,
            token: None,
            queue: None,
            idempotency_key: None,
            idempotency_ttl_ms: None,
            idempotency_scope: None,
            idempotency_scope_name: None,
            unique: None,
            unique_for_ms: None,
            dedup: None,
            run_at: None,
            delay_ms: None,
            priority: None,
            max_attempts: None,
            max_deliveries: None,
            timeout_ms: None,
            headers: BTreeMap::new(),
            meta: None,
            producer: None,
            wait_ms: None,
        }
    }

    /// The submission, if the request makes sense.
    pub fn submission(self) -> Result<Submission, Invalid> {
        let policy = self.policy()?;
        let run_at = self.run_at()?;
        let token = self.token.unwrap_or_else(fresh_token);
        let mut submission = Submission::new(token, Name::new(&self.task)?, self.input);
        submission.policy = policy;
        submission.run_at = run_at;
        if let Some(queue) = self.queue {
            submission.queue = Name::new(queue)?;
        }
        submission.priority = priority(self.priority.unwrap_or(0))?;
        submission.max_attempts = self.max_attempts.unwrap_or(limits::MAX_ATTEMPTS);
        submission.max_deliveries = self.max_deliveries.unwrap_or(limits::MAX_DELIVERIES);
        submission.content.timeout = self.timeout_ms.map(millis);
        submission.content.headers = self.headers;
        submission.content.meta = self.meta;
        submission.producer = self.producer.map(Name::new).transpose()?;
        Ok(submission)
    }

    fn policy(&self) -> Result<Policy, Invalid> {
        let mut wish = Wish::default();
        if let Some(key) = &self.idempotency_key {
            wish.source(Source::Idempotency(key.clone()))?;
        }
        if let Some(ttl) = self.idempotency_ttl_ms {
            wish.ttl(millis(ttl).into());
        }
        if let Some(scope) = dedup::scope(self.idempotency_scope, self.idempotency_scope_name.as_deref())? {
            wish.scope(scope);
        }
        match (self.unique, self.unique_for_ms) {
            (Some(false), Some(_)) => {
                return Err(Invalid::new("unique: false with unique_for_ms", "one of them"));
            }
            (_, Some(ttl)) => wish.shape(Shape::UniqueFor(millis(ttl).into()))?,
            (Some(true), None) => wish.shape(Shape::Unique)?,
            (Some(false), None) => wish.shape(Shape::Without)?,
            (None, None) => {}
        }
        if let Some(policy) = &self.dedup {
            wish.shape(Shape::Whole(policy.policy()?.into()))?;
        }
        wish.policy(&self.task, TaskPolicy::Unsaid)
    }

    fn run_at(&self) -> Result<RunAt, Invalid> {
        match (&self.run_at, self.delay_ms) {
            (None, None) => Ok(RunAt::Now),
            (None, Some(delay)) => Ok(RunAt::After(millis(delay))),
            (Some(text), None) => moment(text).map(RunAt::At),
            (Some(_), Some(_)) => Err(Invalid::new("run_at with delay_ms", "one of them")),
        }
    }
}

/// A submission said as a request again: submitted anew, it is the same submission.
impl From<&Submission> for SubmitRequest {
    fn from(submission: &Submission) -> Self {
        let content = &submission.content;
        let mut request = SubmitRequest::new(submission.task.as_str(), content.input.clone());
        request.token = Some(submission.token);
        request.queue = Some(submission.queue.to_string());
        match &submission.policy {
            Policy::Unsaid => {}
            Policy::None => request.unique = Some(false),
            Policy::Dedup(policy) => request.dedup = Some(DedupRequest::from(&**policy)),
        }
        match submission.run_at {
            RunAt::Now => {}
            RunAt::At(at) => request.run_at = Some(at.to_string()),
            RunAt::After(delay) => request.delay_ms = Some(delay.as_millis().unsigned_abs()),
        }
        request.priority = Some(submission.priority.into());
        request.max_attempts = Some(submission.max_attempts);
        request.max_deliveries = Some(submission.max_deliveries);
        request.timeout_ms = content.timeout.map(|length| length.as_millis().unsigned_abs());
        request.headers = content.headers.clone();
        request.meta = content.meta.clone();
        request.producer = submission.producer.as_ref().map(ToString::to_string);
        request
    }
}

fn priority(number: i64) -> Result<i8, Invalid> {
    i8::try_from(number)
        .map_err(|_| Invalid::new("priority", "-100 to 100, larger first").found(number.to_string()))
}

fn millis(number: u64) -> Millis {
    Millis::new(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A moment as people write it.
fn moment(text: &str) -> Result<Timestamp, Invalid> {
    let parsed: jiff::Timestamp = text.parse().map_err(|_| {
        Invalid::new("run_at", "a moment as in RFC 3339, such as 2027-01-31T08:00:00Z").found(text)
    })?;
    Ok(Timestamp::from_millis(parsed.as_millisecond()))
}
