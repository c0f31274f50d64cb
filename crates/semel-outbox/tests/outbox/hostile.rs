//! What any program can write into the tables, clocks that are set back, and databases in use.

use std::time::Duration;

use semel_outbox::{Boundary, Plain, Relay, open};

use crate::stage::{Kind, Stage, now};

/// A relay that stumbles over one row relays nothing at all, for as long as the row is there.
pub async fn a_row_that_makes_no_sense_is_parked_and_stops_nobody(kind: Kind) {
    let stage = Stage::new(kind).await;
    let mut wrong = vec![
        "('headers-1', 't', '1', '[1]', NULL)",
        "('headers-2', 't', '1', '{\"a\": 1}', NULL)",
        "('priority', 't', '1', NULL, 300)",
        // A key is trimmed: this would be the job of another event.
        "(' good ', 't', '{\"id\": \"good\"}', NULL, NULL)",
        "('depth', 't', '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]', NULL, NULL)",
        "('twice', 't', '{\"a\": 1, \"a\": 2}', NULL, NULL)",
    ];
    if kind == Kind::Sqlite {
        // A column of SQLite holds whatever is put there.
        wrong.push("('bytes', x'ff00', '1', NULL, NULL)");
        wrong.push("(x'80', 't', '1', NULL, NULL)");
        wrong.push("('no-utf-8', CAST(x'ff' AS TEXT), '1', NULL, NULL)");
        wrong.push("('word', 't', '1', NULL, 'high')");
    }
    for row in &wrong {
        let insert = format!("INSERT INTO semel_outbox (id, task, input, headers, priority) VALUES {row}");
        stage.run(&insert).await;
    }
    stage
        .run("UPDATE semel_outbox SET partition = 'p' WHERE seq % 2 = 0")
        .await;
    stage.event("good", "t", Some("p")).await;
    let round = Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!((round.sent, round.parked), (1, wrong.len() as u64), "{round:?}");
    assert_eq!(stage.submitted().await, ["good"]);
    let parked = stage.source.parked(100).await.unwrap();
    assert_eq!(parked.len(), wrong.len());
    assert!(
        parked.iter().all(|event| event
            .error
            .as_ref()
            .is_some_and(|error| error.contains("allowed is"))),
        "{parked:#?}"
    );
}

/// What was taken or put off before the clock was set back a day is not left lying for a day.
pub async fn a_clock_that_was_set_back_holds_nothing_up(kind: Kind) {
    let stage = Stage::new(kind).await;
    for (id, partition) in [("p-1", Some("p")), ("p-2", Some("p")), ("free", None)] {
        stage.event(id, "t", partition).await;
    }
    stage
        .run(match kind {
            Kind::Postgres => {
                "UPDATE semel_outbox SET attempts = 1, due_at = now() + interval '1 day' WHERE id <> 'p-2'"
            }
            Kind::Sqlite => {
                "UPDATE semel_outbox SET attempts = 1, due_at = unixepoch() * 1000 + 86400000 WHERE id = 'p-1'; \
                 UPDATE semel_outbox SET claimed_by = 'dead', claimed_until = unixepoch() * 1000 + 86400000 \
                 WHERE id <> 'p-1'"
            }
        })
        .await;
    match kind {
        Kind::Postgres => {
            stage
                .run("UPDATE semel_outbox SET created_at = now() + interval '1 day'")
                .await
        }
        Kind::Sqlite => {
            stage
                .run("UPDATE semel_outbox SET created_at = unixepoch() * 1000 + 86400000")
                .await
        }
    }
    assert_eq!(
        stage.source.status().await.unwrap().lag_ms,
        0,
        "no lag is negative"
    );
    let round = Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!(round.sent, 3);
    assert_eq!(stage.submitted().await, ["p-1", "p-2", "free"]);
}

