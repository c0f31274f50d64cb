//! Order within a partition, and nothing that blocks anybody else (contract 5.5).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{Client, Target};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_outbox::postgres::PostgresOutbox;
use semel_outbox::sqlite::SqliteOutbox;
use semel_outbox::{Boundary, Plain, Relay, Source};

use crate::stage::{Kind, Stage, now};

pub async fn several_relays_keep_the_order_of_each_partition(kind: Kind) {
    let stage = Stage::new(kind).await;
    let events = 600;
    let mut script = String::from("BEGIN;");
    for n in 0..events {
        let (partition, task) = (n % 5, n % 3);
        script.push_str(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) VALUES ('{partition}-{n:04}', 't{task}', '{{\"id\": \"{partition}-{n:04}\"}}', 'p{partition}');"
        ));
    }
    script.push_str("COMMIT;");
    stage.run(&script).await;
    let mut relays = Vec::new();
    for size in [7, 50, 3, 20] {
        let relay = Relay::new(stage.another().await, &stage.jobs).batch(size);
        relays.push(tokio::spawn(async move {
            let mut sent = 0;
            // One that finds everything taken by others comes again.
            for _ in 0..2_000 {
                let round = relay.round().await.unwrap();
                sent += round.sent;
                if relay_is_idle(&relay).await {
                    break;
                }
                if round.taken == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
            sent
        }));
    }
    let mut sent = 0;
    for relay in relays {
        sent += relay.await.unwrap();
    }
    assert_eq!(sent, events);
    let order = stage.submitted().await;
    assert_eq!(order.len(), events as usize);
    let mut last: HashMap<&str, &str> = HashMap::new();
    for id in &order {
        let partition = &id[..1];
        if let Some(before) = last.insert(partition, id) {
            assert!(before < id.as_str(), "{before} came before {id}: {order:?}");
        }
    }
}

async fn relay_is_idle(relay: &Relay) -> bool {
    relay.status().await.unwrap().pending == 0
}

pub async fn no_event_is_taken_by_two_relays(kind: Kind) {
    let stage = Stage::new(kind).await;
    for n in 0..10 {
        stage
            .event(&format!("e-{n}"), "t", (n % 2 == 0).then_some("even"))
            .await;
    }
    let none = Boundary::default();
    let first = stage.source.claim(4, &none).await.unwrap();
    let second = stage.another().await.claim(100, &none).await.unwrap();
    let ids =
        |events: &[semel_outbox::Pending]| -> Vec<i64> { events.iter().map(|event| event.seq).collect() };
    let (first_ids, second_ids) = (ids(first.events()), ids(second.events()));
    assert_eq!(first_ids.len(), 4);
    // The rest of `even` waits for the first relay; those without a partition do not.
    assert_eq!(second_ids.len(), 3, "{first_ids:?} {second_ids:?}");
    assert!(HashSet::<_>::from_iter(first_ids).is_disjoint(&HashSet::from_iter(second_ids)));
    first.give_back(&none).await.unwrap();
    second.give_back(&none).await.unwrap();
    let all = stage.source.claim(100, &none).await.unwrap();
    assert_eq!(all.events().len(), 10, "what was given back can be taken");
    all.give_back(&none).await.unwrap();
}

/// Three events of partition `p`, the first of which goes to a task whose intake is closed, and one of `q`.
async fn one_is_closed(stage: &Stage) {
    let closed = Target::Task(Name::new("closed").unwrap());
    stage.jobs.operate("tester").close(closed).await.unwrap();
    stage.event("p-1", "closed", Some("p")).await;
    stage.event("p-2", "t", Some("p")).await;
    stage.event("q-1", "t", Some("q")).await;
    stage.event("p-3", "t", Some("p")).await;
}

async fn open_again(stage: &Stage) {
    let closed = Target::Task(Name::new("closed").unwrap());
    stage.jobs.operate("tester").open(closed).await.unwrap();
}

pub async fn a_failing_event_holds_back_its_own_partition_only(kind: Kind) {
    let stage = Stage::new(kind).await;
    one_is_closed(&stage).await;
    let relay = Relay::new(stage.source.clone(), &stage.jobs);
    let round = relay.drain().await.unwrap();
    assert_eq!((round.sent, round.later, round.parked), (1, 1, 0));
    assert_eq!(stage.submitted().await, ["q-1"]);
    stage.event("q-2", "t", Some("q")).await;
    relay.drain().await.unwrap();
    assert_eq!(stage.submitted().await, ["q-1", "q-2"], "others go on meanwhile");

    open_again(&stage).await;
    make_due(&stage).await;
    relay.drain().await.unwrap();
    assert_eq!(stage.submitted().await, ["q-1", "q-2", "p-1", "p-2", "p-3"]);
}

