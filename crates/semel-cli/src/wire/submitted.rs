//! The answer to a submission, given or foreseen.

use semel_core::dedup::KeyBy;
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, Would};
use semel_core::store;
use semel_core::view;
use serde::Serialize;

use crate::wire::{Holder, Key, Moment};

/// The answer to a submission.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// Which of the closed set (contract 2.7).
    pub outcome: Outcome,
    /// The job it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Holder<'a>>,
    /// For an error: the job that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder<'a>>,
    /// For a conflict: where the inputs differ.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub differs: &'a [String],
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<AnswerKey<'a>>,
    /// What an observing submission would have got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'a Would>,
    /// The job of the same hybrid fields it differs from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collides_with: Option<&'a JobId>,
}

/// A key, as far as it is known.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AnswerKey<'a> {
    /// All of it.
    Whole(Box<Key<'a>>),
    /// What it is found by.
    Digest {
        /// The digest.
        digest: Digest,
    },
}

impl<'a> Answer<'a> {
    /// The same answer with all that is known of the key.
    #[must_use]
    pub fn with_key(mut self, row: Option<&'a view::KeyRow>) -> Self {
        if let Some(row) = row {
            self.key = Some(AnswerKey::Whole(Box::new(Key::of_row(row))));
        }
        self
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
        };
        match submitted {
            store::Submitted::Job(admitted) => {
                answer.job = Some(Holder::from(&admitted.job));
                answer.key = admitted.key.map(|digest| AnswerKey::Digest { digest });
                answer.would = admitted.would.as_ref();
                answer.collides_with = admitted.collides_with.as_ref();
            }
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
#[derive(Debug, Serialize)]
pub struct Explanation<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyMaterial<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_key: Option<Key<'a>>,
    admissible_at: Option<Moment>,
}

/// What a key is made from.
#[derive(Debug, Serialize)]
struct KeyMaterial<'a> {
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    by: KeyBy,
    scope: &'a str,
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
