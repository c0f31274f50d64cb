//! Calls that are answered together: what of them is answered already, and what is still open.

use semel_core::error::StoreError;
use semel_core::store::{Settlement, Submitted, WriteOutcome};
use semel_core::submission::{Prepared, Submission};

use crate::fast;
use crate::settle;
use crate::shard::Shard;
use crate::submit::{self, Item};
use crate::tx::{Drawn, Slot, Tx};
use crate::writer::{Call, Reply};

/// What a submission on its way is.
#[derive(Default)]
enum Content {
    /// Before its key is made.
    Raw(Submission),
    /// With its key.
    Item(Item),
    /// Somebody works on it, or it is answered.
    #[default]
    Taken,
}

/// A submission on its way.
pub struct OpenItem {
    content: Content,
    /// What was drawn for it.
    drawn: Drawn,
    answer: Option<Submitted>,
    tried: bool,
}

impl From<Item> for OpenItem {
    fn from(item: Item) -> Self {
        OpenItem {
            content: Content::Item(item),
            drawn: Drawn::default(),
            answer: None,
            tried: false,
        }
    }
}

impl From<Submission> for OpenItem {
    fn from(submission: Submission) -> Self {
        OpenItem {
            content: Content::Raw(submission),
            drawn: Drawn::default(),
            answer: None,
            tried: false,
        }
    }
}

impl OpenItem {
    /// Checks it and makes its key, if that was not done before.
    pub fn prepare(&mut self, shard: &Shard) -> Option<&Item> {
        if let Content::Raw(_) = &self.content
            && let Content::Raw(submission) = std::mem::take(&mut self.content)
        {
            let now = shard.time.about_now();
            self.content = Content::Item(Prepared::new(&shard.namespace, submission, now));
        }
        self.item()
    }

    fn item(&self) -> Option<&Item> {
        match &self.content {
            Content::Item(item) => Some(item),
            Content::Raw(_) | Content::Taken => None,
        }
    }

    /// What it is, with its key, if it can be a job.
    pub fn prepared(&self) -> Option<&Prepared> {
        self.item()?.as_ref().ok()
    }

    /// The same, for whoever gives it back if it stays open.
    pub fn take(&mut self) -> Option<Prepared> {
        match std::mem::take(&mut self.content) {
            Content::Item(Ok(prepared)) => Some(prepared),
            other => {
                self.content = other;
                None
            }
        }
    }

    /// It stays open.
    pub fn give_back(&mut self, prepared: Prepared) {
        self.content = Content::Item(Ok(prepared));
    }

    fn is_open(&self) -> bool {
        self.answer.is_none()
    }
}

/// An end on its way.
pub struct OpenEnd {
    settlement: Settlement,
    outcome: Option<WriteOutcome>,
    tried: bool,
}

impl From<Settlement> for OpenEnd {
    fn from(settlement: Settlement) -> Self {
        OpenEnd {
            settlement,
            outcome: None,
            tried: false,
        }
    }
}

impl OpenEnd {
    fn is_open(&self) -> bool {
        self.outcome.is_none()
    }
}

/// Writes and answers the common cases, once. After an error, too, some may be answered.
pub async fn at_once(shard: &Shard, calls: &mut [Call]) -> Result<(), StoreError> {
    let (mut items, mut ends) = (Vec::new(), Vec::new());
    for call in calls {
        match call {
            Call::Submit(batch) => items.extend(batch.iter_mut().filter(|open| !open.tried)),
            Call::Settle(batch) => ends.extend(batch.iter_mut().filter(|open| !open.tried)),
            _ => {}
        }
    }
    if !items.is_empty() {
        let (judged, outcome) = fast::submit::submit(shard, &mut items).await;
        let judged = judged.answers.into_iter().zip(judged.drawn);
        for (open, (answer, drawn)) in items.into_iter().zip(judged) {
            open.tried = outcome.is_ok() || answer.is_some();
            open.answer = answer;
            // After an error the others are tried once more, with what they draw then.
            if open.tried {
                open.drawn = drawn;
            }
        }
        outcome?;
    }
    if !ends.is_empty() {
        let all: Vec<&Settlement> = ends.iter().map(|open| &open.settlement).collect();
        let outcomes = fast::settle::settle(shard, &all).await?;
        for (open, outcome) in ends.into_iter().zip(outcomes) {
            open.outcome = outcome;
            open.tried = true;
        }
    }
    Ok(())
}

