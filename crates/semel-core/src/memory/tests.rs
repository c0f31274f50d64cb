//! The reference by itself; what it shares with other stores is in the conformance suite.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use super::MemoryStore;
use crate::counters::Counter;
use crate::dedup::{Dedup, Hold};
use crate::ids::{JobId, Name, Token};
use crate::job::{Outcome, State};
use crate::json::Json;
use crate::lifecycle::{Refusal, Settle};
use crate::store::*;
use crate::submission::{RunAt, Submission};
use crate::time::{ManualClock, Millis, Timestamp};
use crate::view::{Job, Stats};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn token(n: u8) -> Token {
    Token::from_bytes([n; 16])
}

fn id(n: u8) -> JobId {
    JobId::from(token(n))
}

fn job(n: u8, input: &str) -> Submission {
    Submission::new(token(n), name("task"), Json::new(input).expect("json"))
}

fn keyed(n: u8, input: &str, policy: Dedup) -> Submission {
    Submission {
        policy: policy.into(),
        ..job(n, input)
    }
}

/// A store, its clock, and every verb on a single item.
struct Bench {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        Bench {
            store: MemoryStore::new(name("default"), clock.clone()),
            clock,
        }
    }

    fn submit(&self, submission: Submission) -> Submitted {
        block_on(self.store.submit(vec![submission]))
            .expect("an answer")
            .remove(0)
    }

    fn outcome(&self, submission: Submission) -> (Outcome, JobId) {
        let submitted = self.submit(submission);
        submitted.outcome().zip(submitted.id().cloned()).expect("a job")
    }

    fn claim(&self, n: u8, max: usize) -> Vec<Claimed> {
        let (queues, tasks, lease) = (vec![], vec![], Millis::from_secs(30));
        let request = ClaimRequest {
            token: token(n),
            worker: name("worker"),
            queues,
            tasks,
            max,
            lease,
        };
        block_on(self.store.claim(request)).expect("an answer")
    }

    fn settle(&self, id: &JobId, fence: i64, result: Settle) -> WriteOutcome {
        let settlement = Settlement {
            id: id.clone(),
            fence,
            result,
        };
        block_on(self.store.settle(vec![settlement]))
            .expect("an answer")
            .remove(0)
    }

    fn complete(&self, id: &JobId, fence: i64) -> WriteOutcome {
        self.settle(id, fence, Settle::Complete { output: None })
    }

    fn act(&self, act: Act) -> ActOutcome {
        block_on(self.store.act(vec![act])).expect("an answer").remove(0)
    }

    fn job(&self, id: &JobId) -> Option<Job> {
        block_on(self.store.jobs_by_id(std::slice::from_ref(id)))
            .expect("an answer")
            .remove(0)
    }

    fn state(&self, id: &JobId) -> Option<State> {
        self.job(id).map(|job| job.state)
    }

    fn stats(&self) -> Stats {
        block_on(self.store.stats()).expect("an answer")
    }

    fn count(&self, counter: Counter) -> i64 {
        self.stats().totals.get(counter)
    }

    fn upkeep(&self) -> UpkeepReport {
        block_on(self.store.upkeep(UpkeepRequest::default())).expect("an answer")
    }

    fn is_sound(&self) -> bool {
        block_on(self.store.doctor(false)).expect("an answer").is_empty()
    }
}

