//! Another number of shards: everything is as it was, ids lead where they led, and a kill in the middle costs nothing.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use semel_conformance::kit::{
    World, again, claim_request, into_queue, json, name, of, queue, secs, token, with, with_input,
};
use semel_conformance::{Harness, Instance, Place};
use semel_core::dedup::{Dedup, Hold, Period, Scope, Unit};
use semel_core::error::StoreError;
use semel_core::guard::GuardAnswer;
use semel_core::ids::{JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::step::StepAnswer;
use semel_core::store::{
    ActOutcome, Beat, ClaimRequest, Claimed, Document, Expect, ExtendRequest, FeedEntry, JobFilter,
    KeyFilter, LedgerFilter, Page, PutDocument, Retention, Setting, SettingChange, StepFilter, Store,
    Submitted, Target, UpkeepRequest, WriteOutcome,
};
use semel_core::submission::{Policy, RunAt, Submission};
use semel_core::time::{ManualClock, Millis};
use semel_core::view::{AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Snapshot, Stats, StepView};
use semel_redis::{RedisOptions, RedisStore, ShardChange, ShardOutcome};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::server::cluster::Lent;

/// Keeps connections alive: worlds bring runtimes of their own.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
});

/// Stores whose number of shards changes.
struct Spread {
    shards: AtomicUsize,
    url: String,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Spread {
    fn on_server(shards: usize) -> Arc<Self> {
        let server = Server::start();
        Spread::at(server.url(), Box::new(server), shards)
    }

    fn on_cluster(shards: usize) -> Arc<Self> {
        let cluster = Lent::take();
        Spread::at(cluster.url(), Box::new(cluster), shards)
    }

    fn at(url: String, keep: Box<dyn Any + Send + Sync>, shards: usize) -> Arc<Self> {
        Arc::new(Spread {
            shards: AtomicUsize::new(shards),
            url,
            _keep: keep,
        })
    }

    fn options(&self) -> RedisOptions {
        RedisOptions {
            shards: self.shards.load(Ordering::SeqCst),
            ..RedisOptions::from_url(&self.url).expect("a valid URL")
        }
    }

    fn open(&self, clock: Arc<ManualClock>) -> Result<Arc<dyn Store>, StoreError> {
        let open = RedisStore::open_with_clock(self.options(), clock);
        let opened = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(open)).join());
        Ok(Arc::new(opened.expect("opening does not panic")?))
    }

    /// Changes the number of shards; killed where `kill` says so.
    fn change(&self, to: usize, kill: &mut Kill) -> Result<ShardOutcome, StoreError> {
        let outcome = RUNTIME.block_on(async {
            let change = ShardChange::new(&self.options(), to).await?;
            change.carry_out(true, &mut |_| kill.step()).await
        })?;
        self.shards.store(to, Ordering::SeqCst);
        Ok(outcome)
    }
}

/// Ends a change before one of its steps.
struct Kill {
    step: usize,
    at: usize,
}

impl Kill {
    fn at(at: usize) -> Self {
        Kill { step: 0, at }
    }

    fn never() -> Self {
        Kill::at(usize::MAX)
    }

    fn step(&mut self) -> Result<(), StoreError> {
        self.step += 1;
        match self.step > self.at {
            true => Err(StoreError::unavailable("killed")),
            false => Ok(()),
        }
    }
}

struct In(Arc<Spread>);

impl Harness for In {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn create(&self, _namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        Instance {
            store: self.0.open(clock).expect("the store opens"),
            keep: Box::new(()),
        }
    }

    fn sibling(&self, _: &Instance, _: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        self.0.open(clock).expect("the store opens")
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        drop(instance);
        self.create(namespace, clock)
    }

    fn place(&self) -> Option<Place> {
        None
    }

    fn join(&self, _location: &str) -> Arc<dyn Store> {
        unreachable!("one process")
    }
}

