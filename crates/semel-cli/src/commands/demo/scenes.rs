//! The four ways to do work twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use semel::{Client, Error, Submit};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::problem::Problem;

/// Workers are killed all the time here: a lease that runs out is no reason to give a job up.
const DELIVERIES: u32 = 100;

/// A way to do work twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Each order is submitted by two clicks.
    Button,
    /// Clients that got no answer in time ask again and again.
    Storm,
    /// A sender that is not sure delivers three times, the last time when the work is long done.
    Webhook,
    /// Three hosts have the same crontab, and a run takes longer than the time between two.
    Cron,
}

impl Scene {
    /// All of them.
    pub const ALL: [Scene; 4] = [Scene::Button, Scene::Storm, Scene::Webhook, Scene::Cron];

    /// The task of its jobs.
    pub fn task(self) -> &'static str {
        match self {
            Scene::Button => "charge_card",
            Scene::Storm => "open_account",
            Scene::Webhook => "ship_order",
            Scene::Cron => "nightly_report",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Scene::Button => "button pressed twice",
            Scene::Storm => "retry storm",
            Scene::Webhook => "webhook sent 3 times",
            Scene::Cron => "overlapping cron",
        }
    }
}

/// Everybody who submits.
pub struct Producers {
    tasks: JoinSet<Result<(), Problem>>,
    shared: Arc<Shared>,
}

struct Shared {
    submitted: [AtomicI64; 4],
    over: AtomicBool,
}

impl Producers {
    /// Submits for so long.
    pub fn start(client: &Client, lasting: Duration) -> Self {
        let shared = Arc::new(Shared {
            submitted: Default::default(),
            over: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        let shop = || Shop {
            client: client.clone(),
            shared: shared.clone(),
        };
        tasks.spawn(shop().buttons());
        tasks.spawn(shop().storms());
        tasks.spawn(shop().webhooks());
        for host in 0..3 {
            tasks.spawn(shop().cron(host));
        }
        let clock = shared.clone();
        tasks.spawn(async move {
            tokio::time::sleep(lasting).await;
            clock.over.store(true, Ordering::Relaxed);
            Ok(())
        });
        Producers { tasks, shared }
    }

    /// Whether nothing new is begun any more.
    pub fn are_done(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed)
    }

    /// How much was submitted so far.
    pub fn submitted(&self) -> [i64; 4] {
        self.shared
            .submitted
            .each_ref()
            .map(|submitted| submitted.load(Ordering::Relaxed))
    }

    /// Waits until everybody is done, and says how much they submitted.
    pub async fn finish(mut self) -> Result<[i64; 4], Problem> {
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|error| super::trouble("a producer broke down", &error))??;
        }
        Ok(self.submitted())
    }
}

/// One of those who submit.
struct Shop {
    client: Client,
    shared: Arc<Shared>,
}

impl Shop {
    fn is_open(&self) -> bool {
        !self.shared.over.load(Ordering::Relaxed)
    }

    fn job(&self, scene: Scene, what: &str, takes_ms: u64) -> Submit<Value> {
        let input = json!({ "what": what, "takes_ms": takes_ms });
        let submit = self.client.submit_json(scene.task(), &input);
        submit.max_deliveries(DELIVERIES)
    }

    /// Submits, and counts what was answered. A rejected duplicate is an answer like any other.
    async fn send(&self, scene: Scene, submit: Submit<Value>) -> Result<(), Problem> {
        match submit.await {
            Ok(_) | Err(Error::Duplicate { .. }) => {
                self.shared.submitted[scene as usize].fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn buttons(self) -> Result<(), Problem> {
        let mut order = 0;
        while self.is_open() {
            order += 1;
            let key = format!("ORD-{order}");
            let click = || {
                self.job(Scene::Button, &key, 20)
                    .idempotency_key(format!("charge-{key}"))
                    .producer("shop")
            };
            let (first, second) = tokio::join!(self.send(Scene::Button, click()), async {
                tokio::time::sleep(Duration::from_millis(order % 30)).await;
                self.send(Scene::Button, click()).await
            });
            first.and(second)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn storms(self) -> Result<(), Problem> {
        const USERS: usize = 10;
        const TRIES: usize = 25;
        let mut storm = 0;
        while self.is_open() {
            storm += 1;
            let tries = (0..USERS * TRIES).map(|n| {
                let user = format!("user-{storm}-{}", n % USERS);
                let submit = self.job(Scene::Storm, &user, 30).idempotency_key(user);
                self.send(Scene::Storm, submit.producer("impatient-client"))
            });
            try_join_all(tries).await?;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        Ok(())
    }

    async fn webhooks(self) -> Result<(), Problem> {
        let mut deliveries = FuturesUnordered::new();
        let mut event = 0;
        while self.is_open() {
            event += 1;
            let key = format!("evt_{event}");
            for after in [0, 250, 2_500] {
                let submit = self.job(Scene::Webhook, &key, 25).idempotency_key(&key);
                let sent = self.send(Scene::Webhook, submit.producer("webhooks"));
                deliveries.push(async move {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    sent.await
                });
            }
            let pause = tokio::time::sleep(Duration::from_millis(150));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(sent) = deliveries.next() => sent?,
                }
            }
        }
        while let Some(sent) = deliveries.next().await {
            sent?;
        }
        Ok(())
    }

    async fn cron(self, host: usize) -> Result<(), Problem> {
        while self.is_open() {
            let input = json!({ "takes_ms": 1_300 });
            let run = self.client.submit_json(Scene::Cron.task(), &input);
            let run = run.exclusive("nightly-report").max_deliveries(DELIVERIES);
            self.send(Scene::Cron, run.producer(format!("cron-{host}")))
                .await?;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        Ok(())
    }
}