#[test]
fn a_held_key_gives_the_same_job_and_a_ledger_entry() {
    let bench = Bench::new();
    let once = || Dedup::explicit("k");
    assert_eq!(
        bench.outcome(keyed(1, r#"{"a":1}"#, once())),
        (Outcome::Accepted, id(1))
    );
    assert_eq!(
        bench.outcome(keyed(2, r#"{"a":1}"#, once())),
        (Outcome::Duplicate, id(1))
    );
    let Submitted::Conflict { holder, differs } = bench.submit(keyed(3, r#"{"a":2}"#, once())) else {
        panic!("another input under an explicit key is a conflict");
    };
    assert_eq!((holder.id, differs), (id(1), vec!["/a".to_owned()]));

    // The same tokens again: the same answers, and nothing is counted.
    assert_eq!(
        bench.outcome(keyed(1, r#"{"a":1}"#, once())),
        (Outcome::Accepted, id(1))
    );
    assert_eq!(
        bench.outcome(keyed(2, r#"{"a":1}"#, once())),
        (Outcome::Duplicate, id(1))
    );
    assert_eq!(
        bench.outcome(keyed(3, r#"{"a":2}"#, once())),
        (Outcome::Conflict, id(1))
    );
    let counters = [Counter::Accepted, Counter::Duplicate, Counter::Conflicts];
    assert_eq!(counters.map(|counter| bench.count(counter)), [1, 1, 1]);
    let ledger = block_on(bench.store.ledger(LedgerFilter::default(), Page::first(10))).expect("a page");
    assert_eq!(
        ledger.items.iter().map(|entry| entry.n).collect::<Vec<_>>(),
        [2, 1]
    );
    assert!(bench.is_sound());
}

#[test]
fn explain_gives_the_answer_of_submit_and_writes_nothing() {
    let bench = Bench::new();
    let ttl = Dedup::unique_for(Millis::from_secs(60));
    let explain = |submission| block_on(bench.store.explain(submission)).expect("an answer");
    let foretold = explain(keyed(1, "{}", ttl.clone())).submitted;
    assert_eq!(bench.stats().raw.get(Counter::Accepted), 0);
    assert_eq!(foretold, bench.submit(keyed(1, "{}", ttl.clone())));
    let second = explain(keyed(2, "{}", ttl.clone()));
    assert_eq!(
        second.admissible_at,
        Some(bench.stats().as_of.plus(Millis::from_secs(60)))
    );
    assert_eq!(second.submitted, bench.submit(keyed(2, "{}", ttl)));
}

#[test]
fn a_claim_takes_the_best_that_is_due_and_not_paused() {
    let bench = Bench::new();
    let later = RunAt::After(Millis::from_secs(1));
    bench.submit(Submission {
        priority: 100,
        run_at: later,
        ..job(1, "1")
    });
    bench.submit(job(2, "2"));
    bench.submit(Submission {
        priority: 1,
        task: name("other"),
        ..job(3, "3")
    });
    bench.submit(Submission {
        priority: 9,
        queue: name("paused"),
        ..job(4, "4")
    });
    let pause = SettingChange::Pause {
        lasting: None,
        reason: None,
    };
    block_on(bench.store.set(Target::Queue(name("paused")), pause)).expect("a setting");

    let claimed = bench.claim(10, 10);
    assert_eq!(
        claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>(),
        [id(3), id(2)]
    );
    assert_eq!(claimed[0].fence, claimed[1].fence);
    assert_eq!(bench.claim(10, 10), claimed, "the same claim again");
    bench.clock.advance(Millis::from_secs(1));
    assert_eq!(bench.claim(11, 10)[0].job.id, id(1));
    block_on(
        bench
            .store
            .set(Target::Queue(name("paused")), SettingChange::Resume),
    )
    .expect("a setting");
    assert_eq!(bench.claim(12, 10)[0].job.id, id(4));
}

#[test]
fn only_the_newest_fence_settles_and_the_first_result_stands() {
    let bench = Bench::new();
    bench.submit(keyed(1, "{}", Dedup::explicit("k")));
    let fence = bench.claim(10, 1)[0].fence;
    assert_eq!(
        bench.complete(&id(1), fence - 1),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(bench.complete(&id(1), fence), WriteOutcome::Ok(State::Complete));
    let failed = Settle::Fail { error: "late".into() };
    assert_eq!(
        bench.settle(&id(1), fence, failed),
        WriteOutcome::Ok(State::Complete)
    );
    assert_eq!(bench.complete(&id(9), fence), WriteOutcome::NotFound);
    let counters = [Counter::Completed, Counter::Failed, Counter::StaleWrites];
    assert_eq!(counters.map(|counter| bench.count(counter)), [1, 0, 1]);
    assert_eq!(
        bench.outcome(keyed(2, "{}", Dedup::explicit("k"))),
        (Outcome::Accepted, id(2))
    );
}

#[test]
fn a_lease_that_ran_out_is_given_again_until_deliveries_are_spent() {
    let bench = Bench::new();
    bench.submit(Submission {
        max_deliveries: 2,
        ..job(1, "{}")
    });
    let first = bench.claim(10, 1)[0].fence;
    bench.clock.advance(Millis::from_secs(30));
    assert_eq!(
        bench.state(&id(1)),
        Some(State::Running),
        "a read takes nothing back"
    );
    let second = bench.claim(11, 1)[0].fence;
    assert!(second > first);
    assert_eq!(
        bench.complete(&id(1), first),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    bench.clock.advance(Millis::from_secs(30));
    assert_eq!(bench.claim(12, 1), []);
    let dead = bench.job(&id(1)).expect("a job");
    assert_eq!((dead.state, dead.deliveries, dead.attempt), (State::Failed, 2, 0));
    assert!(
        dead.error
            .is_some_and(|error| error.message.contains("expired 2 times"))
    );
    assert_eq!(
        (bench.count(Counter::Expired), bench.count(Counter::Failed)),
        (2, 1)
    );
    let attempts = block_on(bench.store.attempts(&id(1))).expect("attempts");
    assert_eq!(
        attempts.iter().map(|it| it.end.fence).collect::<Vec<_>>(),
        [first, second]
    );
}

#[test]
fn the_latest_follows_the_one_that_runs() {
    let bench = Bench::new();
    let latest = || Dedup::explicit("k").latest();
    bench.submit(keyed(1, "1", latest()));
    let fence = bench.claim(10, 1)[0].fence;
    assert_eq!(bench.outcome(keyed(2, "2", latest())), (Outcome::Deferred, id(2)));
    assert_eq!(bench.outcome(keyed(3, "3", latest())), (Outcome::Deferred, id(2)));
    assert_eq!(bench.outcome(keyed(3, "3", latest())), (Outcome::Deferred, id(2)));
    assert_eq!(bench.count(Counter::Deferred), 2);
    let follower = bench.job(&id(2)).expect("a job");
    assert_eq!(
        (follower.state, follower.blocked_by, follower.key),
        (State::Deferred, Some(id(1)), None)
    );

    bench.complete(&id(1), fence);
    let follower = bench.job(&id(2)).expect("a job");
    assert_eq!(
        (follower.state, follower.blocked_by, follower.input.as_str()),
        (State::Queued, None, "3")
    );
    assert!(follower.key.is_some_and(|key| key.held));
    assert!(bench.is_sound());
}

#[test]
fn a_dead_letter_is_replayed_once_and_its_key_moves_over() {
    let bench = Bench::new();
    bench.submit(keyed(1, "{}", Dedup::idempotency_key("k")));
    let fence = bench.claim(10, 1)[0].fence;
    bench.settle(&id(1), fence, Settle::Fail { error: "no".into() });
    let replay = |n| {
        bench.act(Act::Replay {
            id: id(1),
            token: token(n),
        })
    };
    assert_eq!(
        replay(2),
        ActOutcome::Done {
            id: id(2),
            state: State::Queued
        }
    );
    assert_eq!(replay(3), ActOutcome::Before { id: id(2) });
    assert_eq!(
        bench.act(Act::Retry { id: id(1) }),
        ActOutcome::Replayed { by: id(2) }
    );
    assert_eq!(
        bench.outcome(keyed(4, "{}", Dedup::idempotency_key("k"))),
        (Outcome::Duplicate, id(2))
    );
    let fresh = bench.job(&id(2)).expect("a job");
    assert_eq!((fresh.origin, fresh.replayed_from), (id(1), Some(id(1))));
    assert!(bench.is_sound());
}

#[test]
fn a_removed_queue_is_gone_at_once_and_its_totals_stay() {
    let bench = Bench::new();
    let latest = || Dedup::explicit("k").latest();
    bench.submit(Submission {
        queue: name("old"),
        ..keyed(1, "1", latest())
    });
    let fence = bench.claim(10, 1)[0].fence;
    assert_eq!(bench.outcome(keyed(2, "2", latest())), (Outcome::Deferred, id(2)));
    assert_eq!(
        block_on(bench.store.remove_queue(&name("old"))).expect("a number"),
        1
    );

    assert_eq!(bench.complete(&id(1), fence), WriteOutcome::NotFound);
    assert_eq!(bench.state(&id(2)), Some(State::Queued), "its follower follows");
    assert_eq!(bench.outcome(keyed(3, "3", latest())), (Outcome::Replaced, id(2)));
    let stats = bench.stats();
    assert_eq!(stats.jobs, [(State::Queued, 1)].into());
    assert_eq!(stats.totals.get(Counter::Accepted), 1);
    assert_eq!(stats.lanes.len(), 2);
    // Its tokens are forgotten with it.
    assert_eq!(bench.outcome(job(1, "1")), (Outcome::Accepted, id(1)));
    assert!(bench.is_sound());
}

#[test]
fn a_job_that_holds_its_key_is_kept_as_a_stub() {
    let bench = Bench::new();
    let forever = || Dedup::explicit("k").hold(Hold::forever());
    bench.submit(keyed(1, r#"{"a":1}"#, forever()));
    bench.submit(job(2, "2"));
    bench
        .claim(10, 2)
        .iter()
        .for_each(|it| drop(bench.complete(&it.job.id, it.fence)));
    bench.clock.advance(Millis::from_days(8));
    let report = bench.upkeep();
    assert_eq!((report.pruned, report.stubbed, report.more), (1, 1, false));
    assert_eq!(bench.state(&id(2)), None);
    assert!(
        bench
            .job(&id(1))
            .is_some_and(|job| job.stub && job.input.is_null())
    );
    assert_eq!(
        bench.outcome(keyed(3, r#"{"a":1}"#, forever())),
        (Outcome::Duplicate, id(1))
    );
    assert_eq!(bench.stats().jobs, [].into());

    let digest = bench.job(&id(1)).and_then(|job| job.key).expect("a key").digest;
    let released = bench.act(Act::Release {
        digest,
        holder: id(1),
    });
    assert_eq!(
        released,
        ActOutcome::Done {
            id: id(1),
            state: State::Complete
        }
    );
    assert_eq!(bench.upkeep().pruned, 1);
    assert_eq!(bench.state(&id(1)), None);
}

#[test]
fn who_waits_is_woken_by_what_concerns_it_or_by_time() {
    let bench = Bench::new();
    let work = |queue: &str| Interest::Work {
        queues: vec![name(queue)],
        tasks: vec![],
    };
    let before = bench.store.mark();
    let long = Duration::from_secs(3_600);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(bench.store.changed(before, work("mine"), long)));
        bench.submit(job(1, "1"));
        bench.submit(Submission {
            queue: name("mine"),
            ..job(2, "2")
        });
        assert!(waiting.join().expect("a mark") > before);
    });
    let now = bench.store.mark();
    let soon = Duration::from_millis(5);
    assert_eq!(
        block_on(bench.store.changed(now, Interest::Ends, soon)),
        now,
        "nothing has ended"
    );
    assert_eq!(
        block_on(bench.store.changed(before, work("mine"), long)),
        now,
        "it has changed before"
    );
}
