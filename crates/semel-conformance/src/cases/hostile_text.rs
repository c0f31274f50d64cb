//! Whatever a client sends stays data (contract 8.2).

use semel_core::dedup::{Dedup, Hold, Scope};
use semel_core::guard::GuardAnswer;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::step::StepAnswer;
use semel_core::store::{
    ActOutcome, Beat, ClaimRequest, Expect, ExtendRequest, JobFilter, KeyFilter, Page, PutOutcome,
    SettingChange, WriteOutcome, log_feed,
};
use semel_core::submission::Submission;

use super::list::cases;
use crate::kit::{World, claim_request, json, name, of, plain, queue, secs, task, token, with};

cases![
    "8.2" => queues_and_tasks_may_be_called_anything,
    "8.2" => names_that_look_alike_are_told_apart,
    "8.2" => a_setting_of_a_hostile_name_concerns_that_name_only,
    "8.2" => a_hostile_key_is_a_key,
    "8.2" => a_wild_card_in_a_search_is_a_character,
    "8.2" => inputs_outputs_and_headers_come_back_as_they_went_in,
    "8.2" => errors_and_log_lines_come_back_as_they_went_in,
    "8.2" => steps_and_guards_may_be_called_anything,
    "8.2" => documents_and_feeds_may_be_called_anything,
    "8.2" => the_prefix_of_a_document_is_no_pattern,
    "8.2" => a_hostile_id_finds_nothing,
];

const HOSTILE: [&str; 14] = [
    "'; DROP TABLE jobs; --",
    "\" OR \"\"=\"",
    "\\'; SELECT 1; --",
    "%",
    "_",
    "?1 :name @x $y",
    "../../etc/passwd",
    "C:\\nul",
    "<script>alert(1)</script>",
    "$(reboot) `reboot`",
    "return redis.call('FLUSHALL')",
    "{a}*?[a-z]",
    "null",
    "名前 🦀 \u{202e}e\u{301}",
];

fn queues_and_tasks_may_be_called_anything(world: &World) {
    for text in HOSTILE {
        let submission = Submission {
            queue: name(text),
            producer: Some(name(text)),
            ..of(text, "{}")
        };
        let id = world.accepted(submission);
        let filter = JobFilter {
            queue: Some(name(text)),
            task: Some(name(text)),
            ..JobFilter::default()
        };
        assert_eq!(world.ids(filter), std::slice::from_ref(&id), "{text}");
        let request = ClaimRequest {
            worker: name(text),
            queues: vec![name(text)],
            tasks: vec![name(text)],
            ..claim_request(10)
        };
        let claims = world
            .block(world.store().claim(request))
            .expect("the store answers");
        assert_eq!(
            (claims.len(), &claims[0].job.id, &claims[0].job.worker),
            (1, &id, &Some(name(text)))
        );
        assert_eq!(claims[0].job.producer, Some(name(text)));
    }
    assert_eq!(world.exact_stats().lanes.len(), HOSTILE.len());
    assert_eq!(world.ids(JobFilter::default()).len(), HOSTILE.len());
}

fn names_that_look_alike_are_told_apart(world: &World) {
    let alike = ["mail", "Mail", "mail ", " mail", "é", "e\u{301}", "0", "00"];
    let ids: Vec<JobId> = alike
        .iter()
        .map(|text| {
            world.accepted(Submission {
                queue: name(text),
                ..plain()
            })
        })
        .collect();
    for (text, id) in alike.iter().zip(ids) {
        let filter = JobFilter {
            queue: Some(name(text)),
            ..JobFilter::default()
        };
        assert_eq!(world.ids(filter), [id], "{text:?}");
    }
    assert_eq!(world.exact_stats().lanes.len(), alike.len());
}

fn a_setting_of_a_hostile_name_concerns_that_name_only(world: &World) {
    for text in HOSTILE {
        world.pause(queue(text));
        world.pause(task(text));
    }
    assert_eq!(
        world
            .block(world.store().settings())
            .expect("the store answers")
            .len(),
        2 * HOSTILE.len()
    );
    let free = world.accepted(plain());
    world.accepted(Submission {
        queue: name("%"),
        ..plain()
    });
    assert_eq!(world.claimed_ids(), [free]);
    for text in HOSTILE {
        world.set(queue(text), SettingChange::Resume);
        world.set(task(text), SettingChange::Resume);
    }
    assert!(
        world
            .block(world.store().settings())
            .expect("the store answers")
            .is_empty()
    );
}

fn a_hostile_key_is_a_key(world: &World) {
    for text in HOSTILE {
        let policy = || with(Dedup::explicit(text).scope(Scope::Custom(name(text))));
        let id = world.accepted(policy());
        let again = world.admitted(policy());
        assert_eq!(
            (again.outcome, again.job.id),
            (Outcome::Duplicate, id.clone()),
            "{text}"
        );
        let scope = Some(format!("custom:{text}"));
        let rows = world.keys(KeyFilter {
            scope,
            ..KeyFilter::default()
        });
        assert_eq!(
            (rows.len(), rows[0].key.text.as_deref(), &rows[0].holder.id),
            (1, Some(text), &id)
        );
    }
    assert_eq!(
        world.exact_stats().active_keys,
        i64::try_from(HOSTILE.len()).expect("few")
    );
}

