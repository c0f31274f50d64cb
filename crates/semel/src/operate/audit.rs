//! The record of what people did.

use std::future::Future;

use serde::{Deserialize, Serialize};

use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::store::{Page, Target};
use semel_core::time::Timestamp;
use semel_core::view::Listing;

use crate::client::Client;
use crate::error::{Error, describe};
use crate::operate::action::Action;
use crate::operate::operation::{Operation, PARTS_TOLD};
use crate::operate::{Operator, REASON_BYTES};

/// The feed the record is kept in.
const FEED: &str = "audit";
/// How many of the newest entries are looked through for those about one key.
const LOOKED_THROUGH: usize = 500;
/// How many of the newest bulk releases are looked through for one key.
const BULK_LOOKED_THROUGH: usize = 10;

/// One entry of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Its place in the record.
    pub n: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: `pause`, `cancel`, `release`, …
    pub act: String,
    /// On what.
    pub subject: String,
    /// Why.
    pub reason: Option<String>,
    /// Why it was not done, in an entry that follows the one of the act itself.
    pub refused: Option<String>,
}

/// Why queues and tasks are set as they are.
#[derive(Clone, Debug, Default)]
pub struct SettingReasons(Vec<AuditEntry>);

impl SettingReasons {
    /// Why this was last done to this: `close`, `observe`, `unique`, …
    pub fn why(&self, act: &str, target: &Target) -> Option<&str> {
        let subject = describe(target);
        let done =
            |entry: &&AuditEntry| entry.act == act && entry.subject == subject && entry.refused.is_none();
        self.0.iter().find(done)?.reason.as_deref()
    }
}

