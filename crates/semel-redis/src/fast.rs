//! The common cases in one round trip: new submissions, first leases, completions. Each has a script of its own, which
//! looks at what the outcome hangs on and writes it in the same instant.
//!
//! No policy is decided there. What a new job with a free key is to be, what a lease and an end make of a head, is asked
//! of core before, for the case that everything is as believed; whatever is not so is left to the long way
//! ([`crate::writer`]). Believed is that lanes and settings are as last seen, that the clocks go alike, that nobody has
//! drawn a number of arrival since, and that a job this handle has leased is as it was leased.

pub mod absorb;
pub mod belief;
pub mod claim;
pub mod settle;
pub mod submit;

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use semel_core::error::StoreError;
use semel_core::time::Timestamp;

use crate::config::Config;
use crate::link::answer;
use crate::shard::Shard;

/// How far the server's clock may be from what a handle believes it to be, in milliseconds.
const CLOCKS_APART: i64 = 100;

/// The moment a call is decided at, as it is believed to be.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// In microseconds.
    pub micros: i64,
    /// In milliseconds.
    pub now: Timestamp,
}

impl Moment {
    fn of(shard: &Shard) -> Self {
        let micros = shard.time.about_micros();
        Moment {
            micros,
            now: Timestamp::from_millis(micros / 1_000),
        }
    }
}

/// What a script said.
#[derive(Debug)]
enum Said {
    /// It is written.
    Done(Vec<Value>),
    /// Something that was believed is known better now.
    Again(Vec<Value>),
    /// These are not as believed; nothing is written.
    Other(Vec<Value>),
    /// There are other places than believed.
    Places(Vec<Value>),
    /// Only the long way leads on.
    Long,
}

/// Lanes and settings as last seen; none if they never were, or if replicas have to be waited for: whether an answer that
/// writes nothing has to wait too is known to the long way alone.
fn config(shard: &Shard) -> Option<Arc<Config>> {
    shard.known_config().filter(|_| shard.link.wait.is_none())
}

/// Time, tolerance and version, with which each of the scripts begins.
fn believed(call: &mut Cmd, shard: &Shard, moment: Moment, version: i64) {
    let looked_at = shard.time.is_the_servers();
    believed_unless(call, !looked_at, moment, version);
}

/// The same, where the clock need not be looked at if that was done just now.
fn believed_for_now(call: &mut Cmd, shard: &Shard, moment: Moment, version: i64) {
    let trusted = !shard.time.is_the_servers() || shard.time.was_just_seen();
    believed_unless(call, trusted, moment, version);
}

fn believed_unless(call: &mut Cmd, trusted: bool, moment: Moment, version: i64) {
    call.arg(moment.now.as_millis());
    match trusted {
        true => call.arg(""),
        false => call.arg(CLOCKS_APART),
    };
    match version {
        0 => call.arg(""),
        version => call.arg(version),
    };
}

/// Sends a call and reads what the script said.
async fn ask(shard: &Shard, doing: &str, call: Cmd) -> Result<Said, StoreError> {
    let mut calls = redis::pipe();
    calls.add_command(call);
    ask_all(shard, doing, &calls).await
}

/// The same of a transaction in which the answer of the call is the only one that is wanted.
async fn ask_all(shard: &Shard, doing: &str, calls: &Pipeline) -> Result<Said, StoreError> {
    let asked = shard.time.ask();
    let answer = match shard.write(doing, calls).await {
        // What writes nothing can be answered even by a server without room.
        Err(StoreError::Full { .. }) => return Ok(Said::Long),
        other => other?,
    };
    if let Value::Int(written) = answer {
        let left_out = (written == 0).then_some(Value::Int(0));
        return Ok(Said::Done(left_out.into_iter().collect()));
    }
    let mut answer = answer::list(answer)?.into_iter();
    let word = answer::bytes(answer.next().unwrap_or(Value::Nil))?.unwrap_or_default();
    if matches!(word.as_slice(), b"done" | b"again") {
        let mut part = || answer::number(answer.next().unwrap_or(Value::Nil));
        let (seconds, micros) = (part()?, part()?);
        shard.time.seen(asked, seconds * 1_000_000 + micros);
    }
    let rest = answer.collect();
    match word.as_slice() {
        b"done" => Ok(Said::Done(rest)),
        b"again" => Ok(Said::Again(rest)),
        b"other" => Ok(Said::Other(rest)),
        b"places" => Ok(Said::Places(rest)),
        b"long" => Ok(Said::Long),
        other => Err(StoreError::corrupt(format!("the server answers {other:?}"))),
    }
}
