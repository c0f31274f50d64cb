//! A user who may not do what the store does is told so when the store is opened, and nothing is written (contract 9.3).

use semel_conformance::kit::plain;
use semel_core::error::StoreError;
use semel_core::store::Store as _;
use semel_redis::RedisStore;

use crate::server::Server;

const EVERYTHING: &str =
    "+@read +@write +@transaction +@connection +@scripting +@pubsub +info +time ~semel:* &semel:*";

async fn open_as(server: &Server, rules: &str) -> Result<RedisStore, StoreError> {
    let mut words = vec!["ACL", "SETUSER", "ada", "reset", "on", ">secret"];
    words.extend(rules.split(' '));
    assert!(server.command(&words).starts_with("+OK"), "{rules}");
    RedisStore::connect(&format!("redis://ada:secret@127.0.0.1:{}/0", server.port())).await
}

#[tokio::test]
async fn a_user_without_permission_is_refused_with_the_reason() {
    let server = Server::start();
    // The scripts are known already: that one may not load them must be found all the same.
    let known = RedisStore::connect(&format!("{}?namespace=other", server.url())).await;
    drop(known.unwrap());
    for (denied, word) in [
        ("-@scripting", "script"),
        ("-script|load", "script"),
        ("-evalsha", "evalsha"),
        ("-publish", "publish"),
        ("-copy", "copy"),
        ("-ltrim", "ltrim"),
        ("-renamenx", "renamenx"),
        ("-multi", "multi"),
        ("-exec", "exec"),
        ("-@transaction", "transactions"),
        ("-info", "info"),
        ("resetchannels", "channel"),
        ("resetkeys ~other:*", "key"),
    ] {
        let error = match open_as(&server, &format!("{EVERYTHING} {denied}")).await {
            Ok(_) => panic!("{denied} is not noticed"),
            Err(error) => error,
        };
        assert!(matches!(error, StoreError::Refused { .. }), "{denied}: {error:?}");
        let text = error.to_string().to_lowercase();
        assert!(text.contains(word) && text.contains("hint"), "{denied}: {text}");
        assert!(!text.contains("secret"), "{text}");
        let left = server.command(&["EXISTS", "semel:{default/1/0}:meta"]);
        assert_eq!(left.trim(), ":0", "{denied} left something");
    }
    let store = open_as(&server, EVERYTHING).await.expect("this is enough");
    store.submit(vec![plain()]).await.expect("and to work with");
    for probe in ["probe", "probe_copy"] {
        let key = format!("semel:{{default/1/0}}:{probe}");
        assert_eq!(server.command(&["EXISTS", &key]).trim(), ":0");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_at_once() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "ada", "on", ">secret", "+@all", "~*", "&*"]);
    let url = format!("redis://ada:guess@127.0.0.1:{}/0", server.port());
    let error = RedisStore::connect(&url).await.err().expect("not with this one");
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(!error.to_string().contains("guess"), "{error}");
}
