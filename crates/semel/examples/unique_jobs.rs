//! Many who want the same thing: one job per input at a time, and a queue that is unique by itself.
//!
//! `cargo run -p semel --example unique_jobs`

use semel::{Client, Error, Job, JobResult, Name, Outcome, State, Target, Task, Worker, mins};

/// The policy stands on the task: no producer can forget it, none can say otherwise.
const SYNC: Task<u64> = Task::new("sync_user").unique_for(mins(10));
const THUMBNAIL: Task<String> = Task::new("thumbnail").queue("images");

async fn sync(_job: Job<u64>, _: ()) -> JobResult {
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await?;
    one_job_per_user(&jobs).await?;
    a_unique_queue(&jobs).await
}

async fn one_job_per_user(jobs: &Client) -> Result<(), Error> {
    // A hundred callers at once, over two connections to the file, ask for two users.
    let other = semel::connect(jobs.url()).await?;
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..100_u64 {
        let client = if n % 2 == 0 { jobs } else { &other };
        callers.spawn(client.submit(SYNC, &(7 + n / 50)).into_future());
    }
    let answers: Vec<_> = callers.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let accepted = answers.iter().filter(|sent| !sent.is_duplicate()).count();
    println!("100 submissions for 2 users: {accepted} jobs");
    assert_eq!(accepted, 2);

    // A policy beside the one of the task is refused: producers cannot disagree.
    let refused = jobs.submit(SYNC, &7).idempotency_key("mine").await;
    assert!(matches!(refused, Err(Error::Invalid(_))));

    // Once the job has ended, the next one is admitted.
    let waiting = jobs.submit(SYNC, &7).await?;
    let until_done = async {
        waiting.wait().await.ok();
    };
    Worker::new(jobs, ())
        .task(SYNC, sync)
        .run_until(until_done)
        .await?;
    let next = jobs.submit(SYNC, &7).await?;
    println!(
        "after the job has ended, another submission is {}",
        next.outcome().word()
    );
    assert_eq!(next.outcome(), Outcome::Accepted);
    assert_ne!(next.id(), waiting.id());
    Ok(())
}

async fn a_unique_queue(jobs: &Client) -> Result<(), Error> {
    let images = Target::Queue(Name::new("images")?);
    jobs.operate("alice")
        .because("uploads come twice")
        .unique(images, true)
        .await?;

    let cat = "cat.png".to_owned();
    let first = jobs.submit(THUMBNAIL, &cat).await?;
    let second = jobs.submit(THUMBNAIL, &cat).await?;
    println!(
        "on a unique queue the second {cat} is a {}",
        second.outcome().word()
    );
    assert_eq!((second.outcome(), second.id()), (Outcome::Duplicate, first.id()));

    let on_purpose = jobs.submit(THUMBNAIL, &cat).without_dedup().await?;
    println!("and with without_dedup() it is {}", on_purpose.outcome().word());
    assert_eq!(on_purpose.outcome(), Outcome::Accepted);
    assert_eq!(jobs.job(first.id().as_str())?.job().await?.state, State::Queued);
    Ok(())
}
