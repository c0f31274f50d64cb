//! Whose turn it is to carry out a plan: one at a time, over all processes.

use semel_core::ids::Token;
use semel_core::json::Json;
use semel_core::store::Expect;
use semel_core::time::Millis;

use crate::client::Client;
use crate::error::Error;
use crate::ids::fresh_token;
use crate::operate::operation::{kind, put_for};

/// How long one who carries out a plan may be silent before another may take over.
const TURN: Millis = Millis::from_secs(15);

/// The right to carry out a plan, kept as a document that disappears with whoever has it.
pub(super) struct Turn {
    id: String,
    token: Token,
    version: i64,
}

impl Turn {
    pub(super) async fn take(client: &Client, id: &str) -> Result<Self, Error> {
        let token = fresh_token();
        let mut turn = Turn {
            id: id.to_owned(),
            token,
            version: 0,
        };
        turn.write(client, Expect::Absent).await?;
        Ok(turn)
    }

    pub(super) async fn keep(&mut self, client: &Client) -> Result<(), Error> {
        self.write(client, Expect::Version(self.version)).await
    }

    async fn write(&mut self, client: &Client, expect: Expect) -> Result<(), Error> {
        let body = Json::of(&self.token)?;
        let written = put_for(client, "operation_turn", self.id.clone(), body, expect, TURN).await?;
        self.version = written.ok_or_else(|| Error::UnderWay { id: self.id.clone() })?;
        Ok(())
    }

    /// Lets another begin at once. If that cannot be said, the turn runs out by itself.
    pub(super) async fn give_back(self, client: &Client) {
        let kind = kind("operation_turn");
        let _ = client
            .store()
            .delete_document(&kind, &self.id, Some(self.version))
            .await;
    }
}
