//! From a URL to a client, and what is refused on the way (contract 8.1, 8.2).

use semel::{Client, Error, Task, connect};

const SYNC: Task<u64> = Task::new("sync_user");

async fn refused(url: &str) -> String {
    match connect(url).await {
        Err(error @ (Error::Invalid(_) | Error::Store(_))) => error.to_string(),
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn nonsense_is_refused_with_a_sentence_and_a_hint() {
    // A password off this host wants an encrypted connection.
    let no_redis = match cfg!(feature = "redis") {
        true => "password over an unencrypted connection",
        false => "this build has no redis store",
    };
    let cases = [
        ("mysql://root:secret@db/jobs", "sqlite:FILE"),
        ("redis://:secret@host/0", no_redis),
        ("jobs.db", "did you mean sqlite:jobs.db?"),
        ("", "sqlite:FILE"),
        ("sqlite:", "sqlite:semel.db"),
        ("sqlite:jobs.db?shards=4", "allowed is namespace, synchronous"),
        (
            "sqlite:jobs.db?synchronous=sometimes",
            "allowed is full or normal",
        ),
        ("memory:?name=x", "allowed is namespace"),
        ("memory:?namespace=", "name"),
        ("memory:?namespace=%0a", "name"),
        ("memory:?namespace=%G1", "two hexadecimal digits"),
        ("memory:?namespace=a&namespace=b", "twice"),
        ("sqlite:/no/such/directory/jobs.db", "does the directory exist"),
        ("sqlite:/etc/passwd", "not a SQLite database"),
    ];
    for (url, expected) in cases {
        let sentence = refused(url).await;
        assert!(sentence.contains(expected), "{url}: {sentence}");
        assert!(!sentence.contains("secret"), "{url}: {sentence}");
    }
}

#[tokio::test]
async fn whoever_only_looks_makes_no_store() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("jobs.db");
    let url = format!("sqlite:{}", file.display());
    let missing = Client::connect_existing(&url).await.expect_err("there is none");
    assert!(
        missing.to_string().contains(&file.display().to_string()),
        "{missing}"
    );
    assert!(missing.to_string().contains("hint: "), "{missing}");
    assert!(!file.exists(), "nothing was made");

    let sent = connect(&url)
        .await
        .expect("made")
        .submit(SYNC, &1)
        .await
        .expect("accepted");
    let looking = Client::connect_existing(&url).await.expect("there is one now");
    assert!(
        looking
            .job(sent.id().as_str())
            .expect("an id")
            .job()
            .await
            .is_ok()
    );
    assert_eq!(looking.url(), format!("sqlite:{}", file.display()));

    assert!(Client::connect_existing("memory:").await.is_err());
    assert!(
        Client::connect_existing("memory:nobody-opened-this")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_store_in_memory_is_shared_by_name_and_by_nothing_else() {
    let one = connect("memory:shared").await.expect("a store");
    let sent = one.submit(SYNC, &1).unique().await.expect("accepted");
    let two = Client::connect_existing("memory:shared").await.expect("the same");
    assert_eq!(
        two.submit(SYNC, &1).unique().await.expect("a duplicate").id(),
        sent.id()
    );

    let other = connect("memory:other").await.expect("another");
    let apart = connect("memory:shared?namespace=team%20b")
        .await
        .expect("another namespace");
    let anonymous = [connect("memory:").await, connect("memory:").await];
    for jobs in [other, apart].into_iter().chain(anonymous.into_iter().flatten()) {
        assert!(
            !jobs
                .submit(SYNC, &1)
                .unique()
                .await
                .expect("accepted")
                .is_duplicate(),
            "{jobs:?}"
        );
    }
    drop((one, two, sent));
    assert!(
        Client::connect_existing("memory:shared").await.is_err(),
        "it went with its last client"
    );
}

#[tokio::test]
async fn namespaces_of_one_file_know_nothing_of_each_other() {
    let place = tempfile::tempdir().expect("a directory");
    let url = |query: &str| format!("sqlite://{}{query}", place.path().join("jobs.db").display());
    let plain = connect(url("")).await.expect("a store");
    let named = connect(url("?namespace=a%26b")).await.expect("a store");
    assert_eq!(plain.store().namespace().as_str(), "default");
    assert_eq!(named.store().namespace().as_str(), "a&b");
    let first = plain
        .submit(SYNC, &1)
        .idempotency_key("k")
        .await
        .expect("accepted");
    let second = named
        .submit(SYNC, &1)
        .idempotency_key("k")
        .await
        .expect("accepted");
    assert!(!second.is_duplicate());
    assert_ne!(first.key(), second.key());
    assert!(
        named
            .job(first.id().as_str())
            .expect("an id")
            .job()
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_client_says_who_it_is_and_where() {
    let jobs = connect("memory:").name("billing-api").await.expect("a client");
    assert_eq!(jobs.producer().map(|name| name.as_str()), Some("billing-api"));
    let other = jobs.named("cron").expect("a name");
    jobs.submit(SYNC, &1).unique().await.expect("accepted");
    other.submit(SYNC, &1).unique().await.expect("a duplicate");
    let page = semel::semel_core::store::Page::first(10);
    let ledger = jobs
        .store()
        .ledger(Default::default(), page)
        .await
        .expect("a ledger");
    assert_eq!(
        ledger.items[0].producer.as_ref().map(|name| name.as_str()),
        Some("cron")
    );
    assert!(connect("memory:").name("").await.is_err());
    assert!(format!("{jobs:?}").contains("memory:"));
}
