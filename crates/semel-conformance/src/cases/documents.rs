//! Documents, feeds and settings; and that namespaces do not see each other.

use semel_core::dedup::{Dedup, Mode};
use semel_core::job::Outcome;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Document, Expect, JobFilter, KeyFilter, LedgerFilter, Page, PutDocument, PutOutcome, Setting,
    SettingChange, Settlement, Target, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, claim_request, json, name, of, plain, queue, refused, secs, task, with, with_input};

cases![
    "9.1" => a_document_is_written_read_and_removed,
    "9.1" => a_document_is_written_only_over_what_was_expected,
    "9.1" => a_mismatch_shows_what_was_found_and_changes_nothing,
    "9.1" => the_version_of_a_document_grows_over_its_removal,
    "9.1" => the_version_of_a_document_grows_over_its_expiry,
    "9.1" => a_document_is_removed_only_in_the_version_that_is_meant,
    "9.1" => a_document_that_is_not_there_cannot_be_removed,
    "9.1" => an_expired_document_is_absent_for_a_writer_too,
    "9.1" => a_renewed_document_lives_on,
    "9.1" => documents_are_listed_by_kind_and_prefix,
    "9.1" => documents_are_paged_without_loss_or_repeat,
    "9.1" => pages_of_documents_stay_whole_while_some_come_and_go,
    "9.1" => documents_survive_a_crash,
    "9.1" => a_feed_is_read_newest_first,
    "9.1" => a_feed_is_paged_without_loss_or_repeat,
    "9.1" => feeds_are_told_apart,
    "9.1" => a_feed_nobody_wrote_to_is_empty,
    "6.1" => settings_are_listed_unless_at_their_default,
    "6.1" => each_setting_changes_alone,
    "2.15" => a_task_cannot_be_declared_unique,
    "2.2" => jobs_and_keys_of_another_namespace_are_others,
    "2.2" => a_token_of_another_namespace_is_another,
    "2.2" => claims_never_cross_namespaces,
    "2.2" => documents_and_feeds_of_another_namespace_are_others,
    "2.2" => settings_of_another_namespace_are_others,
    "2.2" => statistics_of_another_namespace_are_others,
];

