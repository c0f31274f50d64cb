//! The test kit, used as its users would: it has to find handlers that are not once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use semel::schedule::{self, Schedule};
use semel::testing::{Kit, deaths};
use semel::{Client, Job, JobError, JobResult, State, Task, Worker, mins, secs, snooze};

const ORDER: Task<u64, u64> = Task::new("order");
const MAIL: Task<u64> = Task::new("mail");

/// What happened outside, by name.
#[derive(Clone)]
struct Outside {
    jobs: Client,
    effects: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Outside {
    fn new(kit: &Kit) -> Self {
        Outside {
            jobs: kit.client().clone(),
            effects: Arc::default(),
        }
    }

    fn happen(&self, what: impl Into<String>) {
        *self
            .effects
            .lock()
            .expect("a lock")
            .entry(what.into())
            .or_default() += 1;
    }

    /// How many different things happened, and how often in all.
    fn count(&self) -> (usize, usize) {
        let effects = self.effects.lock().expect("a lock");
        (effects.len(), effects.values().sum())
    }
}

/// Charges with a key, then submits a mail under a key: once, whatever happens.
async fn careful(job: Job<u64>, outside: Outside) -> JobResult<u64> {
    let charged = job
        .step("charge")
        .retry_with_key(async |key| {
            outside.happen(key);
            Ok::<_, JobError>(job.input)
        })
        .await?;
    outside
        .jobs
        .submit(MAIL, &job.input)
        .idempotency_key(format!("mail for {}", job.id()))
        .await?;
    Ok(charged)
}

/// The same without a step and without a key.
async fn careless(job: Job<u64>, outside: Outside) -> JobResult<u64> {
    outside.happen("charge");
    outside.jobs.submit(MAIL, &job.input).await?;
    Ok(job.input)
}

#[tokio::test]
async fn a_careful_handler_survives_every_death() {
    let mut died = Vec::new();
    for death in deaths() {
        let kit = Kit::new().kill(&death);
        let outside = Outside::new(&kit);
        kit.client().submit(ORDER, &7).await.expect("submitted");
        let worker = kit
            .worker(Worker::new(kit.client(), outside.clone()).task(ORDER, careful))
            .await;
        worker.run_all().await;
        assert_eq!(outside.count().0, 1, "{death}");
        kit.assert_submitted_once(MAIL, &7).await;
        assert_eq!(kit.jobs(ORDER).await[0].state, State::Complete, "{death}");
        died.push(death.to_string());
    }
    assert_eq!(
        died,
        [
            "killed before the beginning of step charge (moment 0)",
            "killed after the beginning of step charge (moment 1)",
            "killed before the confirmation of step charge (moment 2)",
            "killed after the confirmation of step charge (moment 3)",
            "killed before a submission (moment 4)",
            "killed after a submission (moment 5)",
            "killed before the settlement (moment 6)",
            "not killed (moment 7 never came)",
        ]
    );
}

#[tokio::test]
async fn a_careless_handler_is_found_out() {
    let mut twice = 0;
    for death in deaths() {
        let kit = Kit::new().kill(&death);
        let outside = Outside::new(&kit);
        kit.client().submit(ORDER, &7).await.expect("submitted");
        let worker = kit
            .worker(Worker::new(kit.client(), outside.clone()).task(ORDER, careless))
            .await;
        worker.run_all().await;
        twice += usize::from(outside.count().1 > 1);
    }
    assert_eq!(twice, 3, "each death after the charge charges again");
}

#[tokio::test]
async fn delivering_twice_finds_the_careless_and_leaves_the_careful() {
    for (is_careful, charges, mails) in [(true, 1, 1), (false, 2, 2)] {
        let kit = Kit::new();
        let outside = Outside::new(&kit);
        kit.client().submit(ORDER, &7).await.expect("submitted");
        let worker = Worker::new(kit.client(), outside.clone());
        let worker = match is_careful {
            true => worker.task(ORDER, careful),
            false => worker.task(ORDER, careless),
        };
        let ran = kit.worker(worker).await.deliver_twice().run_all().await;
        assert_eq!(
            ran.iter().map(|run| run.state).collect::<Vec<_>>(),
            [None, Some(State::Complete)]
        );
        assert_eq!(ran[0].attempt, 1, "a lost delivery costs no attempt");
        assert_eq!(outside.count().1, charges);
        assert_eq!(kit.submitted(MAIL).await.len(), mails);
    }
}

#[tokio::test]
async fn time_stands_still_until_it_is_moved() {
    async fn late(job: Job<u64>, _: ()) -> JobResult<u64> {
        match job.input {
            1 => Ok(1),
            _ => Err(snooze(secs(60))),
        }
    }
    let kit = Kit::new();
    let begun = kit.now();
    kit.client()
        .submit(ORDER, &1)
        .delay(mins(5))
        .await
        .expect("submitted");
    let worker = kit.worker(Worker::new(kit.client(), ()).task(ORDER, late)).await;
    assert_eq!(worker.run_due().await, []);
    kit.advance(mins(5) - secs(1));
    assert_eq!(worker.run_due().await, []);
    assert_eq!(worker.run_all().await.len(), 1);
    assert_eq!(kit.now().since(begun).as_millis(), 300_000);
}

#[tokio::test]
async fn what_was_submitted_can_be_asserted() {
    let kit = Kit::new();
    kit.assert_not_submitted(MAIL).await;
    for n in [3, 4, 3] {
        kit.client().submit(MAIL, &n).unique().await.expect("submitted");
    }
    assert_eq!(kit.submitted(MAIL).await, [3, 4]);
    kit.assert_submitted_once(MAIL, &3).await;
}

#[tokio::test]
#[should_panic(expected = "expected one job of task mail with input 3, found 2 among [Number(3), Number(3)]")]
async fn an_assertion_says_what_it_found() {
    let kit = Kit::new();
    for _ in 0..2 {
        kit.client().submit(MAIL, &3).await.expect("submitted");
    }
    kit.assert_submitted_once(MAIL, &3).await;
}

#[tokio::test]
async fn schedules_tick_on_the_kits_clock() {
    let kit = Kit::new();
    let hourly = Schedule::new("hourly", "@hourly", MAIL, &1).expect("a schedule");
    schedule::put(kit.client(), &hourly).await.expect("put");
    kit.upkeep().await;
    kit.assert_not_submitted(MAIL).await;
    kit.advance(mins(60));
    kit.upkeep().await;
    kit.assert_submitted_once(MAIL, &1).await;
}
