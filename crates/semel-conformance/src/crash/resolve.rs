//! Making a call from the words of its log line: by the load, and once more by the parent where the answer is unknown.

use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::ids::{JobId, Token};
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::store::{
    Act, ActOutcome, ClaimRequest, JobFilter, Page, Settlement, Store, Submitted, WriteOutcome,
};
use semel_core::submission::{Policy, Submission};
use semel_core::time::Millis;

use super::history::History;
use super::log::Call;
use super::report::Report;
use crate::kit::{claim_request, made_by, plain, secs};
use crate::rng::Rng;

/// Makes a call; the words of its answer.
pub(super) async fn carry_out(store: &dyn Store, call: &Call) -> Vec<String> {
    match call.verb() {
        "submit" => {
            let answers = store
                .submit(vec![submission(call)])
                .await
                .expect("the store answers");
            said_of_submission(&answers[0])
        }
        "claim" => {
            let token = call.asked(1).parse().expect("a token");
            let max = call.asked(2).parse().expect("a number");
            let request = ClaimRequest {
                token,
                lease: secs(3_600),
                ..claim_request(max)
            };
            let claims = store.claim(request).await.expect("the store answers");
            claims
                .iter()
                .map(|claimed| format!("{}:{}", claimed.job.id, claimed.fence))
                .collect()
        }
        "settle" | "stale" => {
            let fence = call.asked(2).parse().expect("a fence");
            let settlement = Settlement {
                id: id(call.asked(1)),
                fence,
                result: result(call.asked(3)),
            };
            let answers = store.settle(vec![settlement]).await.expect("the store answers");
            said_of_settlement(&answers[0])
        }
        _ => {
            let answers = store.act(vec![act(call)]).await.expect("the store answers");
            said_of_act(&answers[0])
        }
    }
}

/// Makes an unknown call once more. A retry by hand has no token: whether it was applied is read off the job instead.
pub(super) async fn repeat(store: &dyn Store, mut call: Call, report: &mut Report) -> Call {
    call.repeated = true;
    if call.verb() == "submit" {
        let token = call.asked(1).parse().expect("a token");
        report.unknown_submission(has_made(store, token).await);
    }
    if call.verb() != "retry" {
        call.answer = Some(carry_out(store, &call).await);
    }
    call
}

/// Whether a submission has made a job.
async fn has_made(store: &dyn Store, token: Token) -> bool {
    let mut page = Page::first(500);
    loop {
        let listing = store
            .jobs(JobFilter::default(), page)
            .await
            .expect("the store answers");
        if listing.items.iter().any(|job| made_by(&job.id, token)) {
            return true;
        }
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => return false,
        }
    }
}

/// The leases of the dead are given back or completed, as their workers would have in time.
pub(super) async fn finish_leases(store: &dyn Store, history: &mut History, rng: &mut Rng) {
    for (id, fence) in history.open_leases() {
        let result = if rng.chance(60) { "complete" } else { "hand_back" };
        let request = ["settle", id.as_str(), &fence.to_string(), result]
            .map(str::to_owned)
            .to_vec();
        let mut call = Call {
            request,
            answer: None,
            repeated: false,
        };
        call.answer = Some(carry_out(store, &call).await);
        history.learn(&call);
    }
}

fn submission(call: &Call) -> Submission {
    let mut submission = Submission {
        token: call.asked(1).parse().expect("a token"),
        ..plain()
    };
    let key = Dedup::explicit(call.asked(2));
    submission.policy = match call.asked(3) {
        "plain" => Policy::None,
        "reject" => key.on_duplicate(OnDuplicate::Reject).into(),
        "latest" => key.latest().into(),
        "forever" => key.hold(Hold::forever()).into(),
        _ => key.into(),
    };
    submission
}

fn result(word: &str) -> Settle {
    match word {
        "complete" => Settle::Complete { output: None },
        "fail" => Settle::Fail {
            error: "no".to_owned(),
        },
        "retry" => Settle::Retry {
            error: "not yet".to_owned(),
            delay: Some(Millis::ZERO),
        },
        _ => Settle::HandBack,
    }
}

fn act(call: &Call) -> Act {
    let id = id(call.asked(1));
    match call.verb() {
        "cancel" => Act::Cancel { id },
        "retry" => Act::Retry { id },
        "replay" => Act::Replay {
            id,
            token: call.asked(2).parse().expect("a token"),
        },
        verb => panic!("the load does not {verb}"),
    }
}

fn said_of_submission(answer: &Submitted) -> Vec<String> {
    let (Some(outcome), Some(id)) = (answer.outcome(), answer.id()) else {
        panic!("unexpected: {answer:?}")
    };
    vec![outcome.word().to_owned(), id.to_string()]
}

fn said_of_settlement(answer: &WriteOutcome) -> Vec<String> {
    let words = match answer {
        WriteOutcome::Ok(state) => ["ok", state.word()],
        WriteOutcome::Refused(Refusal::Cancelled) => ["refused", "cancelled"],
        WriteOutcome::Refused(Refusal::LeaseLost) => ["refused", "lost"],
        WriteOutcome::NotFound | WriteOutcome::Invalid(_) => panic!("unexpected: {answer:?}"),
    };
    words.map(str::to_owned).to_vec()
}

fn said_of_act(answer: &ActOutcome) -> Vec<String> {
    match answer {
        ActOutcome::Done { id, .. } => vec!["done".to_owned(), id.to_string()],
        ActOutcome::Before { id } => vec!["before".to_owned(), id.to_string()],
        ActOutcome::WrongState(state) => vec!["wrong".to_owned(), state.word().to_owned()],
        ActOutcome::Replayed { by } => vec!["replayed".to_owned(), by.to_string()],
        ActOutcome::Held { holder } => vec!["held".to_owned(), holder.id.to_string()],
        other => panic!("unexpected: {other:?}"),
    }
}

/// An id from a log line.
pub(super) fn id(text: &str) -> JobId {
    JobId::new(text).expect("an id")
}
