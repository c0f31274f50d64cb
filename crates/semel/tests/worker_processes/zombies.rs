//! Workers that are stopped past their lease and woken when their jobs are somebody else's (contract 1.5, I8).

use std::time::Duration;

use semel::semel_core::counters::Counter;
use semel::semel_core::job::State;
use semel::semel_core::json::Json;
use semel::semel_core::lifecycle::{AttemptResult, Settle};
use semel::semel_core::store::{ClaimRequest, Claimed, Settlement, WriteOutcome};
use semel::{Client, JobId, Name, secs, view};

use crate::child::LONG;
use crate::place::{Place, Process, eventually, look};

/// Zombies at a time.
const TOGETHER: usize = 10;

/// In each round every worker gets a job that ends while it is stopped, and one that would go on.
const LENGTHS: [u64; 2] = [900, 60_000];

/// What came of the rounds so far.
#[derive(Default)]
struct Tally {
    wake_ups: usize,
    /// Rounds given up because a worker was stopped in the middle of a commit, so that nobody else could write.
    in_a_commit: usize,
    sent: usize,
    robbed: usize,
}

pub async fn campaign(full: bool) -> String {
    let goal = if full { 200 } else { 20 };
    let place = Place::new().await;
    let workers: Vec<Process> = (0..TOGETHER)
        .map(|n| place.start("long", &[&format!("queue-{n}")]))
        .collect();
    let mut tally = Tally::default();
    while tally.wake_ups < goal {
        assert!(
            tally.in_a_commit <= goal / TOGETHER,
            "too many workers were stopped in a commit"
        );
        round(&place.jobs, &workers, &mut tally).await;
    }
    let refused = stale_writes(&place.jobs).await;
    let (mut told, mut completed) = (0, 0);
    for worker in workers {
        let said = worker.stop();
        let (refused, done) = said.split_once(' ').expect("what it did");
        told += refused.parse::<i64>().expect("a number");
        completed += done.parse::<usize>().expect("a number");
    }
    let Tally {
        wake_ups,
        in_a_commit,
        sent,
        robbed,
    } = tally;
    // On a busy machine a worker may have ended its short job before it was stopped: that one was never robbed.
    assert!(
        completed <= sent - robbed,
        "a zombie's settlement was accepted: {completed} ended of {sent} sent and {robbed} robbed"
    );
    assert!(
        refused >= wake_ups as i64,
        "{wake_ups} wake-ups, {refused} refused writes"
    );
    // A call that was under way when its worker was stopped is sent again: refused twice, heard of once.
    assert!(
        told >= wake_ups as i64 && told <= refused,
        "heard of {told}, counted {refused}"
    );
    format!(
        "zombies: {wake_ups} wake-ups, {refused} stale writes refused (and said so by the workers: {told}), 0 accepted; rounds given up because a worker was stopped in a commit: {in_a_commit}"
    )
}

/// Everybody gets work, is stopped, loses it, and is woken.
async fn round(jobs: &Client, workers: &[Process], tally: &mut Tally) {
    let mut ids = Vec::new();
    for n in 0..workers.len() {
        for length in LENGTHS {
            let sent = jobs.submit(LONG, &length).queue(format!("queue-{n}")).await;
            ids.push(sent.expect("submitted").id().clone());
        }
    }
    tally.sent += ids.len();
    eventually("the workers to begin", async || all_begun(jobs, &ids).await).await;
    workers.iter().for_each(|worker| worker.signal("STOP"));
    let before = stale_writes(jobs).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let robbed = tokio::time::timeout(secs(3), rob(jobs, ids.len())).await;
    workers.iter().for_each(|worker| worker.signal("CONT"));
    let Ok(claimed) = robbed else {
        let claimed = rob(jobs, ids.len()).await;
        tally.in_a_commit += 1;
        tally.robbed += claimed.len();
        return settle(jobs, claimed).await;
    };
    tally.robbed += claimed.len();
    let stolen: Vec<&JobId> = claimed.iter().map(|claimed| &claimed.job.id).collect();
    let zombies = ids
        .chunks(LENGTHS.len())
        .filter(|of_one| of_one.iter().all(|id| stolen.contains(&id)));
    tally.wake_ups += zombies.count();
    eventually("the zombies to be refused", async || {
        stale_writes(jobs).await - before >= claimed.len() as i64
    })
    .await;
    settle(jobs, claimed).await;
}

async fn all_begun(jobs: &Client, ids: &[JobId]) -> bool {
    let found = jobs.store().jobs_by_id(ids).await.expect("an answer");
    let begun = |job: &view::Job| job.state == State::Running || job.state.is_terminal();
    found.iter().flatten().filter(|job| begun(job)).count() == ids.len()
}

/// Takes the jobs over once their leases have run out.
async fn rob(jobs: &Client, count: usize) -> Vec<Claimed> {
    let request = || ClaimRequest {
        token: semel::ids::fresh_token(),
        worker: Name::new("the heir").expect("a name"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 100,
        lease: secs(60).into(),
    };
    let mut claimed = Vec::new();
    let mut empty = 0;
    while claimed.len() < count && empty < 20 {
        match jobs.store().claim(request()).await {
            Ok(more) if !more.is_empty() => claimed.extend(more),
            _ => {
                empty += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    claimed
}

/// The heir's word stands; the zombie's is not to be seen.
async fn settle(jobs: &Client, claimed: Vec<Claimed>) {
    let output = Json::new("0").expect("JSON");
    for Claimed { job, fence, .. } in claimed {
        let settlement = Settlement {
            id: job.id.clone(),
            fence,
            result: Settle::Complete {
                output: Some(output.clone()),
            },
        };
        let settled = jobs.store().settle(vec![settlement]).await.expect("an answer");
        assert_eq!(settled, [WriteOutcome::Ok(State::Complete)]);
        let ended = look(jobs, &job.id).await;
        assert_eq!(ended.output, Some(output.clone()));
        let ends = jobs.store().attempts(&job.id).await.expect("an answer");
        let ends: Vec<AttemptResult> = ends.iter().map(|attempt| attempt.end.result).collect();
        // On a busy machine a worker may have lost the job once before.
        let (last, before) = ends.split_last().expect("it ended");
        assert_eq!(*last, AttemptResult::Complete);
        assert!(
            before.iter().all(|end| *end == AttemptResult::Expired),
            "{ends:?}"
        );
    }
}

async fn stale_writes(jobs: &Client) -> i64 {
    let stats = jobs.store().stats().await.expect("an answer");
    stats.raw.get(Counter::StaleWrites)
}