/// A backlog that has just come about, and a planner that believes in an empty outbox: a claim took half a minute.
pub async fn statistics_of_a_time_when_nothing_waited_slow_nobody(kind: Kind) {
    let stage = Stage::new(kind).await;
    let sent = match kind {
        Kind::Postgres => "now()",
        Kind::Sqlite => "1",
    };
    let numbers = |most: i64| {
        format!("WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < {most})")
    };
    stage
        .run(&format!(
            "{} INSERT INTO semel_outbox (id, task, input, partition, sent_at, job) \
             SELECT 'old-' || n, 't', '{{}}', 'p' || (n % 100), {sent}, 'j' FROM many; ANALYZE semel_outbox",
            numbers(20_000)
        ))
        .await;
    stage
        .run(&format!(
            "{} INSERT INTO semel_outbox (id, task, input, partition) \
             SELECT 'e-' || n, 't', '{{}}', 'p' || (n % 100) FROM many",
            numbers(3_000)
        ))
        .await;
    let begun = now();
    let claim = stage.source.claim(500, &Boundary::default()).await.unwrap();
    let took = begun.elapsed();
    assert_eq!(claim.events().len(), 500);
    assert!(took < Duration::from_secs(5), "{took:?} to take 500 events");
    claim.give_back(&Boundary::default()).await.unwrap();
}

/// Nothing was there, and before the relay begins to wait something is: that is no reason to sleep.
pub async fn what_is_written_between_looking_and_waiting_is_heard(kind: Kind) {
    let stage = Stage::new(kind).await;
    // A notification from the time before would be heard as well.
    stage.source.changed(Duration::from_millis(300)).await;
    let none = stage.source.claim(10, &Boundary::default()).await.unwrap();
    assert!(none.events().is_empty());
    none.give_back(&Boundary::default()).await.unwrap();
    stage.event("e-1", "t", None).await;
    let heard = tokio::time::timeout(
        Duration::from_secs(10),
        stage.source.changed(Duration::from_secs(60)),
    );
    heard.await.expect("nobody heard of it");
}

/// `semel outbox status` in the middle of the day: a transaction that has written an event is open for long, and
/// whoever waits for it makes everybody else wait.
pub async fn opening_an_outbox_waits_for_nobody(kind: Kind) {
    let stage = Stage::new(kind).await;
    if kind == Kind::Sqlite {
        let busy = stage.connection();
        busy.execute_batch(
            "BEGIN IMMEDIATE; INSERT INTO semel_outbox (id, task, input) VALUES ('e', 't', '1')",
        )
        .unwrap();
        let status = tokio::time::timeout(Duration::from_secs(5), async {
            stage.another().await.status().await.unwrap()
        });
        assert_eq!(status.await.expect("it waits").pending, 0);
        return;
    }
    let mut busy = stage.client().await;
    let tx = busy.transaction().await.unwrap();
    tx.batch_execute("INSERT INTO semel_outbox (id, task, input) VALUES ('e', 't', '1')")
        .await
        .unwrap();
    let status = tokio::time::timeout(Duration::from_secs(5), async {
        stage.another().await.status().await.unwrap()
    });
    assert_eq!(status.await.expect("it waits for the writer").pending, 0);
    tx.commit().await.unwrap();
    // A relay that may read and mark, and owns nothing.
    let schema = stage.url.rsplit("%3D").next().unwrap().to_owned();
    stage
        .run(&format!(
            "CREATE ROLE relay_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO relay_{schema}; \
             GRANT SELECT, UPDATE, DELETE ON semel_outbox TO relay_{schema}; \
             GRANT SELECT ON semel_outbox_fact TO relay_{schema}"
        ))
        .await;
    let url = stage.url.replace("postgres@", &format!("relay_{schema}@"));
    let source = open(&url, Plain::Refuse).await.unwrap();
    assert_eq!(Relay::new(source, &stage.jobs).drain().await.unwrap().sent, 1);
    stage
        .run(&format!("DROP OWNED BY relay_{schema}; DROP ROLE relay_{schema}"))
        .await;
}

/// Whatever is missing of the tables is made.
pub async fn what_is_missing_of_the_tables_is_made(kind: Kind) {
    let stage = Stage::new(kind).await;
    let mut dropped = vec![
        "DROP INDEX semel_outbox_pending",
        "DROP INDEX semel_outbox_parked",
        "DROP INDEX semel_outbox_sent",
        "DROP TABLE semel_outbox_fact",
        "DROP TABLE semel_inbox",
        "DROP TABLE semel_inbox_fence",
        "DROP TABLE semel_outbox",
    ];
    if kind == Kind::Postgres {
        dropped.push("DROP INDEX semel_outbox_order");
        dropped.push("DROP INDEX semel_outbox_failing");
        dropped.push("DROP TRIGGER semel_outbox_wake ON semel_outbox");
    }
    for statement in dropped {
        stage.run(statement).await;
        stage.another().await;
        // It can be dropped again: so it was there.
        stage.run(statement).await;
        stage.another().await;
    }
}
