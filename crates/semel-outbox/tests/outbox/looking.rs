//! Status, pruning, audit and rebuild.

use std::time::Duration;

use semel_outbox::{Error, Pruned, Relay};

use crate::stage::{Kind, Stage};

pub async fn status_tells_the_lag(kind: Kind) {
    let stage = Stage::new(kind).await;
    let empty = stage.source.status().await.unwrap();
    assert_eq!((empty.pending, empty.lag_ms, empty.last_sent_ms), (0, 0, None));
    stage.event("e-1", "t", None).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    stage.event("e-2", "t", None).await;
    let waiting = stage.source.status().await.unwrap();
    assert_eq!((waiting.pending, waiting.parked), (2, 0));
    assert!(waiting.lag_ms >= 50, "{waiting:?}");
    Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    let done = stage.source.status().await.unwrap();
    assert_eq!((done.pending, done.lag_ms), (0, 0));
    assert!(done.last_sent_ms.is_some());
}

/// Clean-up by age alone deletes what was never sent: the older it is, the surer it is lost.
pub async fn pruning_touches_only_what_was_sent(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("sent", "t", None).await;
    Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    stage.event("parked", "", None).await;
    Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    stage.event("pending", "t", None).await;
    match kind {
        Kind::Postgres => {
            stage
                .run("UPDATE semel_outbox SET created_at = created_at - interval '1 year'")
                .await
        }
        Kind::Sqlite => stage.run("UPDATE semel_outbox SET created_at = 1").await,
    }
    assert_eq!(
        stage.source.prune(Duration::from_secs(3_600)).await.unwrap(),
        0,
        "it was sent just now"
    );
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(stage.source.prune(Duration::from_millis(1)).await.unwrap(), 1);
    assert_eq!(
        stage
            .number("SELECT count(*) FROM semel_outbox WHERE id IN ('parked', 'pending')")
            .await,
        2
    );
    assert_eq!(stage.number("SELECT count(*) FROM semel_outbox").await, 2);
    assert!(stage.source.status().await.unwrap().pruned_before_ms.is_some());
}

pub async fn an_audit_finds_rows_without_an_event_and_a_rebuild_writes_them(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage
        .run("INSERT INTO orders (id, customer) VALUES (1, 'ann'), (2, 'bob'), (3, 'ann')")
        .await;
    stage.event("order-1", "send_receipt", None).await;
    let query = "SELECT 'order-' || id AS id, 'send_receipt' AS task, customer AS partition, \
                 '{\"id\": \"order-' || id || '\"}' AS input FROM orders ORDER BY orders.id";
    let audit = stage.source.audit(query).await.unwrap();
    assert_eq!((audit.rows, audit.missing_total, audit.added), (3, 2, 0));
    assert_eq!(audit.missing, ["order-2", "order-3"]);
    assert_eq!(
        stage.number("SELECT count(*) FROM semel_outbox").await,
        1,
        "an audit writes nothing"
    );

    assert_eq!(
        stage.source.rebuild(query, Pruned::Refuse).await.unwrap().added,
        2
    );
    assert_eq!(
        stage.source.rebuild(query, Pruned::Refuse).await.unwrap().added,
        0,
        "and only once"
    );
    assert_eq!(stage.source.audit(query).await.unwrap().missing_total, 0);
    Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!(stage.submitted().await, ["order-1", "order-2", "order-3"]);

    let nameless = stage.source.audit("SELECT 1 AS one").await;
    assert!(matches!(nameless, Err(Error::Invalid(_))), "{nameless:?}");
    let writing = stage.source.audit("DELETE FROM orders RETURNING 'x' AS id").await;
    assert!(matches!(writing, Err(Error::Database { .. })), "{writing:?}");
    // Whoever ends the transaction that cannot write could begin another one.
    for several in [
        "COMMIT; DELETE FROM orders; SELECT 'x' AS id, 't' AS task, '1' AS input",
        "SELECT 'x' AS id, 't' AS task, '1' AS input; COMMIT; DELETE FROM orders",
        "COMMIT",
    ] {
        let audited = stage.source.audit(several).await;
        assert!(
            stage.kind == Kind::Sqlite || audited.is_err(),
            "{several}: {audited:?}"
        );
        if kind == Kind::Postgres {
            let rebuilt = stage.source.rebuild(several, Pruned::LeftOut).await;
            assert!(rebuilt.is_err(), "{several}: {rebuilt:?}");
        }
    }
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 3);
}

/// Thirty days later neither the event nor its key is there: writing it again would do the work again.
pub async fn a_rebuild_does_not_repeat_what_was_pruned(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage
        .run("INSERT INTO orders (id, customer) VALUES (1, 'ann'), (2, 'bob')")
        .await;
    stage.event("order-1", "t", None).await;
    Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(stage.source.prune(Duration::from_millis(1)).await.unwrap(), 1);
    let all = "SELECT 'order-' || id AS id, 't' AS task, '1' AS input FROM orders";
    let refused = stage.source.rebuild(all, Pruned::Refuse).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(stage.number("SELECT count(*) FROM semel_outbox").await, 0);
    let newer = format!("{all} WHERE id > 1");
    let rebuilt = stage.source.rebuild(&newer, Pruned::LeftOut).await.unwrap();
    assert_eq!((rebuilt.rows, rebuilt.added), (1, 1));
    let nothing_missing = stage.source.rebuild(&newer, Pruned::Refuse).await.unwrap();
    assert_eq!(nothing_missing.added, 0);
}