/// Whether nothing of a call is open.
pub fn is_answered(call: &Call) -> bool {
    match call {
        Call::Submit(batch) => !batch.iter().any(OpenItem::is_open),
        Call::Settle(batch) => !batch.iter().any(OpenEnd::is_open),
        _ => false,
    }
}

/// Submissions that are open, with what was drawn for them.
pub fn submissions(calls: &[Call]) -> impl Iterator<Item = (&Item, Drawn)> {
    let batches = calls.iter().filter_map(|call| match call {
        Call::Submit(batch) => Some(batch),
        _ => None,
    });
    let open = batches.flatten().filter(|open| open.is_open());
    open.filter_map(|open| Some((open.item()?, open.drawn)))
}

/// The numbers in the ledger that were drawn for the open ones may be somebody else's, where the server has lost that they
/// were drawn.
pub fn give_up_numbers(calls: &mut [Call]) {
    for call in calls {
        if let Call::Submit(batch) = call {
            batch.iter_mut().for_each(|open| open.drawn.entry = None);
        }
    }
}

/// What a step over the open ones will ask for.
pub fn wanted(shard: &Shard, calls: &[Call]) -> Vec<Slot> {
    let mut slots = submit::wanted(&shard.keys, submissions(calls).map(|(item, _)| item));
    for call in calls {
        match call {
            Call::Settle(batch) => {
                let open = batch.iter().filter(|open| open.is_open());
                slots.extend(settle::wanted(shard, open.map(|open| &open.settlement.id)));
            }
            Call::Extend(request) => {
                slots.extend(settle::wanted(shard, request.leases.iter().map(|beat| &beat.id)));
            }
            Call::Steps(batch) => slots.extend(settle::wanted(shard, batch.iter().map(|one| &one.id))),
            _ => {}
        }
    }
    slots
}

/// Decides the open ones in a step, each seeing what those before it did; gives all answers.
pub async fn decide(tx: &mut Tx<'_>, calls: &[Call]) -> Result<Vec<Reply>, StoreError> {
    let mut replies = Vec::with_capacity(calls.len());
    for call in calls {
        replies.push(match call {
            Call::Submit(batch) => {
                let open = batch.iter().filter(|open| open.is_open());
                let open: Vec<_> = open.filter_map(|open| Some((open.item()?, open.drawn))).collect();
                let rest = tx.submit(&open).await?;
                Reply::Submitted(filled(batch.iter().map(|open| open.answer.clone()), rest)?)
            }
            Call::Settle(batch) => {
                let open = batch.iter().filter(|open| open.is_open());
                let open: Vec<&Settlement> = open.map(|open| &open.settlement).collect();
                let rest = tx.settle(&open).await?;
                Reply::Written(filled(batch.iter().map(|open| open.outcome.clone()), rest)?)
            }
            Call::Extend(request) => Reply::Written(tx.extend(request).await?),
            Call::Steps(batch) => Reply::Steps(tx.steps(batch).await?),
            Call::Guard(batch) => Reply::Guards(tx.guard(batch).await?),
            _ => return Err(StoreError::corrupt("a call that stands alone came with others")),
        });
    }
    Ok(replies)
}

/// The answer to a call of which nothing is open.
pub fn reply(call: Call) -> Result<Reply, StoreError> {
    match call {
        Call::Submit(batch) => {
            filled(batch.into_iter().map(|open| open.answer), Vec::new()).map(Reply::Submitted)
        }
        Call::Settle(batch) => {
            filled(batch.into_iter().map(|open| open.outcome), Vec::new()).map(Reply::Written)
        }
        _ => Err(StoreError::corrupt("a call was forgotten")),
    }
}

/// Answers with the missing ones filled in, in their order.
fn filled<T>(answers: impl Iterator<Item = Option<T>>, rest: Vec<T>) -> Result<Vec<T>, StoreError> {
    let mut rest = rest.into_iter();
    let whole: Option<Vec<T>> = answers.map(|answer| answer.or_else(|| rest.next())).collect();
    whole.ok_or_else(|| StoreError::corrupt("a step answered too little"))
}
