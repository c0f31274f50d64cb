//! `semel work` through a server: claims in long polls, heartbeats while a command runs, and settles how it exits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use semel_core::limits;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::commands::work::WorkArgs;
use crate::commands::work::child::{Left, Running};
use crate::commands::work::exec::{FATAL, LATER, output, with_reason};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::To;
use crate::remote::server::Server;
use crate::screen::{Screen, clean, plural};

/// How long one claim waits for work; a stop waits no longer for it.
const POLL: Duration = Duration::from_secs(2);
/// How long to leave a server alone that does not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// What the slots of a worker share.
struct Shop {
    server: Server,
    screen: Screen,
    args: WorkArgs,
    worker: String,
    busy: AtomicU64,
    settled: AtomicU64,
    /// 0 goes on, 1 claims no more, 2 hands back what runs.
    stop: watch::Sender<u8>,
}

/// Why a command is no longer waited for.
enum Over {
    Exited(std::io::Result<Left>),
    Cancelled,
    Lost,
    HandBack,
}

impl To<'_> {
    /// `semel work`
    pub async fn work(&self, args: WorkArgs) -> Result<Exit, Problem> {
        limits::check_lease(args.lease.into())?;
        let slots = args.concurrency.map_or_else(processors, usize::from);
        let name = args
            .name
            .clone()
            .unwrap_or_else(|| format!("semel-work-{}", std::process::id()));
        let shop = Arc::new(Shop {
            server: self.server.clone(),
            screen: self.session.screen.clone(),
            worker: name,
            busy: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            stop: watch::channel(0).0,
            args,
        });
        let mut working = JoinSet::new();
        for _ in 0..slots {
            working.spawn(slot(shop.clone()));
        }
        let stopping = tokio::spawn(told_to_stop(shop.clone()));
        let mut ended = Ok(Exit::Done);
        while let Some(one) = working.join_next().await {
            if let Ok(Err(problem)) = one {
                // What one slot is refused, all are.
                shop.stop.send_replace(2);
                ended = Err(problem);
            }
        }
        stopping.abort();
        let settled = shop.settled.load(Ordering::Relaxed);
        self.session.screen.note(format!(
            "stopped: {} settled",
            plural(i64::try_from(settled).unwrap_or(i64::MAX), "attempt", "attempts")
        ));
        ended
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The first signal lets what runs finish within the grace; the second, or the end of the grace, hands it back.
async fn told_to_stop(shop: Arc<Shop>) {
    let signal = || tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let Ok(mut terminate) = signal() else { return };
    for level in [1, 2] {
        let grace = async {
            match level {
                1 => std::future::pending().await,
                _ => tokio::time::sleep(shop.args.grace.into()).await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
            () = grace => {}
        }
        shop.stop.send_replace(level);
    }
}

/// One job after another.
async fn slot(shop: Arc<Shop>) -> Result<(), Problem> {
    loop {
        if *shop.stop.borrow() > 0 {
            return Ok(());
        }
        let claimed = match shop.claim().await {
            Ok(claimed) => claimed,
            Err(problem) if problem.exit == Exit::Unavailable => {
                shop.screen.note(format!("{}; trying again", problem.message));
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            Err(problem) => return Err(problem),
        };
        match claimed.first() {
            Some(claim) => {
                shop.busy.fetch_add(1, Ordering::Relaxed);
                shop.carry_out(claim).await;
                shop.busy.fetch_sub(1, Ordering::Relaxed);
            }
            // What still runs may be tried again: only then is nothing left to do.
            None if shop.args.drain && shop.busy.load(Ordering::Relaxed) == 0 => return Ok(()),
            None => {}
        }
    }
}

impl Shop {
    async fn claim(&self) -> Result<Vec<Value>, Problem> {
        let wait = if self.args.drain { AGAIN } else { POLL };
        let body = json!({"worker": self.worker, "tasks": self.args.tasks, "queues": self.args.queues, "max": 1,
            "lease_ms": self.args.lease.0.as_millis(), "wait_ms": wait.as_millis() as u64});
        let mut answer = self.server.send(Method::POST, "/v1/claims", &body).await?;
        Ok(answer["claims"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default())
    }

    async fn carry_out(&self, claim: &Value) {
        let id = claim["job"]["id"].as_str().unwrap_or_default();
        let settlement = match Running::start(&self.args.exec, self.environment(&claim["job"])) {
            Err(error) => Some(
                json!({"result": "retry", "error": format!("the command could not be started: {error}")}),
            ),
            Ok(running) => self.finish(running, claim).await,
        };
        let Some(mut settlement) = settlement else {
            self.screen
                .note(format!("{id}: the lease was lost; another worker has the job"));
            return;
        };
        let result = settlement["result"].as_str().unwrap_or_default().to_owned();
        self.screen.note(clean(&format!(
            "{id} {}: {result}",
            claim["job"]["task"].as_str().unwrap_or_default()
        )));
        settlement["id"] = claim["job"]["id"].clone();
        settlement["fence"] = claim["fence"].clone();
        let body = json!({"settlements": [settlement]});
        // A settlement that was heard twice is answered as the first time; after the lease nobody waits for it.
        let most = Duration::from(self.args.lease).as_secs().max(1);
        for _ in 0..most {
            match self.server.send(Method::POST, "/v1/claims/settle", &body).await {
                Ok(_) => {
                    self.settled.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(problem) if problem.exit == Exit::Unavailable => tokio::time::sleep(AGAIN).await,
                Err(problem) => return self.screen.problem(&problem),
            }
        }
    }

    /// Waits for a command, with heartbeats; what is to be settled, unless the lease is lost.
    async fn finish(&self, mut running: Running, claim: &Value) -> Option<Value> {
        let input = claim["job"]["input"].to_string();
        let log = Mutex::new(Vec::new());
        let over = {
            let told = |line: &str| {
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line.to_owned())
            };
            let finishing = running.finish(&input, limits::OUTPUT_BYTES, told);
            tokio::select! {
                left = finishing => Over::Exited(left),
                over = self.watch_over(claim, &log) => over,
            }
        };
        if !matches!(over, Over::Exited(_)) {
            running.terminate();
            let ending = running.finish("", limits::OUTPUT_BYTES, |_| {});
            // What does not end when it is asked to is ended when it is dropped.
            let _ = tokio::time::timeout(Duration::from_secs(5), ending).await;
        }
        match over {
            Over::Exited(left) => {
                let _ = self.beat(claim, &log).await;
                Some(judge(left, self.args.retry_after.into()))
            }
            Over::Cancelled => Some(json!({"result": "cancel"})),
            Over::HandBack => Some(json!({"result": "hand_back"})),
            Over::Lost => None,
        }
    }

    /// Ends when the command has to.
    async fn watch_over(&self, claim: &Value, log: &Mutex<Vec<String>>) -> Over {
        let mut stop = self.stop.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from(self.args.lease) / 3) => {}
                _ = stop.wait_for(|level| *level >= 2) => return Over::HandBack,
            }
            match self.beat(claim, log).await.as_deref() {
                Some("cancelled") => return Over::Cancelled,
                Some("lease_lost" | "not_found") => return Over::Lost,
                // A server that does not answer may be back before the lease is over.
                _ => {}
            }
        }
    }

    async fn beat(&self, claim: &Value, log: &Mutex<Vec<String>>) -> Option<String> {
        let lines = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        let lease = json!({"id": claim["job"]["id"], "fence": claim["fence"], "log": lines});
        let body = json!({"leases": [lease], "lease_ms": self.args.lease.0.as_millis()});
        let answer = self
            .server
            .send(Method::POST, "/v1/claims/extend", &body)
            .await
            .ok()?;
        answer["results"][0]["status"].as_str().map(str::to_owned)
    }

    fn environment(&self, job: &Value) -> Vec<(&'static str, String)> {
        let text = |name: &str| match &job[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut variables = vec![
            ("SEMEL_JOB_ID", text("id")),
            ("SEMEL_ORIGIN", text("origin")),
            ("SEMEL_TASK", text("task")),
            ("SEMEL_QUEUE", text("queue")),
            ("SEMEL_ATTEMPT", text("attempt")),
            ("SEMEL_MAX_ATTEMPTS", text("max_attempts")),
            ("SEMEL_SERVER", self.server.url().to_owned()),
        ];
        let key = &job["key"];
        let said = key["text"].as_str().or(key["digest"].as_str());
        variables.extend(said.map(|key| ("SEMEL_KEY", key.to_owned())));
        variables
    }
}

/// What the exit of a command means.
fn judge(left: std::io::Result<Left>, retry_after: Duration) -> Value {
    let left = match left {
        Ok(left) => left,
        Err(error) => {
            return json!({"result": "retry", "error": format!("the command could not be waited for: {error}")});
        }
    };
    let why = |what: String| with_reason(what, left.tail.trim());
    match left.status.code() {
        Some(0) => match output(&left) {
            Ok(output) => json!({"result": "complete", "output": output}),
            Err(error) => json!({"result": "fail", "error": error.to_string()}),
        },
        Some(LATER) => json!({"result": "snooze", "delay_ms": retry_after.as_millis() as u64}),
        Some(FATAL) => json!({"result": "fail", "error": why(format!("exit code {FATAL}"))}),
        Some(code) => json!({"result": "retry", "error": why(format!("exit code {code}"))}),
        None => json!({"result": "retry", "error": why("killed by a signal".to_owned())}),
    }
}
