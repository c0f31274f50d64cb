//! A lease is bound to the credential that claimed it: nobody settles another's job by guessing its fence.
//!
//! The binding is in the worker's name as it is stored, so it holds over restarts and several servers.

use std::collections::HashSet;

use semel::workers::{KIND, WorkerInfo};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{ClaimRequest, Expect, PutDocument};
use semel_core::time::Millis;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::role::Caller;

/// How long a worker that claims is believed to be there.
const BELIEVED: Millis = Millis::from_secs(90);

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
        let mut hashed = Sha256::new();
        hashed.update(token.as_bytes());
        hashed.update(suffix.as_bytes());
        let digest: [u8; 32] = hashed.finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Token::from_bytes(bytes)
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

/// Lists a worker that claims over HTTP; one that cannot be listed still works.
pub async fn register(app: &App, request: &ClaimRequest) {
    if !app.leases.is_due(&request.worker) {
        return;
    }
    let info = WorkerInfo {
        name: Some(request.worker.to_string()),
        host: "over HTTP".to_owned(),
        pid: 0,
        version: None,
        tasks: request.tasks.clone(),
        queues: request.queues.clone(),
        slots: request.max,
        running: 0,
        started_at: None,
    };
    let written = async {
        let put = PutDocument {
            kind: Name::new(KIND)?,
            name: request.worker.to_string(),
            body: Json::of(&info)?,
            expect: Expect::Any,
            ttl: Some(BELIEVED),
        };
        app.client.store().put_document(put).await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "a worker could not be listed");
    }
}