/// A key that was released by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRelease {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// The job that had held it.
    pub holder: JobId,
    /// The bulk act that did it.
    pub operation: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    actor: String,
    act: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl Client {
    /// What people did, newest first.
    pub async fn audit(&self, page: Page) -> Result<Listing<AuditEntry>, Error> {
        let found = self.store().feed(FEED, page).await?;
        let entries = found.items.into_iter().map(|entry| {
            // An entry of a newer version is shown rather than hidden.
            let body = entry.body.read::<Body>().unwrap_or_else(|_| Body {
                actor: String::new(),
                act: String::new(),
                subject: entry.body.to_string(),
                reason: None,
                refused: None,
            });
            AuditEntry {
                n: entry.n,
                at: entry.at,
                actor: body.actor,
                act: body.act,
                subject: body.subject,
                reason: body.reason,
                refused: body.refused,
            }
        });
        Ok(Listing {
            items: entries.collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// Why queues and tasks are set as they are, as far as the newest 500 entries of the record tell.
    pub async fn setting_reasons(&self) -> Result<SettingReasons, Error> {
        let entries = self.audit(Page::first(LOOKED_THROUGH)).await?.items;
        Ok(SettingReasons(entries))
    }

    /// Who released a key by hand, newest first, as far as the newest 500 entries of the record and the newest 10 bulk
    /// acts in them tell. Attempts that were refused are left out.
    pub async fn releases(&self, digest: Digest) -> Result<Vec<KeyRelease>, Error> {
        let entries = self.audit(Page::first(LOOKED_THROUGH)).await?.items;
        let of_key = subject_of_release(digest, None);
        let mut refused: Vec<AuditEntry> = Vec::new();
        let mut released = Vec::new();
        let mut in_bulk = 0;
        for entry in entries {
            let single = entry
                .subject
                .strip_prefix(&of_key)
                .filter(|_| entry.act == RELEASE);
            let bulk = carried_out_release(&entry.subject).filter(|_| entry.act == CARRY_OUT);
            if single.is_none() && bulk.is_none() {
                continue;
            }
            // A refusal stands after its act, so it is met before it here.
            let same = |other: &AuditEntry| other.actor == entry.actor && other.subject == entry.subject;
            if entry.refused.is_some() {
                refused.push(entry);
                continue;
            }
            if let Some(of_this_one) = refused.iter().position(same) {
                refused.remove(of_this_one);
                // A bulk act that did not come to its end may have come to this key.
                if bulk.is_none() {
                    continue;
                }
            }
            let holder = match (single, bulk) {
                (Some(holder), _) => JobId::new(holder).ok(),
                (None, Some(id)) if in_bulk < BULK_LOOKED_THROUGH => {
                    in_bulk += 1;
                    released_in_bulk(self, id, digest).await?
                }
                _ => None,
            };
            released.extend(holder.map(|holder| KeyRelease {
                at: entry.at,
                operation: bulk.map(str::to_owned),
                actor: entry.actor.clone(),
                reason: entry.reason.clone(),
                holder,
            }));
        }
        Ok(released)
    }
}

/// The job whose key a bulk act freed, if it did; one that is no longer kept tells nothing.
async fn released_in_bulk(client: &Client, id: &str, digest: Digest) -> Result<Option<JobId>, Error> {
    let operation = match Operation::read(client, id).await {
        Ok((operation, _)) => operation,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    for n in 0..operation.parts.min(PARTS_TOLD) {
        let part = match operation.part(client, n).await {
            Err(Error::NotFound { .. }) => continue,
            part => part?,
        };
        let Some(at) = part.iter().position(|entry| entry.key == Some(digest)) else {
            continue;
        };
        let progress = &operation.progress;
        let was_its_turn = (n, at) < (progress.part, progress.place);
        let holder = part.into_iter().nth(at).map(|entry| entry.id);
        let was_refused = |id: &JobId| progress.refusals.iter().any(|(other, _)| other == id);
        return Ok(holder.filter(|id| was_its_turn && !was_refused(id)));
    }
    Ok(None)
}

/// The word for releasing a key by hand.
pub(super) const RELEASE: &str = "release";
/// The word for carrying out a plan.
pub(super) const CARRY_OUT: &str = "carry_out";

/// What is released, in words: a key, and of which job if that is asked for.
pub(super) fn subject_of_release(digest: Digest, holder: Option<&JobId>) -> String {
    let holder = holder.map(JobId::to_string).unwrap_or_default();
    format!("key {digest} of job {holder}")
}

/// Which plan is carried out, in words.
pub(super) fn subject_of_carrying_out(plan: &Operation) -> String {
    format!("operation {}: {} of {}", plan.id, plan.action.word(), plan.total)
}

/// The plan of a bulk release, from those words.
fn carried_out_release(subject: &str) -> Option<&str> {
    let (id, what) = subject.strip_prefix("operation ")?.split_once(": ")?;
    what.starts_with(Action::Release.word()).then_some(id)
}

impl Operator {
    /// Records an act, does it, and records a refusal. For acts of a front end's own, such as making a token.
    pub async fn on_record<T>(
        &self,
        act: &str,
        subject: &str,
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.record(act, subject, None).await?;
        let done = doing.await;
        if let Err(error) = &done {
            // What went wrong with the act is what the caller has to hear.
            let _ = self.record(act, subject, Some(error.to_string())).await;
        }
        done
    }

    async fn record(&self, act: &str, subject: &str, refused: Option<String>) -> Result<(), Error> {
        let body = Body {
            actor: self.actor()?.to_string(),
            act: act.to_owned(),
            subject: subject.to_owned(),
            reason: self.reason()?.map(str::to_owned),
            refused,
        };
        tracing::info!(
            actor = body.actor,
            act,
            subject,
            reason = body.reason,
            refused = body.refused,
            "operator act"
        );
        self.client.store().append(FEED, vec![Json::of(&body)?]).await?;
        Ok(())
    }

    pub(super) fn actor(&self) -> Result<Name, Invalid> {
        Name::new(&self.actor).map_err(|invalid| Invalid {
            what: "name of the one who acts".to_owned(),
            ..invalid
        })
    }

    pub(super) fn reason(&self) -> Result<Option<&str>, Invalid> {
        match self.reason.as_deref() {
            Some(reason) if reason.len() > REASON_BYTES => {
                Err(Invalid::new("reason", format!("at most {REASON_BYTES} bytes")))
            }
            reason => Ok(reason),
        }
    }
}