fn a_document_is_written_read_and_removed(world: &World) {
    let version = put(world, "a", r#"{"n":1}"#, Expect::Any);
    let found = find(world, "a").expect("it is there");
    let expected = Document {
        kind: name("note"),
        name: "a".into(),
        version,
        body: json(r#"{"n":1}"#),
        updated_at: world.now(),
        expires_at: None,
    };
    assert_eq!(found, expected);
    assert_eq!(remove(world, "a", Some(version)), PutOutcome::Done { version });
    assert_eq!(find(world, "a"), None);
}

fn a_document_is_written_only_over_what_was_expected(world: &World) {
    let first = put(world, "a", "1", Expect::Absent);
    let second = put(world, "a", "2", Expect::Version(first));
    let third = put(world, "a", "3", Expect::Any);
    assert!(first < second && second < third, "{first} {second} {third}");
    for expect in [Expect::Absent, Expect::Version(first), Expect::Version(second)] {
        assert!(
            matches!(world.put("a", json("4"), expect), PutOutcome::Mismatch { .. }),
            "{expect:?}"
        );
    }
    assert_eq!(
        world.put("b", json("4"), Expect::Version(third)),
        PutOutcome::Mismatch { found: None }
    );
    assert_eq!(
        (find(world, "a").expect("it is there").body, find(world, "b")),
        (json("3"), None)
    );
}

fn a_mismatch_shows_what_was_found_and_changes_nothing(world: &World) {
    put(world, "a", "1", Expect::Any);
    let there = find(world, "a");
    assert_eq!(
        world.put("a", json("2"), Expect::Absent),
        PutOutcome::Mismatch { found: there.clone() }
    );
    assert_eq!(find(world, "a"), there);
}

fn the_version_of_a_document_grows_over_its_removal(world: &World) {
    put(world, "a", "1", Expect::Any);
    let last = put(world, "a", "2", Expect::Any);
    remove(world, "a", None);
    world.upkeep();
    world.crash();
    let next = put(world, "a", "1", Expect::Absent);
    assert!(next > last, "{next} after {last}");
    assert!(matches!(
        world.put("a", json("3"), Expect::Version(last)),
        PutOutcome::Mismatch { found: Some(_) }
    ));
}

fn the_version_of_a_document_grows_over_its_expiry(world: &World) {
    let fleeting = |body: &str| put_for(world, "a", body, Expect::Absent, Some(Millis::new(1)));
    let mut last = put(world, "a", "0", Expect::Any);
    remove(world, "a", None);
    for body in ["1", "2", "3"] {
        let PutOutcome::Done { version } = fleeting(body) else {
            panic!("the one before has expired")
        };
        assert!(version > last, "{version} after {last}");
        last = version;
        world.pass(Millis::new(1));
    }
}

fn a_document_is_removed_only_in_the_version_that_is_meant(world: &World) {
    let old = put(world, "a", "1", Expect::Any);
    let new = put(world, "a", "2", Expect::Any);
    let there = find(world, "a");
    assert_eq!(
        remove(world, "a", Some(old)),
        PutOutcome::Mismatch { found: there.clone() }
    );
    assert_eq!(find(world, "a"), there);
    assert_eq!(remove(world, "a", Some(new)), PutOutcome::Done { version: new });
}

fn a_document_that_is_not_there_cannot_be_removed(world: &World) {
    assert_eq!(remove(world, "a", None), PutOutcome::Mismatch { found: None });
    let version = put(world, "a", "1", Expect::Any);
    remove(world, "a", None);
    assert_eq!(
        remove(world, "a", Some(version)),
        PutOutcome::Mismatch { found: None }
    );
}

fn an_expired_document_is_absent_for_a_writer_too(world: &World) {
    let PutOutcome::Done { version } = put_for(world, "a", "1", Expect::Absent, Some(secs(1))) else {
        panic!("nothing is there")
    };
    world.pass(secs(1));
    assert_eq!(
        world.put("a", json("2"), Expect::Version(version)),
        PutOutcome::Mismatch { found: None }
    );
    assert_eq!(remove(world, "a", None), PutOutcome::Mismatch { found: None });
    assert!(list(world, "", 10).is_empty());
    put(world, "a", "2", Expect::Absent);
}

fn a_renewed_document_lives_on(world: &World) {
    put_for(world, "a", "1", Expect::Any, Some(secs(10)));
    world.pass(secs(6));
    put_for(world, "a", "2", Expect::Any, Some(secs(10)));
    world.pass(secs(6));
    world.upkeep();
    assert_eq!(find(world, "a").expect("it was renewed").body, json("2"));
    put(world, "a", "3", Expect::Any);
    world.pass(Millis::from_days(365));
    world.upkeep();
    assert_eq!(find(world, "a").expect("it has no ttl any more").body, json("3"));
}

fn documents_are_listed_by_kind_and_prefix(world: &World) {
    for title in ["b/2", "a/1", "b/1", "b", "B/1"] {
        put(world, title, "1", Expect::Any);
    }
    let other = PutDocument {
        kind: name("other"),
        name: "b/3".into(),
        body: json("1"),
        expect: Expect::Any,
        ttl: None,
    };
    world
        .block(world.store().put_document(other))
        .expect("the store answers");
    assert_eq!(list(world, "", 10), ["B/1", "a/1", "b", "b/1", "b/2"]);
    assert_eq!(list(world, "b/", 10), ["b/1", "b/2"]);
    assert!(list(world, "c", 10).is_empty());
}

fn documents_are_paged_without_loss_or_repeat(world: &World) {
    let mut titles: Vec<String> = (0..25).map(|n| format!("x/{n}")).collect();
    for title in &titles {
        put(world, title, "1", Expect::Any);
    }
    put(world, "y", "1", Expect::Any);
    titles.sort();
    for limit in [1, 4, 25, 500] {
        assert_eq!(list(world, "x/", limit), titles, "by {limit}");
    }
}

fn pages_of_documents_stay_whole_while_some_come_and_go(world: &World) {
    for title in ["b", "d", "f", "h", "j", "l"] {
        put(world, title, "1", Expect::Any);
    }
    let fetch = |page| {
        world
            .block(world.store().documents(&name("note"), "", page))
            .expect("the store answers")
    };
    let first = fetch(Page::first(2));
    remove(world, "b", None);
    let second = fetch(Page::after(first.next_cursor.expect("there is more"), 2));
    put(world, "a", "1", Expect::Any);
    put(world, "c", "1", Expect::Any);
    let third = fetch(Page::after(second.next_cursor.expect("there is more"), 2));
    let pages = [first.items, second.items, third.items].concat();
    let titles: Vec<String> = pages.into_iter().map(|document| document.name).collect();
    assert_eq!(titles, ["b", "d", "f", "h", "j", "l"]);
}

fn documents_survive_a_crash(world: &World) {
    put(world, "a", r#"{"n":1}"#, Expect::Any);
    let there = find(world, "a");
    world.crash();
    assert_eq!(find(world, "a"), there);
}

fn a_feed_is_read_newest_first(world: &World) {
    let began = world.now();
    append(world, "audit", &["1", "2"]);
    world.pass(secs(1));
    append(world, "audit", &["3"]);
    append(world, "audit", &[]);
    world.crash();
    let seen: Vec<_> = world
        .feed("audit")
        .into_iter()
        .map(|entry| (entry.n, entry.at, entry.body))
        .collect();
    assert_eq!(
        seen,
        [
            (3, world.now(), json("3")),
            (2, began, json("2")),
            (1, began, json("1"))
        ]
    );
}

fn a_feed_is_paged_without_loss_or_repeat(world: &World) {
    append(world, "audit", &["1"; 23]);
    let entries = world.pages(5, |page| {
        append(world, "audit", &["2"]);
        world.block(world.store().feed("audit", page))
    });
    let old: Vec<i64> = entries.iter().map(|entry| entry.n).filter(|n| *n <= 23).collect();
    assert_eq!(old, (1..=23).rev().collect::<Vec<_>>());
}

fn feeds_are_told_apart(world: &World) {
    append(world, "a", &["1", "2"]);
    append(world, "A", &["3"]);
    append(world, "a/b", &["4"]);
    let seen = |feed| -> Vec<i64> { world.feed(feed).iter().map(|entry| entry.n).collect() };
    assert_eq!(
        (seen("a"), seen("A"), seen("a/b")),
        (vec![2, 1], vec![1], vec![1])
    );
}

fn a_feed_nobody_wrote_to_is_empty(world: &World) {
    append(world, "audit", &["1"]);
    let listing = world
        .block(world.store().feed("never", Page::first(10)))
        .expect("the store answers");
    assert_eq!((listing.items.len(), listing.next_cursor), (0, None));
}

fn settings_are_listed_unless_at_their_default(world: &World) {
    assert!(settings(world).is_empty());
    let paused = world.set(
        task("send"),
        SettingChange::Pause {
            lasting: None,
            reason: Some("why".into()),
        },
    );
    world.intake(queue("mails"), false);
    let all = world.set(Target::All, SettingChange::Mode { mode: Mode::Observe });
    world.crash();
    let closed = Setting {
        closed: true,
        ..Setting::default()
    };
    assert_eq!(
        settings(world),
        [
            (Target::All, all),
            (queue("mails"), closed),
            (task("send"), paused)
        ]
    );
    world.intake(queue("mails"), true);
    world.set(task("send"), SettingChange::Resume);
    world.set(Target::All, SettingChange::Mode { mode: Mode::Enforce });
    assert!(settings(world).is_empty());
}

fn each_setting_changes_alone(world: &World) {
    let target = queue("mails");
    world.pause(target.clone());
    world.intake(target.clone(), false);
    world.set(target.clone(), SettingChange::Unique { unique: true });
    let all = world.set(target.clone(), SettingChange::Mode { mode: Mode::Observe });
    assert!(
        all.paused.is_some() && all.closed && all.unique && all.mode == Mode::Observe,
        "{all:?}"
    );
    let resumed = world.set(target.clone(), SettingChange::Resume);
    assert_eq!(resumed, Setting { paused: None, ..all });
    assert_eq!(settings(world), [(target, resumed)]);
}

fn a_task_cannot_be_declared_unique(world: &World) {
    let change = SettingChange::Unique { unique: true };
    refused(world.block(world.store().set(task("send"), change)));
    assert!(settings(world).is_empty());
}

fn jobs_and_keys_of_another_namespace_are_others(world: &World) {
    let other = world.sibling("elsewhere");
    let here = world.accepted(with(Dedup::explicit("k")));
    world.submit(with(Dedup::explicit("k")));
    let there = world
        .block(other.submit(vec![with(Dedup::explicit("k"))]))
        .expect("the store answers");
    assert_eq!(
        there[0].outcome(),
        Some(Outcome::Accepted),
        "the same key is another key"
    );
    assert_eq!(other.namespace(), &name("elsewhere"));
    let found = world.block(other.jobs_by_id(&[here])).expect("the store answers");
    assert_eq!(found, [None]);
    let jobs = world
        .block(other.jobs(JobFilter::default(), Page::first(10)))
        .expect("the store answers");
    let keys = world
        .block(other.keys(KeyFilter::default(), Page::first(10)))
        .expect("the store answers");
    let ledger = world
        .block(other.ledger(LedgerFilter::default(), Page::first(10)))
        .expect("the store answers");
    assert_eq!(
        (jobs.items.len(), keys.items.len(), ledger.items.len()),
        (1, 1, 0)
    );
}

fn a_token_of_another_namespace_is_another(world: &World) {
    let other = world.sibling("elsewhere");
    let here = of("work", r#"{"at":"here"}"#);
    let there = Submission {
        token: here.token,
        ..of("work", r#"{"at":"there"}"#)
    };
    let id = world.accepted(here);
    let answers = world.block(other.submit(vec![there])).expect("the store answers");
    assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
    let own = answers[0].id().expect("an accepted job has an id");
    let found = world
        .block(other.jobs_by_id(std::slice::from_ref(own)))
        .expect("the store answers");
    let found: Vec<_> = found.into_iter().flatten().map(|job| job.input).collect();
    assert_eq!(found, [json(r#"{"at":"there"}"#)]);
    assert_eq!(world.job(&id).input, json(r#"{"at":"here"}"#));
}

fn claims_never_cross_namespaces(world: &World) {
    let other = world.sibling("elsewhere");
    let claimed = world.started(plain());
    assert!(
        world
            .block(other.claim(claim_request(10)))
            .expect("the store answers")
            .is_empty()
    );
    let settlement = Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result: Settle::HandBack,
    };
    let answers = world
        .block(other.settle(vec![settlement]))
        .expect("the store answers");
    assert_eq!(answers, [WriteOutcome::NotFound]);
    world.pass(secs(31));
    world
        .block(other.submit(vec![plain()]))
        .expect("the store answers");
    let there = world
        .block(other.claim(claim_request(10)))
        .expect("the store answers");
    assert_eq!(there.len(), 1);
    assert_ne!(there[0].job.id, claimed.job.id);
}

fn documents_and_feeds_of_another_namespace_are_others(world: &World) {
    let other = world.sibling("elsewhere");
    put(world, "a", "1", Expect::Any);
    append(world, "audit", &["1", "2"]);
    assert_eq!(
        world
            .block(other.document(&name("note"), "a"))
            .expect("the store answers"),
        None
    );
    let listing = world
        .block(other.documents(&name("note"), "", Page::first(10)))
        .expect("the store answers");
    assert!(listing.items.is_empty());
    world
        .block(other.append("audit", vec![json("3")]))
        .expect("the store answers");
    let feed = world
        .block(other.feed("audit", Page::first(10)))
        .expect("the store answers")
        .items;
    assert_eq!((feed.len(), feed[0].n, &feed[0].body), (1, 1, &json("3")));
    assert_eq!(world.feed("audit").len(), 2);
}

fn settings_of_another_namespace_are_others(world: &World) {
    let other = world.sibling("elsewhere");
    world.pause(Target::All);
    world.intake(Target::All, false);
    assert!(
        world
            .block(other.settings())
            .expect("the store answers")
            .is_empty()
    );
    world
        .block(other.submit(vec![plain()]))
        .expect("the store answers");
    assert_eq!(
        world
            .block(other.claim(claim_request(10)))
            .expect("the store answers")
            .len(),
        1
    );
}

fn statistics_of_another_namespace_are_others(world: &World) {
    let other = world.sibling("elsewhere");
    world.completed(with_input(Dedup::idempotency_key("k"), "1"));
    world.upkeep();
    let stats = world.block(other.stats()).expect("the store answers");
    assert!(
        stats.totals.is_zero() && stats.lanes.is_empty() && stats.jobs.is_empty(),
        "{stats:?}"
    );
    assert_eq!(stats.active_keys, 0);
    world.block(other.reset_stats()).expect("the store answers");
    assert_eq!(world.counted(), [("accepted", 1), ("completed", 1)]);
    let history = world
        .block(other.history(secs(3_600)))
        .expect("the store answers");
    assert!(
        history.iter().all(|snapshot| snapshot.counts.is_zero()),
        "{history:?}"
    );
}

/// Writes a document that must be written; its version.
fn put(world: &World, title: &str, body: &str, expect: Expect) -> i64 {
    match world.put(title, json(body), expect) {
        PutOutcome::Done { version } => version,
        other => panic!("expected a write, got {other:?}"),
    }
}

fn put_for(world: &World, title: &str, body: &str, expect: Expect, ttl: Option<Millis>) -> PutOutcome {
    let put = PutDocument {
        kind: name("note"),
        name: title.to_owned(),
        body: json(body),
        expect,
        ttl,
    };
    world
        .block(world.store().put_document(put))
        .expect("the store answers")
}

fn find(world: &World, title: &str) -> Option<Document> {
    world
        .block(world.store().document(&name("note"), title))
        .expect("the store answers")
}

fn remove(world: &World, title: &str, version: Option<i64>) -> PutOutcome {
    world
        .block(world.store().delete_document(&name("note"), title, version))
        .expect("the store answers")
}

fn list(world: &World, prefix: &str, limit: usize) -> Vec<String> {
    let documents = world.pages(limit, |page| {
        world.block(world.store().documents(&name("note"), prefix, page))
    });
    documents.into_iter().map(|document| document.name).collect()
}

fn append(world: &World, feed: &str, bodies: &[&str]) {
    let bodies: Vec<Json> = bodies.iter().map(|body| json(body)).collect();
    world
        .block(world.store().append(feed, bodies))
        .expect("the store answers");
}

fn settings(world: &World) -> Vec<(Target, Setting)> {
    world.block(world.store().settings()).expect("the store answers")
}
