//! The answer a submission would get.

use semel_core::job::Outcome;
use semel_core::store::{Explanation, Submitted};
use semel_core::submission::Policy;

use crate::batch::Item;
use crate::fail::Fail;
use crate::inspect;
use crate::submit::holder::{find_holder, view};
use crate::submit::known::answered_before;
use crate::submit::one;
use crate::tx::Tx;

/// The answer a submission would get; the transaction it runs in is rolled back (contract 2.14).
pub fn explain(tx: &mut Tx<'_>, item: &Item) -> Result<Explanation, Fail> {
    tx.rescue()?;
    let prepared = match item {
        Ok(prepared) => prepared.clone(),
        Err(invalid) => {
            let submitted = Submitted::Invalid(invalid.clone());
            return Ok(Explanation {
                submitted,
                key: None,
                holder: None,
                admissible_at: None,
            });
        }
    };
    let (queue, task) = (&prepared.submission.queue, &prepared.submission.task);
    let judged = answered_before(tx, &prepared)?.is_none()
        && tx.closed(queue, task).is_none()
        && tx.bounded(queue, task).is_ok();
    let unsaid = prepared.submission.policy == Policy::Unsaid;
    let prepared = match judged && unsaid && tx.is_unique(&prepared.submission.queue) {
        true => prepared.with_queue_policy(tx.namespace, tx.now)?,
        false => prepared,
    };
    let found = match &prepared.key {
        Some(key) => find_holder(tx, key)?,
        None => None,
    };
    let (mut admissible_at, mut holder) = (None, None);
    if let Some(found) = found {
        let life = &found.row.life;
        admissible_at = life.holding.as_ref().and_then(|holding| holding.free_at(life));
        let whole = inspect::whole_job(&mut tx.statements, found.row.seq)?;
        holder = whole
            .and_then(|whole| whole.key_view(life, tx.now))
            .map(|key| (view(tx, &found), key));
    }
    let submitted = one(tx, &Ok(prepared.clone()))?;
    if !judged {
        admissible_at = None;
    } else if submitted.outcome() == Some(Outcome::Accepted) {
        admissible_at = Some(tx.now);
    }
    Ok(Explanation {
        submitted,
        key: prepared.key,
        holder,
        admissible_at,
    })
}