/// An operator who closes a task for a day does not want a day's events given up.
pub async fn a_closed_task_is_waited_for_however_long(kind: Kind) {
    let stage = Stage::new(kind).await;
    one_is_closed(&stage).await;
    let relay = Relay::new(stage.source.clone(), &stage.jobs).max_attempts(2);
    for _ in 0..4 {
        relay.drain().await.unwrap();
        make_due(&stage).await;
    }
    let status = stage.source.status().await.unwrap();
    assert_eq!((status.pending, status.failing, status.parked), (3, 1, 0));
    open_again(&stage).await;
    relay.drain().await.unwrap();
    assert_eq!(stage.submitted().await, ["q-1", "p-1", "p-2", "p-3"]);
}

/// Its time to be tried again has come.
async fn make_due(stage: &Stage) {
    let due = match stage.kind {
        Kind::Postgres => "UPDATE semel_outbox SET due_at = '-infinity'",
        Kind::Sqlite => "UPDATE semel_outbox SET due_at = 0",
    };
    stage.run(due).await;
}

/// A store that does not take some of the calls it is given.
struct Picky {
    refuses: Mutex<VecDeque<bool>>,
    error: fn() -> StoreError,
}

impl Picky {
    /// The calls in their order, and whether each is refused; all after that are taken.
    async fn before(stage: &Stage, refuses: &[bool]) -> Client {
        Picky::with(stage, refuses, || Invalid::new("this call", "another one").into()).await
    }

    /// The same, with another reason.
    async fn with(stage: &Stage, refuses: &[bool], error: fn() -> StoreError) -> Client {
        let picky = Picky {
            refuses: Mutex::new(refuses.iter().copied().collect()),
            error,
        };
        let store = Arc::new(InterceptedStore::new(stage.jobs.store().clone(), Arc::new(picky)));
        semel::connect_to(store).await.unwrap()
    }
}

#[async_trait::async_trait]
impl Intercept for Picky {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        let refused = *call == Call::Submit && self.refuses.lock().unwrap().pop_front().unwrap_or(false);
        match refused {
            true => Err((self.error)()),
            false => Ok(()),
        }
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        Ok(())
    }
}

pub async fn an_event_that_keeps_failing_is_parked_and_the_others_go_on(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("p-1", "t", Some("p")).await;
    let jobs = Picky::before(&stage, &[true, true, true, true]).await;
    let relay = Relay::new(stage.source.clone(), &jobs).max_attempts(2);
    assert_eq!(relay.drain().await.unwrap().later, 1);
    make_due(&stage).await;
    assert_eq!(relay.drain().await.unwrap().parked, 1);
    stage.event("p-2", "t", Some("p")).await;
    assert_eq!(relay.drain().await.unwrap().sent, 1);
    let parked = stage.source.parked(10).await.unwrap();
    assert_eq!((parked[0].id.as_str(), parked[0].attempts), ("p-1", 2));
    assert!(
        parked[0].error.as_ref().unwrap().contains("this call"),
        "{parked:?}"
    );

    assert_eq!(stage.source.unpark(Some("p-1")).await.unwrap(), 1);
    assert_eq!(stage.source.unpark(None).await.unwrap(), 0);
    assert_eq!(relay.drain().await.unwrap().sent, 1);
    assert_eq!(stage.submitted().await, ["p-2", "p-1"]);
}

/// The batch is refused, then of its events the first alone: what is behind it in its partition waits all the same.
pub async fn one_that_is_refused_holds_back_those_behind_it_also_one_by_one(kind: Kind) {
    let stage = Stage::new(kind).await;
    for (id, partition) in [("p-1", "p"), ("p-2", "p"), ("q-1", "q"), ("p-3", "p")] {
        stage.event(id, "t", Some(partition)).await;
    }
    let jobs = Picky::before(&stage, &[true, true]).await;
    let relay = Relay::new(stage.source.clone(), &jobs);
    let round = relay.drain().await.unwrap();
    assert_eq!((round.sent, round.later), (1, 1), "{round:?}");
    assert_eq!(stage.submitted().await, ["q-1"]);
    make_due(&stage).await;
    relay.drain().await.unwrap();
    assert_eq!(stage.submitted().await, ["q-1", "p-1", "p-2", "p-3"]);
}

/// The key of one event leads to a record that cannot be read. That is no reason to relay nothing at all.
pub async fn a_damaged_record_holds_up_its_partition_only(kind: Kind) {
    let stage = Stage::new(kind).await;
    for (id, partition) in [("p-1", "p"), ("p-2", "p"), ("q-1", "q")] {
        stage.event(id, "t", Some(partition)).await;
    }
    // The batch, p-1 and q-1 by themselves; then the batch and p-1 again.
    let refuses = [true, true, false, true, true];
    let jobs = Picky::with(&stage, &refuses, || StoreError::corrupt("a job")).await;
    let relay = Relay::new(stage.source.clone(), &jobs).max_attempts(2);
    let round = relay.drain().await.unwrap();
    assert_eq!((round.sent, round.later, round.parked), (1, 1, 0), "{round:?}");
    assert_eq!(stage.submitted().await, ["q-1"]);
    make_due(&stage).await;
    let round = relay.drain().await.unwrap();
    assert_eq!((round.sent, round.later, round.parked), (1, 0, 1), "{round:?}");
    assert_eq!(stage.submitted().await, ["q-1", "p-2"]);
    let parked = stage.source.parked(10).await.unwrap();
    let error = parked[0].error.as_deref();
    assert!(error.is_some_and(|error| error.contains("damaged")), "{parked:?}");
}

