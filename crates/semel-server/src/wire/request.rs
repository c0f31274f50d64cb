//! The schema of a submission. The request itself is [`semel::SubmitRequest`]; a test holds the two together.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::wire::words;

/// A submission.
#[derive(Debug, ToSchema)]
#[schema(as = Submission)]
#[allow(missing_docs)]
pub struct Submission {
    /// The kind of work, 1 to 128 bytes.
    pub task: String,
    /// What the handler gets: any JSON up to 256 KiB.
    pub input: serde_json::Value,
    /// A UUID that makes a repeated submission the same one.
    pub token: Option<String>,
    pub queue: Option<String>,
    /// One job for this key.
    pub idempotency_key: Option<String>,
    /// How long that key is kept; 30 days by default.
    pub idempotency_ttl_ms: Option<u64>,
    pub idempotency_scope: Option<words::Scope>,
    pub idempotency_scope_name: Option<String>,
    /// One job per input at a time; false: no deduplication, also on a unique queue.
    pub unique: Option<bool>,
    pub unique_for_ms: Option<u64>,
    pub dedup: Option<Dedup>,
    /// Not before this moment, RFC 3339.
    pub run_at: Option<String>,
    pub delay_ms: Option<u64>,
    /// −100 to 100, larger first.
    pub priority: Option<i64>,
    pub max_attempts: Option<u32>,
    pub max_deliveries: Option<u32>,
    pub timeout_ms: Option<u64>,
    pub headers: Option<BTreeMap<String, String>>,
    #[schema(value_type = Option<Object>)]
    pub meta: Option<serde_json::Value>,
    /// Who submits; the token's name where none is said.
    pub producer: Option<String>,
    /// Wait so long for the job to end, at most 60,000.
    pub wait_ms: Option<u64>,
}

/// A deduplication policy; what is left out is at its default.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Dedup {
    pub key: Option<String>,
    pub by: Option<words::KeyBy>,
    /// JSON pointers, for fields, except and hybrid.
    pub pointers: Option<Vec<String>>,
    pub headers: Option<Vec<String>>,
    pub meta: Option<Vec<String>>,
    pub period: Option<Period>,
    pub scope: Option<words::Scope>,
    pub scope_name: Option<String>,
    pub hold: Option<words::HoldKind>,
    pub ttl_ms: Option<u64>,
    pub cool_down_ms: Option<u64>,
    pub release_on: Option<Vec<words::ReleaseOn>>,
    pub on_duplicate: Option<words::OnDuplicate>,
    pub debounce_ms: Option<u64>,
    pub max_wait_ms: Option<u64>,
    pub on_mismatch: Option<words::OnMismatch>,
    pub mode: Option<words::Mode>,
}

/// A calendar period in a time zone.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Period {
    pub unit: words::PeriodUnit,
    /// A zone of the IANA database; UTC where none is named.
    pub zone: Option<String>,
}

/// One answer of a batch: that of a submission, or a problem.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct BatchAnswer<'a> {
    /// As a single submission would be answered.
    pub status: u16,
    pub outcome: Option<words::Outcome>,
    pub job: Option<crate::wire::Holder<'a>>,
    pub key: Option<crate::wire::AnswerKey<'a>>,
    pub would: Option<crate::wire::Would>,
    pub collides_with: Option<String>,
    /// Of a problem.
    #[schema(rename = "type")]
    pub kind: Option<String>,
    pub title: Option<String>,
    pub code: Option<String>,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub holder: Option<crate::wire::Holder<'a>>,
    pub differs: Option<Vec<String>>,
    pub target: Option<String>,
}

/// What became of an event for one subscriber.
#[derive(Debug, ToSchema)]
#[schema(as = Delivery)]
#[allow(missing_docs)]
pub struct DeliveryShape<'a> {
    /// The task that subscribed.
    pub task: String,
    pub outcome: Option<words::Outcome>,
    pub job: Option<crate::wire::Holder<'a>>,
    pub key: Option<crate::wire::AnswerKey<'a>>,
    pub would: Option<crate::wire::Would>,
    pub collides_with: Option<String>,
    /// Why it has no job.
    pub error: Option<String>,
}
