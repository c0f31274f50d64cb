//! Keys: what makes two submissions the same, and where (contract 2.1–2.3, 2.17, 8.2).

use semel_core::counters::Counter;
use semel_core::dedup::{
    Dedup, Hold, HoldKind, KeyBy, KeySource, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope, Unit,
};
use semel_core::job::Outcome;
use semel_core::json::Json;
use semel_core::store::{KeyFilter, Submitted};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, again, into_queue, json, name, of, plain, secs, with, with_input};

cases![
    "2.1" => an_explicit_key_is_trimmed,
    "2.1" => an_explicit_key_has_1_to_255_bytes_and_no_control_characters,
    "2.1" => an_input_key_covers_the_whole_input,
    "2.1" => an_input_key_covers_the_task,
    "2.1" => fields_that_are_named_make_the_key_alone,
    "2.1" => a_field_that_is_absent_differs_from_one_that_is_null,
    "2.1" => a_misspelt_field_is_refused_instead_of_merging_all_jobs,
    "2.1" => fields_left_out_do_not_make_the_key,
    "2.1" => a_generated_key_meets_nobody_but_its_own_repetition,
    "2.1" => a_hybrid_key_meets_the_same_fields_with_the_same_input,
    "2.1" => a_hybrid_key_admits_another_input_and_shows_the_collision,
    "2.1" => a_collision_is_with_a_holder_only,
    "2.1" => trace_headers_do_not_turn_deduplication_off,
    "2.1" => a_named_header_is_part_of_the_key,
    "2.1" => a_named_member_of_the_metadata_is_part_of_the_key,
    "2.1" => a_period_allows_one_job_per_bucket,
    "2.1" => a_period_is_a_period_of_its_zone,
    "2.1" => a_period_goes_by_the_planned_time,
    "2.1" => a_period_keeps_the_key_of_a_job_planned_far_ahead,
    "2.2" => equal_inputs_are_equal_however_they_are_spelt,
    "2.2" => neighbouring_64_bit_integers_are_two_jobs,
    "2.2" => integers_beyond_64_bits_are_refused,
    "2.2" => a_member_given_twice_is_refused,
    "2.2" => absent_is_not_null,
    "2.2" => parts_of_a_key_never_run_into_each_other,
    "2.2" => every_answer_names_the_same_digest_of_64_digits,
    "2.2" => namespaces_do_not_share_keys,
    "2.3" => by_default_a_key_is_unique_within_its_task,
    "2.3" => a_queue_wide_key_is_unique_within_its_queue,
    "2.3" => a_global_key_is_unique_everywhere,
    "2.3" => a_custom_scope_is_unique_within_its_name,
    "2.3" => scopes_are_distinct_by_construction,
    "2.17" => a_hold_with_a_modifier_it_does_not_take_is_refused,
    "2.17" => latest_is_refused_with_a_key_that_can_lapse_or_stay,
    "2.17" => a_debounce_that_makes_no_sense_is_refused,
    "2.17" => a_key_of_no_fields_is_refused,
    "2.17" => a_ttl_or_cool_down_of_nothing_is_refused,
    "8.2" => a_key_may_look_like_anything,
];

fn an_explicit_key_is_trimmed(world: &World) {
    let id = world.accepted(with(Dedup::explicit("order-1")));
    assert_eq!(world.duplicate(with(Dedup::explicit("  order-1\t"))), id);
    let key = world.job(&id).key.expect("a key");
    assert_eq!(
        (key.text.as_deref(), key.by, key.scope.as_str()),
        (Some("order-1"), KeyBy::Explicit, "task")
    );
}

/// Elsewhere an empty key was a key, and everything that forgot its key was one job.
fn an_explicit_key_has_1_to_255_bytes_and_no_control_characters(world: &World) {
    for text in ["", "   ", "a\u{0}b", "a\nb", &"x".repeat(256), &"ß".repeat(128)] {
        world.nonsense(with(Dedup::explicit(text)));
    }
    world.accepted(with(Dedup::explicit("x".repeat(255))));
    world.accepted(with(Dedup::explicit("x".repeat(254))));
    world.accepted(with(Dedup::explicit(format!(" {} ", "y".repeat(255)))));
}

