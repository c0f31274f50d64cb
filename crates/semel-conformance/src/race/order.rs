//! What a member of a team is told to do, and what it says came of it: one line of text each.

use std::fmt;
use std::str::FromStr;

use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::{Digest, JobId};
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::store::{Act, ActOutcome, ClaimRequest, Settlement, Store, Submitted, WriteOutcome};
use semel_core::submission::Submission;

use crate::kit::{claim_request, secs, token, with};

/// One thing to do. `item` says which of several things in dispute it is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Submit a key, in so many submissions of one call.
    Submit {
        item: usize,
        key: String,
        hold: KeyHold,
        times: usize,
    },
    /// Claim until nothing is left.
    Claim { item: usize, max: usize },
    /// Complete a delivery.
    Settle { item: usize, id: JobId, fence: i64 },
    /// Cancel a job.
    Cancel { item: usize, id: JobId },
    /// Free a key from its holder.
    Release {
        item: usize,
        digest: Digest,
        holder: JobId,
    },
    /// Replay a dead letter.
    Replay { item: usize, id: JobId },
}

/// The holds that races are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHold {
    UntilFinished,
    Forever,
}

impl KeyHold {
    fn word(self) -> &'static str {
        match self {
            KeyHold::UntilFinished => "until_finished",
            KeyHold::Forever => "forever",
        }
    }

    fn hold(self) -> Hold {
        match self {
            KeyHold::UntilFinished => Hold::until_finished(),
            KeyHold::Forever => Hold::forever(),
        }
    }
}

/// A submission of a key.
pub(crate) fn submission(key: &str, hold: KeyHold) -> Submission {
    with(Dedup::explicit(key).hold(hold.hold()))
}

impl Order {
    /// Submits a key once.
    pub(crate) fn submit(item: usize, key: String, hold: KeyHold) -> Self {
        Order::Submit {
            item,
            key,
            hold,
            times: 1,
        }
    }

    /// Does it; one answer per item of the call.
    pub(crate) async fn carry_out(self, store: &dyn Store) -> Vec<Answer> {
        match self {
            Order::Submit {
                item,
                key,
                hold,
                times,
            } => {
                let batch = (0..times).map(|_| submission(&key, hold)).collect();
                let answers = store.submit(batch).await.expect("the store answers");
                answers
                    .iter()
                    .map(|answer| Answer::of_submission(item, answer))
                    .collect()
            }
            Order::Claim { item, max } => claim_all(store, item, max).await,
            Order::Settle { item, id, fence } => {
                let settlement = Settlement {
                    id: id.clone(),
                    fence,
                    result: Settle::Complete { output: None },
                };
                let answers = store.settle(vec![settlement]).await.expect("the store answers");
                answers
                    .iter()
                    .map(|answer| Answer::of_settlement(item, &id, answer))
                    .collect()
            }
            Order::Cancel { item, id } => act(store, item, "cancel", Act::Cancel { id }).await,
            Order::Release { item, digest, holder } => {
                act(store, item, "release", Act::Release { digest, holder }).await
            }
            Order::Replay { item, id } => {
                act(store, item, "replay", Act::Replay { id, token: token() }).await
            }
        }
    }
}

/// A store may have nothing to give for a moment, so one empty answer is not the end.
async fn claim_all(store: &dyn Store, item: usize, max: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut empty = 0;
    while empty < 3 {
        let request = ClaimRequest {
            lease: secs(3_600),
            ..claim_request(max)
        };
        let claims = store.claim(request).await.expect("the store answers");
        empty = if claims.is_empty() { empty + 1 } else { 0 };
        answers.extend(claims.into_iter().map(|claimed| Answer {
            item,
            verb: "claim".to_owned(),
            word: claimed.fence.to_string(),
            id: claimed.job.id.to_string(),
        }));
    }
    answers
}

async fn act(store: &dyn Store, item: usize, verb: &str, act: Act) -> Vec<Answer> {
    let outcomes = store.act(vec![act]).await.expect("the store answers");
    outcomes
        .iter()
        .map(|outcome| Answer::of_act(item, verb, outcome))
        .collect()
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Which of several things in dispute.
    pub(crate) item: usize,
    /// What was done.
    pub(crate) verb: String,
    /// How it ended.
    pub(crate) word: String,
    /// The job that was named; `-` where none was.
    pub(crate) id: String,
}

