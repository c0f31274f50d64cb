//! The answer to a submission, given or foreseen.

use semel_core::dedup::{HoldKind, KeyBy};
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, Would};
use semel_core::json::Json;
use semel_core::store;
use semel_core::time::{Millis, Timestamp};
use semel_core::view;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::{Holder, Key, Moment, words};

/// The answer to a submission.
#[derive(Debug, Serialize, ToSchema)]
pub struct Answer<'a> {
    /// Which of the closed set (contract 2.7).
    #[schema(value_type = words::Outcome)]
    pub outcome: Outcome,
    /// The job it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Holder<'a>>,
    /// For an error: the job that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder<'a>>,
    /// For a conflict: where the inputs differ.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub differs: &'a [String],
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<AnswerKey<'a>>,
    /// What an observing submission would have got.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::wire::Would>)]
    pub would: Option<&'a Would>,
    /// The job of the same hybrid fields it differs from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub collides_with: Option<&'a JobId>,
    /// What the job gave, where somebody waited for it and may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<&'a Json>,
    /// What went wrong with the job, where somebody waited for it and may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub error: Option<&'a str>,
}

/// A key, as far as it is known: the digest always.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnswerKey<'a> {
    #[schema(value_type = String)]
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::KeyBy>)]
    by: Option<KeyBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::HoldKind>)]
    hold: Option<HoldKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absorbed: Option<i64>,
}

impl<'a> AnswerKey<'a> {
    /// All that is known.
    fn whole(row: &'a view::KeyRow) -> Self {
        let key = &row.key;
        AnswerKey {
            digest: key.digest,
            text: key.text.as_deref(),
            scope: Some(&key.scope),
            by: Some(key.by),
            hold: Some(key.hold.kind),
            held: Some(key.held),
            taken_at: Some(key.taken_at.into()),
            expires_at: key.expires_at.map(Moment),
            absorbed: Some(row.absorbed),
        }
    }

    /// One that was taken a moment ago, as its submission says.
    pub fn taken(
        digest: Digest,
        text: Option<&'a str>,
        scope: &'a str,
        hold: HoldKind,
        at: Timestamp,
        ttl: Option<Millis>,
    ) -> Self {
        AnswerKey {
            text,
            scope: Some(scope),
            hold: Some(hold),
            held: Some(true),
            taken_at: Some(at.into()),
            expires_at: ttl.map(|ttl| Moment(at.plus(ttl))),
            absorbed: Some(0),
            ..AnswerKey::found_by(digest)
        }
    }

    /// What it is found by.
    fn found_by(digest: Digest) -> Self {
        AnswerKey {
            digest,
            text: None,
            scope: None,
            by: None,
            hold: None,
            held: None,
            taken_at: None,
            expires_at: None,
            absorbed: None,
        }
    }
}

impl<'a> Answer<'a> {
    /// The same answer with all that is known of the key.
    #[must_use]
    pub fn with_key(mut self, row: Option<&'a view::KeyRow>) -> Self {
        if let Some(row) = row {
            self.key = Some(AnswerKey::whole(row));
        }
        self
    }

    /// The same answer with what its submission says of the key.
    #[must_use]
    pub fn with_fresh_key(mut self, key: Option<AnswerKey<'a>>) -> Self {
        self.key = key.or(self.key);
        self
    }

    /// The answer of a store that names a job.
    pub fn admitted(admitted: &'a store::Admitted) -> Self {
        Answer {
            outcome: admitted.outcome,
            job: Some(Holder::from(&admitted.job)),
            holder: None,
            differs: &[],
            key: admitted.key.map(AnswerKey::found_by),
            would: admitted.would.as_ref(),
            collides_with: admitted.collides_with.as_ref(),
            output: None,
            error: None,
        }
    }

    /// The answer of a store, where there is one.
    pub fn of(submitted: &'a store::Submitted) -> Option<Self> {
        let mut answer = Answer {
            outcome: submitted.outcome()?,
            job: None,
            holder: None,
            differs: &[],
            key: None,
            would: None,
            collides_with: None,
            output: None,
            error: None,
        };
        match submitted {
            store::Submitted::Job(admitted) => answer = Answer::admitted(admitted),
            store::Submitted::Rejected { holder } => answer.holder = Some(Holder::from(holder)),
            store::Submitted::Conflict { holder, differs } => {
                answer.holder = Some(Holder::from(holder));
                answer.differs = differs;
            }
            store::Submitted::Invalid(_) | store::Submitted::Closed { .. } => {}
        }
        Some(answer)
    }
}

/// The answer a submission would get.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyMaterial<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_key: Option<Key<'a>>,
    #[schema(required)]
    admissible_at: Option<Moment>,
}

/// What a key is made from.
#[derive(Debug, Serialize, ToSchema)]
struct KeyMaterial<'a> {
    #[schema(value_type = String)]
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    text: Option<&'a str>,
    #[schema(value_type = words::KeyBy)]
    by: KeyBy,
    #[schema(value_type = String)]
    scope: &'a str,
    #[schema(value_type = String)]
    input_digest: Digest,
}

impl<'a> Explanation<'a> {
    /// What a store foresees, where there would be an answer.
    pub fn of(explanation: &'a store::Explanation) -> Option<Self> {
        let mut answer = Answer::of(&explanation.submitted)?;
        if let Some((holder, _)) = &explanation.holder {
            answer.holder = Some(Holder::from(holder));
        }
        answer.key = None;
        if answer.outcome == Outcome::Accepted {
            // The job does not exist: its name would be a promise.
            answer.job = None;
        }
        Some(Explanation {
            answer,
            key: explanation.key.as_ref().map(|key| KeyMaterial {
                digest: key.digest,
                text: key.text.as_deref(),
                by: key.by,
                scope: &key.scope,
                input_digest: key.input,
            }),
            held_key: explanation.holder.as_ref().map(|(_, key)| Key::from(key)),
            admissible_at: explanation.admissible_at.map(Moment),
        })
    }
}
