//! SIGTERM stops a worker in order; a second one does not wait (contract 4.3).

use semel::{State, secs};

use crate::child::{LONG, PATIENT_LEASE};
use crate::place::{Place, eventually, look};

pub async fn campaign(_: bool) -> String {
    let place = Place::new().await;
    let sent = place
        .jobs
        .submit(LONG, &600_000)
        .queue("q")
        .await
        .expect("submitted");
    let worker = place.start("patient", &["q"]);
    let is = async |state| look(&place.jobs, sent.id()).await.state == state;
    eventually("the job to run", async || is(State::Running).await).await;
    worker.signal("TERM");
    tokio::time::sleep(PATIENT_LEASE + secs(1)).await;
    assert!(
        is(State::Running).await,
        "the running job is given its grace, and its lease is kept"
    );
    assert_eq!(look(&place.jobs, sent.id()).await.deliveries, 0);
    worker.signal("INT");
    eventually("the job to be handed back", async || is(State::Queued).await).await;
    let back = look(&place.jobs, sent.id()).await;
    assert_eq!((back.attempt, back.deliveries), (0, 0));
    "signals: one waits for the running job, the second hands it back".to_owned()
}