/// Everything a store tells.
#[derive(Debug, PartialEq)]
struct Picture {
    /// Jobs that came at a moment of their own, as they are listed.
    order: Vec<JobId>,
    jobs: Vec<Job>,
    attempts: Vec<Vec<AttemptView>>,
    logs: Vec<Vec<FeedEntry>>,
    keys: Vec<KeyRow>,
    ledger: Vec<LedgerEntry>,
    stats: Stats,
    history: Vec<Snapshot>,
    settings: Vec<(Target, Setting)>,
    documents: Vec<Document>,
    audit: Vec<FeedEntry>,
    steps: Vec<StepView>,
    groups: Vec<ErrorGroup>,
}

fn picture(world: &World) -> Picture {
    let store = world.store();
    let mut jobs = world.pages(50, |page| world.block(store.jobs(JobFilter::default(), page)));
    let together = |job: &Job| {
        jobs.iter()
            .filter(|other| other.enqueued_at == job.enqueued_at)
            .count()
    };
    let order = jobs.iter().filter(|job| together(job) == 1);
    let order = order.map(|job| job.id.clone()).collect();
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    let mut keys = world.keys(KeyFilter {
        also_free: true,
        ..KeyFilter::default()
    });
    keys.sort_by(|a, b| (&a.key.digest, &a.holder.id).cmp(&(&b.key.digest, &b.holder.id)));
    let ledger = world.ledger(LedgerFilter::default());
    Picture {
        order,
        attempts: jobs.iter().map(|job| world.attempts(&job.id)).collect(),
        logs: jobs
            .iter()
            .map(|job| world.feed(&semel_core::store::log_feed(&job.id)))
            .collect(),
        keys,
        // Numbers are the shard's own.
        ledger: ledger
            .into_iter()
            .map(|entry| LedgerEntry { n: 0, ..entry })
            .collect(),
        stats: Stats {
            storage_bytes: 0,
            storage_limit: None,
            ..world.stats()
        },
        history: world
            .block(store.history(Millis::from_days(1)))
            .expect("the store answers"),
        settings: world.block(store.settings()).expect("the store answers"),
        documents: world
            .block(store.documents(&name("note"), "", Page::first(100)))
            .expect("the store answers")
            .items,
        audit: world.feed("audit"),
        steps: world
            .block(store.list_steps(StepFilter::InDoubt))
            .expect("the store answers"),
        groups: world
            .block(store.dead_letter_groups(None))
            .expect("the store answers"),
        jobs,
    }
}

/// What was made, to be asked for again.
struct Made {
    /// Submissions that hold a key, and the job that holds it.
    held: Vec<(Submission, JobId)>,
    /// Submissions whose own token made a job, or was absorbed by one.
    known: Vec<(Submission, Submitted)>,
    waiting: Vec<JobId>,
    running: Vec<Claimed>,
    claims: Vec<(ClaimRequest, Vec<JobId>)>,
    failed: Vec<JobId>,
    parked: Vec<JobId>,
    /// Jobs that are followed, and who follows them.
    followed: Vec<(Claimed, JobId)>,
    stubs: Vec<JobId>,
    guards: Vec<(String, semel_core::ids::Token)>,
}

/// So many of each: enough that every shard has some.
const EACH: usize = 6;

fn explicit(kind: &str, n: usize) -> Dedup {
    Dedup::explicit(format!("{kind} {n}")).scope(Scope::Global)
}

fn of_task(submission: Submission, claimed: &Claimed) -> Submission {
    Submission {
        task: claimed.job.task.clone(),
        ..submission
    }
}

fn start(world: &World, task: String, submission: Submission) -> Claimed {
    world.start(Submission {
        task: name(&task),
        ..submission
    })
}