/// What trying again does not mend: an id that is the key of other work, and a task that is none.
pub async fn poison_is_parked_at_once(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage
        .jobs
        .submit_json("t", &serde_json::json!({"id": "other"}))
        .idempotency_key("e-1")
        .await
        .unwrap();
    stage.event("e-1", "t", Some("p")).await;
    stage.event("e-2", "", Some("p")).await;
    stage.event("e-3", "t", Some("p")).await;
    let round = Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!((round.sent, round.parked, round.later), (1, 2, 0));
    assert_eq!(stage.submitted().await, ["other", "e-3"]);
    assert_eq!(stage.source.parked(10).await.unwrap().len(), 2);
}

/// A relay that looks at the hundred oldest only is stopped for good by a hundred that are stuck.
pub async fn a_thousand_stuck_events_do_not_block_the_relay(kind: Kind) {
    let stage = Stage::new(kind).await;
    one_is_closed(&stage).await;
    let mut script = String::from("BEGIN;");
    for n in 0..1_000 {
        script.push_str(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) VALUES ('stuck-{n}', 't', '{{\"id\": \"stuck\"}}', 'p');"
        ));
    }
    script.push_str("COMMIT;");
    stage.run(&script).await;
    stage.event("q-2", "t", Some("q")).await;
    stage.event("free", "t", None).await;
    Relay::new(stage.source.clone(), &stage.jobs)
        .batch(100)
        .drain()
        .await
        .unwrap();
    assert_eq!(stage.submitted().await, ["q-1", "q-2", "free"]);
}

/// A relay stands still with the first event of a partition in its hands. Behind it are more than one claim takes.
pub async fn a_relay_that_stands_still_holds_up_its_partition_only(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("p-00", "t", Some("p")).await;
    let none = Boundary::default();
    let stuck = stage.another().await.claim(1, &none).await.unwrap();
    assert_eq!(stuck.events().len(), 1);
    stage.event("q-1", "t", Some("q")).await;
    let mut script = String::from("BEGIN;");
    for n in 1..40 {
        script.push_str(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) VALUES ('p-{n:02}', 't', '{{\"id\": \"p-{n:02}\"}}', 'p');"
        ));
    }
    script.push_str("COMMIT;");
    stage.run(&script).await;
    stage.event("q-2", "t", Some("q")).await;
    stage.event("free", "t", None).await;
    let relay = Relay::new(stage.source.clone(), &stage.jobs).batch(10);
    let round = relay.round().await.unwrap();
    assert_eq!((round.taken, round.sent), (3, 3));
    assert_eq!(stage.submitted().await, ["q-1", "q-2", "free"]);

    stuck.give_back(&none).await.unwrap();
    relay.drain().await.unwrap();
    let order: Vec<String> = (0..40).map(|n| format!("p-{n:02}")).collect();
    assert_eq!(stage.submitted().await[3..], order);
}

/// The outbox of a stage, as a relay sees it that may stand still for so long.
async fn leased(stage: &Stage, lease: Duration) -> Arc<dyn Source> {
    match stage.kind {
        Kind::Postgres => {
            let outbox = PostgresOutbox::connect(&stage.url, Plain::Refuse).await.unwrap();
            Arc::new(outbox.lease(lease))
        }
        Kind::Sqlite => Arc::new(SqliteOutbox::open(stage.file()).unwrap().lease(lease)),
    }
}

/// Its process is stopped, its machine gone: nobody ends the transaction for it.
pub async fn what_a_relay_has_that_stands_still_is_taken_by_another(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("p-1", "t", Some("p")).await;
    stage.event("p-2", "t", Some("p")).await;
    let still = leased(&stage, Duration::from_millis(300)).await;
    let claim = still.claim(1, &Boundary::default()).await.unwrap();
    let relay = Relay::new(stage.source.clone(), &stage.jobs);
    assert_eq!(relay.round().await.unwrap().taken, 0, "another has the first one");
    let begun = now();
    while relay.drain().await.unwrap().taken == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody gets them");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.submitted().await, ["p-1", "p-2"]);
    drop(claim);
}

/// A store in which every submission takes its time.
struct Slow;

#[async_trait::async_trait]
impl Intercept for Slow {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        if *call == Call::Submit {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(())
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        Ok(())
    }
}

/// To wait for the store is not to stand still: or a store that takes long would never be done with a batch.
pub async fn a_relay_that_waits_for_the_store_keeps_its_events(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("e-1", "t", None).await;
    let slow = InterceptedStore::new(stage.jobs.store().clone(), Arc::new(Slow));
    let jobs = semel::connect_to(Arc::new(slow)).await.unwrap();
    let relay = Relay::new(leased(&stage, Duration::from_millis(500)).await, &jobs);
    let round = relay.round().await.unwrap();
    assert_eq!((round.sent, round.repeated), (1, 0));
    assert_eq!(stage.source.status().await.unwrap().pending, 0);
}