impl Answer {
    fn new(item: usize, verb: &str, word: impl Into<String>, id: Option<&JobId>) -> Self {
        let id = id.map_or_else(|| "-".to_owned(), JobId::to_string);
        Answer {
            item,
            verb: verb.to_owned(),
            word: word.into(),
            id,
        }
    }

    fn of_submission(item: usize, answer: &Submitted) -> Self {
        let word = answer.outcome().map_or_else(
            || format!("{answer:?}").replace(' ', "_"),
            |it| it.word().to_owned(),
        );
        Answer::new(item, "submit", word, answer.id())
    }

    fn of_settlement(item: usize, id: &JobId, answer: &WriteOutcome) -> Self {
        let word = match answer {
            WriteOutcome::Ok(state) => state.word(),
            WriteOutcome::Refused(Refusal::Cancelled) => "refused_cancelled",
            WriteOutcome::Refused(Refusal::LeaseLost) => "refused_lost",
            WriteOutcome::NotFound => "not_found",
            WriteOutcome::Invalid(_) => "invalid",
        };
        Answer::new(item, "settle", word, Some(id))
    }

    fn of_act(item: usize, verb: &str, outcome: &ActOutcome) -> Self {
        match outcome {
            ActOutcome::Done { id, .. } => Answer::new(item, verb, "done", Some(id)),
            ActOutcome::Before { id } => Answer::new(item, verb, "before", Some(id)),
            ActOutcome::NotFound => Answer::new(item, verb, "not_found", None),
            ActOutcome::WrongState(state) => Answer::new(item, verb, format!("wrong_{}", state.word()), None),
            ActOutcome::Replayed { by } => Answer::new(item, verb, "replayed", Some(by)),
            ActOutcome::Held { holder } => Answer::new(item, verb, "held", Some(&holder.id)),
            ActOutcome::NotInDoubt => Answer::new(item, verb, "not_in_doubt", None),
            ActOutcome::Closed { .. } => Answer::new(item, verb, "closed", None),
            ActOutcome::Invalid(_) => Answer::new(item, verb, "invalid", None),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.item, self.verb, self.word, self.id)
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let [item, verb, word, id] = words[..] else {
            return Err(format!("not an answer: {line:?}"));
        };
        let item = item.parse().map_err(|_| format!("not an item: {line:?}"))?;
        Ok(Answer {
            item,
            verb: verb.to_owned(),
            word: word.to_owned(),
            id: id.to_owned(),
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Submit {
                item,
                key,
                hold,
                times,
            } => write!(f, "submit {item} {key} {} {times}", hold.word()),
            Order::Claim { item, max } => write!(f, "claim {item} {max}"),
            Order::Settle { item, id, fence } => write!(f, "settle {item} {id} {fence}"),
            Order::Cancel { item, id } => write!(f, "cancel {item} {id}"),
            Order::Release { item, digest, holder } => write!(f, "release {item} {digest} {holder}"),
            Order::Replay { item, id } => write!(f, "replay {item} {id}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        parse(&words).ok_or_else(|| format!("not an order: {line:?}"))
    }
}

fn parse(words: &[&str]) -> Option<Order> {
    let item = words.get(1)?.parse().ok()?;
    let id = |at: usize| JobId::new(*words.get(at)?).ok();
    Some(match *words.first()? {
        "submit" => Order::Submit {
            item,
            key: (*words.get(2)?).to_owned(),
            hold: [KeyHold::UntilFinished, KeyHold::Forever]
                .into_iter()
                .find(|hold| hold.word() == words[3])?,
            times: words.get(4)?.parse().ok()?,
        },
        "claim" => Order::Claim {
            item,
            max: words.get(2)?.parse().ok()?,
        },
        "settle" => Order::Settle {
            item,
            id: id(2)?,
            fence: words.get(3)?.parse().ok()?,
        },
        "cancel" => Order::Cancel { item, id: id(2)? },
        "release" => Order::Release {
            item,
            digest: words.get(2)?.parse().ok()?,
            holder: id(3)?,
        },
        "replay" => Order::Replay { item, id: id(2)? },
        _ => return None,
    })
}
