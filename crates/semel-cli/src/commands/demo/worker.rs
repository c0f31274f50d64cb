//! A worker process of the demo. It may be killed at any moment, and is.

use std::path::Path;
use std::time::Duration;

use semel::{Job, JobResult, Worker};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::commands::demo::scenes::Scene;
use crate::commands::demo::store_url;
use crate::commands::demo::world::{Effect, end_of_input};
use crate::exit::Exit;
use crate::problem::Problem;

/// Short, so that the work of a worker that was killed is soon given to another.
const LEASE: Duration = Duration::from_secs(2);

/// Works until its standard input ends.
pub async fn run(dir: &Path, world: &str) -> Result<Exit, Problem> {
    let client = semel::connect(store_url(dir)).existing().await?;
    let mut worker = Worker::new(&client, world.to_owned())
        .concurrency(16)
        .lease(LEASE)
        .grace(Duration::from_secs(10))
        .version(env!("CARGO_PKG_VERSION"));
    for scene in Scene::ALL {
        worker = worker.task_json(scene.task(), handle);
    }
    worker.run_until(end_of_input()).await?;
    Ok(Exit::Done)
}

/// A moment of work, then an effect in a step: after a crash the world is asked again, with the same key.
async fn handle(job: Job<Value>, world: String) -> JobResult<Value> {
    let takes = job.input["takes_ms"].as_u64().unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(takes)).await;
    let what = match job.input["what"].as_str() {
        Some(what) => what.to_owned(),
        // Every run of the report is one of its own.
        None => job.id().to_string(),
    };
    let answer: String = job
        .step("effect")
        .retry_with_key(async |key| {
            let effect = Effect {
                key,
                task: job.task().to_owned(),
                what,
                job: job.id().to_string(),
                again: false,
            };
            ask(&world, &effect).await
        })
        .await?;
    Ok(Value::from(answer))
}

async fn ask(world: &str, effect: &Effect) -> std::io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(world).await?);
    let line = serde_json::to_string(effect)? + "\n";
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    if stream.read_line(&mut answer).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim().to_owned())
}