/// Jobs in every state, and everything beside jobs. Each at a moment of its own, so that all lists have one order.
fn fill(world: &World, each: usize) -> Made {
    let tick = || world.pass(Millis::new(1));
    let store = world.store();
    let (mut held, mut known) = (Vec::new(), Vec::new());
    let mut made = Made {
        held: Vec::new(),
        known: Vec::new(),
        waiting: Vec::new(),
        running: Vec::new(),
        claims: Vec::new(),
        failed: Vec::new(),
        parked: Vec::new(),
        followed: Vec::new(),
        stubs: Vec::new(),
        guards: Vec::new(),
    };
    // Kept for their keys alone: first, for what ages them would age others.
    for n in 0..each {
        tick();
        let submission = with(explicit("forever", n).hold(Hold::forever()));
        let claimed = start(world, format!("stub {n}"), submission.clone());
        assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
        made.stubs.push(claimed.job.id.clone());
        held.push((of_task(submission, &claimed), claimed.job.id));
    }
    tick();
    world.upkeep_round(UpkeepRequest {
        retention: Retention {
            complete: Millis::ZERO,
            ..Retention::default()
        },
        budget: 1_000,
        ..UpkeepRequest::default()
    });
    world.block(store.reset_stats()).expect("the store answers");
    let in_unique = SettingChange::Unique { unique: true };
    world.set(queue("unique"), in_unique);
    world.pause(queue("held back"));
    for n in 0..each {
        tick();
        let waiting = with(explicit("waiting", n));
        made.waiting.push(world.accepted(waiting.clone()));
        held.push((waiting, made.waiting[made.waiting.len() - 1].clone()));
        tick();
        let scheduled = Submission {
            run_at: RunAt::After(secs(3_600)),
            ..with_input(Dedup::unique(), &format!(r#"{{"n":{n}}}"#))
        };
        held.push((scheduled.clone(), world.accepted(scheduled)));
        tick();
        // Where it goes does not depend on its minute, which its digest does.
        let minutely = with(explicit("minutely", n).period(Period::utc(Unit::Day)));
        held.push((minutely.clone(), world.accepted(minutely)));
        tick();
        let hybrid = |input: &str| {
            with_input(
                Dedup::hybrid(["/id"]).expect("a valid field"),
                &format!(r#"{{"id":{n},"more":{input}}}"#),
            )
        };
        held.push((hybrid("1"), world.accepted(hybrid("1"))));
        tick();
        let second = world.admitted(hybrid("2"));
        assert!(second.collides_with.is_some(), "{second:?}");
        held.push((hybrid("2"), second.job.id));
        tick();
        let unsaid = into_queue("unique", of("unsaid", &format!(r#"{{"u":{n}}}"#)));
        held.push((unsaid.clone(), world.accepted(unsaid)));
        for policy in [Policy::None, Policy::Unsaid] {
            tick();
            let keyless = Submission {
                policy,
                ..of("keyless", &format!(r#"{{"k":{n}}}"#))
            };
            let answer = world.submit(keyless.clone());
            known.push((keyless, answer));
        }
        tick();
        let first = held[held.len() - 1].0.clone();
        let absorbed = again(&first);
        let answer = world.submit(absorbed.clone());
        assert_eq!(answer.outcome(), Some(Outcome::Duplicate));
        known.push((absorbed, answer));

        tick();
        let running = start(world, format!("running {n}"), with(explicit("running", n)));
        beat(world, &running);
        made.running.push(running);
        tick();
        let task = format!("batch {n}");
        let batch = (0..4).map(|_| of(&task, "{}")).collect();
        world.submit_all(batch);
        let request = ClaimRequest {
            tasks: vec![name(&task)],
            lease: secs(3_000),
            ..claim_request(3)
        };
        let claims = world.claim_as(request.clone());
        let mut ids: Vec<JobId> = claims.iter().map(|claimed| claimed.job.id.clone()).collect();
        ids.sort_unstable();
        assert_eq!(ids.len(), 3);
        made.claims.push((request, ids));

        tick();
        let latest = |input: &str| Submission {
            task: name(&format!("followed {n}")),
            ..with_input(explicit("followed", n).latest(), input)
        };
        let followed = world.start(latest("1"));
        let follower = world.admitted(latest("2"));
        assert_eq!(follower.outcome, Outcome::Deferred);
        made.followed.push((followed, follower.job.id));

        tick();
        let parked = start(world, format!("parked {n}"), with(explicit("parked", n)));
        world.begin_fresh(&parked, "charge");
        world.begin_fresh(&parked, "ship");
        assert!(matches!(
            world.confirm(&parked, "ship", "1"),
            StepAnswer::Ok { .. }
        ));
        let park = Settle::Park {
            reason: "in doubt".to_owned(),
        };
        world.settle(&parked.job.id, parked.fence, park);
        made.parked.push(parked.job.id);

        tick();
        let dead = start(world, format!("dead {n}"), with(explicit("dead", n)));
        beat(world, &dead);
        world.fail(&dead, "broken");
        made.failed.push(dead.job.id.clone());
        tick();
        let letter = start(world, format!("letter {n}"), of("t", r#"{"replayed":true}"#));
        world.begin_fresh(&letter, "charge");
        world.fail(&letter, "broken too");
        world.replayed(&letter.job.id);

        tick();
        let complete = with(explicit("window", n).hold(Hold::window(secs(100_000))));
        let claimed = start(world, format!("complete {n}"), complete.clone());
        let output = Settle::Complete {
            output: Some(json(r#"{"done":true}"#)),
        };
        world.settle(&claimed.job.id, claimed.fence, output);
        held.push((of_task(complete, &claimed), claimed.job.id));
        tick();
        let cancelled = world.accepted(of("cancelled", "{}"));
        world.cancel(&cancelled);
        tick();
        // A key that several jobs have had.
        for _ in 0..2 {
            let claimed = start(world, format!("several {n}"), with(explicit("several", n)));
            world.complete(&claimed);
            tick();
        }
        let (key, token) = (format!("guard {n}"), token());
        assert_eq!(world.reserve(&key, token, secs(100_000)), GuardAnswer::Fresh);
        made.guards.push((key, token));
    }
    for n in 0..3 {
        tick();
        let put = PutDocument {
            kind: name("note"),
            name: format!("note {n}"),
            body: json("{}"),
            expect: Expect::Absent,
            ttl: (n == 0).then(|| secs(100_000)),
        };
        world.block(store.put_document(put)).expect("the store answers");
        world
            .block(store.append("audit", vec![json(&n.to_string())]))
            .expect("the store answers");
    }
    tick();
    world.accepted(into_queue("removed", of("t", "{}")));
    world.remove_queue("removed");
    world
        .block(store.upkeep(UpkeepRequest::default()))
        .expect("the store answers");
    made.held = held;
    made.known = known;
    made
}

fn beat(world: &World, claimed: &Claimed) {
    let beat = Beat {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        progress: Some(0.5),
        log: vec!["begun".to_owned(), "half".to_owned()],
    };
    let request = ExtendRequest {
        leases: vec![beat],
        lease: secs(3_000),
    };
    let written = world
        .block(world.store().extend(request))
        .expect("the store answers");
    assert_eq!(written, [WriteOutcome::Ok(State::Running)]);
}

/// Whatever was known by an id or a key before is known by it now. Changes the store.
fn everything_leads_on(world: &World, made: &Made) {
    for (submission, holder) in &made.held {
        let answer = world.submit(again(submission));
        assert_eq!(
            (answer.outcome(), answer.id()),
            (Some(Outcome::Duplicate), Some(holder))
        );
    }
    // A call that is repeated finds itself.
    for (submission, first) in &made.known {
        assert_eq!(world.submit(submission.clone()), *first);
    }
    for (request, ids) in &made.claims {
        let mut again: Vec<JobId> = world
            .claim_as(request.clone())
            .into_iter()
            .map(|one| one.job.id)
            .collect();
        again.sort_unstable();
        assert_eq!(again, *ids);
    }
    for claimed in &made.running {
        beat(world, claimed);
        assert_eq!(world.complete(claimed), WriteOutcome::Ok(State::Complete));
        assert_eq!(world.feed(&semel_core::store::log_feed(&claimed.job.id)).len(), 4);
    }
    for (followed, follower) in &made.followed {
        assert_eq!(world.job(follower).blocked_by, Some(followed.job.id.clone()));
        assert_eq!(world.complete(followed), WriteOutcome::Ok(State::Complete));
        assert_eq!(world.state(follower), State::Queued);
    }
    for id in &made.waiting {
        assert!(matches!(world.cancel(id), ActOutcome::Done { id: ref same, .. } if same == id));
    }
    for (n, id) in made.failed.iter().enumerate() {
        if n % 2 == 0 {
            assert!(matches!(world.retry(id), ActOutcome::Done { id: ref same, .. } if same == id));
        } else {
            let fresh = world.replayed(id);
            assert_eq!(world.job(&fresh).origin, *id);
            assert_eq!(world.job(id).replayed_as, Some(fresh));
        }
    }
    for id in &made.parked {
        let steps = world.steps_of(id);
        assert_eq!(steps.len(), 2, "{steps:?}");
        let resolved = world.resolve(id, "charge", semel_core::step::Resolution::DidNot);
        assert!(
            matches!(resolved, ActOutcome::Done { id: ref same, .. } if same == id),
            "{resolved:?}"
        );
        assert_eq!(world.state(id), State::Queued);
    }
    for id in &made.stubs {
        assert!(world.job(id).stub);
    }
    for (key, token) in &made.guards {
        assert_eq!(
            world.reserve(key, semel_conformance::kit::token(), secs(10)),
            GuardAnswer::InProgress
        );
        world.confirm_guard(key, *token, "1");
    }
    let findings = world
        .block(world.store().doctor(false))
        .expect("the store answers");
    assert!(findings.is_empty(), "{findings:?}");
    // Everything that waits can be worked off.
    let setting = SettingChange::Resume;
    world.set(queue("held back"), setting);
    loop {
        let claims = world.claim(100);
        if claims.is_empty() {
            break;
        }
        for claimed in &claims {
            assert_eq!(world.complete(claimed), WriteOutcome::Ok(State::Complete));
        }
    }
    let findings = world
        .block(world.store().doctor(false))
        .expect("the store answers");
    assert!(findings.is_empty(), "{findings:?}");
}

/// From one number of shards to others, one after another.
fn all_is_as_it_was(spread: Arc<Spread>, numbers: &[usize]) {
    let world = World::new(Arc::new(In(spread.clone())));
    let made = fill(&world, EACH);
    let before = picture(&world);
    assert!(before.jobs.len() > 15 * EACH, "{}", before.jobs.len());
    for to in numbers {
        let outcome = spread.change(*to, &mut Kill::never()).expect("the store answers");
        assert_eq!(
            outcome,
            ShardOutcome::Changed {
                jobs: (before.jobs.len() + made.stubs.len()) as u64
            }
        );
        // Whoever has the store open from before is told.
        let stale = world.block(world.store().submit(vec![of("t", "{}")]));
        let told = stale.expect_err("it is refused").to_string();
        assert!(told.contains("number of shards"), "{told}");
        world.crash();
        same(&picture(&world), &before);
    }
    everything_leads_on(&world, &made);
}

fn same(now: &Picture, before: &Picture) {
    macro_rules! each {
        ($($part:ident),*) => { $(assert_eq!(now.$part, before.$part, stringify!($part));)* };
    }
    each!(
        order, jobs, attempts, logs, keys, ledger, stats, history, settings, documents, audit, steps, groups
    );
}

#[test]
fn one_shard_becomes_four() {
    all_is_as_it_was(Spread::on_server(1), &[4]);
}

#[test]
fn four_shards_become_one() {
    all_is_as_it_was(Spread::on_server(4), &[1]);
}

#[test]
fn four_shards_become_sixty_four() {
    all_is_as_it_was(Spread::on_server(4), &[64]);
}

#[test]
fn the_number_changes_as_often_as_one_likes() {
    all_is_as_it_was(Spread::on_server(3), &[1, 5, 3]);
}

#[test]
fn the_number_changes_on_a_cluster_too() {
    all_is_as_it_was(Spread::on_cluster(1), &[4, 64, 4, 1]);
}

/// Killed before each of its steps, and run again.
#[test]
fn a_change_that_is_killed_is_refused_by_all_and_finished_by_the_next() {
    let spread = Spread::on_server(2);
    let world = World::new(Arc::new(In(spread.clone())));
    let made = fill(&world, 2);
    let before = picture(&world);
    let (mut to, mut at, mut kills) = (3, 0, 0);
    loop {
        let mut kill = Kill::at(at);
        let Err(error) = spread.change(to, &mut kill) else {
            // It came to its end before this step: all of them were tried.
            break;
        };
        assert!(error.to_string().contains("killed"), "{error}");
        kills += 1;
        let clock = Arc::new(ManualClock::new(world.now()));
        match spread.open(clock.clone()) {
            // Killed before anything was said, or after everything was.
            Ok(_) => {}
            Err(StoreError::Refused { reason, hint }) => {
                let unfinished = reason.contains("being changed") && hint.contains("semel shards set 3");
                let switched = reason.contains(&format!("made with {to} shards"));
                assert!(unfinished || switched, "{reason} {hint}");
            }
            Err(other) => panic!("{other}"),
        }
        let finished = spread.change(to, &mut Kill::never()).unwrap();
        let ended = ShardOutcome::Changed {
            jobs: (before.jobs.len() + made.stubs.len()) as u64,
        };
        assert!(
            finished == ended || finished == ShardOutcome::Same,
            "{finished:?}"
        );
        world.crash();
        same(&picture(&world), &before);
        // And back, for the next kill.
        to = 2;
        spread.change(to, &mut Kill::never()).unwrap();
        world.crash();
        to = 3;
        at += 1;
    }
    assert!(kills > 15, "{kills}");
    world.crash();
    same(&picture(&world), &before);
    everything_leads_on(&world, &made);
}

/// A change that was begun can be taken back.
#[test]
fn a_change_that_was_killed_can_be_taken_back() {
    let spread = Spread::on_server(2);
    let world = World::new(Arc::new(In(spread.clone())));
    let made = fill(&world, 2);
    let before = picture(&world);
    spread.change(5, &mut Kill::at(8)).unwrap_err();
    assert_eq!(
        spread.change(2, &mut Kill::never()).unwrap(),
        ShardOutcome::TakenBack
    );
    world.crash();
    same(&picture(&world), &before);
    everything_leads_on(&world, &made);
}

/// Those who are at work are not overrun.
#[test]
fn a_change_waits_for_those_at_work() {
    let spread = Spread::on_server(1);
    let options = spread.options();
    RUNTIME.block_on(async {
        let store = RedisStore::open(options.clone()).await.unwrap();
        let change = ShardChange::new(&options, 2).await.unwrap();
        assert_eq!(change.plan().await.unwrap().at_work, Vec::<String>::new());
        store.submit(vec![of("t", "{}")]).await.unwrap();
        store.claim(claim_request(1)).await.unwrap();
        let plan = change.plan().await.unwrap();
        assert_eq!((plan.from, plan.to, plan.jobs), (1, 2, 1));
        assert_eq!(plan.at_work.len(), 1, "{plan:?}");
        let refused = change.carry_out(false, &mut |_| Ok(())).await.unwrap_err();
        assert!(refused.to_string().contains("lease"), "{refused}");
        // Nothing was done.
        assert_eq!(ShardChange::count(&options).await.unwrap(), 1);
        store.submit(vec![of("t", "{}")]).await.unwrap();
    });
}
