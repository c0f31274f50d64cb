//! Effects inside handlers (contract 5.1, 5.2): a confirmed step never runs again, one in doubt is never guessed.

mod worker_stage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use semel::semel_core::error::StoreError;
use semel::semel_core::step::Resolution;
use semel::semel_core::store::{Act, ActOutcome, StepFilter};
use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{
    Client, Job, JobError, JobId, JobResult, Name, State, Task, Worker, did_not_happen, fail, millis, secs,
};

use crate::worker_stage::{claim_one, eventually, job, on_each_store, until_state};

const PAY: Task<String, String> = Task::new("pay");

/// An outside world that keeps a record.
#[derive(Clone, Default)]
struct World {
    calls: Arc<Mutex<Vec<String>>>,
    /// For a handler that robs itself.
    jobs: Option<Client>,
}

impl World {
    fn call(&self, text: impl Into<String>) -> usize {
        let mut calls = self.calls.lock().expect("a lock");
        calls.push(text.into());
        calls.len()
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("a lock").clone()
    }
}

fn soon(text: &str) -> JobError {
    JobError::retry(text).after(millis(1))
}

/// Runs a job until it is in a state.
async fn run(jobs: &Client, world: &World, kind: &str, state: State) -> JobId {
    let sent = jobs.submit(PAY, &kind.to_owned()).await.expect("submitted");
    work(jobs, world, sent.id(), state).await;
    sent.id().clone()
}

async fn work(jobs: &Client, world: &World, id: &JobId, state: State) {
    let worker = Worker::new(jobs, world.clone()).task(PAY, pay);
    let report = worker.run_until(until_state(jobs, id, state)).await;
    report.expect("it worked");
}

async fn pay(job: Job<String>, world: World) -> JobResult<String> {
    let first = job.attempt() == 1;
    match job.input.as_str() {
        // The effect happens, then something else goes wrong.
        "confirmed" => {
            let receipt: String = job
                .step("charge")
                .retry_with_key(async |_| Ok::<_, JobError>(format!("receipt {}", world.call("charge"))))
                .await?;
            if first {
                return Err(soon("the printer is out of paper"));
            }
            Ok(receipt)
        }
        // The effect may have happened: the reply is lost the first time.
        "key" => {
            job.step("charge")
                .retry_with_key(async |key| {
                    world.call(key);
                    if first {
                        Err(soon("connection reset"))
                    } else {
                        Ok("paid".to_owned())
                    }
                })
                .await
        }
        // The other side declines: certainly nothing happened.
        "declined" => {
            job.step("charge")
                .retry_with_key(async |key| {
                    world.call(key);
                    if first {
                        Err(did_not_happen(soon("declined")))
                    } else {
                        Ok("paid".to_owned())
                    }
                })
                .await
        }
        // Charged, and the reply is lost. The next call is refused at the door, which is true of that call alone.
        "door" => {
            job.step("charge")
                .retry_with_key(async |key| {
                    world.call(key);
                    match job.attempt() {
                        1 => Err(soon("connection reset")),
                        2 => Err(did_not_happen(soon("connection refused"))),
                        _ => Ok("paid".to_owned()),
                    }
                })
                .await
        }
        // The same, but the first run is looked up before the second: that one speaks for both.
        "verify door" => {
            let check = async || {
                world.call("check");
                Ok::<Option<String>, JobError>(None)
            };
            let effect = async || {
                world.call("charge");
                match job.attempt() {
                    1 => Err(soon("connection reset")),
                    2 => Err(did_not_happen(soon("connection refused"))),
                    _ => Ok("paid".to_owned()),
                }
            };
            job.step("charge").verify(check, effect).await
        }
        // Who looks it up is refused at the door: that says nothing of what is looked up.
        "closed look" => {
            let check = async || match world.call("check") {
                2 => Err(did_not_happen(soon("connection refused"))),
                _ => Ok(Some("found".to_owned())),
            };
            let effect = async || {
                world.call("charge");
                Err::<String, _>(soon("connection reset"))
            };
            job.step("charge").verify(check, effect).await
        }
        "park declined" => {
            job.step("letter")
                .park(async || match world.call("letter") {
                    1 => Err(did_not_happen(soon("no stamps"))),
                    _ => Ok("sent".to_owned()),
                })
                .await
        }
        // What a step inside another says of itself is not said of the other.
        "nested" => {
            job.step("outer")
                .retry_with_key(async |key| {
                    world.call(key);
                    let inner = job.step("inner").park(async || match first {
                        true => Err(did_not_happen(soon("no stamps"))),
                        false => Ok("sent".to_owned()),
                    });
                    inner.await
                })
                .await
        }
        // Goes on although its lease is lost.
        "stubborn" => {
            let jobs = &world.jobs.clone().expect("a client");
            let acts = vec![
                Act::Cancel { id: job.id().clone() },
                Act::Retry { id: job.id().clone() },
            ];
            let (acted, claimed) = tokio::join!(jobs.store().act(acts), claim_one(jobs, secs(60)));
            acted.expect("an answer");
            claimed.expect("it is free");
            let refused = job.step("charge").retry_with_key(async |key| {
                world.call(key);
                Ok::<_, JobError>("paid".to_owned())
            });
            assert!(refused.await.is_err());
            world.call("told");
            tokio::task::yield_now().await;
            world.call("and went on");
            Ok("paid".to_owned())
        }
        "slow" => {
            job.step("letter")
                .retry_with_key(async |_key| {
                    world.call("letter");
                    Ok::<_, JobError>("sent".to_owned())
                })
                .await
        }
        "verify" => {
            let check = async || {
                world.call("check");
                Ok::<_, JobError>(Some("found".to_owned()))
            };
            let effect = async || {
                world.call("charge");
                Err::<String, _>(soon("connection reset"))
            };
            job.step("charge").verify(check, effect).await
        }
        "verify nothing" => {
            let check = async || {
                world.call("check");
                Ok::<Option<String>, JobError>(None)
            };
            let effect = async || {
                world.call("charge");
                if first {
                    Err(soon("connection reset"))
                } else {
                    Ok("paid".to_owned())
                }
            };
            job.step("charge").verify(check, effect).await
        }
        "park" => {
            job.step("letter")
                .park(async || {
                    world.call("letter");
                    if first {
                        panic!("the power is gone")
                    }
                    Ok::<_, JobError>("sent".to_owned())
                })
                .await
        }
        // Confirmed, then fatal: a replay belongs to the same origin.
        "replay" => {
            let receipt = job
                .step("charge")
                .retry_with_key(async |_| Ok::<_, JobError>(format!("receipt {}", world.call("charge"))))
                .await?;
            if job.view().replayed_from.is_none() {
                return Err(fail("a bug"));
            }
            Ok(receipt)
        }
        other => Err(fail(other)),
    }
}

