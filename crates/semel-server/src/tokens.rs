//! Tokens: kept in the store as SHA-256, compared in constant time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use semel::Client;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Expect, Page, PutDocument, PutOutcome};
use semel_core::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Mutex;

use crate::role::{Caller, Role};
use crate::{clock, ids};

/// The kind of document a token is.
const KIND: &str = "token";
/// What is wrong where a name is taken.
pub const NAME: &str = "name of a token";
/// What every token begins with, so that scanners for leaked secrets find it.
const PREFIX: &str = "semel_";
/// Hex digits of a token's id.
const ID_DIGITS: usize = 16;
/// How soon a revoked token is refused everywhere.
const FRESH: Duration = Duration::from_secs(1);
/// How long known tokens are trusted while the store is out of reach.
const STALE: Duration = Duration::from_secs(60);

/// A token as it is kept: everything but the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Its id, which is also the first part of the token.
    pub id: String,
    /// Who has it; the actor in the audit feed.
    pub name: Name,
    /// What it may do.
    pub roles: Vec<Role>,
    /// The queues a worker may claim from; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Name>,
    /// SHA-256 of the token, in hex.
    sha256: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl TokenRecord {
    /// Whether it has not run out.
    pub fn is_good(&self) -> bool {
        self.expires_at.is_none_or(|at| clock::now() < at)
    }
}

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Who has it.
    pub name: Name,
    /// What it may do.
    pub roles: Vec<Role>,
    /// The queues a worker may claim from; empty: all.
    pub queues: Vec<Name>,
    /// How long it is good.
    pub ttl: Option<Millis>,
}

/// Makes a token. The second part of the answer is the token itself: it is said once and kept nowhere.
pub async fn create(client: &Client, new: NewToken) -> Result<(TokenRecord, String), semel::Error> {
    if new.roles.is_empty() {
        return Err(Invalid::new("roles", "at least one of read, submit, work, operate, admin").into());
    }
    let namesake = list(client)
        .await?
        .into_iter()
        .find(|known| known.name == new.name);
    match namesake {
        Some(known) if known.is_good() => {
            return Err(Invalid::new(NAME, "one that no other token has")
                .found(new.name.as_str())
                .into());
        }
        Some(expired) => drop(revoke(client, &expired.id).await?),
        None => {}
    }
    let id = ids::secret::<{ ID_DIGITS / 2 }>()?;
    let token = format!("{PREFIX}{id}{}", ids::secret::<32>()?);
    let now = clock::now();
    let mut roles = new.roles;
    roles.sort();
    roles.dedup();
    let record = TokenRecord {
        id,
        name: new.name,
        roles,
        queues: new.queues,
        sha256: hash(&token),
        created_at: now,
        expires_at: new.ttl.map(|ttl| now.plus(ttl)),
    };
    let put = PutDocument {
        kind: kind(),
        name: record.id.clone(),
        body: Json::of(&record)?,
        expect: Expect::Absent,
        // One that has run out stays until it is revoked: were it the last, its going would open the door.
        ttl: None,
    };
    match client.store().put_document(put).await? {
        PutOutcome::Done { .. } => Ok((record, token)),
        PutOutcome::Mismatch { .. } => Err(StoreError::unavailable("making a token").into()),
    }
}

/// The tokens there are, by id.
pub async fn list(client: &Client) -> Result<Vec<TokenRecord>, semel::Error> {
    let mut tokens = Vec::new();
    let mut page = Page::first(limits::PAGE);
    loop {
        let found = client.store().documents(&kind(), "", page).await?;
        // A document that a later version wrote in a way this one cannot read opens no door.
        tokens.extend(
            found
                .items
                .iter()
                .filter_map(|document| document.body.read().ok()),
        );
        match found.next_cursor {
            Some(cursor) => page = Page::after(cursor, limits::PAGE),
            None => return Ok(tokens),
        }
    }
}

/// Takes a token away, by its id or its name; gives what it was.
pub async fn revoke(client: &Client, which: &str) -> Result<TokenRecord, semel::Error> {
    let tokens = list(client).await?;
    let found = tokens
        .into_iter()
        .find(|token| token.id == which || token.name.as_str() == which);
    let record = found.ok_or_else(|| semel::Error::NotFound {
        what: format!("token {which}"),
    })?;
    client.store().delete_document(&kind(), &record.id, None).await?;
    Ok(record)
}

/// The tokens a server knows, read again every second.
#[derive(Debug, Default)]
pub struct Keyring {
    known: Mutex<Option<Known>>,
    /// There was a token once: this server does not go back to letting everybody in.
    closed: AtomicBool,
}

#[derive(Clone, Debug)]
struct Known {
    read_at: Instant,
    by_id: Arc<HashMap<String, TokenRecord>>,
}

impl Keyring {
    /// Whether there has been no token since the server began. Then whoever is on this machine is let in.
    pub async fn is_open(&self, client: &Client) -> Result<bool, StoreError> {
        let known = self.known(client).await?;
        Ok(known.is_empty() && !self.closed.load(Ordering::Relaxed))
    }

    /// Forgets what it knows, so that a change made here counts at once.
    pub async fn forget(&self) {
        *self.known.lock().await = None;
    }

    /// Who has this token, if it is good.
    pub async fn caller(&self, client: &Client, token: &str) -> Result<Option<Caller>, StoreError> {
        let known = self.known(client).await?;
        let id = token.strip_prefix(PREFIX).and_then(|rest| rest.get(..ID_DIGITS));
        let Some(record) = id.and_then(|id| known.get(id)) else {
            return Ok(None);
        };
        let same: bool = hash(token).as_bytes().ct_eq(record.sha256.as_bytes()).into();
        Ok((same && record.is_good()).then(|| caller(record)))
    }

    /// Who has the token of this id, if it is still good: for those who have signed in.
    pub async fn signed_in(&self, client: &Client, id: &str) -> Result<Option<Caller>, StoreError> {
        let known = self.known(client).await?;
        Ok(known.get(id).filter(|record| record.is_good()).map(caller))
    }

    async fn known(&self, client: &Client) -> Result<Arc<HashMap<String, TokenRecord>>, StoreError> {
        let now = clock::instant();
        let mut kept = self.known.lock().await;
        if let Some(known) = kept
            .as_ref()
            .filter(|known| now.duration_since(known.read_at) < FRESH)
        {
            return Ok(known.by_id.clone());
        }
        match list(client).await {
            Ok(tokens) => {
                self.closed.fetch_or(!tokens.is_empty(), Ordering::Relaxed);
                let by_id = tokens
                    .into_iter()
                    .map(|token| (token.id.clone(), token))
                    .collect();
                let known = Known {
                    read_at: now,
                    by_id: Arc::new(by_id),
                };
                *kept = Some(known.clone());
                Ok(known.by_id)
            }
            Err(error) => match kept
                .as_ref()
                .filter(|known| now.duration_since(known.read_at) < STALE)
            {
                Some(known) => Ok(known.by_id.clone()),
                None => Err(match error {
                    semel::Error::Store(error) | semel::Error::StoreUnavailable { source: error } => error,
                    other => StoreError::unavailable(format!("reading the tokens: {other}")),
                }),
            },
        }
    }
}

fn caller(record: &TokenRecord) -> Caller {
    Caller {
        token: Some(record.id.clone()),
        name: record.name.clone(),
        roles: record.roles.clone(),
        queues: record.queues.clone(),
    }
}

fn hash(token: &str) -> String {
    ids::hex(&Sha256::digest(token.as_bytes()))
}

fn kind() -> Name {
    Name::new(KIND).expect("a valid name")
}
