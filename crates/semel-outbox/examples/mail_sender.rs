//! A mail sender: a letter can neither be repeated nor looked up. A worker that dies between sending it and writing that
//! down leaves a doubt, and the job is parked until somebody has decided.
//!
//! `cargo run -p semel-outbox --example mail_sender`

use std::sync::{Arc, Mutex};

use anyhow::Result;
use semel::testing::{Kit, deaths};
use semel::{Job, JobError, JobResult, Task, Worker};
use semel_core::json::Json;
use semel_core::step::Resolution;

const MAIL: Task<String> = Task::new("mail");

/// Letters that went out.
type PostOffice = Arc<Mutex<Vec<String>>>;

async fn mail(job: Job<String>, post: PostOffice) -> JobResult {
    job.step("send")
        .park(async || {
            post.lock().expect("nobody panics here").push(job.input.clone());
            Ok::<(), JobError>(())
        })
        .await
}

/// Dies at every moment a worker can die at; says how often a letter was sent, and how often somebody had to decide.
pub async fn story() -> Result<String> {
    let (mut runs, mut decided, mut sent) = (0, 0, Vec::new());
    for death in deaths() {
        let post = PostOffice::default();
        let kit = Kit::new().kill(&death);
        let jobs = kit.client();
        jobs.submit(MAIL, &"ann@example.com".to_owned()).await?;
        let worker = kit.worker(Worker::new(jobs, post.clone()).task(MAIL, mail)).await;
        worker.run_all().await;
        for doubt in jobs.steps_in_doubt().await? {
            // An operator looks into the post office: the letter is there, or it is not.
            let gone = !post.lock().expect("nobody panics here").is_empty();
            let resolution = match gone {
                true => Resolution::Happened { output: Json::null() },
                false => Resolution::DidNot,
            };
            let operator = jobs.operate("ann").because("looked into the post office");
            operator
                .resolve(&doubt.origin, doubt.name.as_str(), resolution)
                .await?;
            decided += 1;
        }
        worker.run_all().await;
        runs += 1;
        sent.push(post.lock().expect("nobody panics here").len());
    }
    let most = sent.iter().max().copied().unwrap_or_default();
    let least = sent.iter().min().copied().unwrap_or_default();
    Ok(format!(
        "{runs} deaths, {decided} decided by hand, letters per job: {least} to {most}\n"
    ))
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code)] // as part of a test it is not the main function
async fn main() -> Result<()> {
    print!("{}", story().await?);
    Ok(())
}
