//! Events in a transaction of sqlx, on a real Postgres server that is private to the tests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "outbox/stage/mod.rs"]
mod stage;

use libtest_mimic::{Arguments, Trial};
use semel_outbox::{Error, Event, Relay, postgres};
use sqlx::{Connection, PgConnection};
use stage::{Kind, Stage};

fn main() {
    let arguments = Arguments::from_args();
    if !arguments.list {
        stage::begin();
    }
    let trials = vec![
        trial("business_and_events_are_one_transaction", || {
            Box::pin(business_and_events_are_one_transaction())
        }),
        trial("what_makes_no_sense_is_refused_before_anything_is_done", || {
            Box::pin(what_makes_no_sense_is_refused_before_anything_is_done())
        }),
        trial("an_id_that_is_there_is_an_error", || {
            Box::pin(an_id_that_is_there_is_an_error())
        }),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    stage::end();
    conclusion.exit();
}

fn trial(name: &str, case: fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(case());
        Ok(())
    })
}

fn receipt(order: i32, place: i32) -> Event {
    let id = format!("order-{order}-{place}");
    Event::new("send_receipt", &serde_json::json!({"id": id}))
        .unwrap()
        .id(id)
        .partition("customer-1")
        .queue("mail")
        .priority(3)
        .header("traceparent", "00-1")
}

/// Takes an order with these events; commits or not.
async fn order(stage: &Stage, id: i32, events: &[Event], commit: bool) -> Result<(), Error> {
    let mut connection = PgConnection::connect(&stage.url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let business = async |tx: &mut PgConnection| {
        let insert = sqlx::query("INSERT INTO orders (id, customer) VALUES ($1, 'ann')").bind(id);
        insert.execute(tx).await.unwrap();
        Ok::<(), Error>(())
    };
    postgres::sqlx::execute(&mut tx, business, events).await?;
    match commit {
        true => tx.commit().await.unwrap(),
        false => tx.rollback().await.unwrap(),
    }
    Ok(())
}

async fn business_and_events_are_one_transaction() {
    let stage = Stage::new(Kind::Postgres).await;
    // Made again with sqlx: the migration can be run twice, and sqlx takes it as it is.
    let mut connection = PgConnection::connect(&stage.url).await.unwrap();
    sqlx::raw_sql(postgres::MIGRATION)
        .execute(&mut connection)
        .await
        .unwrap();
    let (two, bare) = ([receipt(1, 1), receipt(1, 2)], Event::new("t", &1).unwrap());
    order(&stage, 1, &two, true).await.unwrap();
    order(&stage, 2, &[receipt(2, 1)], false).await.unwrap();
    order(&stage, 3, &[bare], true).await.unwrap();
    order(&stage, 4, &[], true).await.unwrap();
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 3);
    assert_eq!(stage.number("SELECT count(*) FROM semel_outbox").await, 3);
    let relay = Relay::new(stage.source.clone(), &stage.jobs);
    assert_eq!(relay.drain().await.unwrap().sent, 3);
    assert_eq!(stage.submitted().await, ["order-1-1", "order-1-2", ""]);
    let page = semel_core::store::Page::first(10);
    let jobs = stage.jobs.store().jobs(Default::default(), page).await.unwrap();
    let job = jobs.items.last().unwrap();
    assert_eq!(
        (job.task.as_str(), job.queue.as_str(), job.priority),
        ("send_receipt", "mail", 3)
    );
    assert_eq!(job.headers["traceparent"], "00-1");
    assert_eq!(job.key.as_ref().unwrap().text.as_deref(), Some("order-1-1"));
}

async fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let stage = Stage::new(Kind::Postgres).await;
    let mut connection = PgConnection::connect(&stage.url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let business = async |_: &mut PgConnection| -> Result<(), Error> {
        panic!("the business was done");
    };
    let nameless = Event::new("", &1).unwrap();
    let refused = postgres::sqlx::execute(&mut tx, business, &[nameless]).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

async fn an_id_that_is_there_is_an_error() {
    let stage = Stage::new(Kind::Postgres).await;
    order(&stage, 1, &[receipt(1, 1)], true).await.unwrap();
    let told = order(&stage, 2, &[receipt(1, 1)], true).await.unwrap_err();
    assert!(told.to_string().contains("writing events"), "{told}");
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
}
