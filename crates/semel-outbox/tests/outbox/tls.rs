//! Encrypted connections, on a real server with a certificate of its own.

use semel_outbox::postgres::PostgresOutbox;
use semel_outbox::{Plain, Source};

use crate::stage::{Kind, Stage, encrypt};

pub async fn a_connection_is_encrypted_and_the_server_proves_itself() {
    let stage = Stage::new(Kind::Postgres).await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'semel outbox'";
    assert_eq!(stage.number(encrypted).await, 0);
    let url = format!("{}&sslmode=require", stage.url);
    let nobody = PostgresOutbox::connect_trusting(&url, Plain::Allow, &[]).await;
    assert!(nobody.unwrap_err().to_string().contains("SSL_CERT_FILE"));
    // The server cannot encrypt yet: nothing is sent in the clear instead.
    assert!(PostgresOutbox::connect(&url, Plain::Allow).await.is_err());
    let certificate = encrypt();
    let outbox = async || PostgresOutbox::connect_trusting(&url, Plain::Refuse, &certificate).await;
    // The server takes up its new settings a moment later.
    let mut opened = outbox().await;
    for _ in 0..200 {
        if opened.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        opened = outbox().await;
    }
    let opened = opened.unwrap();
    assert_eq!(opened.status().await.unwrap().pending, 0);
    assert!(stage.number(encrypted).await >= 1);
    assert!(opened.shown().starts_with("postgres://postgres@127.0.0.1"));
    // Nobody this machine trusts has signed it.
    let unknown = PostgresOutbox::connect(&url, Plain::Refuse).await.unwrap_err();
    assert!(unknown.to_string().contains("certificate"), "{unknown}");
    // It is good for another name only.
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let wrong = PostgresOutbox::connect_trusting(&elsewhere, Plain::Refuse, &certificate).await;
    assert!(wrong.unwrap_err().to_string().contains("certificate"));
}
