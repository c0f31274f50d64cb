//! A claim bears any number of places in the order of dispatch.

use semel_conformance::kit::{claim_request, name, plain};
use semel_core::limits;
use semel_core::store::Store as _;
use semel_core::submission::Submission;
use semel_redis::RedisStore;

use crate::server::Server;

/// Tasks whose jobs are of every priority there is: together more places than the stack of a script takes.
const TASKS: usize = 43;

fn of_every_priority(task: usize) -> impl Iterator<Item = Submission> {
    (-100..=100).map(move |priority| {
        let mut submission = plain();
        submission.task = name(&format!("task-{task}"));
        submission.priority = priority;
        submission
    })
}

/// The script that claims named all places in its answer, by unpacking them: with some 8,000 of them every claim of every
/// handle ended in an error, and nothing would have made them fewer.
#[tokio::test]
async fn a_claim_bears_any_number_of_places() {
    let server = Server::start();
    let store = RedisStore::connect(&server.url()).await.expect("the store opens");
    let all: Vec<Submission> = (0..TASKS).flat_map(of_every_priority).collect();
    for batch in all.chunks(limits::BATCH) {
        store.submit(batch.to_vec()).await.expect("the store answers");
    }
    let mut claimed = 0;
    while claimed < all.len() {
        let claims = store
            .claim(claim_request(limits::BATCH))
            .await
            .expect("the store answers");
        assert!(!claims.is_empty(), "{claimed} of {} were claimed", all.len());
        claimed += claims.len();
    }
}
