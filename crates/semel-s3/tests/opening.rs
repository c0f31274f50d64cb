//! What a store says to the endpoint it is opened on: yes, or no and why (contract 9.3, 9.4).

#[path = "careless/mod.rs"]
mod careless;
#[path = "server/mod.rs"]
mod server;

use careless::Ways;
use semel_core::dedup::Dedup;
use semel_core::error::StoreError;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::store::{Control as _, Inspect as _, Store as _};
use semel_core::submission::Submission;
use semel_s3::{S3Options, S3Store};
use server::{Kind, Server, fresh_url, options};

fn plain_deletes(endpoint: &str) -> S3Options {
    S3Options {
        bulk_delete: false,
        ..options(&fresh_url(endpoint))
    }
}

async fn refusal(ways: Ways) -> String {
    match S3Store::open(plain_deletes(&careless::start(ways))).await {
        Err(StoreError::Refused { reason, hint }) => format!("{reason}; hint: {hint}"),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn an_endpoint_that_keeps_the_conditions_is_taken() {
    let store = S3Store::open(plain_deletes(&careless::start(Ways::default())))
        .await
        .expect("the store opens");
    let sheet = store.guarantees().await.expect("the store answers");
    assert!(
        sheet.iter().any(|line| line.probed.contains("a second create")),
        "{sheet:?}"
    );
    let clock = sheet
        .iter()
        .find(|line| line.subject == "time")
        .expect("a line about time");
    assert!(clock.probed.starts_with("from the Date of"), "{clock:?}");
}

#[tokio::test]
async fn an_endpoint_that_ignores_if_none_match_is_refused() {
    let ways = Ways {
        ignores_if_none_match: true,
        ..Ways::default()
    };
    let said = refusal(ways).await;
    assert!(said.contains("ignores If-None-Match"), "{said}");
}

#[tokio::test]
async fn an_endpoint_that_ignores_if_match_is_refused() {
    let ways = Ways {
        ignores_if_match: true,
        ..Ways::default()
    };
    let said = refusal(ways).await;
    assert!(said.contains("ignores If-Match"), "{said}");
}

#[tokio::test]
async fn missing_permissions_are_named() {
    for (method, doing, lacking) in [
        ("PUT", "writing", "lack s3:PutObject"),
        ("GET", "reading", "lack s3:GetObject"),
        ("DELETE", "deleting", "lack s3:DeleteObject"),
        ("LIST", "listing", "lack s3:ListBucket"),
    ] {
        let ways = Ways {
            forbids: Some(method),
            ..Ways::default()
        };
        let said = refusal(ways).await;
        assert!(said.contains(doing) && said.contains(lacking), "{method}: {said}");
    }
}

/// Time is that of the answers: this endpoint lives in November 2026.
#[tokio::test]
async fn time_is_the_servers() {
    let store = S3Store::open(plain_deletes(&careless::start(Ways::default())))
        .await
        .expect("the store opens");
    let reset = store.reset_stats().await.expect("the store answers");
    let served = 1_793_700_000_000;
    assert!((served..served + 60_000).contains(&reset.as_millis()), "{reset}");
}

fn token(n: u8) -> Token {
    Token::from_parts(1_800_000_000_000, &[n; 10])
}

#[test]
fn a_store_on_a_real_server_is_made_found_and_read_by_people() {
    let server = Server::start(Kind::Ministack);
    let url = server.fresh_url();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let absent = S3Options {
            create: false,
            ..options(&url)
        };
        let refused = S3Store::open(absent.clone())
            .await
            .expect_err("there is no store yet");
        assert!(refused.to_string().contains("there is no store"), "{refused}");
        let store = S3Store::open(options(&url)).await.expect("the store opens");
        let secret = "../../etc/passwd ☃";
        let mut submission = Submission::new(
            token(1),
            Name::new(secret).expect("a name"),
            Json::new("{}").expect("JSON"),
        );
        submission.policy = Dedup::explicit(secret).into();
        store.submit(vec![submission]).await.expect("the store answers");
        let again = S3Store::open(absent).await.expect("now it is there");
        assert_eq!(again.stats().await.expect("the store answers").active_keys, 1);
        let documented = |name: &str| {
            ["idempotency/", "tasks/", "ready/", "control/", "names/"]
                .iter()
                .any(|known| name.contains(known))
        };
        let (names, record) = objects(&server, &url).await;
        assert!(
            names.iter().all(|name| documented(name) && name.is_ascii()),
            "{names:?}"
        );
        assert!(!names.iter().any(|name| name.contains("passwd")), "{names:?}");
        for field in [
            "key",
            "key_hash",
            "task_id",
            "task_key",
            "created_at",
            "task_type",
            "input_hash",
            "status",
        ] {
            assert!(record.get(field).is_some(), "{field} is in {record}");
        }
    });
}

/// The names of all objects, and what the cell of the key says.
async fn objects(server: &Server, url: &str) -> (Vec<String>, serde_json::Value) {
    use futures_util::TryStreamExt as _;
    use object_store::{ObjectStore as _, ObjectStoreExt as _};
    let prefix = options(url).prefix;
    let bucket = object_store::aws::AmazonS3Builder::new()
        .with_bucket_name(options(url).bucket)
        .with_region("us-east-1")
        .with_endpoint(server.endpoint())
        .with_allow_http(true)
        .with_access_key_id("test")
        .with_secret_access_key("test")
        .build()
        .expect("a client");
    let listed = bucket.list(Some(&prefix.as_str().into()));
    let listed: Vec<_> = listed.try_collect().await.expect("a list");
    let names: Vec<String> = listed.iter().map(|one| one.location.to_string()).collect();
    let cell = listed
        .iter()
        .find(|one| one.location.as_ref().contains("/idempotency/"));
    let got = bucket.get(&cell.expect("a cell").location).await.expect("a cell");
    let bytes = got.bytes().await.expect("a cell");
    (names, serde_json::from_slice(&bytes).expect("readable JSON"))
}
