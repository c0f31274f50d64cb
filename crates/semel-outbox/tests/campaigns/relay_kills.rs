//! The relay killed from outside at every statement boundary: business rows = events = jobs (I20).

use std::collections::BTreeMap;

use crate::process::Process;
use crate::stage::{Kind, Stage, books};

/// Orders written before each kill.
const ORDERS: i64 = 5;

/// Every boundary of a round on Postgres, in its order.
const ON_POSTGRES: &[&str] = &[
    "before begin",
    "after begin",
    "after claim",
    "before submit",
    "after submit",
    "before mark",
    "after mark",
    "after commit",
];

/// Every boundary of a round on SQLite, where taking events is a transaction of its own.
const ON_SQLITE: &[&str] = &[
    "before begin",
    "after begin",
    "after claim",
    "after claim commit",
    "before submit",
    "after submit",
    "before mark",
    "after mark",
    "after commit",
];

pub async fn sqlite(full: bool) -> String {
    campaign(Kind::Sqlite, ON_SQLITE, if full { 20 } else { 2 }).await
}

pub async fn postgres(full: bool) -> String {
    campaign(Kind::Postgres, ON_POSTGRES, if full { 20 } else { 2 }).await
}

async fn campaign(kind: Kind, boundaries: &[&'static str], rounds: usize) -> String {
    let stage = Stage::new(kind).await;
    let to = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    let jobs = semel::connect(&to).await.unwrap();
    let mut orders = 0;
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..rounds {
        for boundary in boundaries {
            orders = take_orders(&stage, orders).await;
            let mut relay = Process::start(&["relay", &stage.url, &to, boundary]);
            // It waits there until somebody ends it.
            assert_eq!(relay.line().as_deref(), Some(*boundary));
            relay.kill();
            *kills.entry(boundary).or_default() += 1;
        }
    }
    assert!(
        Process::start(&["relay", &stage.url, &to, "nowhere"]).wait(),
        "the last relay failed"
    );
    let told = books(&stage, &jobs, orders).await;
    let total: usize = kills.values().sum();
    assert_eq!(total, rounds * boundaries.len());
    format!("relay on {kind:?}: {total} kills, {kills:?}; {told}")
}

/// Some more orders, each with its event, in one transaction.
async fn take_orders(stage: &Stage, before: i64) -> i64 {
    let mut script = String::from("BEGIN;");
    for order in before + 1..=before + ORDERS {
        let customer = order % 3;
        script.push_str(&format!(
            "INSERT INTO orders (id, customer) VALUES ({order}, 'c{customer}');\
             INSERT INTO semel_outbox (id, task, input, partition) \
             VALUES ('order-{order}', 't', '{{\"id\": \"order-{order}\"}}', 'c{customer}');"
        ));
    }
    script.push_str("COMMIT;");
    stage.run(&script).await;
    before + ORDERS
}
