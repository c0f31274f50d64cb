//! The relay killed from outside at every statement boundary: business rows = events = jobs (I20).

use std::collections::{BTreeMap, BTreeSet};

use semel::Target;
use semel_core::ids::Name;

use crate::process::Process;
use crate::stage::{Kind, Stage, books, submitted};

/// Orders written before each kill, and how many partitions they are of.
const ORDERS: i64 = 5;
const PARTITIONS: i64 = 3;

/// A relay comes to the same boundary more than once: at the second time something is done before it.
const TIMES: usize = 2;

/// Every boundary there is on Postgres.
const ON_POSTGRES: &[&str] = &[
    "before begin",
    "after begin",
    "after claim",
    "before submit",
    "after submit",
    "before mark",
    "after sent",
    "after later",
    "after park",
    "after commit",
    "before rollback",
    "after rollback",
];

/// Every boundary there is on SQLite, where taking events is a transaction of its own.
const ON_SQLITE: &[&str] = &[
    "before begin",
    "after begin",
    "after claim",
    "after claim commit",
    "before submit",
    "after submit",
    "before mark",
    "after mark begin",
    "after sent",
    "after later",
    "after park",
    "after give back",
    "after commit",
];

pub async fn sqlite(full: bool) -> String {
    campaign(Kind::Sqlite, ON_SQLITE, if full { 20 } else { 1 }).await
}

pub async fn postgres(full: bool) -> String {
    campaign(Kind::Postgres, ON_POSTGRES, if full { 20 } else { 1 }).await
}

async fn campaign(kind: Kind, boundaries: &[&str], rounds: usize) -> String {
    let stage = Stage::new(kind).await;
    let to = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    let jobs = semel::connect(&to).await.unwrap();
    let closed = Target::Task(Name::new("closed").unwrap());
    let operator = jobs.operate("campaign");
    operator.close(closed.clone()).await.unwrap();
    let mut written = 1;
    write(&stage, written).await;
    let passed = Process::start(&["record", &stage.url, &to]).lines();
    let reached: BTreeSet<&str> = passed.iter().map(String::as_str).collect();
    let known: BTreeSet<&str> = boundaries.iter().copied().collect();
    assert_eq!(
        reached, known,
        "the boundaries that a relay comes to, and those that are known"
    );
    let moments = moments(&passed);
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..rounds {
        for moment in &moments {
            written += 1;
            write(&stage, written).await;
            let mut relay = Process::start(&["relay", &stage.url, &to, moment]);
            // It waits there until somebody ends it.
            assert_eq!(relay.line().as_ref(), Some(moment));
            relay.kill();
            *kills.entry(moment).or_default() += 1;
        }
    }
    operator.open(closed).await.unwrap();
    // What was put off is due: the last relay need not wait for it.
    stage
        .run(match kind {
            Kind::Postgres => "UPDATE semel_outbox SET due_at = '-infinity'",
            Kind::Sqlite => "UPDATE semel_outbox SET due_at = 0",
        })
        .await;
    assert!(
        Process::start(&["relay", &stage.url, &to, "nowhere"]).wait(),
        "the last relay failed"
    );
    let told = books(&stage, &jobs, PARTITIONS).await;
    others(&stage, &jobs, written).await;
    let expected: BTreeMap<&str, usize> = moments.iter().map(|moment| (moment.as_str(), rounds)).collect();
    assert_eq!(kills, expected);
    let total: usize = kills.values().sum();
    format!(
        "relay on {kind:?}: {total} kills, {kills:?}; {told}, {written} events of a closed task, {written} parked"
    )
}

/// The boundaries a relay came to, each with the number of the time.
fn moments(passed: &[String]) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut moments = Vec::new();
    for name in passed {
        let time = times.entry(name).or_default();
        *time += 1;
        if *time <= TIMES {
            moments.push(format!("{name} {time}"));
        }
    }
    moments
}

/// Whatever can become of an event, in one transaction: orders for two tasks in turn, each with its event; an event of
/// a closed task, one behind it that has to wait, and one that no store takes.
async fn write(stage: &Stage, n: i64) {
    let mut script = String::from("BEGIN;");
    let mut event = |id: &str, task: &str, partition: &str| {
        script.push_str(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) \
             VALUES ('{id}', '{task}', '{{\"id\": \"{id}\"}}', '{partition}');"
        ));
    };
    event(&format!("closed-{n}"), "closed", &format!("closed-{n}"));
    event(&format!("behind-{n}"), "t", &format!("closed-{n}"));
    event(&format!("poison-{n}"), "", "poison");
    for order in (n - 1) * ORDERS + 1..=n * ORDERS {
        let task = if order % 2 == 0 { "t" } else { "u" };
        event(
            &format!("order-{order}"),
            task,
            &format!("c{}", order % PARTITIONS),
        );
    }
    for order in (n - 1) * ORDERS + 1..=n * ORDERS {
        let customer = order % PARTITIONS;
        script.push_str(&format!(
            "INSERT INTO orders (id, customer) VALUES ({order}, 'c{customer}');"
        ));
    }
    script.push_str("COMMIT;");
    stage.run(&script).await;
}

/// Events that are no orders: of each closed one a job, then one of that behind it; of each that is poison none.
async fn others(stage: &Stage, jobs: &semel::Client, written: i64) {
    let submitted = submitted(jobs).await;
    for n in 1..=written {
        let (closed, behind) = (format!("closed-{n}"), format!("behind-{n}"));
        let found: Vec<&String> = submitted
            .iter()
            .filter(|id| **id == closed || **id == behind)
            .collect();
        assert_eq!(found, [&closed, &behind]);
    }
    assert_eq!(submitted.len() as i64, written * (ORDERS + 2), "{submitted:?}");
    let parked = "SELECT count(*) FROM semel_outbox WHERE parked_at IS NOT NULL AND id LIKE 'poison-%'";
    assert_eq!(stage.number(parked).await, written);
}
