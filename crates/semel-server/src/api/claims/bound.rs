//! A lease is bound to the credential that claimed it: nobody settles another's job by guessing its fence.
//!
//! The binding is in the worker's name as it is stored, so it holds over restarts and several servers.

use std::collections::HashSet;

use semel::workers::{KIND, WorkerInfo};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Expect, PutDocument};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::leases::{BELIEVED, Introduction};
use crate::role::Caller;

/// What is added to the names of a caller's workers.
pub struct Binding(Option<String>);

impl Binding {
    /// Of a caller; one without a token is bound to nothing.
    pub fn of(caller: &Caller) -> Self {
        Binding(caller.token.as_ref().map(|id| format!("~{id}")))
    }

    /// The worker's name as it is stored.
    pub fn worker(&self, said: &Name) -> Result<Name, Invalid> {
        let Some(suffix) = &self.0 else {
            return Ok(said.clone());
        };
        let room = Name::MAX_BYTES - suffix.len();
        Name::new(format!("{}{suffix}", limits::cut(said.as_str(), room)))
    }

    /// The token of a claim as it is stored: who learns of another's cannot have its claim answered again.
    pub fn token(&self, said: Option<Token>) -> Token {
        let (Some(token), Some(suffix)) = (said, &self.0) else {
            return said.unwrap_or_else(semel::ids::fresh_token);
        };
        derived(&[token.as_bytes().as_slice(), suffix.as_bytes()])
    }

    /// Those of these jobs that another claimed.
    pub async fn foreign(&self, app: &App, ids: &[JobId]) -> Result<HashSet<JobId>, StoreError> {
        let Some(suffix) = &self.0 else {
            return Ok(HashSet::new());
        };
        let mut foreign = HashSet::new();
        for some in ids.chunks(limits::PAGE) {
            let jobs = app.client.store().jobs_by_id(some).await?;
            let others = jobs.into_iter().flatten().filter(|job| {
                let worker = job.worker.as_ref().map(Name::as_str);
                !worker.is_some_and(|worker| worker.ends_with(suffix.as_str()))
            });
            foreign.extend(others.map(|job| job.id));
        }
        Ok(foreign)
    }
}

/// The token of a piece of a claim: the same whenever the claim is sent again.
pub fn piece_token(claim: Token, piece: u32) -> Token {
    match piece {
        0 => claim,
        _ => derived(&[claim.as_bytes().as_slice(), piece.to_be_bytes().as_slice()]),
    }
}

fn derived(parts: &[&[u8]]) -> Token {
    let mut hashed = Sha256::new();
    for part in parts {
        hashed.update(part);
    }
    let digest: [u8; 32] = hashed.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Token::from_bytes(bytes)
}

/// Lists a worker that claims over HTTP, or sends heartbeats for what it claimed; one that cannot be listed still works.
pub async fn register(app: &App, said: &Introduction) {
    if !app.leases.is_due(said) {
        return;
    }
    let info = WorkerInfo {
        name: Some(said.worker.to_string()),
        host: "over HTTP".to_owned(),
        pid: 0,
        version: None,
        tasks: said.tasks.clone(),
        queues: said.queues.clone(),
        slots: said.slots,
        running: 0,
        started_at: None,
    };
    let written = async {
        let put = PutDocument {
            kind: Name::new(KIND)?,
            name: said.worker.to_string(),
            body: Json::of(&info)?,
            expect: Expect::Any,
            ttl: Some(BELIEVED.into()),
        };
        app.client.store().put_document(put).await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "a worker could not be listed");
    }
}