fn a_wild_card_in_a_search_is_a_character(world: &World) {
    for text in ["100%", "snake_case", "back\\slash", "plain", "star*"] {
        world.failed(with(Dedup::explicit(text).hold(Hold::forever())), text);
    }
    for (search, found) in [
        ("%", "100%"),
        ("_", "snake_case"),
        ("\\", "back\\slash"),
        ("*", "star*"),
    ] {
        let keys = world.keys(KeyFilter {
            text: Some(search.into()),
            ..KeyFilter::default()
        });
        let texts: Vec<_> = keys.iter().filter_map(|row| row.key.text.as_deref()).collect();
        assert_eq!(texts, [found], "key {search}");
        let jobs = world.ids(JobFilter {
            error: Some(search.into()),
            ..JobFilter::default()
        });
        assert_eq!(jobs, [keys[0].holder.id.clone()], "error {search}");
    }
}

fn inputs_outputs_and_headers_come_back_as_they_went_in(world: &World) {
    for text in HOSTILE.into_iter().chain(["\0 \u{1} \u{7f}", "line\nbreak"]) {
        let body = Json::of(text).expect("a JSON string");
        let mut submission = of("work", body.as_str());
        submission.content.headers.insert(text.into(), text.into());
        let meta = serde_json::to_string(&std::collections::BTreeMap::from([(text, text)])).expect("JSON");
        submission.content.meta = Some(json(&meta));
        let claimed = world.started(submission);
        let output = Some(body.clone());
        world.settle(
            &claimed.job.id,
            claimed.fence,
            Settle::Complete {
                output: output.clone(),
            },
        );
        let job = world.job(&claimed.job.id);
        assert_eq!(
            (job.input, job.output, job.meta),
            (body, output, Some(json(&meta)))
        );
        assert_eq!(job.headers.get(text).map(String::as_str), Some(text));
    }
    let spaced = "  { \"b\" : 1.50 ,\n \"a\" : [ ] }  ";
    let id = world.accepted(of("work", spaced));
    assert_eq!(world.job(&id).input.as_str(), spaced, "the text itself is kept");
}

fn errors_and_log_lines_come_back_as_they_went_in(world: &World) {
    for text in HOSTILE
        .into_iter()
        .chain(["a\0b", "line\nbreak", "\u{1b}[31mred"])
    {
        let claimed = world.started(plain());
        let beat = Beat {
            id: claimed.job.id.clone(),
            fence: claimed.fence,
            progress: None,
            log: vec![text.to_owned()],
        };
        let request = ExtendRequest {
            leases: vec![beat],
            lease: secs(30),
        };
        world
            .block(world.store().extend(request))
            .expect("the store answers");
        assert_eq!(world.fail(&claimed, text), WriteOutcome::Ok(State::Failed));
        assert_eq!(world.job(&claimed.job.id).error.expect("an error").message, text);
        assert_eq!(
            world.attempts(&claimed.job.id)[0].end.error.as_deref(),
            Some(text)
        );
        let line: String = world.feed(&log_feed(&claimed.job.id))[0]
            .body
            .read()
            .expect("a JSON string");
        assert_eq!(line, text);
    }
}

fn steps_and_guards_may_be_called_anything(world: &World) {
    let claimed = world.started(plain());
    for text in HOSTILE {
        world.begin_fresh(&claimed, text);
        world.confirm(&claimed, text, "1");
        assert_eq!(
            world.begin(&claimed, text),
            StepAnswer::Confirmed { output: json("1") }
        );
        assert_eq!(
            world.reserve(text, token(), secs(60)),
            GuardAnswer::Fresh,
            "{text}"
        );
        assert_eq!(
            world.reserve(text, token(), secs(60)),
            GuardAnswer::InProgress,
            "{text}"
        );
    }
    assert_eq!(world.steps_of(&claimed.job.id).len(), HOSTILE.len());
}

fn documents_and_feeds_may_be_called_anything(world: &World) {
    for text in HOSTILE {
        let body = Json::of(text).expect("a JSON string");
        assert!(
            matches!(
                world.put(text, body.clone(), Expect::Absent),
                PutOutcome::Done { .. }
            ),
            "{text}"
        );
        let found = world
            .block(world.store().document(&name("note"), text))
            .expect("the store answers");
        assert_eq!(found.expect("it is there").body, body);
        world
            .block(world.store().append(text, vec![body.clone()]))
            .expect("the store answers");
        let entries = world.feed(text);
        assert_eq!((entries.len(), &entries[0].body), (1, &body), "{text}");
    }
    let listing = world.block(world.store().documents(&name("note"), "", Page::first(100)));
    assert_eq!(listing.expect("the store answers").items.len(), HOSTILE.len());
}

fn the_prefix_of_a_document_is_no_pattern(world: &World) {
    for title in ["%a", "_a", "xa", "[x]a", "\u{10ffff}a"] {
        world.put(title, json("1"), Expect::Any);
    }
    for (prefix, found) in [
        ("%", "%a"),
        ("_", "_a"),
        ("[x]", "[x]a"),
        ("\u{10ffff}", "\u{10ffff}a"),
    ] {
        let listing = world.block(world.store().documents(&name("note"), prefix, Page::first(10)));
        let names: Vec<String> = listing
            .expect("the store answers")
            .items
            .into_iter()
            .map(|document| document.name)
            .collect();
        assert_eq!(names, [found], "{prefix}");
    }
}

fn a_hostile_id_finds_nothing(world: &World) {
    world.accepted(plain());
    for text in HOSTILE {
        let id = JobId::new(text).expect("an id");
        assert_eq!(world.find(&id), None, "{text}");
        assert_eq!(world.cancel(&id), ActOutcome::NotFound, "{text}");
    }
    assert_eq!(world.counted(), [("accepted", 1)]);
}
