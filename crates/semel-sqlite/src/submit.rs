//! Admission: token, key, job and place in the order in one commit (contract 2.9).

mod absorb;
mod accept;
mod explain;
mod holder;
mod known;

pub use explain::explain;
pub use known::remember;

use semel_core::admission::{self, Decision};
use semel_core::store::Submitted;
use semel_core::submission::{Policy, Prepared};

use crate::batch::{Batch, Item};
use crate::born::FEW;
use crate::fail::Fail;
use crate::submit::absorb::absorb;
use crate::submit::accept::accept;
use crate::submit::holder::find_holder;
use crate::submit::known::answered_before;
use crate::tx::Tx;

/// Admits a batch, one item after another.
pub fn submit(tx: &mut Tx<'_>, batch: &mut Batch) -> Result<Vec<Submitted>, Fail> {
    tx.rescue()?;
    let deferring = tx.deferring;
    tx.deferring &= batch.len() <= FEW;
    let answers = each(tx, batch);
    tx.deferring = deferring;
    answers
}

fn each(tx: &mut Tx<'_>, batch: &mut Batch) -> Result<Vec<Submitted>, Fail> {
    let mut answers = Vec::with_capacity(batch.len());
    for at in 0..batch.len() {
        answers.push(one(tx, batch.item(at)?)?);
    }
    Ok(answers)
}

fn one(tx: &mut Tx<'_>, item: &Item) -> Result<Submitted, Fail> {
    let prepared = match item {
        Ok(prepared) => prepared,
        Err(invalid) => return Ok(Submitted::Invalid(invalid.clone())),
    };
    let submission = &prepared.submission;
    if let Some(target) = tx.closed(&submission.queue, &submission.task) {
        return Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Closed { target }));
    }
    if let Err(invalid) = tx.bounded(&submission.queue, &submission.task) {
        return Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Invalid(invalid)));
    }
    if submission.policy == Policy::Unsaid && tx.is_unique(&submission.queue) {
        return match prepared.clone().with_queue_policy(tx.namespace, tx.now) {
            Ok(prepared) => admit(tx, &prepared),
            Err(invalid) => Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Invalid(invalid))),
        };
    }
    admit(tx, prepared)
}

fn admit(tx: &mut Tx<'_>, prepared: &Prepared) -> Result<Submitted, Fail> {
    let submission = &prepared.submission;
    let holder = match &prepared.key {
        Some(key) => find_holder(tx, key)?.map(|found| (key, found)),
        None => None,
    };
    let observe = tx.observes(&submission.queue, &submission.task);
    let view = holder.as_ref().map(|(key, found)| found.holder(key));
    let decision = admission::admit(prepared, view.as_ref(), observe, tx.now, tx.peek_seq());
    match (decision, holder) {
        (
            Decision::Accept {
                life,
                would,
                takes_over,
            },
            holder,
        ) => {
            let from = holder.filter(|_| takes_over).map(|(_, found)| found.row);
            accept(tx, prepared, *life, would, from)
        }
        (decision, Some((key, found))) => absorb(tx, prepared, key, &found, decision),
        (_, None) => unreachable!("only a holder absorbs"),
    }
}