async fn output(jobs: &Client, id: &JobId) -> String {
    let output = job(jobs, id).await.output.expect("an output");
    output.read().expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_step_is_not_run_again_by_a_retry() {
    on_each_store(async |jobs| {
        let world = World::default();
        let id = run(&jobs, &world, "confirmed", State::Complete).await;
        assert_eq!(world.calls(), ["charge"]);
        assert_eq!(output(&jobs, &id).await, "receipt 1");
        assert_eq!(job(&jobs, &id).await.attempt, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_doubt_is_repeated_with_the_same_key() {
    on_each_store(async |jobs| {
        let world = World::default();
        run(&jobs, &world, "key", State::Complete).await;
        let calls = world.calls();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0], calls[1], "a plain error does not move the key on");
        assert_eq!(calls[0].len(), 64);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_certainty_that_nothing_happened_moves_the_key_on() {
    on_each_store(async |jobs| {
        let world = World::default();
        run(&jobs, &world, "declined", State::Complete).await;
        let calls = world.calls();
        assert!(calls.len() == 2 && calls[0] != calls[1], "{calls:?}");
    })
    .await;
}

/// Attempt 1 charged and its reply was lost; attempt 2 was refused at the door. A third under a new key would charge again.
#[tokio::test(flavor = "multi_thread")]
async fn in_doubt_a_run_that_did_nothing_does_not_speak_for_the_one_before() {
    on_each_store(async |jobs| {
        let world = World::default();
        let id = run(&jobs, &world, "door", State::Complete).await;
        let calls = world.calls();
        assert_eq!(calls.len(), 3);
        assert!(calls.iter().all(|key| *key == calls[0]), "{calls:?}");
        assert_eq!(output(&jobs, &id).await, "paid");
    })
    .await;
}

/// Once it was looked up nothing is in doubt, and a run that did nothing leaves nothing to look up.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_look_a_run_that_did_nothing_is_believed() {
    on_each_store(async |jobs| {
        let world = World::default();
        run(&jobs, &world, "verify door", State::Complete).await;
        assert_eq!(world.calls(), ["charge", "check", "charge", "charge"]);
        let world = World::default();
        let id = run(&jobs, &world, "closed look", State::Complete).await;
        assert_eq!(world.calls(), ["charge", "check", "check"]);
        assert_eq!(output(&jobs, &id).await, "found");
        let world = World::default();
        run(&jobs, &world, "park declined", State::Complete).await;
        assert_eq!(world.calls(), ["letter", "letter"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_does_not_speak_for_the_one_around_it() {
    on_each_store(async |jobs| {
        let world = World::default();
        run(&jobs, &world, "nested", State::Complete).await;
        let calls = world.calls();
        assert!(calls.len() == 2 && calls[0] == calls[1], "{calls:?}");
    })
    .await;
}

/// Contract 4.5: dropped at once means that it is not polled once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_whose_lease_is_lost_does_not_go_on() {
    on_each_store(async |jobs| {
        let world = World {
            jobs: Some(jobs.clone()),
            ..World::default()
        };
        jobs.submit(PAY, &"stubborn".to_owned()).await.expect("submitted");
        // No room for a second job: it would be given the same one again.
        let worker = Worker::new(&jobs, world.clone())
            .task(PAY, pay)
            .concurrency(1)
            .prefetch(0);
        let told = async {
            eventually("the handler to be told", async || !world.calls().is_empty()).await;
            tokio::time::sleep(millis(50)).await;
        };
        worker.run_until(told).await.expect("it worked");
        assert_eq!(world.calls(), ["told"]);
    })
    .await;
}

/// Answers the first beginning of a step only after the lease has run out, and no heartbeat.
struct Slow(AtomicBool);

#[async_trait::async_trait]
impl Intercept for Slow {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        match (call, self.0.load(Ordering::SeqCst)) {
            (Call::Extend, false) => Err(StoreError::unavailable("extending")),
            _ => Ok(()),
        }
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        if matches!(call, Call::Begin(_)) && !self.0.load(Ordering::SeqCst) {
            // The whole task stands still, as on a machine that is busy: nobody can tell it anything meanwhile.
            std::thread::sleep(millis(1_200));
            self.0.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// The lease ran out while the store was asked: the effect is left to whoever is given the job next.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_effect_is_begun_on_a_lease_that_has_run_out() {
    on_each_store(async |jobs| {
        let slow = Arc::new(Slow(AtomicBool::new(false)));
        let jobs = Client::from_store(Arc::new(InterceptedStore::new(
            jobs.store().clone(),
            slow.clone(),
        )));
        let world = World::default();
        let sent = jobs.submit(PAY, &"slow".to_owned()).await.expect("submitted");
        let worker = Worker::new(&jobs, world.clone()).task(PAY, pay).lease(secs(1));
        let answered = async {
            eventually("the answer", async || slow.0.load(Ordering::SeqCst)).await;
            until_state(&jobs, sent.id(), State::Complete).await;
        };
        worker.run_until(answered).await.expect("it worked");
        assert_eq!(world.calls(), ["letter"], "by the next delivery alone");
        let done = job(&jobs, sent.id()).await;
        assert_eq!(done.deliveries, 1, "the first one was lost");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_can_be_looked_up_is_looked_up_in_doubt() {
    on_each_store(async |jobs| {
        let world = World::default();
        let id = run(&jobs, &world, "verify", State::Complete).await;
        assert_eq!(world.calls(), ["charge", "check"]);
        assert_eq!(output(&jobs, &id).await, "found");
        let world = World::default();
        let id = run(&jobs, &world, "verify nothing", State::Complete).await;
        assert_eq!(world.calls(), ["charge", "check", "charge"]);
        assert_eq!(output(&jobs, &id).await, "paid");
    })
    .await;
}

/// A panic leaves the step in doubt; the job is parked without a lease until an operator decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_cannot_be_known_is_left_to_an_operator() {
    on_each_store(async |jobs| {
        for (happened, expected) in [(true, vec!["letter"]), (false, vec!["letter", "letter"])] {
            let world = World::default();
            let sent = jobs.submit(PAY, &"park".to_owned()).await.expect("submitted");
            hasten(&jobs, &world, sent.id()).await;
            let parked = job(&jobs, sent.id()).await;
            assert!(parked.lease_until.is_none() && parked.error.is_some());
            let doubts = jobs
                .store()
                .list_steps(StepFilter::InDoubt)
                .await
                .expect("an answer");
            assert_eq!(doubts.len(), 1);
            let resolution = match happened {
                true => Resolution::Happened {
                    output: semel::semel_core::json::Json::new("\"seen\"").expect("JSON"),
                },
                false => Resolution::DidNot,
            };
            let act = Act::Resolve {
                origin: doubts[0].origin.clone(),
                step: Name::new("letter").expect("a name"),
                resolution,
            };
            let acted = jobs.store().act(vec![act]).await.expect("an answer");
            assert!(matches!(acted[0], ActOutcome::Done { .. }), "{acted:?}");
            work(&jobs, &world, sent.id(), State::Complete).await;
            assert_eq!(world.calls(), expected);
        }
    })
    .await;
}

/// The panic has the usual backoff of a second.
async fn hasten(jobs: &Client, world: &World, id: &JobId) {
    let worker = Worker::new(jobs, world.clone()).task(PAY, pay).grace(secs(1));
    let parked = eventually("the job to be parked", async || {
        job(jobs, id).await.state == State::Parked
    });
    worker.run_until(parked).await.expect("it worked");
}

/// Contract 5.1 and I15: steps belong to the origin.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_does_not_repeat_what_was_confirmed() {
    on_each_store(async |jobs| {
        let world = World::default();
        let letter = run(&jobs, &world, "replay", State::Failed).await;
        let act = Act::Replay {
            id: letter,
            token: semel::ids::fresh_token(),
        };
        let acted = jobs.store().act(vec![act]).await.expect("an answer").remove(0);
        let ActOutcome::Done { id, .. } = acted else {
            panic!("{acted:?}");
        };
        work(&jobs, &world, &id, State::Complete).await;
        assert_eq!(world.calls(), ["charge"]);
        assert_eq!(output(&jobs, &id).await, "receipt 1");
    })
    .await;
}