fn an_input_key_covers_the_whole_input(world: &World) {
    let id = world.accepted(with_input(Dedup::unique(), r#"{"order":1,"lines":[1,2]}"#));
    world.accepted(with_input(Dedup::unique(), r#"{"order":1,"lines":[2,1]}"#));
    world.accepted(with_input(Dedup::unique(), r#"{"order":1}"#));
    assert_eq!(
        world.duplicate(with_input(Dedup::unique(), r#"{"order":1,"lines":[1,2]}"#)),
        id
    );
}

fn an_input_key_covers_the_task(world: &World) {
    let everywhere = || Dedup::unique().scope(Scope::Global);
    world.accepted(with(everywhere()));
    world.accepted(Submission {
        task: name("other"),
        ..with(everywhere())
    });
    assert_eq!(world.stats().active_keys, 2);
}

fn fields_that_are_named_make_the_key_alone(world: &World) {
    let by_order = || Dedup::fields(["/order", "/lines/0"]).expect("pointers");
    let id = world.accepted(with_input(by_order(), r#"{"order":1,"lines":[7,8],"at":1}"#));
    assert_eq!(
        world.duplicate(with_input(by_order(), r#"{"at":2,"lines":[7],"order":1.0}"#)),
        id
    );
    world.accepted(with_input(by_order(), r#"{"order":2,"lines":[7]}"#));
    world.accepted(with_input(by_order(), r#"{"order":1,"lines":[8]}"#));
}

fn a_field_that_is_absent_differs_from_one_that_is_null(world: &World) {
    let policy = || Dedup::fields(["/order", "/part"]).expect("pointers");
    let without = world.accepted(with_input(policy(), r#"{"order":1}"#));
    world.accepted(with_input(policy(), r#"{"order":1,"part":null}"#));
    assert_eq!(world.duplicate(with_input(policy(), r#"{"order":1}"#)), without);
}

fn a_misspelt_field_is_refused_instead_of_merging_all_jobs(world: &World) {
    let typo = || Dedup::fields(["/oder"]).expect("a pointer");
    let refusal = world.nonsense(with_input(typo(), r#"{"order":1}"#));
    assert!(refusal.to_string().contains("/oder"), "{refusal}");
    world.nonsense(with_input(
        Dedup::except(["/att"]).expect("a pointer"),
        r#"{"order":1,"at":2}"#,
    ));
    world.nonsense(with_input(
        Dedup::hybrid(["/oder"]).expect("a pointer"),
        r#"{"order":1}"#,
    ));
    world.accepted(with_input(
        Dedup::fields(["/oder", "/order"]).expect("pointers"),
        r#"{"order":1}"#,
    ));
}

fn fields_left_out_do_not_make_the_key(world: &World) {
    let policy = || Dedup::except(["/at", "/trace/id"]).expect("pointers");
    let id = world.accepted(with_input(
        policy(),
        r#"{"order":1,"at":1,"trace":{"id":5,"on":true}}"#,
    ));
    assert_eq!(
        world.duplicate(with_input(
            policy(),
            r#"{"order":1,"at":2,"trace":{"id":6,"on":true}}"#
        )),
        id
    );
    world.accepted(with_input(
        policy(),
        r#"{"order":1,"at":1,"trace":{"id":5,"on":false}}"#,
    ));
}

fn a_generated_key_meets_nobody_but_its_own_repetition(world: &World) {
    let submission = with(Dedup::by(KeySource::Generated));
    let id = world.accepted(submission.clone());
    let other = world.accepted(again(&submission));
    assert_ne!(other, id);
    assert_ne!(world.digest(&other), world.digest(&id));
    assert_eq!(world.accepted(submission), id);
    assert_eq!(world.count(Counter::Accepted), 2);
}

/// Elsewhere hybrid keys had a random part, so that no two of them ever met.
fn a_hybrid_key_meets_the_same_fields_with_the_same_input(world: &World) {
    let hybrid = || Dedup::hybrid(["/order"]).expect("a pointer");
    let id = world.accepted(with_input(hybrid(), r#"{"order":1,"amount":10}"#));
    assert_eq!(
        world.duplicate(with_input(hybrid(), r#"{"amount":10.0,"order":1}"#)),
        id
    );
    assert_eq!(world.count(Counter::Collisions), 0);
}

fn a_hybrid_key_admits_another_input_and_shows_the_collision(world: &World) {
    let hybrid = |input| with_input(Dedup::hybrid(["/order"]).expect("a pointer"), input);
    let first = world.accepted(hybrid(r#"{"order":1,"amount":10}"#));
    let second = world.admitted(hybrid(r#"{"order":1,"amount":20}"#));
    assert_eq!(
        (second.outcome, second.collides_with.as_ref()),
        (Outcome::Accepted, Some(&first))
    );
    let third = world.admitted(hybrid(r#"{"order":1,"amount":30}"#));
    assert_eq!(third.collides_with, Some(first.clone()), "the oldest is named");
    world.accepted(hybrid(r#"{"order":2,"amount":10}"#));
    assert_eq!(
        (world.count(Counter::Collisions), world.count(Counter::Accepted)),
        (2, 4)
    );
    world.crash();
    assert_eq!(world.job(&second.job.id).collides_with, Some(first));
    assert_eq!(
        world.duplicate(hybrid(r#"{"order":1,"amount":20}"#)),
        second.job.id
    );
}

fn a_collision_is_with_a_holder_only(world: &World) {
    let hybrid = |input| with_input(Dedup::hybrid(["/order"]).expect("a pointer"), input);
    let claimed = world.start(hybrid(r#"{"order":1,"amount":10}"#));
    world.complete(&claimed);
    assert_eq!(
        world.admitted(hybrid(r#"{"order":1,"amount":20}"#)).collides_with,
        None
    );
    world.accepted(with_input(
        Dedup::fields(["/order"]).expect("a pointer"),
        r#"{"order":1,"amount":30}"#,
    ));
    assert_eq!(world.count(Counter::Collisions), 0);
}

fn headed(policy: Dedup, header: &str, value: &str) -> Submission {
    let mut submission = with(policy);
    submission
        .content
        .headers
        .insert(header.to_owned(), value.to_owned());
    submission
}

/// Elsewhere trace headers were hashed into the key: tracing turned deduplication off.
fn trace_headers_do_not_turn_deduplication_off(world: &World) {
    let id = world.accepted(headed(Dedup::unique(), "traceparent", "00-1"));
    assert_eq!(
        world.duplicate(headed(Dedup::unique(), "traceparent", "00-2")),
        id
    );
    assert_eq!(world.duplicate(with(Dedup::unique())), id);
}

fn a_named_header_is_part_of_the_key(world: &World) {
    let by_tenant = || Dedup::unique().with_headers(["tenant"]);
    let a = world.accepted(headed(by_tenant(), "tenant", "a"));
    world.accepted(headed(by_tenant(), "tenant", "b"));
    world.accepted(headed(by_tenant(), "tenant", ""));
    let none = world.accepted(with(by_tenant()));
    assert_eq!(world.duplicate(headed(by_tenant(), "tenant", "a")), a);
    assert_eq!(world.duplicate(headed(by_tenant(), "traceparent", "00-1")), none);
}

fn a_named_member_of_the_metadata_is_part_of_the_key(world: &World) {
    let noted = |meta: &str| {
        let mut submission = with(Dedup::unique().with_meta(["tenant"]));
        submission.content.meta = Some(json(meta));
        submission
    };
    let a = world.accepted(noted(r#"{"tenant":"a","by":"anna"}"#));
    world.accepted(noted(r#"{"tenant":"b"}"#));
    world.accepted(noted(r#"{"tenant":null}"#));
    world.accepted(noted("{}"));
    assert_eq!(world.duplicate(noted(r#"{"by":"ben","tenant":"a"}"#)), a);
}

/// The clock of a case begins at 08:00 UTC.
const TO_MIDNIGHT: Millis = Millis::from_secs(16 * 3_600);

fn a_period_allows_one_job_per_bucket(world: &World) {
    let daily = || with(Dedup::once_per(Period::utc(Unit::Day)));
    let claimed = world.start(daily());
    world.complete(&claimed);
    world.pass(Millis::new(TO_MIDNIGHT.as_millis() - 1));
    assert_eq!(world.duplicate(daily()), claimed.job.id);
    world.pass(Millis::new(1));
    assert_ne!(world.accepted(daily()), claimed.job.id);
}

fn a_period_is_a_period_of_its_zone(world: &World) {
    let berlin = || {
        with(Dedup::once_per(
            Period::new(Unit::Day, "Europe/Berlin").expect("a zone"),
        ))
    };
    let utc = || with(Dedup::once_per(Period::utc(Unit::Day)));
    let (there, here) = (world.accepted(berlin()), world.accepted(utc()));
    assert_ne!(there, here);
    world.pass(secs(15 * 3_600));
    assert_ne!(
        world.accepted(berlin()),
        there,
        "23:00 UTC is the next day in Berlin"
    );
    assert_eq!(world.duplicate(utc()), here);
}

fn a_period_goes_by_the_planned_time(world: &World) {
    let daily = || with(Dedup::once_per(Period::utc(Unit::Day)));
    let planned = || Submission {
        run_at: RunAt::After(TO_MIDNIGHT),
        ..daily()
    };
    let today = world.accepted(daily());
    let tomorrow = world.accepted(planned());
    assert_eq!(world.duplicate(daily()), today);
    assert_eq!(world.duplicate(planned()), tomorrow);
    world.pass(TO_MIDNIGHT);
    assert_eq!(world.duplicate(daily()), tomorrow);
}

fn a_period_keeps_the_key_of_a_job_planned_far_ahead(world: &World) {
    let daily = || with(Dedup::once_per(Period::utc(Unit::Day)));
    let id = world.accepted(Submission {
        run_at: RunAt::After(Millis::from_days(7)),
        ..daily()
    });
    world.pass(Millis::from_days(7));
    let claimed = world.claim_one();
    world.complete(&claimed);
    assert_eq!(world.duplicate(daily()), id);
    world.pass(Millis::from_days(1));
    assert_ne!(world.accepted(daily()), id);
}

/// Elsewhere the exact text was compared: the order of members, or `1` for `1.0`, defeated it.
fn equal_inputs_are_equal_however_they_are_spelt(world: &World) {
    let unique = |input| with_input(Dedup::unique(), input);
    let id = world.accepted(unique(r#"{"a":1,"b":{"c":100,"d":"é/"}}"#));
    for spelling in [
        r#"{"b":{"d":"é/","c":100},"a":1}"#,
        r#"{ "a" : 1.0, "b" : { "c" : 1e2, "d" : "\u00e9\/" } }"#,
    ] {
        assert_eq!(world.duplicate(unique(spelling)), id);
    }
    world.accepted(unique(r#"{"a":"1","b":{"c":100,"d":"é/"}}"#));
}

/// Elsewhere integers were rounded to doubles: two ids shared one key, and the second job vanished.
fn neighbouring_64_bit_integers_are_two_jobs(world: &World) {
    let unique = |input| with_input(Dedup::unique(), input);
    let id = world.accepted(unique(r#"{"id":9007199254740992}"#));
    assert_ne!(world.accepted(unique(r#"{"id":9007199254740993}"#)), id);
    world.accepted(unique(r#"{"id":18446744073709551615}"#));
    world.accepted(unique(r#"{"id":18446744073709551614}"#));
    world.accepted(unique(r#"{"id":-9223372036854775808}"#));
    assert_eq!(world.stats().active_keys, 5);
}

fn unchecked(input: &str) -> Submission {
    let mut submission = with(Dedup::unique());
    submission.content.input = Json::trusted(input);
    submission
}

fn integers_beyond_64_bits_are_refused(world: &World) {
    world.nonsense(unchecked(r#"{"id":18446744073709551616}"#));
    world.nonsense(unchecked(r#"{"id":-9223372036854775809}"#));
}

fn a_member_given_twice_is_refused(world: &World) {
    world.nonsense(unchecked(r#"{"id":1,"id":2}"#));
    world.nonsense(unchecked(r#"{"a":{"id":1,"\u0069d":1}}"#));
}

fn absent_is_not_null(world: &World) {
    world.accepted(with_input(Dedup::unique(), "{}"));
    world.accepted(with_input(Dedup::unique(), r#"{"a":null}"#));
    world.accepted(with_input(Dedup::unique(), "null"));
    assert_eq!(world.stats().active_keys, 3);
}

/// Elsewhere parts were printed one after another without separators: `ab`+`c` was `a`+`bc`.
fn parts_of_a_key_never_run_into_each_other(world: &World) {
    let scoped = |scope, key| with(Dedup::explicit(key).scope(Scope::Custom(name(scope))));
    world.accepted(scoped("ab", "c"));
    world.accepted(scoped("a", "bc"));
    world.accepted(scoped("abc", "custom:abc"));
    let pair = |a, b| {
        let mut submission = headed(Dedup::unique().with_headers(["x", "y"]), "x", a);
        submission.content.headers.insert("y".to_owned(), b);
        submission
    };
    world.accepted(pair("ab", "c".to_owned()));
    world.accepted(pair("a", "bc".to_owned()));
    assert_eq!(world.stats().active_keys, 5);
}

fn every_answer_names_the_same_digest_of_64_digits(world: &World) {
    let first = world.admitted(with(Dedup::explicit("k")));
    let second = world.admitted(with(Dedup::explicit("k")));
    assert_eq!(
        (first.outcome, second.outcome),
        (Outcome::Accepted, Outcome::Duplicate)
    );
    let digest = first.key.expect("a digest");
    assert_eq!(second.key, Some(digest));
    assert_eq!(world.digest(&first.job.id), digest);
    assert_eq!(digest.to_string().len(), 64);
    assert_eq!(world.admitted(plain()).key, None);
}

fn namespaces_do_not_share_keys(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k").scope(Scope::Global)));
    let other = world.sibling("other");
    let elsewhere = with(Dedup::explicit("k").scope(Scope::Global));
    let submitted = world
        .block(other.submit(vec![elsewhere]))
        .expect("the store answers")
        .remove(0);
    let Submitted::Job(admitted) = submitted else {
        panic!("expected a job, got {submitted:?}")
    };
    assert_eq!(admitted.outcome, Outcome::Accepted);
    assert_ne!(admitted.key, Some(world.digest(&id)));
    assert_eq!(world.find(&admitted.job.id), None);
    assert_eq!(world.stats().active_keys, 1);
}

fn by_default_a_key_is_unique_within_its_task(world: &World) {
    let keyed = || with(Dedup::explicit("k"));
    let id = world.accepted(keyed());
    assert_ne!(
        world.accepted(Submission {
            task: name("other"),
            ..keyed()
        }),
        id
    );
    assert_eq!(world.duplicate(into_queue("elsewhere", keyed())), id);
}

fn a_queue_wide_key_is_unique_within_its_queue(world: &World) {
    let keyed = || {
        with(
            Dedup::explicit("k")
                .scope(Scope::Queue)
                .on_mismatch(OnMismatch::Ignore),
        )
    };
    let id = world.accepted(keyed());
    assert_eq!(
        world.duplicate(Submission {
            task: name("other"),
            ..keyed()
        }),
        id
    );
    assert_ne!(world.accepted(into_queue("elsewhere", keyed())), id);
    assert_eq!(world.job(&id).key.expect("a key").scope, "queue");
}

fn a_global_key_is_unique_everywhere(world: &World) {
    let keyed = || {
        with(
            Dedup::explicit("k")
                .scope(Scope::Global)
                .on_mismatch(OnMismatch::Ignore),
        )
    };
    let id = world.accepted(keyed());
    let elsewhere = into_queue(
        "elsewhere",
        Submission {
            task: name("other"),
            ..keyed()
        },
    );
    assert_eq!(world.duplicate(elsewhere), id);
    assert_eq!(world.job(&id).key.expect("a key").scope, "global");
}

fn a_custom_scope_is_unique_within_its_name(world: &World) {
    let scope = |text| Scope::Custom(name(text));
    let keyed = |text| {
        with(
            Dedup::explicit("k")
                .scope(scope(text))
                .on_mismatch(OnMismatch::Ignore),
        )
    };
    let id = world.accepted(keyed("billing"));
    let elsewhere = into_queue(
        "elsewhere",
        Submission {
            task: name("other"),
            ..keyed("billing")
        },
    );
    assert_eq!(world.duplicate(elsewhere), id);
    assert_ne!(world.accepted(keyed("shipping")), id);
    assert_eq!(world.job(&id).key.expect("a key").scope, "custom:billing");
}

/// Elsewhere the scope `queue` was the same as a task named "queue", and a scope went into a path as it was.
fn scopes_are_distinct_by_construction(world: &World) {
    for word in ["task", "queue", "global", "custom:queue"] {
        let keyed = |scope| {
            into_queue(
                word,
                Submission {
                    task: name(word),
                    ..with(Dedup::explicit("k").scope(scope))
                },
            )
        };
        world.accepted(keyed(Scope::Task));
        world.accepted(keyed(Scope::Queue));
        world.accepted(keyed(Scope::Custom(name(word))));
    }
    world.accepted(of("work", "{}"));
    world.accepted(with(Dedup::explicit("k").scope(Scope::Global)));
    assert_eq!(world.stats().active_keys, 13);
}

fn a_hold_with_a_modifier_it_does_not_take_is_refused(world: &World) {
    use HoldKind::{Forever, UntilFinished, UntilStarted, Window};
    let hour = Some(secs(3_600));
    let none = ReleaseOn::default();
    let failed = ReleaseOn {
        failed: true,
        cancelled: false,
    };
    let cancelled = ReleaseOn {
        failed: false,
        cancelled: true,
    };
    for (kind, ttl, cool_down, release_on) in [
        (UntilStarted, None, hour, none),
        (UntilStarted, None, None, failed),
        (UntilStarted, None, None, cancelled),
        (UntilFinished, None, None, failed),
        (UntilFinished, None, None, cancelled),
        (Window, None, None, none),
        (Window, hour, hour, none),
        (Forever, hour, None, none),
        (Forever, None, hour, none),
    ] {
        world.nonsense(with(Dedup::explicit("k").hold(Hold {
            kind,
            ttl,
            cool_down,
            release_on,
        })));
    }
}

fn latest_is_refused_with_a_key_that_can_lapse_or_stay(world: &World) {
    for hold in [
        Hold::until_started(),
        Hold::until_finished().cool_down(secs(1)),
        Hold::window(secs(60)),
        Hold::forever(),
    ] {
        world.nonsense(with(
            Dedup::explicit("k").hold(hold).on_duplicate(OnDuplicate::Latest),
        ));
    }
}

fn a_debounce_that_makes_no_sense_is_refused(world: &World) {
    let policy = |delay, max_wait| Dedup::explicit("k").debounce(delay, max_wait);
    world.nonsense(with(policy(Millis::ZERO, None)));
    world.nonsense(with(policy(secs(10), Some(secs(9)))));
    world.nonsense(Submission {
        run_at: RunAt::After(secs(5)),
        ..with(policy(secs(10), None))
    });
    world.nonsense(Submission {
        run_at: RunAt::At(world.now()),
        ..with(policy(secs(10), None))
    });
    world.accepted(with(policy(secs(10), Some(secs(10)))));
}

fn a_key_of_no_fields_is_refused(world: &World) {
    for source in [
        KeySource::Fields(Vec::new()),
        KeySource::Except(Vec::new()),
        KeySource::Hybrid(Vec::new()),
    ] {
        world.nonsense(with(Dedup::by(source)));
    }
}

/// Elsewhere a ttl of zero or less was taken, and the key was free before it was held.
fn a_ttl_or_cool_down_of_nothing_is_refused(world: &World) {
    for hold in [
        Hold::window(Millis::ZERO),
        Hold::until_started().ttl(Millis::ZERO),
        Hold::until_finished().ttl(Millis::ZERO),
        Hold::until_finished().cool_down(Millis::ZERO),
    ] {
        world.nonsense(with(Dedup::explicit("k").hold(hold)));
    }
}

fn a_key_may_look_like_anything(world: &World) {
    let texts = [
        "'; DROP TABLE jobs; --",
        "../../etc/passwd",
        "%",
        "_",
        "*",
        "a:b{c}",
        "$(id)",
        "<b>",
        "\\",
        "🦀 größe",
    ];
    let ids: Vec<_> = texts
        .iter()
        .map(|text| world.accepted(with(Dedup::explicit(*text))))
        .collect();
    world.crash();
    for (text, id) in texts.iter().zip(&ids) {
        assert_eq!(world.duplicate(with(Dedup::explicit(*text))), *id, "{text}");
        let found = world.keys(KeyFilter {
            text: Some((*text).to_owned()),
            ..KeyFilter::default()
        });
        assert!(
            found
                .iter()
                .all(|row| row.key.text.as_ref().is_some_and(|found| found.contains(text)))
        );
        assert!(found.iter().any(|row| row.holder.id == *id), "{text} is found");
    }
}
