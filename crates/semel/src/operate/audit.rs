//! The record of what people did.

use std::future::Future;

use serde::{Deserialize, Serialize};

use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::Page;
use semel_core::time::Timestamp;
use semel_core::view::Listing;

use crate::client::Client;
use crate::error::Error;
use crate::operate::{Operator, REASON_BYTES};

/// The feed the record is kept in.
const FEED: &str = "audit";

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
