//! The examples do what they say.

#[path = "../../examples/mail_sender.rs"]
mod mail_sender;
#[path = "../../examples/payment_service.rs"]
mod payment_service;
#[path = "../../examples/webhook_receiver.rs"]
mod webhook_receiver;

use crate::stage::{Kind, Stage};

pub async fn payment_service(kind: Kind) {
    if kind == Kind::Sqlite {
        // It is about Postgres; the two others need no database at all.
        assert_eq!(
            webhook_receiver::story().await.unwrap(),
            "answers [204, 204, 204, 204, 422, 400], handled 2\n"
        );
        let told = mail_sender::story().await.unwrap();
        assert!(told.ends_with("letters per job: 1 to 1\n"), "{told}");
        return;
    }
    let stage = Stage::new(kind).await;
    let store = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    let expected =
        "202 Accepted\n202 Accepted (replayed)\n202 Accepted (replayed)\n1 event relayed, charges: [4200]\n";
    for _ in 0..2 {
        let told = payment_service::story(&stage.url, &store).await.unwrap();
        assert_eq!(told, expected, "it can be tried again on the same database");
    }
}
