//! One member of a team: orders that wait behind a gate, and the process that reads them from its parent.

use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::Arc;

use semel_core::store::Store;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::order::{Answer, Order};
use crate::harness::Harness;

/// Orders ready to be carried out at the same moment.
pub(crate) struct Ready {
    gate: Arc<Semaphore>,
    tasks: JoinSet<Vec<Answer>>,
}

impl Ready {
    /// One task per order, all waiting.
    pub(crate) fn new(store: &Arc<dyn Store>, orders: Vec<Order>) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for order in orders {
            let (store, gate) = (store.clone(), gate.clone());
            tasks.spawn(async move {
                let _pass = gate.acquire().await.expect("the gate is never closed");
                order.carry_out(&*store).await
            });
        }
        Ready { gate, tasks }
    }

    /// Lets them go; what came of them.
    pub(crate) async fn go(self) -> Vec<Answer> {
        self.gate.add_permits(self.tasks.len());
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// Words of the conversation between a team and a member that is a process.
pub(crate) const PREPARE: &str = "prepare";
pub(crate) const READY: &str = "ready";
pub(crate) const GO: &str = "go";
pub(crate) const DONE: &str = "done";

/// Plays a member as a process of its own: orders come line by line, answers go line by line,
/// round after round until the parent hangs up.
pub(crate) fn play(harness: &dyn Harness, location: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let _inside = runtime.enter();
    let store = harness.join(location);
    let mut orders = Vec::new();
    let mut ready = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        match line.as_str() {
            PREPARE => {
                ready = Some(Ready::new(&store, std::mem::take(&mut orders)));
                println!("{READY}");
            }
            GO => {
                let ready = ready.take().expect("prepared before it goes");
                runtime
                    .block_on(ready.go())
                    .iter()
                    .for_each(|answer| println!("{answer}"));
                println!("{DONE}");
            }
            order => orders.push(order.parse().expect("the parent writes orders")),
        }
    }
    ExitCode::SUCCESS
}
